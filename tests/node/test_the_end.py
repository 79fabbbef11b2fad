"""The end: the last watermark before it, up to which windows without events come out, and sources that a flush has ended."""

import pyarrow as pa

import headwater as hw
from headwater.language.times import FOREVER, NEVER
from headwater.node import LeafNode, NodeSettings, RootNode
from headwater.protocols.actions import EmitRows, SendMessage
from headwater.protocols.events import BatchArrived, MessageReceived, SourceEnded, SourceOpened, TimerFired
from headwater.protocols.messages import Flush, Hello, encode
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


def test_a_source_stays_ended_where_a_flush_has_ended_it_though_more_of_it_can_be_read():
    """Seed 446 of trees: what lay behind was taken for late, and for in time when it was read again."""
    leaf, root = LeafNode("leaf", "root"), RootNode("root", [hw.query("all", hw.tumbling(10), n=hw.count())])

    def exchange(actions):
        """What the leaf has to say, and the answers."""
        for frame in [action.frame for action in actions if isinstance(action, SendMessage)]:
            for answer in root.handle(MessageReceived("leaf", frame), 0):
                if isinstance(answer, SendMessage):
                    leaf.handle(MessageReceived("root", answer.frame), 0)

    root.handle(MessageReceived("other", encode(Hello("other", "other", 0, 0, (("t", ""),)))), 0)  # goes on
    for place, source in enumerate(("s", "another")):  # which begins a new epoch
        leaf.handle(SourceOpened(source, schema=SCHEMA), 0)
        hello = leaf.handle(TimerFired("hello"), 0)
        if place == 0:
            leaf.handle(MessageReceived("root", encode(Flush())), 0)  # before it has its chain
        exchange(hello)
        leaf.handle(BatchArrived("s", 0, pa.record_batch({"time": [1, 2]}, schema=SCHEMA)), 0)
        leaf.handle(SourceEnded("s", 2), 0)
        exchange(leaf.handle(TimerFired("send"), 0))
    assert (root.members.offsets.tolist(), root.members.watermarks.tolist()) == ([0, 0, 0], [NEVER, FOREVER, FOREVER])
