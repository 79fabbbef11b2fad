"""Windows that events open and close: the cutter against a machine that reads like the definition."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.windows.marker_walk import Cutter
from headwater.language.expressions import col
from headwater.language.times import NEVER
from headwater.language.windows import Between, Punctuated, Session

KEY_COUNT = 3
#: An event: its time, its key, and whether it matches the first and the second condition.
Event = tuple[int, int, bool, bool]
#: A window as the cutter tells it: key, start, end, end of the range of member times.
Window = tuple[int, int, int, int]
limits = st.one_of(st.none(), st.integers(1, 12))
events_of = st.lists(
    st.tuples(st.integers(-15, 30), st.integers(0, KEY_COUNT - 1), st.booleans(), st.booleans()), max_size=30
).map(lambda events: sorted(events, key=lambda event: event[0]))

marker, other = col("a") == 1, col("b") == 1


def punctuated_windows(key: int, events: list[Event], limit: int | None) -> Iterator[Window]:
    """The first event opens a window; a marker ends the one that is open before its own time and opens the next."""
    marker_times = {event[0] for event in events if event[2]}
    start = None
    for time, *_ in events:
        if start is not None and limit is not None and time >= start + limit:
            yield key, start, start + limit, start + limit
            start = None
        if start is not None and time in marker_times and start < time:
            yield key, start, time, time
            start = None
        if start is None:
            start = time


def paired_windows(key: int, events: list[Event], limit: int | None) -> Iterator[Window]:
    """An end marker closes what is open, both ends included; then, if nothing is open, a start marker opens."""
    start = None
    told = set()
    for time, _, opens, ends in events:
        if start is not None and limit is not None and time >= start + limit:
            yield key, start, start + limit, start + limit
            start = None
        if start is not None and ends:
            if (start, time) not in told:  # windows of the same bounds are the same window
                yield key, start, time, time + 1
            told.add((start, time))
            start = None
        if start is None and opens:
            start = time


def chained_windows(key: int, events: list[Event], gap: int, limit: int | None) -> Iterator[Window]:
    """A session ends where its key pauses for more than the gap, or has lasted as long as it may."""
    start = last = None
    for time, *_ in events:
        if start is not None:
            longest = last + gap if limit is None else min(last + gap, start + limit)
            if time > last + gap or limit is not None and time >= start + limit:
                yield key, start, longest, last + 1
                start = None
        if start is None:
            start = time
        last = time


def stretches(events: list[Event], cuts: list[int]) -> list[list[Event]]:
    """Events in the pieces in which they are walked; equal times are never torn apart."""
    bounds = [-(2**40), *sorted(cuts), 2**40]
    return [[event for event in events if low <= event[0] < high] for low, high in itertools.pairwise(bounds)]


def walk(
    cutter: Cutter, events: list[Event], cuts: list[int], marker_count: int
) -> tuple[list[Window], list[list[int]]]:
    windows, asked = [], []
    for stretch in stretches(events, cuts):
        times = np.array([event[0] for event in stretch], np.int64)
        keys = np.array([event[1] for event in stretch], np.int32)
        markers = [np.array([event[2 + i] for event in stretch], bool) for i in range(marker_count)]
        found = cutter.walk(times, keys, KEY_COUNT, markers)
        windows += [tuple(window) for window in found.windows.tolist()]
        asked += found.cuts.tolist()
    return windows, asked


def check_cuts(events: list[Event], windows: list[Window], cuts: list[list[int]]) -> None:
    """Between two events of a key of which a window holds only one, its rows are cut."""
    for key, start, _, range_end in windows:
        times = sorted({event[0] for event in events if event[1] == key})
        for before, behind in itertools.pairwise(times):
            if (start <= before < range_end) != (start <= behind < range_end):
                assert any(k == key and before < cut <= behind for k, cut in cuts)


def check(
    cutter: Cutter, events: list[Event], cuts: list[int], marker_count: int, machine: Callable[..., Iterator[Window]]
) -> None:
    windows, asked = walk(cutter, events, cuts, marker_count)
    seen = [event for event in events if event[0] >= cutter.begin]
    wanted = [w for key in range(KEY_COUNT) for w in machine(key, [event for event in seen if event[1] == key])]
    assert sorted(windows) == sorted(wanted)
    check_cuts(seen, windows, asked)


walks = st.lists(st.integers(-15, 30), max_size=3)
begins = st.one_of(st.just(NEVER), st.integers(-15, 10))


@given(events_of, walks, limits, begins)
def test_markers_cut_punctuated_windows_as_defined(events: list[Event], cuts: list[int], limit: int | None, begin: int):
    cutter = Cutter(Punctuated(marker, max_duration=limit), begin)
    check(cutter, events, cuts, 1, lambda key, own: punctuated_windows(key, own, limit))


@given(events_of, walks, limits, begins)
def test_markers_cut_windows_between_them_as_defined(
    events: list[Event], cuts: list[int], limit: int | None, begin: int
):
    cutter = Cutter(Between(marker, other, max_duration=limit), begin)
    check(cutter, events, cuts, 2, lambda key, own: paired_windows(key, own, limit))


@given(events_of, walks, st.integers(1, 6), limits, begins)
def test_sessions_of_limited_length_are_those_of_the_definition(
    events: list[Event], cuts: list[int], gap: int, limit: int | None, begin: int
):
    cutter = Cutter(Session(gap, limit), begin)
    check(cutter, events, cuts, 0, lambda key, own: chained_windows(key, own, gap, limit))


@pytest.mark.parametrize("kind", ["punctuated", "between", "session"])
@given(events=events_of, at=st.integers(-15, 30), limit=limits)
def test_closing_by_the_watermark_takes_nothing_from_the_walk(
    kind: str, events: list[Event], at: int, limit: int | None
):
    """What the watermark ends early, the walk would have ended at the next event: together the same windows."""
    window, marker_count = {
        "punctuated": (Punctuated(marker, max_duration=limit), 1),
        "between": (Between(marker, other, max_duration=limit), 2),
        "session": (Session(4, limit), 0),
    }[kind]
    events = [event for event in events if event[0] != at]
    closing, walking = Cutter(window), Cutter(window)
    before, behind = stretches(events, [at])
    first, _ = walk(closing, before, [], marker_count)
    ended = [tuple(found) for found in closing.close(at, np.empty(0, np.int64)).tolist()]
    rest, _ = walk(closing, behind, [], marker_count)
    plain, _ = walk(walking, events, [], marker_count)
    assert all(end <= at for _, _, end, _ in ended)
    # Keys without further events are ended by the watermark alone.
    assert {*first, *ended, *rest} == {*plain, *(w for w in ended if w[0] not in {event[1] for event in behind})}


@given(events_of, walks)
def test_a_restored_cutter_walks_on(events: list[Event], cuts: list[int]):
    whole, parted = Cutter(Between(marker, other, max_duration=7)), Cutter(Between(marker, other, max_duration=7))
    wanted, _ = walk(whole, events, cuts, 2)
    windows = []
    for stretch in stretches(events, cuts):
        found, _ = walk(parted, stretch, [], 2)
        windows += found
        kept, parted = parted.state(), Cutter(Between(marker, other, max_duration=7))
        parted.restore(kept)
    assert windows == wanted


def test_a_window_of_one_instant_is_one_however_often_markers_make_it():
    times, flags = np.array([5, 5, 5, 5, 5], np.int64), np.ones(5, np.bool_)
    made = Cutter(Between(marker, other)).walk(times, np.zeros(5, np.int32), 1, [flags, flags])
    assert made.windows.tolist() == [[0, 5, 5, 6]]


def test_an_unlimited_window_may_last_from_one_end_of_time_to_the_other():
    times = np.array([-(2**62), 2**62], np.int64)
    made = Cutter(Punctuated(marker)).walk(times, np.zeros(2, np.int32), 1, [np.array([False, True])])
    assert made.windows.tolist() == [[0, -(2**62), 2**62, 2**62]]
