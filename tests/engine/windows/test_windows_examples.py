"""Windows by example: one query of each kind over a handful of events, and what late events change."""

from __future__ import annotations

import headwater as hw
from group_events import give, rows
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.windows.registered import Registered
from headwater.language.times import FOREVER, NEVER


def group_of(window: hw.Query | object, lateness: int = 0, emit_empty: bool = False) -> QueryGroup:
    query = hw.query("q", window, keys="k", s=hw.sum("v"), lateness=lateness, emit_empty=emit_empty)  # type: ignore[arg-type]
    group = QueryGroup(("k",), None)
    group.register([Registered(query, 0)])
    return group


# Rows are (start, end, key, revision, number of events, sum).


def test_sliding_windows_share_the_events_of_their_overlap():
    group = group_of(hw.sliding(10, 5))
    give(group, [(7, "a", 1), (12, "a", 2)], NEVER)
    assert rows(group, 15) == [(0, 10, "a", 0, 1, 1), (5, 15, "a", 0, 2, 3)]
    assert rows(group, FOREVER) == [(10, 20, "a", 0, 1, 2)]


def test_a_band_is_one_window():
    group = group_of(hw.band(10, 5))
    give(group, [(9, "a", 1), (10, "a", 2), (14, "a", 4), (15, "a", 8)], NEVER)
    assert rows(group, FOREVER) == [(10, 15, "a", 0, 2, 6)]


def test_a_window_without_events_is_shown_if_the_query_asks_for_it():
    group = group_of(hw.tumbling(10), emit_empty=True)
    give(group, [(1, "a", 1), (21, "a", 4)], NEVER)
    assert rows(group, 30) == [(0, 10, "a", 0, 1, 1), (10, 20, "a", 0, 0, 0), (20, 30, "a", 0, 1, 4)]


def test_a_late_event_revises_its_window_within_the_lateness_allowed():
    group = group_of(hw.tumbling(10), lateness=5)
    give(group, [(1, "a", 1)], NEVER)
    assert rows(group, 12) == [(0, 10, "a", 0, 1, 1)]
    assert give(group, [(2, "a", 2)], 12) == []
    assert rows(group, 13) == [(0, 10, "a", 1, 2, 3)]
    (dropped,) = give(group, [(3, "a", 4)], 15)
    assert dropped.chunk.times.tolist() == [3]


def test_a_session_ends_when_nothing_came_for_its_gap():
    group = group_of(hw.session(5))
    give(group, [(1, "a", 1), (6, "a", 2), (12, "a", 4)], NEVER)
    assert rows(group, 12) == [(1, 11, "a", 0, 2, 3)]
    assert rows(group, FOREVER) == [(12, 17, "a", 0, 1, 4)]


def test_a_late_event_joins_two_sessions_that_were_shown():
    group = group_of(hw.session(5), lateness=20)
    give(group, [(1, "a", 1), (11, "a", 4)], NEVER)
    assert rows(group, 17) == [(1, 6, "a", 0, 1, 1), (11, 16, "a", 0, 1, 4)]
    give(group, [(6, "a", 2)], 17)
    assert rows(group, 18) == [(1, 16, "a", 1, 3, 7)]


def test_a_marker_ends_one_window_and_opens_the_next():
    group = group_of(hw.punctuated(hw.col("v") == 0))
    give(group, [(1, "a", 1), (5, "a", 0), (6, "a", 2), (9, "a", 0)], NEVER)
    assert rows(group, 10) == [(1, 5, "a", 0, 1, 1), (5, 9, "a", 0, 2, 2)]


def test_count_windows_hold_positions_of_the_order():
    group = group_of(hw.count_tumbling(2, per="key"))
    give(group, [(3, "a", 4), (1, "a", 1), (2, "b", 8), (2, "a", 2)], NEVER)
    assert rows(group, FOREVER) == [(0, 2, "a", 0, 2, 3)]
