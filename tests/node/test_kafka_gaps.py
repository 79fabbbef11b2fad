"""Offsets without events, as Kafka has them between transactions: results are those of the events alone."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.node import LeafNode, NodeSettings, RootNode
from headwater.protocols.actions import EmitRows, SendMessage
from headwater.protocols.events import (
    BatchArrived,
    EventsPassed,
    MessageReceived,
    SourceEnded,
    SourceOpened,
    TimerFired,
)
from headwater.protocols.messages import Hello, encode

SCHEMA = pa.schema({"time": pa.int64(), "v": pa.int64()})
QUERIES = [
    hw.query("sums", hw.tumbling(10), n=hw.count(), total=hw.sum("v")),
    hw.query("few", hw.tumbling(10), where=hw.col("v") > 5, n=hw.count()),
    hw.query("sessions", hw.session(3), first=hw.first("v"), last=hw.last("v")),
    hw.query("threes", hw.count_tumbling(3), total=hw.sum("v")),
]


def answers(steps: list[int | list[int]]) -> tuple[list[dict], dict[str, dict[str, int]]]:
    """Rows and accounts of one source; a number stands for so many offsets without an event."""
    settings = NodeSettings(is_recorded=False)
    root = RootNode("root", QUERIES, schema=SCHEMA, disorder=2, round_trips=False, settings=settings)
    leaf = LeafNode("leaf", "root", settings=settings)
    rows: list[dict] = []

    def tell_leaf(event) -> None:
        for action in leaf.handle(event, 0):
            if isinstance(action, SendMessage):
                tell_root(action.frame)

    def tell_root(frame) -> None:
        for action in root.handle(MessageReceived("leaf", frame), 0):
            if isinstance(action, EmitRows):
                rows.extend(action.rows.to_pylist())
            elif isinstance(action, SendMessage):
                tell_leaf(MessageReceived("root", action.frame))

    tell_leaf(SourceOpened("s", schema=SCHEMA))
    tell_root(encode(Hello("leaf", "leaf", sources=(("s", ""),))))
    offset = 0
    for step in steps:
        if isinstance(step, int):
            tell_leaf(EventsPassed("s", offset, step))
            offset += step
        else:
            batch = pa.record_batch({"time": step, "v": [time % 10 for time in step]}, schema=SCHEMA)
            tell_leaf(BatchArrived("s", offset, batch))
            offset += len(step)
        tell_leaf(TimerFired("send"))
    tell_leaf(SourceEnded("s", offset))
    tell_leaf(TimerFired("send"))
    return rows, root.counters()


times = st.lists(st.integers(0, 40), min_size=1, max_size=8)


@given(st.lists(times | st.integers(1, 1 << 40), max_size=8))
def test_gaps_change_no_result(steps):
    assert answers(steps) == answers([step for step in steps if not isinstance(step, int)])


def test_a_gap_is_no_event():
    rows, counters = answers([5, [1, 2], 1, [12], 1000])
    assert [row["event_count"] for row in rows if row["query"] == "sums"] == [2, 1]
    assert counters["sums"]["in"] == 3
