"""A group by itself: events in, each with the watermark of its own source, closed windows out."""

from itertools import permutations

import numpy as np
import pytest

import headwater as hw
from group_events import TYPES, give, restored, rows
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import Events, scan_times
from headwater.engine.windows.registered import Registered
from headwater.language.expressions import Expr
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Window

#: Time and watermark of an event: the first is too late, the second in time, the third behind in a window that is still open.
EVENTS = [(5, 10), (15, 0), (12, 14)]


def group_of(*windows: Window, where: Expr | None = None, lateness: int = 0) -> QueryGroup:
    group = QueryGroup(("k",), where)
    made = [
        hw.query(f"q{i}", window, keys="k", s=hw.sum("v"), lateness=lateness, where=where)
        for i, window in enumerate(windows)
    ]
    group.register([Registered(query, number) for number, query in enumerate(made)])
    return group


@pytest.mark.parametrize("events", list(permutations(EVENTS)))
def test_each_event_is_late_by_the_watermark_of_its_own_source(events):
    times, watermarks = np.array(events, np.int64).T.copy()
    group = QueryGroup((), None)
    group.register([Registered(hw.query("n", hw.tumbling(10), n=hw.count()), 0)])
    group.prepare({})
    chunk = Chunk(times, np.arange(3), np.arange(3, dtype=np.int32), ["a", "b", "c"])
    (dropped,) = group.accept(Events(chunk, {}, scan_times(times), watermarks))
    assert (dropped.chunk.times.tolist(), dropped.watermarks.tolist()) == ([5], [10])
    assert group.counters(0) == {"in": 3, "filtered": 0, "outside": 0, "member": 2, "late": 0, "dropped": 1}


def test_a_window_closes_once_when_the_watermark_reaches_its_end():
    group = group_of(hw.tumbling(10))
    assert give(group, [(1, "a", 1), (9, "b", 2), (10, "a", 4)], NEVER) == []
    assert rows(group, 9) == []
    assert rows(group, 10) == [(0, 10, "a", 0, 1, 1), (0, 10, "b", 0, 1, 2)]
    assert rows(group, 11) == []
    assert rows(group, FOREVER) == [(10, 20, "a", 0, 1, 4)]


def test_windows_of_every_kind_share_the_rows_of_one_group():
    kinds = [hw.tumbling(10), hw.session(3), hw.count_tumbling(2), hw.punctuated(hw.col("v") == 4)]
    group = group_of(*kinds)
    give(group, [(1, "a", 1), (3, "a", 2), (8, "a", 4)], NEVER)
    assert len(group.ops) == 3  # number of events, sum, number of values
    assert rows(group, FOREVER) == sorted(
        [
            (0, 10, "a", 0, 3, 7),  # tumbling
            (1, 6, "a", 0, 2, 3),  # sessions
            (8, 11, "a", 0, 1, 4),
            (0, 2, "a", 0, 2, 3),  # two events
            (1, 8, "a", 0, 2, 3),  # up to the marker
        ]
    )


def test_a_late_event_revises_the_window_it_belongs_to_until_lateness_is_over():
    group = group_of(hw.tumbling(10), lateness=5)
    give(group, [(1, "a", 1)], NEVER)
    assert rows(group, 10) == [(0, 10, "a", 0, 1, 1)]
    assert give(group, [(2, "a", 2)], 12) == []
    assert rows(group, 12) == [(0, 10, "a", 1, 2, 3)]
    (dropped,) = give(group, [(3, "a", 4)], 15)
    assert (dropped.query, dropped.chunk.times.tolist()) == (0, [3])
    assert rows(group, FOREVER) == []
    assert group.counters(0) == {"in": 3, "filtered": 0, "outside": 0, "member": 1, "late": 1, "dropped": 1}


def test_filtered_events_are_counted_and_in_no_window():
    group = group_of(hw.tumbling(10), where=hw.col("v") > 1)
    give(group, [(1, "a", 1), (2, "a", 2)], NEVER)
    assert rows(group, FOREVER) == [(0, 10, "a", 0, 1, 2)]
    assert group.counters(0) == {"in": 2, "filtered": 1, "outside": 0, "member": 1, "late": 0, "dropped": 0}


@pytest.mark.parametrize(
    "window",
    [hw.sliding(10, 4), hw.session(5), hw.count_sliding(3, 2), hw.between(hw.col("v") == 1, hw.col("v") == 8)],
    ids=str,
)
def test_a_group_goes_on_from_its_snapshot_as_if_it_had_never_stopped(window: Window):
    group, never = group_of(window, lateness=0), group_of(window, lateness=0)
    first, second = [(1, "a", 1), (3, "b", 2), (4, "a", 4)], [(7, "a", 8), (6, "b", 16), (30, "a", 32)]
    for one in (group, never):
        give(one, first, NEVER)
        rows(one, 4)
    group = restored(group, group_of(window, lateness=0))
    assert group.counters(0) == never.counters(0)
    for one in (group, never):
        give(one, second, 4)
    assert rows(group, FOREVER) == rows(never, FOREVER) != []
    assert group.counters(0) == never.counters(0)


def test_a_query_that_comes_later_has_only_what_begins_with_it():
    group = group_of(hw.tumbling(10))
    give(group, [(1, "a", 1)], NEVER)
    group.register([Registered(hw.query("late", hw.tumbling(5), keys="k", s=hw.sum("v"), m=hw.max("v")), 1, begin=5)])
    give(group, [(6, "a", 2)], NEVER)
    assert rows(group, FOREVER) == [(0, 10, "a", 0, 2, 3), (5, 10, "a", 0, 1, 2)]
    assert group.counters(1) == {"in": 1, "filtered": 0, "outside": 0, "member": 1, "late": 0, "dropped": 0}


def test_operators_go_with_the_query_that_needs_them():
    group = group_of(hw.tumbling(10))
    group.register([Registered(hw.query("max", hw.tumbling(10), keys="k", m=hw.max("v")), 1)])
    group.prepare(TYPES)
    assert "max" in {op.kind for op in group.ops}
    group.unregister(1)
    group.prepare(TYPES)
    assert "max" not in {op.kind for op in group.ops}
    assert [entry.number for entry in group.queries()] == [0]
