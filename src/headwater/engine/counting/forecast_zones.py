"""Where cuts of count windows are expected, from a forecast: stretches of time around each of the next positions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.jit import njit
from headwater.engine.counting.pieces import Ranges, Zoning
from headwater.engine.slices.order_slicer import next_position_cut

#: No forecast reaches further.
EVENTS_AHEAD_MAX = 1e15


@dataclass(frozen=True, slots=True)
class ForecastLine(Zoning):
    """The event at ``position`` was at ``time``; from there on an event takes ``per_event`` of time.

    A forecast over d events is off by about ``spread`` times the root of d, so that is half the width of its zone. ``windows``:
    rows (size, step, origin). ``is_raw``: everything travels raw.

    >>> ForecastLine(np.array([[100, 100, 0]]), 0, 0, 10.0, 2.0).zones(950, 1500)
    (array([980]), array([1021]))
    """

    windows: Int64Array
    position: int
    time: int
    per_event: float
    spread: float
    is_raw: bool = False

    def zones(self, low: int, high: int) -> tuple[Int64Array, Int64Array]:
        if self.is_raw or (math.isfinite(self.spread) and self._is_beyond(low)):
            return np.array([low]), np.array([high + 1])
        if not math.isfinite(self.spread) or self.per_event <= 0:
            return Zoning.zones(self, low, high)
        return _zones(self.windows, self.position, self.time, self.per_event, self.spread, low, high)

    def awaits(self, since: int, closed: int, first: int, last: int) -> bool:
        """Whether the end of a zone lies between.

        >>> zones = ForecastLine(np.array([[100, 100, 0]]), 0, 0, 10.0, 2.0)
        >>> [zones.awaits(0, time, 0, 0) for time in (979, 1020, 1021)], zones.awaits(1021, 1990, 0, 0)
        ([False, False, True], False)
        """
        if self.is_raw or not math.isfinite(self.spread) or self.per_event <= 0 or self._is_beyond(since):
            return True
        end = _next_end(self.windows, self.position, self.time, self.per_event, self.spread, since)
        return bool(end <= closed)

    def _is_beyond(self, time: int) -> bool:
        """Whether so many events lie between that nothing is expected there, but anything is possible."""
        return self.per_event > 0 and (time - self.time) / self.per_event > EVENTS_AHEAD_MAX


@dataclass(frozen=True, slots=True)
class LocalWindows(Zoning):
    """A leaf's own part of each window: from its event ``begin`` on, ``size`` events each, ``delta`` more or fewer.

    Events that may lie on either side of an end travel raw. The further ahead, the more these are.
    """

    begin: int
    size: int
    delta: int = 0
    piece_max: int = field(default=1 << 40, kw_only=True)

    def awaits(self, since: int, closed: int, first: int, last: int) -> bool:
        """Whether the last event that can be in a window is there."""
        reach = max(self.size + self.delta, 1)
        return (first - self.begin) // reach < (last - self.begin) // reach

    def ranges(self, index: int, count: int) -> Ranges:
        """``count`` events in order, of which the first is the leaf's event ``index``.

        >>> found = LocalWindows(begin=5, size=10, delta=1).ranges(0, 40)
        >>> found.starts, found.is_raw
        (array([ 0,  5, 14, 16, 23, 27, 32, 38]), array([False, False,  True, False,  True, False,  True, False]))
        """
        if self.size == 0:
            return Ranges.between(np.array([0, count]), np.zeros(1, np.bool_), self.piece_max)
        first = max(0, (index - self.begin) // (self.size + self.delta))
        last = (index + count - self.begin) // max(self.size - self.delta, 1) + 1
        windows = np.arange(first, max(last, first) + 1, dtype=np.int64)
        ends, half = self.begin + windows * self.size - index, windows * self.delta
        edges = np.maximum.accumulate(np.clip(np.stack((ends - half, ends + half), 1).ravel(), 0, count))
        edges = np.concatenate(([0], edges, [count]))
        is_raw = np.arange(len(edges) - 1) % 2 == 1
        filled = np.diff(edges) > 0
        return Ranges.between(np.append(edges[:-1][filled], count), is_raw[filled], self.piece_max)


@njit
def _first_cut(windows: Int64Array, position: int, time: int, per_event: float, spread: float, since: int) -> Any:
    """The first cut, or one before it, whose zone may end behind a time: those that surely end before are passed at once."""
    # Ends are rounded up, and one tick more.
    distance = max((np.float64(since) - np.float64(time) - 2) / per_event, 0.0)
    passed = max(distance - spread * np.sqrt(distance) / per_event - 1, 0.0)
    return next_position_cut(windows, position + np.int64(passed))


@njit
def _next_end(windows: Int64Array, position: int, time: int, per_event: float, spread: float, since: int) -> float:
    """The end of the first zone that ends behind a time."""
    cut = _first_cut(windows, position, time, per_event, spread, since)
    while True:
        distance = np.float64(cut - position)
        end = time + np.ceil(distance * per_event + spread * np.sqrt(distance)) + 1
        if end > since:
            return float(end)
        cut = next_position_cut(windows, cut)


@njit
def _zones(
    windows: Int64Array, position: int, time: int, per_event: float, spread: float, low: int, high: int
) -> tuple[Int64Array, Int64Array]:
    begins: list[Any] = []
    ends: list[Any] = []
    # Far ahead zones grow together: then everything behind is one.
    cut = _first_cut(windows, position, time, per_event, spread, low)
    while True:
        distance = np.float64(cut - position)
        middle, half = distance * per_event, spread * np.sqrt(distance)
        if time + middle - half > high:
            break
        begin: Any = time + np.int64(np.floor(middle - half))
        end: Any = time + np.int64(np.ceil(middle + half)) + 1
        if end > low:
            begin, end = max(begin, low), min(end, high + 1)
            if len(ends) > 0 and begin <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            elif begin < end:
                begins.append(begin)
                ends.append(end)
        cut = next_position_cut(windows, cut)
    return np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64)
