"""Exact cut points of count windows over many sources, found without bringing the events together.

Events have one order, (time, source, offset), and a window begins at each multiple of a step in it. Whoever has events says three
times a little of them: first every so many-th time of each sorted run, from which follow the zones of time in which cuts
lie; then how many events lie before each zone, and the keys of those inside; and last, when the keys at the cuts are known, in
which stretch between two cuts each event lies. All of it is exact; samples only decide how narrow zones are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import Int64Array, frozen
from headwater.base.jit import njit
from headwater.engine.operators.ragged import spread

#: A zone is cut into pieces of about so many events, each for a task of its own.
ZONE_EVENTS = 1 << 20


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sorted run of ``count`` times, of which ``times`` are those at every ``every``-th place from the first, and the last."""

    count: int
    every: int
    times: Int64Array


def sampled(times: Int64Array, every: int) -> Sampled:
    """
    >>> sampled(np.arange(10), 4).times
    array([0, 4, 8, 9])
    """
    return Sampled(len(times), every, np.append(times[::every], times[-1:]))


@dataclass(frozen=True, slots=True)
class Zones:
    """Stretches of time [low, high), ascending and apart, that hold all cuts; ``total``: how many events there are at all.

    ``last``: the time of the very last event.
    """

    low: Int64Array
    high: Int64Array
    total: int
    last: int


def find_zones(runs: Sequence[Sampled], step: int) -> Zones:
    """Where the events at positions step, 2 step, ... can lie.

    >>> runs = [sampled(np.arange(0, 100, 2), 10), sampled(np.arange(1, 100, 2), 10)]
    >>> zones = find_zones(runs, 50)
    >>> zones.total, bool(zones.low[0] <= 50 < zones.high[0])
    (100, True)
    """
    total = sum(run.count for run in runs)
    filled = [run for run in runs if run.count]
    if not filled:
        none = np.empty(0, np.int64)
        return Zones(none, none, 0, 0)
    times, least, most = _bounds(filled)
    # A cut at the very end has no event behind it, and is known already.
    cuts = np.arange(step, total, step)
    before = np.searchsorted(most, cuts, "right") - 1  # the last sample behind which at most so many events lie
    low = np.where(before < 0, times[0], times[np.minimum(before + 1, len(times) - 1)])
    high = times[np.searchsorted(least, cuts + 1)] + 1
    joined = _joined(low, high)
    return Zones(*_in_pieces(*joined, times, most), total, int(times[-1]))


def _bounds(runs: Sequence[Sampled]) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Sampled times, and for each how many events are at most that late: at least, and at most."""
    least_steps, most_steps = [], []
    for run in runs:
        inner = len(run.times) - 1
        places = np.arange(inner) * run.every
        # Up to sample j there are at least j * every + 1 events, and less than (j + 1) * every + 1; up to the last all.
        least_steps.append(np.diff(np.concatenate([places + 1, [run.count]]), prepend=0))
        most_steps.append(np.diff(np.append(np.minimum(places + run.every, run.count), run.count), prepend=0))
    times = np.concatenate([run.times for run in runs])
    order = np.argsort(times, kind="stable")
    times = times[order]
    ends = np.append(np.flatnonzero(np.diff(times)), len(times) - 1)
    least, most = (np.cumsum(np.concatenate(steps)[order])[ends] for steps in (least_steps, most_steps))
    return times[ends], least, most


def _joined(low: Int64Array, high: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Zones that overlap or touch as one; both bounds ascend."""
    if len(low) == 0:
        return low, high
    begins = np.append(True, low[1:] > high[:-1])
    return low[begins], high[np.append(np.flatnonzero(begins)[1:] - 1, len(high) - 1)]


