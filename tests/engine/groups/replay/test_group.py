"""A group that keeps its events: windows are formed anew at each step, and what is new or changed comes out."""

import pytest

import headwater as hw
from group_events import give, restored, rows
from headwater.engine.groups.replay.group import ReplayGroup
from headwater.engine.windows.registered import Registered
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Window


def group_of(window: Window, **more: object) -> ReplayGroup:
    query = hw.query("q", window, keys="k", s=hw.sum("v"), **more)  # type: ignore[arg-type]
    return ReplayGroup(Registered(query, 0), ("k",))


def test_events_wait_until_their_window_ends_and_go_then():
    group = group_of(hw.tumbling(10))
    give(group, [(1, "a", 1), (12, "a", 2), (4, "a", 4)], NEVER)
    assert group.row_count() == 3
    assert rows(group, 10) == [(0, 10, "a", 0, 2, 5)]
    assert group.row_count() == 1
    assert rows(group, FOREVER) == [(10, 20, "a", 0, 1, 2)]


def test_a_late_marker_moves_the_bounds_of_windows_that_were_out():
    group = group_of(hw.punctuated(hw.col("v") == 8), lateness=100)
    give(group, [(1, "a", 1), (5, "a", 2), (9, "a", 8)], NEVER)
    assert rows(group, 10) == [(1, 9, "a", 0, 2, 3)]
    give(group, [(4, "a", 8)], 10)
    # The window is cut in two; of the first one there was a revision 0 with other bounds.
    assert [row[:3] for row in rows(group, 11)][-2:] == [(1, 4, "a"), (4, 9, "a")]


def test_a_copy_counts_once_in_each_window():
    group = group_of(hw.tumbling(10), distinct="v")
    give(group, [(1, "a", 7), (2, "a", 7), (12, "a", 7)], NEVER)
    assert rows(group, FOREVER) == [(0, 10, "a", 0, 1, 7), (10, 20, "a", 0, 1, 7)]


def test_count_windows_go_on_counting_past_events_that_are_gone():
    group = group_of(hw.count_tumbling(2))
    give(group, [(1, "a", 1), (2, "a", 2), (3, "a", 4)], NEVER)
    assert rows(group, 4) == [(0, 2, "a", 0, 2, 3)]
    give(group, [(5, "a", 8)], 4)
    assert rows(group, FOREVER) == [(2, 4, "a", 0, 2, 12)]


def test_empty_windows_are_emitted_when_no_event_is_kept_any_more():
    group = group_of(hw.tumbling(10), emit_empty=True)
    give(group, [(1, "a", 1)], NEVER)
    assert rows(group, 10) == [(0, 10, "a", 0, 1, 1)]
    assert group.row_count() == 0
    assert rows(group, 30) == [(10, 20, "a", 0, 0, 0), (20, 30, "a", 0, 0, 0)]


def test_late_filtered_and_lost_events_are_counted():
    group = group_of(hw.tumbling(10), where=hw.col("v") > 0, lateness=5)
    give(group, [(1, "a", 1), (2, "a", 0)], NEVER)
    rows(group, 12)
    (dropped,) = give(group, [(3, "a", 2), (4, "a", 4)], [12, 15])
    assert dropped.chunk.times.tolist() == [4]
    assert rows(group, FOREVER) == [(0, 10, "a", 1, 2, 3)]
    assert group.counters(0) == {"in": 4, "filtered": 1, "outside": 0, "member": 1, "late": 1, "dropped": 1}


@pytest.mark.parametrize("window", [hw.sliding(10, 5), hw.session(5), hw.count_sliding(3, 1)], ids=str)
def test_a_group_goes_on_from_its_snapshot_as_if_it_had_never_stopped(window: Window):
    group, never = group_of(window), group_of(window)
    for one in (group, never):
        give(one, [(1, "a", 1), (3, "b", 2), (6, "a", 4)], NEVER)
        rows(one, 6)
    group = restored(group, group_of(window))
    for one in (group, never):
        give(one, [(7, "a", 8), (6, "b", 16), (30, "a", 32)], 6)
    assert rows(group, FOREVER) == rows(never, FOREVER) != []
    assert group.counters(0) == never.counters(0)


def test_a_group_whose_query_has_gone_has_no_queries():
    group = group_of(hw.tumbling(10))
    assert [entry.number for entry in group.queries()] == [0]
    group.unregister(0)
    assert group.queries() == []
