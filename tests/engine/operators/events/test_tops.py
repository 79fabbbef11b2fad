"""The best events of rows against the obvious way: sort them all, and take the first."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.base.packing import Writer
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import read_values
from headwater.engine.operators.events.tops import TopColumn
from headwater.engine.operators.operator import Best
from headwater.errors import FormatError
from headwater.reference.aggregates import order
from partials import SOURCES, int64

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])),
    "float": (pa.float64(), st.sampled_from([-1.5, 0.0, 2.0, float("inf"), float("-inf"), float("nan")])),
    "text": (pa.string(), st.sampled_from(["", "a", "b", "é", "z"])),
    "decimal": (pa.decimal128(9, 2), st.integers(-3, 3).map(lambda cents: Decimal(cents) / 2)),
}
#: Of each event its time, its source, its value, what is kept of it, and its row.
EVENTS = {
    name: st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 2), st.none() | values, st.none() | st.integers(0, 9), st.integers(-1, 3)
        ),
        max_size=25,
    )
    for name, (_, values) in VALUES.items()
}
BESTS = st.builds(Best, st.integers(0, 4), st.booleans(), st.booleans(), st.just(("kept",)))


def chunk_of(events: list[tuple[Any, ...]], type_: pa.DataType) -> Chunk:
    times, sources, values, kept, _ = zip(*events) if events else ((),) * 5
    columns = {"x": read_values(pa.array(values, type_)), "kept": read_values(pa.array(kept, pa.int64()))}
    offsets = np.arange(len(events), dtype=np.int64)
    return Chunk(np.array(times, np.int64), offsets, np.array(sources, np.int32), SOURCES, columns)


def the_obvious_way(events: list[tuple[Any, ...]], best: Best, row: int) -> list[int]:
    """The offsets of the best events of a row."""
    mine = [at for at, event in enumerate(events) if event[4] == row and (best.k == 0 or event[2] is not None)]
    mine.sort(key=lambda at: (events[at][0], SOURCES[events[at][1]].encode(), at))
    if best.k == 0:
        return mine
    mine.sort(key=lambda at: order(events[at][2]), reverse=best.largest)
    last = [order(events[at][2]) for at in mine[: best.k][-1:]]
    return mine[: best.k] + [at for at in mine[best.k :] if best.ties and order(events[at][2]) == last[0]]


def offsets(column: TopColumn) -> list[list[int]]:
    return [column.places.offsets[a:b].tolist() for a, b in zip(column.starts, column.starts[1:])]


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data(), best=BESTS)
def test_a_row_has_the_best_of_its_events_in_their_order(kind: str, data: st.DataObject, best: Best) -> None:
    events = data.draw(EVENTS[kind])
    chunk, rows = chunk_of(events, VALUES[kind][0]), np.array([event[4] for event in events], np.int32)
    column = TopColumn.lift("x", best, chunk, rows, 4)
    assert offsets(column) == [the_obvious_way(events, best, row) for row in range(4)]
    kept = column.columns[1]
    found = [value if known else None for value, known in zip(kept.data, _known(kept))]
    assert found == [events[at][3] for row in offsets(column) for at in row]


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data(), best=BESTS)
def test_rows_may_be_combined_in_any_grouping_and_travel_in_between(kind: str, data: st.DataObject, best: Best) -> None:
    events = data.draw(EVENTS[kind])
    rows = np.array([event[4] for event in events], np.int32)
    # Each event once more in a row of its own part: parts 0 to 2 of one whole row.
    part = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))), np.int32)
    whole = TopColumn.lift("x", best, chunk_of(events, VALUES[kind][0]), np.where(rows < 0, -1, 0).astype(np.int32), 1)
    chunk = chunk_of(events, VALUES[kind][0])
    parts = [
        TopColumn.lift("x", best, chunk, np.where((rows < 0) | (part != n), -1, 0).astype(np.int32), 1)
        for n in range(3)
    ]
    if data.draw(st.booleans()):
        parts = [TopColumn.from_bytes(each.to_bytes()) for each in parts]
    first, second, third = data.draw(st.permutations(parts))
    pair = TopColumn.concat([first, second]).combine_ranges(int64(0), int64(2))
    together = TopColumn.concat([pair, third]).combine_ranges(int64(0), int64(2))
    assert together.to_bytes() == whole.to_bytes()


def _known(kept: Any) -> Any:
    return np.ones(len(kept.data), bool) if kept.valid is None else kept.valid


def written(**changes: Any) -> bytes:
    """A row of one event, with something else in some places."""
    said = {"k": 1, "ties": 0, "largest": 1, "counts": [1], "sources": [0], "nulls": [], "values": [7]} | changes
    writer = Writer(1).number(said["k"]).number(said["ties"]).number(said["largest"]).texts(()).objects(["s"])
    writer.ints(np.array(said["counts"])).ints(int64(3)).ints(np.array(said["sources"])).ints(int64(0))
    return writer.ints(np.array(said["nulls"], np.int64)).array(np.array(said["values"])).finish()


def test_what_is_written_by_hand_below_would_pass_but_for_what_is_wrong_with_it() -> None:
    assert offsets(TopColumn.from_bytes(written())) == [[0]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ties": 2},
        {"largest": 9},
        {"counts": [2]},
        {"sources": [1]},
        {"nulls": [0]},
        {"nulls": [5]},
        {"values": [7, 8]},
    ],
    ids=str,
)
def test_bytes_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(FormatError):
        TopColumn.from_bytes(written(**wrong))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=9), st.integers(1, 3))
@example([(1, 0), (5, 1), (3, 2)], 1)
def test_what_a_peer_sent_in_no_order_or_too_long_is_put_right_before_it_is_combined(
    events: list[tuple[int, int]], k: int
) -> None:
    values, times = (np.array(numbers) for numbers in zip(*events))
    writer = Writer(1).number(k).number(False).number(True).texts(()).objects(["s"]).ints(int64(len(events)))
    writer.ints(times).ints(np.zeros(len(events), np.int64)).ints(np.arange(len(events)))
    sent = TopColumn.from_bytes(writer.ints(int64()).array(values).finish())
    settled = sent.combine_ranges(int64(0), int64(1))
    told = [(time, 0, value, None, 0) for value, time in events]
    assert offsets(settled) == [the_obvious_way(told, Best(k, False, True), 0)]
