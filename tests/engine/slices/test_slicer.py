"""The cutters against a dictionary of (slice, key): whichever way events are cut, the rows are the same."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.intake.keys import KeyTable
from headwater.engine.slices import slicer
from headwater.engine.slices.edges import Edges, fixed_spec
from headwater.engine.slices.order_slicer import CountState, KeyCuts, cut_in_order, next_position_cut, position_cuts
from headwater.engine.slices.slicer import SlicedRows, cut_by_arrival, cut_sorted
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Sliding

KEYS = 3
events = st.lists(st.tuples(st.integers(-10, 40), st.integers(0, KEYS - 1)), min_size=1, max_size=40)
EDGES = Edges([fixed_spec(Sliding(7, 7), NEVER, FOREVER), fixed_spec(Sliding(10, 5, 2), NEVER, FOREVER)])


def columns(drawn: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([time for time, _ in drawn], np.int64), np.array([key for _, key in drawn], np.int32)


def described(rows: SlicedRows) -> list[tuple[Any, ...]]:
    """What each event's row says about itself; None for an event without a row."""
    last = rows.first if rows.last is None else rows.last
    return [None if row < 0 else (int(rows.key[row]), int(rows.first[row]), int(last[row])) for row in rows.of_event]


@given(events, st.booleans())
def test_every_event_goes_to_the_row_of_its_slice_and_key(drawn: list[tuple[int, int]], masked: bool):
    times, keys = columns(drawn)
    slices = EDGES.slices(times)
    mask = times % 3 > 0 if masked else None
    expected = [
        None if masked and time % 3 == 0 else (key, start, start)
        for time, key in drawn
        for start, end in zip(*(part.tolist() for part in slices), strict=True)
        if start <= time < end
    ]
    rows = cut_by_arrival(times, keys, KEYS, slices, mask, None, False)
    assert described(rows) == expected
    assert sorted(set(rows.of_event.tolist()) - {-1}) == list(range(len(rows))), "no row without events"
    assert described(slicer._cut_by_sorting(times, keys, slices[0], mask, None)) == expected


@given(events.map(sorted), st.booleans())
def test_in_order_of_time_the_rows_are_the_same(drawn: list[tuple[int, int]], many: bool):
    times, keys = columns(drawn)
    slices = EDGES.slices(times)
    expected = described(cut_by_arrival(times, keys, KEYS, slices, None, None, False))
    assert described(cut_by_arrival(times, keys, KEYS, slices, None, None, True)) == expected
    table = KeyTable(["k"])
    values = pa.array(keys.astype(np.int64) + 100)
    numbers = table.encode([values], len(values))
    direct = table.direct([values])
    assert direct is not None
    rows = cut_sorted(times, direct, slices, 0 if many else KEYS + 1)
    assert rows is not None
    assert described(rows) == described(cut_by_arrival(times, numbers, len(table), slices, None, None, False))


@given(events, st.integers(1, 9))
def test_rows_of_sessions_are_chains_that_join_to_the_same_sessions(drawn: list[tuple[int, int]], gap: int):
    times, keys = columns(drawn)
    slices = EDGES.slices(times)
    for rows in (
        cut_by_arrival(times, keys, KEYS, slices, None, gap, False),
        slicer._cut_by_sorting(times, keys, slices[0], None, gap),
    ):
        assert rows.last is not None
        for row in range(len(rows)):
            mine = np.sort(times[rows.of_event == row])
            assert (mine[0], mine[-1]) == (rows.first[row], rows.last[row])
            assert (np.diff(mine) <= gap).all()
            assert len(set(keys[rows.of_event == row].tolist())) == 1
            assert len(set(np.searchsorted(slices[0], mine, side="right").tolist())) == 1


counts_tables = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=3
).map(lambda rows: np.array(rows, np.int64))


def is_cut(counts: np.ndarray, position: int) -> bool:
    """Whether a count window begins or ends at a position, by definition."""
    starts = [origin + k * step for _, step, origin in counts.tolist() for k in range(60)]
    ends = [origin + k * step + size for size, step, origin in counts.tolist() for k in range(60)]
    return position in starts or position in ends


@given(counts_tables, st.integers(-1, 20))
def test_the_next_position_cut_is_the_first_one_after(counts: np.ndarray, position: int):
    expected = next(place for place in range(position + 1, 100) if is_cut(counts, place))
    assert next_position_cut(counts, position) == expected


@given(counts_tables, st.integers(0, 20), st.integers(0, 30))
def test_position_cuts_are_all_of_a_stretch(counts: np.ndarray, base: int, length: int):
    expected = [place for place in range(length) if is_cut(counts, base + place)]
    assert position_cuts(counts, base, length).tolist() == expected


@given(
    events.map(sorted),
    st.sets(st.integers(0, 39)),
    st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(-10, 40)), max_size=6),
    st.none() | counts_tables,
    st.none() | st.integers(1, 9),
)
def test_rows_in_order_end_at_every_cut_and_nowhere_else(
    drawn: list[tuple[int, int]],
    cuts: set[int],
    key_cuts: list[tuple[int, int]],
    counts: np.ndarray | None,
    gap: int | None,
):
    times, keys = columns(drawn)
    at = np.array(sorted(cut for cut in cuts if cut < len(drawn)), np.int64)
    state = None if counts is None else CountState(counts, np.arange(KEYS, dtype=np.int64))
    own = KeyCuts.of(*(np.array([cut[i] for cut in key_cuts], np.int64) for i in (0, 1)), KEYS)
    rows = cut_in_order(times, keys, KEYS, at, own, state, gap)
    current: dict[int, tuple[int, int, int]] = {}  # key -> (row, index and time of the last event)
    passed = list(range(KEYS))
    expected = []
    for index, (time, key) in enumerate(drawn):
        known = current.get(key)
        begins = known is None
        if known is not None:
            row, before, last = known
            begins |= any(before < cut <= index for cut in at.tolist())
            begins |= any(key == k and last < cut <= time for k, cut in key_cuts)
            begins |= gap is not None and time > last + gap
            begins |= counts is not None and is_cut(counts, passed[key])
        row = len(set(expected)) if begins else row
        expected.append(row)
        current[key] = row, index, time
        passed[key] += 1
    assert rows.of_event.tolist() == expected
    heads = [expected.index(row) for row in range(len(rows))]
    assert rows.first.tolist() == [drawn[head][0] for head in heads]
    assert rows.position is not None and rows.position.tolist() == heads
    if state is not None:
        assert state.base.tolist() == passed
        own_places = [
            i + sum(key == drawn[head][1] for _, key in drawn[:head]) for head in heads for i in [drawn[head][1]]
        ]
        assert rows.key_position is not None and rows.key_position.tolist() == own_places


def test_no_row_begins_where_every_event_of_a_batch_with_sessions_is_late():
    times, keys, starts, mask = np.array([1, 2]), np.zeros(2, np.int32), np.array([0]), np.zeros(2, bool)
    by_cells = cut_by_arrival(times, keys, 1, (starts, np.array([10])), mask, 5, True)
    for rows in (by_cells, slicer._cut_by_sorting(times, keys, starts, mask, 5)):
        assert rows.last is not None and len(rows.key) == len(rows.first) == len(rows.last) == 0
        assert rows.of_event.tolist() == [-1, -1]
