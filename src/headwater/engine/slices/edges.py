"""Where windows begin and end: all edge arithmetic of fixed windows in one place.

A fixed window query is a row of five integers: windows start at ``offset + k * slide``, last ``size``, and only those with
``begin <= start < stop`` exist (a query that was added begins late, a removed one stops). A fixed band is the same row with one
window. The edges of all queries together cut time into slices; within a slice all events belong to the same windows.

All times lie within +-2**62 and all durations below 2**61, so no sum here can leave int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.base.arrays import Int64Array
from headwater.base.jit import njit
from headwater.language.times import TIME_MAX
from headwater.language.windows import Band, Sliding

ONCE = 2**61  # the slide of a band: one window in all of time
EARLIEST = -TIME_MAX - ONCE
LATEST = TIME_MAX + ONCE
SIZE, SLIDE, OFFSET, BEGIN, STOP = range(5)
# A bitmap of this many cells is always cheap enough to mark edges in, whatever the number of events.
CELLS_FREE = 1 << 20
#: The slices of a span are kept for who asks again if they are no more than this: many would take memory.
KEPT_EDGES = 1 << 10


def fixed_spec(window: Sliding | Band, begin: int, stop: int) -> tuple[int, int, int, int, int]:
    """The row of integers of one query.

    >>> from headwater.language.windows import Band, Sliding
    >>> fixed_spec(Sliding(10, 5, 7), -100, 100)
    (10, 5, 2, -100, 100)
    """
    # A query that was added when all sources had ended begins at the end of time: from there no sum may be taken.
    begin, stop = (min(max(bound, EARLIEST), LATEST) for bound in (begin, stop))
    if isinstance(window, Sliding):
        return (window.size, window.slide, window.offset % window.slide, begin, stop)
    start = min(window.start, LATEST)
    return (window.size, ONCE, start % ONCE, start, start + 1 if begin <= start < stop else start)


def spec_table(specs: Sequence[tuple[int, int, int, int, int]]) -> Int64Array:
    return np.array(specs, np.int64).reshape(len(specs), 5)


@njit
def _start_from(spec: Int64Array, time: int) -> Any:
    """The first start of a window of this query at or after ``time``."""
    slide = spec[SLIDE]
    time = max(time, spec[BEGIN])
    return spec[OFFSET] + -((spec[OFFSET] - time) // slide) * slide


@njit
def last_start(spec: Int64Array, time: int) -> Any:
    """The last start of a window of this query at or before ``time``; before the query begins there is none."""
    latest = min(time, spec[STOP] - 1)
    return spec[OFFSET] + ((latest - spec[OFFSET]) // spec[SLIDE]) * spec[SLIDE]


@njit
def next_end(specs: Int64Array, time: int) -> int:
    """The first end of a window after ``time`` over all queries; LATEST if there is none."""
    best = LATEST
    for i in range(len(specs)):
        spec = specs[i]
        start = _start_from(spec, max(time, EARLIEST) + 1 - spec[SIZE])
        if start < spec[STOP] and start + spec[SIZE] < best:
            best = start + spec[SIZE]
    return best


@njit
def _next_edge(specs: Int64Array, time: int) -> int:
    """The first edge after ``time`` over all queries; LATEST if there is none."""
    best = LATEST
    for i in range(len(specs)):
        spec = specs[i]
        for distance in (0, spec[SIZE]):
            start = _start_from(spec, time + 1 - distance)
            if start < spec[STOP] and start + distance < best:
                best = start + distance
    return best


@njit
def _previous_edge(specs: Int64Array, time: int) -> int:
    """The last edge at or before ``time`` over all queries; EARLIEST if there is none."""
    best = EARLIEST
    for i in range(len(specs)):
        spec = specs[i]
        for distance in (0, spec[SIZE]):
            start = last_start(spec, time - distance)
            if start >= spec[BEGIN] and start + distance > best:
                best = start + distance
    return best


@njit
def _edge_count(specs: Int64Array, low: int, high: int) -> float:
    """About how many edges, equal ones counted each, lie in (low, high]."""
    total = 0.0
    for i in range(len(specs)):
        spec = specs[i]
        # As floats: from one end of time to the other is farther than int64 reaches.
        span = float(min(high, spec[STOP] + spec[SIZE])) - float(max(low, spec[BEGIN]))
        if span > 0:
            total += 2.0 * (span / spec[SLIDE] + 1)
    return total


@njit
def _put_edges(specs: Int64Array, low: int, high: int, step: int, out: NDArray[Any]) -> int:
    """Set the cell ``(edge - low) // step`` of each edge in (low, high]; with a step of 0, write the edges themselves instead.

    Those are not sorted, and equal ones are repeated; returns how many there are.
    """
    count = 0
    for i in range(len(specs)):
        spec = specs[i]
        slide, size, stop = spec[SLIDE], spec[SIZE], spec[STOP]
        for distance in (0, size):
            # Ends fall on later starts when the size is a multiple of the slide, unless the query stops first.
            if distance > 0 and size % slide == 0 and stop > high:
                continue
            start = _start_from(spec, low + 1 - distance)
            while start + distance <= high and start < stop:
                if step > 0:
                    out[(start + distance - low) // step] = 1
                else:
                    out[count] = start + distance
                count += 1
                start += slide
    return count


@njit
def _slices_of_times(specs: Int64Array, times: Int64Array, starts: Int64Array, ends: Int64Array) -> int:
    """The slice of each distinct time (sorted), for events that are sparse among edges; returns how many."""
    count = 0
    for i in range(len(times)):
        if count > 0 and times[i] < ends[count - 1]:
            continue
        starts[count] = _previous_edge(specs, times[i])
        ends[count] = _next_edge(specs, times[i])
        count += 1
    return count


class Edges:
    """The edges of a set of fixed window queries.

    >>> from headwater.language.windows import Sliding
    >>> edges = Edges([fixed_spec(Sliding(10, 5), EARLIEST, LATEST)])
    >>> edges.slices(np.array([3, 12]))
    (array([ 0,  5, 10]), array([ 5, 10, 15]))
    """

    def __init__(self, specs: Sequence[tuple[int, int, int, int, int]]) -> None:
        self.specs = spec_table(specs)
        self.step = self._common_step()
        #: The span that was asked for last, and its slices: rows of one span are looked at more than once.
        self._last: tuple[tuple[int, int], tuple[Int64Array, Int64Array]] | None = None

    def _common_step(self) -> int:
        """The largest step such that all edges are congruent modulo it."""
        if len(self.specs) == 0:
            return ONCE
        first = int(self.specs[0, OFFSET])
        parts = [self.specs[:, SLIDE], self.specs[:, SIZE], np.abs(self.specs[:, OFFSET] - first)]
        return int(np.gcd.reduce(np.concatenate(parts)))

    def slices(self, times: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Starts and ends of slices, sorted, that hold all ``times`` (not empty, any order)."""
        return self.slices_between(int(times.min()), int(times.max()), times)

    def slices_between(self, low: int, high: int, times: Int64Array) -> tuple[Int64Array, Int64Array]:
        """`slices` of times whose smallest and largest are known."""
        if len(self.specs) == 0:
            return np.array([EARLIEST]), np.array([LATEST])
        if self._last is not None and self._last[0] == (low, high):
            return self._last[1]
        expected = _edge_count(self.specs, low, high)
        if expected > 4 * len(times) + CELLS_FREE and expected > 1e6:
            distinct = np.unique(times)
            starts, ends = np.empty(len(distinct), np.int64), np.empty(len(distinct), np.int64)
            count = _slices_of_times(self.specs, distinct, starts, ends)
            return starts[:count], ends[:count]
        inner = self._edges_within(low, high, expected)
        first = _previous_edge(self.specs, low)
        last = _next_edge(self.specs, high)
        found = np.concatenate(([first], inner)), np.concatenate((inner, [last]))
        if len(inner) <= KEPT_EDGES:
            self._last = (low, high), found
        return found

    def _edges_within(self, low: int, high: int, expected: float) -> Int64Array:
        """The distinct edges in (low, high], sorted."""
        # The grid starts at the last point congruent to all edges at or before low, so every edge has a cell of its own.
        base = low - (low - int(self.specs[0, OFFSET])) % self.step
        cell_count = (high - base) // self.step + 1
        if cell_count <= max(4 * expected, CELLS_FREE) and high - base < TIME_MAX:
            cells = np.zeros(cell_count + 1, np.uint8)
            _put_edges(self.specs, base, high, self.step, cells)
            edges = np.flatnonzero(cells) * self.step + base
            return edges[edges > low]
        out = np.empty(int(expected) + 4 * len(self.specs), np.int64)
        return np.unique(out[: _put_edges(self.specs, low, high, 0, out)])

    def oldest_start(self, watermark: int, lateness: Int64Array) -> int:
        """The earliest start of a window that is still open, or open for late events, at ``watermark``."""
        return int(_oldest_start(self.specs, lateness, watermark)) if len(self.specs) else LATEST


