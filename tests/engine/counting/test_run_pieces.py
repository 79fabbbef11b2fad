"""What travels raw of runs that nobody has brought into one order: zones, and whatever has no final place yet."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.engine.counting.pieces import cut_runs, zones_between

TIMES = st.integers(0, 60)


@st.composite
def zones(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Ascending, none meets another."""
    edges = sorted(draw(st.sets(TIMES, max_size=8)))
    return list(zip(edges[::2], edges[1::2]))


@given(st.lists(st.lists(TIMES, min_size=1, max_size=20).map(sorted), min_size=1, max_size=3), zones(), TIMES, TIMES)
@example([[0, 10, 30], [12, 20]], [(25, 40)], 0, 11)  # a zone that begins behind what is closed
def test_all_but_what_is_closed_and_in_no_zone_travels(
    runs: list[list[int]], found: list[tuple[int, int]], low: int, until: int
) -> None:
    later = [(max(begin, low), end) for begin, end in found if end > low]
    begins, ends = (np.array(edges, np.int64) for edges in (zip(*later) if later else ([], [])))
    cuts = cut_runs([np.array(run, np.int64) for run in runs], *zones_between(begins, ends, low, until), 4)
    times = np.concatenate(runs)
    travels = np.zeros(len(times), np.bool_)
    for begin, end, is_raw in zip(cuts.begins.T, cuts.ends.T, cuts.is_raw):
        for first, stop in zip(begin, end):
            travels[first:stop] = is_raw
    expected = [
        time < low or time >= until or any(begin <= time < end for begin, end in later) for time in times.tolist()
    ]
    assert travels.tolist() == expected
