"""First, last and all values in event order, however the rows are combined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.intake.chunk import Chunk, Values
from headwater.engine.operators.events.ordered import OrderedColumn
from partials import int32, int64

#: Events as (time, source, value, row); the offset is the place in the list.
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from(["a", "b", "é", "z"]), st.none() | st.integers(0, 9), st.integers(-1, 3)
    ),
    max_size=25,
)


def chunk_of(events: list[tuple[int, str, int | None, int]], names: list[str], offset: int = 0) -> tuple[Chunk, Any]:
    values = np.array([value or 0 for _, _, value, _ in events], np.int64)
    valid = np.array([value is not None for _, _, value, _ in events], bool)
    chunk = Chunk(
        np.array([time for time, *_ in events], np.int64),
        np.arange(offset, offset + len(events), dtype=np.int64),
        np.array([names.index(source) for _, source, _, _ in events], np.int32),
        names,
        {"x": Values(values, valid, pa.int64())},
    )
    return chunk, np.array([row for *_, row in events], np.int32)


def expected_values(events: list[tuple[int, str, int | None, int]], rows: range) -> list[int]:
    places = sorted(
        (time, source.encode(), offset, value)
        for offset, (time, source, value, row) in enumerate(events)
        if row in rows and value is not None
    )
    return [value for *_, value in places]


@given(EVENTS, st.permutations(["a", "b", "é", "z"]), st.integers(0, 4), st.integers(0, 4))
def test_ranges_of_rows_are_in_event_order(
    events: list[tuple[int, str, int | None, int]], names: list[str], low: int, high: int
) -> None:
    chunk, rows = chunk_of(events, names)
    bounds = int64(min(low, high), 0), int64(max(low, high), 4)
    expected = [expected_values(events, range(int(lo), int(hi))) for lo, hi in zip(*bounds)]
    for keep in ("all", "first", "last"):
        column = OrderedColumn.lift(keep, "x", chunk, rows, 4)
        column = OrderedColumn.from_bytes(column.to_bytes()).combine_ranges(*bounds)
        held = [column.values[a:b].tolist() for a, b in zip(column.starts, column.starts[1:])]
        cut = {"all": slice(None), "first": slice(0, 1), "last": slice(-1, None)}[keep]
        assert held == [values[cut] for values in expected], keep


@given(EVENTS)
def test_columns_with_other_sources_are_joined_by_name(events: list[tuple[int, str, int | None, int]]) -> None:
    middle = len(events) // 2
    parts = []
    for names, begin, end in ((["z", "é", "a", "b"], 0, middle), (["b", "a", "z", "é", "unused"], middle, None)):
        chunk, rows = chunk_of(events[begin:end], names, offset=begin)
        parts.append(OrderedColumn.lift("all", "x", chunk, rows, 4))
    joined = OrderedColumn.concat(parts)
    whole = joined.take(int64(*(row for pair in zip(range(4), range(4, 8)) for row in pair)))
    whole = whole.combine_ranges(int64(0, 2, 4, 6), int64(2, 4, 6, 8))
    held = [whole.values[a:b].tolist() for a, b in zip(whole.starts, whole.starts[1:])]
    assert held == [expected_values(events, range(row, row + 1)) for row in range(4)]
    chunk, rows = chunk_of(events, ["a", "b", "z", "é"])
    assert OrderedColumn.lift("all", "x", chunk, rows, 4).to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("keep", ["first", "last"])
def test_overlapping_windows_share_a_table(keep: Any) -> None:
    rng = np.random.default_rng(2)
    count = 300
    times = rng.integers(0, 50, count)
    values = Values(np.arange(count), None, pa.int64())
    chunk = Chunk(times, np.arange(count), np.zeros(count, np.int32), ["s"], {"x": values})
    column = OrderedColumn.lift(keep, "x", chunk, np.arange(count, dtype=np.int32), count)
    lo = np.arange(200)
    values, present = column.combine_ranges(lo, lo + np.arange(200) % 100).edge_values()
    pick = min if keep == "first" else max
    for i in range(200):
        members = range(i, i + i % 100)
        assert bool(present[i]) == (len(members) > 0)
        if members:
            assert values[i] == pick(members, key=lambda j: (times[j], j))


def test_values_of_any_type_keep_their_place() -> None:
    values = Values(np.array(["x", None, "y"], object), np.array([True, False, True]), pa.string())
    chunk = Chunk(int64(2, 1, 1), int64(0, 1, 2), int32(0, 0, 0), ["s"], {"x": values})
    column = OrderedColumn.lift("first", "x", chunk, int32(1, 1, 1), 2)
    held, present = OrderedColumn.from_bytes(column.to_bytes()).edge_values()
    assert present.tolist() == [False, True]
    assert held[1] == "y"