def _in_pieces(low: Int64Array, high: Int64Array, times: Int64Array, most: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The same zones cut where about so many events have come together."""
    every = most // ZONE_EVENTS
    edges = times[np.flatnonzero(np.diff(every)) + 1]
    inside = np.searchsorted(low, edges, "left") > np.searchsorted(high, edges, "right")
    extra = edges[inside]
    return np.sort(np.concatenate([low, extra])), np.sort(np.concatenate([high, extra]))


@dataclass(frozen=True, slots=True)
class Inside:
    """Of some sorted runs: how many events lie before each zone, the largest time of them, and the keys of those inside."""

    before: Int64Array
    latest: Int64Array
    zone: Int64Array
    times: Int64Array
    sources: Int64Array
    offsets: Int64Array


#: Nothing lies before.
NOTHING = np.int64(-(2**63))


def look_inside(times: Int64Array, source: int, offsets: Int64Array, low: Int64Array, high: Int64Array) -> Inside:
    """What one run of one source, sorted by time and offset, has in zones."""
    begins, ends = np.searchsorted(times, low), np.searchsorted(times, high)
    latest = np.where(begins > 0, times[np.maximum(begins - 1, 0)] if len(times) else NOTHING, NOTHING)
    counts = ends - begins
    rows = spread(begins, counts)
    zone = np.repeat(np.arange(len(low)), counts)
    return Inside(begins, latest, zone, times[rows], np.full(len(rows), source, np.int64), offsets[rows])


@dataclass(frozen=True, slots=True)
class SelectedCuts:
    """The events at multiples of the step, ascending: their keys, and the time of the event before each."""

    positions: Int64Array
    times: Int64Array
    sources: Int64Array
    offsets: Int64Array
    before: Int64Array

    def take(self, rows: Int64Array) -> SelectedCuts:
        return SelectedCuts(
            self.positions[rows], self.times[rows], self.sources[rows], self.offsets[rows], self.before[rows]
        )


def find_cuts(before: int, latest: int, inside: Inside, step: int) -> SelectedCuts:
    """The cuts of one zone: ``inside`` holds its keys in any order, and before it lie so many events.

    >>> keys = np.array([5, 3, 4])
    >>> zeros = np.zeros(3, np.int64)
    >>> cuts = find_cuts(9, 2, Inside(zeros, zeros, zeros, keys, zeros, keys), 10)
    >>> cuts.positions, cuts.times, cuts.before
    (array([10]), array([4]), array([3]))
    """
    order = np.lexsort((inside.offsets, inside.sources, inside.times))
    first = max(-(-before // step), 1) * step
    positions = np.arange(first, before + len(order), step, dtype=np.int64)
    ranks = positions - before
    rows = order[ranks]
    previous = np.where(ranks > 0, inside.times[order[np.maximum(ranks - 1, 0)]], latest)
    return SelectedCuts(positions, inside.times[rows], inside.sources[rows], inside.offsets[rows], previous)


def stretches(times: Int64Array, source: int, offsets: Int64Array, cuts: SelectedCuts) -> Int64Array:
    """For each event of a source the number of cuts at or before it; ``times`` in any order."""
    out = np.empty(len(times), np.int64)
    cut_times, cut_sources, cut_offsets = (frozen(c, np.int64) for c in (cuts.times, cuts.sources, cuts.offsets))
    known = cut_times, cut_sources, cut_offsets
    _count_cuts(frozen(times, np.int64), np.int64(source), frozen(offsets, np.int64), *known, out)
    return out


@njit
def _count_cuts(
    times: Int64Array,
    source: np.int64,
    offsets: Int64Array,
    cut_times: Int64Array,
    cut_sources: Int64Array,
    cut_offsets: Int64Array,
    out: Int64Array,
) -> None:
    count = len(cut_times)
    at = 0  # events come mostly in order: the next is near the last
    for i in range(len(times)):
        time = times[i]
        if at > 0 and cut_times[at - 1] > time or at < count and cut_times[at] <= time:
            at = np.searchsorted(cut_times, time, side="right")
        # Behind them are only later cuts; of those at the same time some may be of later events.
        low, high = at, at
        if at > 0 and cut_times[at - 1] == time:
            low = np.searchsorted(cut_times, time)
        while low < high:
            middle = (low + high) // 2
            other = cut_sources[middle]
            if other < source or other == source and cut_offsets[middle] <= offsets[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low
