"""Windows as ranges of rows: with a map of all cells, without one, and the obvious way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.slices.edges import EARLIEST, LATEST, closing_windows, fixed_spec, spec_table
from headwater.engine.windows import assembler
from headwater.engine.windows.assembler import Closed, distinct_sorted, window_ranges
from headwater.language.windows import Sliding

NUMBERS = np.array([4, 1, 7], np.int32)  # the registrations of queries 0, 1, 2
windows_of = st.lists(st.builds(Sliding, st.integers(1, 15), st.integers(1, 10)), min_size=1, max_size=3)


def ranges(
    windows: np.ndarray, first: np.ndarray, key_starts: np.ndarray, keys: np.ndarray, occupied: np.ndarray
) -> list[tuple[int, ...]]:
    closed = window_ranges(windows, NUMBERS, first, key_starts, keys, occupied, {})
    assert closed.is_sorted
    check_twins(closed)
    columns = (closed.query, closed.start, closed.end, closed.key, closed.lo, closed.hi)
    return list(zip(*(column.tolist() for column in columns)))


def check_twins(closed: Closed) -> None:
    """A row and its leader are made of the same partials."""
    if closed.twins is not None:
        leaders = closed.twins.leaders[closed.twins.of_row]
        assert closed.lo.tolist() == closed.lo[leaders].tolist()
        assert closed.hi.tolist() == closed.hi[leaders].tolist()


@given(
    windows_of,
    st.lists(st.sets(st.integers(-10, 40), max_size=8), min_size=1, max_size=4).filter(any),
    st.integers(-10, 50),
    st.randoms(use_true_random=False),
)
def test_each_window_and_key_is_the_range_of_its_rows(
    queries: list[Sliding], times: list[set[int]], until: int, random
):
    """``times``: those of the rows of each key."""
    first = np.array([time for of_key in times for time in sorted(of_key)], np.int64)
    key_starts = np.cumsum([0, *map(len, times)])
    keys = np.arange(len(times))
    random.shuffle(keys)  # keys come in the order of their values, which need not be that of their numbers
    occupied = np.unique(first)
    table = spec_table([fixed_spec(window, EARLIEST, LATEST) for window in queries])
    windows = closing_windows(table, -100, until, occupied)
    wanted = []
    for query, start, end, *_ in sorted(windows.tolist(), key=lambda w: (w[2], w[1], NUMBERS[w[0]])):
        for key in keys.tolist():
            inside = [i for i in range(key_starts[key], key_starts[key + 1]) if start <= first[i] < end]
            if inside:
                wanted.append((NUMBERS[query], start, end, key, inside[0], inside[-1] + 1))
    assert ranges(windows, first, key_starts, keys, occupied) == wanted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembler, "CELLS_PER_ROW", 0)
        patch.setattr(assembler, "CELLS_FREE", 0)
        assert ranges(windows, first, key_starts, keys, occupied) == wanted


def test_queries_of_the_same_windows_are_twins():
    table = spec_table([fixed_spec(Sliding(10, 10), EARLIEST, LATEST)] * 3)
    first, keys = np.array([1, 12, 2]), np.array([0, 1])
    occupied = np.unique(first)
    windows = closing_windows(table, 0, 20, occupied)
    closed = window_ranges(windows, NUMBERS, first, np.array([0, 2, 3]), keys, occupied, {})
    assert closed.twins is not None and len(closed.twins.leaders) == 3
    check_twins(closed)


@given(
    st.lists(st.one_of(st.integers(-30, 30), st.sampled_from([-(2**62), 2**62])), min_size=1),
    st.sampled_from([1, 2, 5]),
)
def test_distinct_values_are_sorted_whatever_the_guess_at_their_step(values: list[int], step: int):
    assert distinct_sorted(np.array(values), step).tolist() == sorted(set(values))
    if max(map(abs, values)) <= 30:
        assert distinct_sorted(np.array(values) * step + 3, step).tolist() == [
            v * step + 3 for v in sorted(set(values))
        ]
