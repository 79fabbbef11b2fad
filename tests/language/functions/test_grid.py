"""The grid of steps: windows whose ends are known end on it, and it is neither too fine nor useless."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.language.functions.grid import grid_of

TICKS = st.integers(1, 10**6)


def queries_of(*windows: Any) -> list[hw.Query]:
    return [hw.query(f"q{index}", window, n=hw.count()) for index, window in enumerate(windows)]


@pytest.mark.parametrize(
    ("windows", "unit", "every"),
    [
        ([hw.tumbling("1 s")], "us", 1_000_000),
        ([hw.tumbling("1 s"), hw.tumbling("1500 ms")], "ms", 500),
        # Ends are at 13, 20, 27: none is a multiple of anything but 1 without the offset, all are of 7 with it.
        ([hw.sliding("13 s", "7 s", "1 s")], "s", 7),
        ([hw.sliding("13 s", "7 s")], "ms", 1_000),
        ([hw.tumbling("20 ms")], "ms", 20),
        ([hw.tumbling("19 ms")], "ms", 100),
        ([hw.tumbling("1 s", "3 ms")], "ms", 100),
        ([hw.band(1_000_000, "1 s")], "us", 2_000_000),
        ([], "us", 100_000),
        ([hw.session("30 s")], "us", 100_000),
        ([hw.count_tumbling(10)], "ns", 100_000_000),
        ([hw.punctuated(hw.col("kind") == "cut")], "s", 1),
        # A session does not wait for the end of the day.
        ([hw.tumbling("1 d"), hw.session("30 s")], "ms", 100),
        ([hw.tumbling("50 ms"), hw.session("30 s")], "ms", 50),
        ([hw.tumbling("1 d"), hw.session("30 s")], "s", 1),
        # Plain ticks: nobody said that they are a time by the clock.
        ([hw.tumbling(10)], "us", 10),
        ([hw.tumbling(10), hw.tumbling(15)], "us", 5),
        ([hw.tumbling(10), hw.session(4)], "us", 2),
        ([hw.session(5, max_duration=20)], "us", 5),
        ([hw.tumbling(7), hw.tumbling("1 ms")], "us", 1),
    ],
)
def test_the_grid_of_these_windows(windows: list[Any], unit: str, every: int) -> None:
    assert grid_of(queries_of(*windows), unit) == every


def test_a_duration_that_is_no_whole_number_of_ticks_is_refused() -> None:
    with pytest.raises(hw.QueryError, match=r"query 'q0': window\.size is '15 ms': the stream's times are in s"):
        grid_of(queries_of(hw.tumbling("15 ms")), "s")


@given(st.lists(st.tuples(TICKS, TICKS, st.integers(-1000, 1000)), min_size=1, max_size=4), st.integers(-50, 50))
def test_every_known_end_is_on_the_grid(shapes: list[tuple[int, int, int]], k: int) -> None:
    every = grid_of(queries_of(*(hw.sliding(*shape) for shape in shapes)), "us")
    assert every >= 1
    assert all((k * slide + offset + size) % every == 0 for size, slide, offset in shapes)
