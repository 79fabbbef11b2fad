"""Zones of expected cuts, against a walk over all cuts from the first on."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.counting.forecast_zones import ForecastLine
from headwater.engine.slices.order_slicer import next_position_cut
from headwater.language.times import FOREVER

WINDOWS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(0)), min_size=1, max_size=2)


def walked(zones, stop):
    """The zone of each cut, as far as they begin before ``stop``."""
    cut, found = zones.position, []
    while True:
        cut = int(next_position_cut(zones.windows, cut))
        distance = float(cut - zones.position)
        middle, half = distance * zones.per_event, zones.spread * math.sqrt(distance)
        if middle - half > stop - zones.time and len(found) > 300:
            return found
        found.append((zones.time + middle - half, zones.time + math.ceil(middle + half) + 1))


@given(WINDOWS, st.integers(0, 50), st.integers(-20, 20), st.floats(0.1, 5), st.floats(0, 3), st.integers(-50, 200))
def test_the_next_end_is_the_first_behind_a_time(windows, position, time, per_event, spread, since):
    zones = ForecastLine(np.array(windows), position, time, per_event, spread)
    end = next(end for _, end in walked(zones, since) if end > since)
    assert zones.awaits(since, end, 0, 0) and not zones.awaits(since, end - 1, 0, 0)


@given(
    WINDOWS, st.integers(0, 50), st.integers(-20, 20), st.floats(0.1, 5), st.floats(0, 3),
    st.integers(0, 200), st.integers(0, 60),
)  # fmt: skip
def test_zones_are_those_of_all_cuts(windows, position, time, per_event, spread, after, length):
    """Behind the time that is known: whatever lies before it is proven."""
    low = time + after
    zones = ForecastLine(np.array(windows), position, time, per_event, spread)
    begins, ends = zones.zones(low, low + length)
    inside = np.zeros(length + 1, np.bool_)
    for begin, end in walked(zones, low + length):
        if begin <= low + length:
            inside[max(math.floor(begin) - low, 0) : max(end - low, 0)] = True
    found = np.zeros(length + 1, np.bool_)
    for begin, end in zip(begins, ends):
        found[begin - low : end - low] = True
    assert found.tolist() == inside.tolist()


def test_a_time_far_away_takes_no_longer():
    """Cut by cut, it took for ever to find out what nobody had asked."""
    zones = ForecastLine(np.array([[7, 7, 0]]), 0, 0, 1.0, 1.0)
    assert zones.awaits(10**14, 10**14 + 10**8, 0, 0) and not zones.awaits(10**14, 10**14, 0, 0)
    assert zones.zones(10**14, 10**14)[0].tolist() == [10**14]
    assert zones.awaits(FOREVER - 1, FOREVER - 1, 0, 0)
