"""How far apart the canonical steps of event time are: the moments at which windows become final together."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Final

from headwater.language.query import Query
from headwater.language.times import Nanos, duration, in_ticks
from headwater.language.windows import Band, Sliding, Window

#: A finer grid would cost more than it brings: each step is work for every node.
EVERY_MIN: Final = duration("20 ms")
#: The grid where the ends of windows say nothing, or too much.
EVERY: Final = duration("100 ms")


def grid_of(queries: Iterable[Query], unit: str) -> int:
    """The distance of steps in ticks of ``unit``, for windows that are closed at steps.

    It is the greatest common divisor of the ends of all windows whose ends are known, so that none waits for its step; it is
    100 ms where that would be less than 20 ms, or where no end is known. Windows whose ends other events decide close at most
    one step late: where there are such, the divisor is also one of 100 ms, so that they do not wait for the next full day.

    A plain integer among the durations means that ticks need not be a time by the clock. Then the divisor stands as it is, and
    the durations of windows without known ends are divided too.

    >>> import headwater as hw
    >>> def every(unit, *windows):
    ...     return grid_of([hw.query(f"q{i}", window, n=hw.count()) for i, window in enumerate(windows)], unit)
    >>> every("ms", hw.tumbling("1 s"), hw.sliding("10 s", "2500 ms")), every("us", hw.tumbling("1 s"), hw.sliding("1 s", "7 ms"))
    (500, 100000)
    >>> every("ms", hw.session("30 s")), every("ms", hw.session("30 s"), hw.tumbling("1 d")), every("us", hw.tumbling(10))
    (100, 100, 10)
    """
    windows = [(query.window, query.resolved(unit).window) for query in queries]
    ends = gcd(*(end for _, window in windows for end in known_ends(window)))
    others = [window for _, window in windows if not isinstance(window, Sliding | Band)]
    if any(is_plain(given) for given, _ in windows):
        durations = (getattr(window, name) for window in others for name in window.durations)
        return max(1, gcd(ends, *(value for value in durations if value)))
    usual, least = in_whole_ticks(EVERY, unit), in_whole_ticks(EVERY_MIN, unit)
    found = gcd(ends, usual) if others else ends
    return found if found >= least else usual


def known_ends(window: Window) -> tuple[int, ...]:
    """Numbers whose greatest common divisor divides every end of a window whose ends are known; in ticks.

    >>> known_ends(Sliding(13, 7, 1)), known_ends(Band(100, 50))
    ((7, 14), (150,))
    """
    if isinstance(window, Sliding):
        return (window.slide, window.offset + window.size)
    return (window.start + window.size,) if isinstance(window, Band) else ()


def is_plain(window: Window) -> bool:
    """Whether a duration of a window is a plain number of ticks; zero needs no unit."""
    durations = (getattr(window, name) for name in window.durations)
    return any(value and not isinstance(value, Nanos) for value in durations)


def in_whole_ticks(length: int, unit: str) -> int:
    """A duration in ticks, at least one of them.

    >>> in_whole_ticks(duration("100 ms"), "us"), in_whole_ticks(duration("100 ms"), "s")
    (100000, 1)
    """
    return max(1, in_ticks(length, "ns") // in_ticks(duration(f"1 {unit}"), "ns"))
