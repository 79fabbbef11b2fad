"""Edges, slices and closing windows against their definitions, window by window."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.slices import edges as edges_module
from headwater.engine.slices.edges import Edges, closing_windows, fixed_spec, next_end, spec_table, windows_of_times
from headwater.language.times import FOREVER, NEVER, TIME_MAX
from headwater.language.windows import Band, Sliding

Spec = tuple[int, int, int, int, int]

lives = st.sampled_from([(NEVER, FOREVER), (-3, FOREVER), (NEVER, 12), (-3, 12), (FOREVER, FOREVER)])
fixed_windows = st.one_of(
    st.builds(Sliding, st.integers(1, 12), st.integers(1, 12), st.integers(-5, 5)),
    st.builds(Band, st.integers(-10, 20), st.integers(1, 12)),
)
specs_lists = st.lists(
    st.tuples(fixed_windows, lives).map(lambda drawn: fixed_spec(drawn[0], *drawn[1])), min_size=1, max_size=4
)
times_lists = st.lists(st.integers(-20, 40), min_size=1, max_size=30)


def windows_of(spec: Spec, low: int = -60, high: int = 60) -> list[tuple[int, int]]:
    """Every window of a query near these times, by definition."""
    size, slide, offset, begin, stop = spec
    return [(start, start + size) for start in range(low, high) if start % slide == offset and begin <= start < stop]


def edges_of(specs: list[Spec]) -> list[int]:
    return sorted({edge for spec in specs for window in windows_of(spec) for edge in window})


def test_a_query_that_begins_at_the_end_of_time_cuts_nowhere():
    # What is kept apart from a query's begin on is a band that begins there.
    specs = [fixed_spec(Sliding(18, 7, 2), FOREVER, FOREVER), fixed_spec(Band(FOREVER, 2**60), NEVER, FOREVER)]
    starts, ends = Edges(specs).slices(np.array([119, 173]))
    assert len(starts) == len(ends) == 1 and starts[0] < 119 and ends[0] > 173


@given(specs_lists, times_lists)
def test_slices_hold_all_times_and_no_edge_lies_inside_one(specs: list[Spec], times: list[int]):
    starts, ends = Edges(specs).slices(np.array(times))
    assert (starts < ends).all() and (ends[:-1] <= starts[1:]).all()
    for time in times:
        (place,) = np.flatnonzero((starts <= time) & (time < ends))
        inside = [edge for edge in edges_of(specs) if starts[place] < edge < ends[place]]
        assert not inside


@given(specs_lists, times_lists)
def test_sparse_times_get_the_same_slices(specs: list[Spec], times: list[int]):
    """Where edges are many and events few, each event asks for its own slice."""
    edges, array = Edges(specs), np.array(times)
    dense = dict(zip(*(part.tolist() for part in edges.slices(array)), strict=True))
    distinct = np.unique(array)
    starts, ends = np.empty_like(distinct), np.empty_like(distinct)
    count = edges_module._slices_of_times(edges.specs, distinct, starts, ends)
    assert all(dense[start] == end for start, end in zip(starts[:count].tolist(), ends[:count].tolist(), strict=True))


@given(specs_lists, st.integers(-20, 20), st.integers(0, 40))
def test_marking_edges_in_cells_and_listing_them_is_the_same(specs: list[Spec], low: int, span: int):
    edges, high = Edges(specs), low + span
    expected = [edge for edge in edges_of(specs) if low < edge <= high]
    # The bitmap is free for few cells; a list is made when it would have too many.
    assert edges._edges_within(low, high, 1e9).tolist() == expected
    out = np.empty(1000, np.int64)
    count = edges_module._put_edges(edges.specs, low, high, 0, out)
    # Ends that fall on starts are left out, unless the query stops before them.
    assert sorted(set(out[:count].tolist())) == expected


@given(specs_lists, st.integers(-30, 40), st.integers(0, 60), times_lists)
def test_closing_windows_are_those_that_end_in_time_and_hold_something(
    specs: list[Spec], after: int, span: int, times: list[int]
):
    occupied, until = np.unique(times), after + span
    expected = [
        [number, start, end, *np.searchsorted(occupied, (start, end)).tolist()]
        for number, spec in enumerate(specs)
        for start, end in windows_of(spec)
        if after < end <= until and any(start <= time < end for time in times)
    ]
    for guess in (0, 256):
        assert closing_windows(spec_table(specs), after, until, occupied, guess).tolist() == expected


@given(specs_lists, st.integers(-30, 40))
def test_the_next_end_is_the_first_one_after(specs: list[Spec], time: int):
    ends = [end for spec in specs for _, end in windows_of(spec) if end > time]
    found = next_end(spec_table(specs), time)
    assert found == min(ends) if ends else found > 60


@given(specs_lists, st.integers(-30, 40), st.integers(0, 20))
def test_the_oldest_start_is_that_of_a_window_that_can_still_change(specs: list[Spec], watermark: int, lateness: int):
    starts = [start for spec in specs for start, end in windows_of(spec) if end + lateness > watermark]
    found = Edges(specs).oldest_start(watermark, np.full(len(specs), lateness))
    assert found == min(starts) if starts else found > 60


@given(specs_lists, st.lists(st.tuples(st.integers(-20, 40), st.integers(-20, 60)), max_size=8), st.integers(0, 9))
def test_stragglers_are_members_of_windows_that_had_not_ended_for_their_source(
    specs: list[Spec], events: list[tuple[int, int]], lateness: int
):
    times, marks = (np.array([event[i] for event in events], np.int64) for i in (0, 1))
    expected = [
        [i, start]
        for i, (time, mark) in enumerate(events)
        for start, end in windows_of(specs[0])
        if start <= time < end and mark < end + lateness and end <= 30
    ]
    assert windows_of_times(spec_table(specs)[0], lateness, times, marks, 30).tolist() == expected


@pytest.mark.parametrize("size", [2**61, 2**61 - 1, 2**60 + 1])
@pytest.mark.parametrize("offset", [0, 1, 2**60])
def test_the_longest_windows_hold_the_ends_of_time(size: int, offset: int):
    spec = fixed_spec(Sliding(size, size, offset), NEVER, FOREVER)
    times = np.array([-TIME_MAX, -TIME_MAX + 1, -1, 0, TIME_MAX - 1, TIME_MAX])
    starts, ends = Edges([spec]).slices(times)
    for time in times.tolist():
        expected = (time - offset) // size * size + offset
        (place,) = np.flatnonzero((starts <= time) & (time < ends))
        assert (starts[place], ends[place]) == (expected, expected + size)


def test_a_query_that_ended_before_it_saw_anything_has_no_windows():
    spec = fixed_spec(Sliding(10, 10), NEVER, NEVER + 1)
    assert len(closing_windows(spec_table([spec]), NEVER, FOREVER, np.array([5]))) == 0
    assert len(Edges([spec]).slices(np.array([5]))[0]) == 1
