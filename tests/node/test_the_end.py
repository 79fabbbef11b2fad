"""The last watermark before the end: windows without events come out up to it, also when all happens in one step."""

import pyarrow as pa

import headwater as hw
from headwater.node import NodeSettings, RootNode
from headwater.protocols.actions import EmitRows
from headwater.protocols.events import SourceEnded, TimerFired
from headwater.simulator.instant import InstantTree

SCHEMA = pa.schema({"time": pa.int64()})


def test_sources_that_fall_idle_together_let_the_watermark_rise_one_after_the_other():
    empty = hw.query("empty", hw.tumbling(10), n=hw.count(), emit_empty=True)
    settings = NodeSettings(linger_ns=10, idle_ns=10**6)
    tree = InstantTree({"leaf": "root"}, [empty], disorder=0, schema=SCHEMA, settings=settings)
    for source, time in (("slow", 5), ("fast", 47), ("ended", 3)):
        tree.open("leaf", source, schema=SCHEMA)
        tree.push(source, pa.record_batch({"time": [time]}, schema=SCHEMA))
    tree.handle("leaf", SourceEnded("ended", 1))
    tree.settle()
    assert isinstance(tree.root, RootNode)
    tree.take_rows()
    actions = tree.root.handle(TimerFired("idle"), 10**9)
    rows = [row for action in actions if isinstance(action, EmitRows) for row in action.rows.to_pylist()]
    # First "slow" falls idle, and the watermark rises to that of "fast"; then "fast", and only what has ended is left.
    assert [(row["window_start"], row["n"]) for row in rows] == [(0, 2), (10, 0), (20, 0), (30, 0), (40, 1)]
