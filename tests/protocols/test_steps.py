"""Canonical steps: where a partition reaches them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.language.times import NEVER
from headwater.protocols.steps import StepGrid


@given(
    st.lists(st.integers(-50, 300), max_size=80).map(sorted),
    st.integers(1, 20),
    st.integers(0, 5),
    st.one_of(st.just(NEVER), st.integers(-60, 60)),
)
def test_steps_are_found_among_times_in_order_without_looking_at_each(
    times: list[int], every: int, disorder: int, watermark: int
):
    grid, given = StepGrid(every), np.array(times, np.int64)
    assert grid.crossings(given, disorder, watermark, in_order=True) == grid.crossings(given, disorder, watermark)


def test_a_year_between_two_events_is_one_crossing():
    year = 365 * 24 * 3600 * 50
    found = StepGrid(1).crossings(np.array([0, year, year + 1]), 0, NEVER, in_order=True)
    assert found == [(1, 0), (2, year), (3, year + 1)]
