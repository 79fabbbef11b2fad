"""Slices by example: where windows cut time, which row an event adds to, and the store of rows."""

from __future__ import annotations

import numpy as np

from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.operator import COUNT
from headwater.engine.slices.edges import EARLIEST, LATEST, Edges, fixed_spec
from headwater.engine.slices.order_slicer import cut_in_order, position_cuts
from headwater.engine.slices.slicer import cut_by_arrival
from headwater.engine.slices.store import RowBlock, RowStore
from headwater.language.windows import Band, Sliding
from partials import int32, int64


def edges_of(*windows: Sliding | Band) -> Edges:
    return Edges([fixed_spec(window, EARLIEST, LATEST) for window in windows])


def block(keys: list[int], first: list[int], counts: list[int]) -> RowBlock:
    return RowBlock(int32(*keys), int64(*first), None, None, None, {COUNT: CountColumn(int64(*counts))})


def stored(store: RowStore, key_count: int) -> list[tuple[int, int, int]]:
    found = store.sorted(key_count)
    if found is None:
        return []
    rows, _ = found
    return list(zip(rows.key.tolist(), rows.first.tolist(), rows.partials[COUNT].counts.tolist(), strict=True))


def test_two_windows_cut_time_at_the_edges_of_both():
    starts, ends = edges_of(Sliding(10, 10), Sliding(4, 4)).slices(int64(0, 11))
    assert starts.tolist() == [0, 4, 8, 10]
    assert ends.tolist() == [4, 8, 10, 12]


def test_a_band_cuts_time_only_at_its_start_and_end():
    starts, ends = edges_of(Band(100, 50)).slices(int64(90, 120, 170))
    assert starts.tolist()[1:] == [100, 150] and ends.tolist()[:-1] == [100, 150]


def test_events_of_one_slice_and_key_add_to_one_row_in_any_order():
    slices = int64(0, 10), int64(10, 20)
    rows = cut_by_arrival(int64(1, 12, 3, 4), int32(0, 0, 0, 1), 2, slices, None, None, False)
    assert rows.of_event.tolist() == [0, 1, 0, 2]
    assert (rows.key.tolist(), rows.first.tolist()) == ([0, 0, 1], [0, 10, 0])


def test_an_event_that_is_left_out_has_no_row():
    slices = int64(0), int64(10)
    rows = cut_by_arrival(int64(1, 2), int32(0, 0), 1, slices, np.array([False, True]), None, True)
    assert rows.of_event.tolist() == [-1, 0]


def test_with_sessions_a_pause_longer_than_the_gap_begins_a_row():
    rows = cut_by_arrival(int64(4, 1, 20), int32(0, 0, 0), 1, (int64(0), int64(100)), None, 5, False)
    assert rows.of_event.tolist() == [0, 0, 1]
    assert rows.last is not None and (rows.first.tolist(), rows.last.tolist()) == ([1, 20], [4, 20])


def test_count_windows_cut_at_positions():
    cuts = position_cuts(np.array([[3, 3, 0]]), 2, 6)
    rows = cut_in_order(int64(1, 2, 3, 4, 5, 6), np.zeros(6, np.int32), 1, cuts, None, None, None)
    assert cuts.tolist() == [1, 4]
    assert rows.of_event.tolist() == [0, 1, 1, 1, 2, 2]


def test_the_store_gives_rows_by_key_and_time():
    store = RowStore()
    store.append(block([1, 0], [10, 20], [1, 2]))
    store.append(block([0], [5], [4]))
    assert stored(store, 2) == [(0, 5, 4), (0, 20, 2), (1, 10, 1)]
    store.keep(np.array([True, False, True]), 2)
    assert stored(store, 2) == [(0, 5, 4), (1, 10, 1)]


def test_rows_that_no_window_separates_are_combined():
    store = RowStore()
    store.append(block([0, 0, 0], [0, 10, 20], [1, 2, 4]))
    assert len(stored(store, 1)) == 3
    store.compact(np.array([True, False, True]), 1)
    assert stored(store, 1) == [(0, 0, 3), (0, 20, 4)]


def test_a_store_goes_on_from_its_state():
    store, other = RowStore(), RowStore()
    store.append(block([0], [5], [4]))
    other.restore(store.state(), [COUNT])
    assert stored(other, 1) == [(0, 5, 4)]