@njit
def _oldest_start(specs: Int64Array, lateness: Int64Array, watermark: int) -> int:
    best = LATEST
    for i in range(len(specs)):
        spec = specs[i]
        start = _start_from(spec, max(watermark - lateness[i], EARLIEST) - spec[SIZE] + 1)
        if start < spec[STOP] and start < best:
            best = start
    return best


@njit
def bisect(values: Int64Array, value: int, low: int, high: int) -> int:
    """The first index from ``low`` on whose value is at least ``value``; ``high`` if there is none before it."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit
def _closing(specs: Int64Array, after: int, until: int, occupied: Int64Array, out: Int64Array) -> int:
    """Write the windows with after < end <= until that hold an occupied time; returns how many there are, written or not."""
    count = 0
    if len(occupied) == 0:
        return count
    first, last = occupied[0], occupied[-1]
    for i in range(len(specs)):
        spec = specs[i]
        size, slide, stop = spec[SIZE], spec[SLIDE], spec[STOP]
        start = _start_from(spec, max(max(after, EARLIEST), first) - size + 1)
        low = 0
        while start < stop and start <= last and start + size <= until:
            low = bisect(occupied, start, low, len(occupied))
            if low == len(occupied):
                break
            if occupied[low] >= start + size:
                start = _start_from(spec, occupied[low] - size + 1)
                continue
            if count < len(out):
                out[count, 0] = i
                out[count, 1] = start
                out[count, 2] = start + size
                out[count, 3] = low
                out[count, 4] = bisect(occupied, start + size, low, len(occupied))
            count += 1
            start += slide
    return count


def closing_windows(specs: Int64Array, after: int, until: int, occupied: Int64Array, expected: int = 256) -> Int64Array:
    """Rows (query, start, end, first occupied index, index behind the last) of the windows that close in (after, until].

    ``occupied`` are the sorted distinct times that stand for non-empty slices: stretches without events are jumped over.
    ``expected`` is a guess at the number of windows; a wrong one costs a second look.

    >>> from headwater.language.windows import Sliding
    >>> closing_windows(spec_table([fixed_spec(Sliding(10, 5), EARLIEST, LATEST)]), 0, 20, np.array([7, 12])).tolist()
    [[0, 0, 10, 0, 1], [0, 5, 15, 0, 2], [0, 10, 20, 1, 2]]
    """
    out = np.empty((min(expected, 1 << 22), 5), np.int64)
    count = _closing(specs, after, until, occupied, out)
    if count > len(out):
        out = np.empty((count, 5), np.int64)
        _closing(specs, after, until, occupied, out)
    return out[:count]


@njit
def _windows_of_times(
    spec: Int64Array, lateness: int, times: Int64Array, watermarks: Int64Array, until: int, out: Int64Array
) -> int:
    """Pairs (event, start) of the windows of one query that have each event as a member although its source had passed it."""
    count = 0
    size, slide, stop = spec[SIZE], spec[SLIDE], spec[STOP]
    for i in range(len(times)):
        # A member unless the window had ended, allowed lateness included, before the event: end + lateness > watermark.
        earliest = max(times[i], max(watermarks[i], EARLIEST) - lateness) - size + 1
        start = _start_from(spec, earliest)
        while start <= times[i] and start < stop and start + size <= until:
            if len(out) > 0:
                out[count, 0] = i
                out[count, 1] = start
            count += 1
            start += slide
    return count


def windows_of_times(
    spec: Int64Array, lateness: int, times: Int64Array, watermarks: Int64Array, until: int
) -> Int64Array:
    """Rows (event, window start): the windows of a query that count each straggler, of those that end by ``until``."""
    arguments = (spec, lateness, times, watermarks, until)
    out = np.empty((_windows_of_times(*arguments, np.empty((0, 2), np.int64)), 2), np.int64)
    if len(out):
        _windows_of_times(*arguments, out)
    return out
