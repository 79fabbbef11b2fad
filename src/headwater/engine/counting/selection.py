"""Where the cuts of count windows lie in events of many sources, found without sorting all events together.

Events have one order, that of their keys (time, source, offset), and a cut is the event at a multiple of ``step`` in it. Of each
sorted run every ``every``-th key is a sample. Between two samples of a run lie fewer than ``every`` events, however many share a
time; so samples bound the position of every sample from both sides, and from these bounds follow zones that hold all cuts. It is
known before anything is read how many events zones can hold. Between zones every event knows how many cuts are before it; inside,
positions follow once the keys there are brought together. All of it is exact: samples only decide how narrow zones are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import Int64Array, frozen
from headwater.base.jit import njit

#: A zone that may hold more events is cut into several, so that several tasks can look into it.
ZONE_EVENTS_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Keys:
    """Places in the order of events."""

    times: Int64Array
    sources: Int64Array
    offsets: Int64Array

    def take(self, rows: Int64Array) -> Keys:
        return Keys(self.times[rows], self.sources[rows], self.offsets[rows])


@dataclass(frozen=True, slots=True)
class SampledKeys:
    """Of ``count`` sorted events of one source those at every ``every``-th place from the first, and the last."""

    source: int
    count: int
    every: int
    times: Int64Array
    offsets: Int64Array


def sampled_keys(times: Int64Array, source: int, offsets: Int64Array, every: int) -> SampledKeys:
    """
    >>> sampled_keys(np.arange(10), 0, np.arange(10), 4).times
    array([0, 4, 8, 9])
    """
    places = _places(len(times), every)
    return SampledKeys(source, len(times), every, times[places], offsets[places])


def _places(count: int, every: int) -> Int64Array:
    last = np.arange(max(count - 1, 0), count, dtype=np.int64)
    return np.concatenate([np.arange(0, max(count - 1, 0), every, dtype=np.int64), last])


def zone_events_max(runs: int, every: int) -> int:
    """How many events the zone of one cut can hold, whatever they are: on either side of it a gap of each run."""
    return 2 * runs * every


@dataclass(frozen=True, slots=True)
class CutZones:
    """Stretches of the order: before the first zone, inside it, up to the second, inside that, and so on behind the last.

    ``edges``: the first key of each stretch but the first. ``cuts``: how many cuts lie before each stretch that is no zone.
    """

    edges: Keys
    cuts: Int64Array


def find_zones(runs: Sequence[SampledKeys], step: int, events_max: int = ZONE_EVENTS_MAX) -> CutZones:
    """The zones in which the events at positions step, 2 step, ... lie.

    >>> even, odd = np.arange(0, 100, 2), np.arange(1, 100, 2)
    >>> zones = find_zones([sampled_keys(even, 0, even, 10), sampled_keys(odd, 1, odd, 10)], 50)
    >>> zones.edges.times, zones.cuts
    (array([41, 60]), array([0, 1]))
    """
    samples, least, most = _bounds(runs)
    # A cut at the very end has no event behind it.
    cuts = np.arange(step, sum(run.count for run in runs), step, dtype=np.int64)
    # Events before a sample are at most those up to the gaps that follow the sample before it: so a cut is no earlier than the
    # first sample for which these may be more, and no later than the first up to which there are certainly more.
    low, high = np.searchsorted(most, cuts, "right"), np.searchsorted(least, cuts, "right")
    firsts = np.flatnonzero(np.append(True, low[1:] > high[:-1])[: len(cuts)])
    lasts = np.append(firsts[1:], len(cuts))[: len(firsts)]
    # An edge is before a sample (2 * its row), or just behind it (2 * its row + 1).
    begins, ends = 2 * low[firsts], 2 * high[lasts - 1] + 1
    inner = 2 * (np.flatnonzero(np.diff(most // events_max)) + 1)
    inner = inner[np.searchsorted(begins, inner) > np.searchsorted(ends, inner)]
    # Between the parts of one zone lies a stretch without events.
    edges = np.sort(np.concatenate([begins, ends, inner, inner]))
    before = np.append(0, lasts)[np.searchsorted(ends, edges[1::2], "right")]
    found = samples.take(edges // 2)
    return CutZones(Keys(found.times, found.sources, found.offsets + edges % 2), np.append(0, before))


def _bounds(runs: Sequence[SampledKeys]) -> tuple[Keys, Int64Array, Int64Array]:
    """All samples in order, and for each how many events are not behind it: at least, and at most."""
    none = np.empty(0, np.int64)
    least_steps, most_steps = [none], [none]
    for run in runs:
        places = _places(run.count, run.every)
        least_steps.append(np.diff(places + 1, prepend=0))
        most_steps.append(np.diff(np.append(places[1:], run.count), prepend=0)[: len(places)])
    times = np.concatenate([none, *(run.times for run in runs)])
    offsets = np.concatenate([none, *(run.offsets for run in runs)])
    sources = np.repeat(np.array([run.source for run in runs], np.int64), [len(run.times) for run in runs])
    order = np.lexsort((offsets, sources, times))
    least, most = (np.cumsum(np.concatenate(steps)[order]) for steps in (least_steps, most_steps))
    return Keys(times, sources, offsets).take(order), least, most


@dataclass(frozen=True, slots=True)
class StretchRuns:
    """In which stretch each event of a batch lies, as runs: ``lengths`` events in a row in the stretch of this number."""

    numbers: Int64Array
    lengths: Int64Array

    def for_events(self, of_runs: np.ndarray) -> np.ndarray:
        """What is known of each run, for each event."""
        return np.repeat(of_runs, self.lengths)


def find_stretches(times: Int64Array, source: int, offsets: Int64Array, edges: Keys) -> StretchRuns:
    """For each event of a source the number of edges at or before it; ``times`` in any order.

    >>> edges = Keys(np.array([4, 4, 7]), np.array([0, 2, 1]), np.array([9, 0, 3]))
    >>> runs = find_stretches(np.array([3, 4, 4, 7, 7]), 1, np.arange(5), edges)
    >>> runs.numbers, runs.lengths
    (array([0, 1, 3]), array([1, 2, 2]))
    """
    starts, numbers = np.empty(len(times) + 1, np.int64), np.empty(len(times), np.int64)
    edge_times, edge_sources, edge_offsets = (
        frozen(each, np.int64) for each in (edges.times, edges.sources, edges.offsets)
    )
    own = frozen(times, np.int64), np.int64(source), frozen(offsets, np.int64)
    count = _find_runs(*own, edge_times, edge_sources, edge_offsets, starts, numbers)
    # A copy: they are mostly few, in arrays for as many as there are events.
    return StretchRuns(numbers[:count].copy(), np.diff(starts[: count + 1]))


@njit
def _find_runs(
    times: Int64Array,
    source: np.int64,
    offsets: Int64Array,
    edge_times: Int64Array,
    edge_sources: Int64Array,
    edge_offsets: Int64Array,
    starts: Int64Array,
    numbers: Int64Array,
) -> int:
    """Write where each run of events in one stretch starts, its stretch, and behind the last where it ends; their count."""
    count = len(edge_times)
    found = 0
    at = 0  # events come mostly in order: the next is near the last
    for i in range(len(times)):
        time = times[i]
        if at > 0 and edge_times[at - 1] > time or at < count and edge_times[at] <= time:
            at = np.searchsorted(edge_times, time, side="right")
        # Behind them are only later edges; of those at the same time some may be behind the event.
        low, high = at, at
        if at > 0 and edge_times[at - 1] == time:
            low = np.searchsorted(edge_times, time)
        while low < high:
            middle = (low + high) // 2
            other = edge_sources[middle]
            if other < source or other == source and edge_offsets[middle] <= offsets[i]:
                low = middle + 1
            else:
                high = middle
        if found == 0 or numbers[found - 1] != low:
            starts[found], numbers[found] = i, low
            found += 1
    starts[found] = len(times)
    return found


def positions_inside(counts: Int64Array, zones: Int64Array, keys: Keys) -> Int64Array:
    """The positions of all events of some zones, given in any order, each with the number of its zone.

    ``counts``: how many events lie in each stretch.

    >>> keys = Keys(np.array([5, 3, 9]), np.zeros(3, np.int64), np.array([1, 0, 2]))
    >>> positions_inside(np.array([10, 2, 100, 1, 7]), np.array([0, 0, 1]), keys)
    array([ 11,  10, 112])
    """
    order, firsts, ranks, inside = _ranked(counts, zones, keys)
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order)) + np.repeat(firsts - ranks, inside)
    return positions


def find_cuts(counts: Int64Array, zones: Int64Array, keys: Keys, step: int) -> tuple[Int64Array, Keys]:
    """The positions and keys of the cuts among the events of some zones, given as to `positions_inside`.

    >>> keys = Keys(np.array([5, 3, 9]), np.zeros(3, np.int64), np.array([1, 0, 2]))
    >>> positions, cuts = find_cuts(np.array([10, 2, 100, 1, 7]), np.array([0, 0, 1]), keys, 11)
    >>> positions, cuts.times
    (array([11]), array([5]))
    """
    order, firsts, ranks, inside = _ranked(counts, zones, keys)
    positions = np.arange(step, counts.sum(), step, dtype=np.int64)
    zone = np.searchsorted(firsts, positions, "right") - 1
    # Zones of others are empty here.
    known = positions < (firsts + inside)[zone]
    positions, zone = positions[known], zone[known]
    return positions, keys.take(order[positions - firsts[zone] + ranks[zone]])


def _ranked(counts: Int64Array, zones: Int64Array, keys: Keys) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """The order of events inside zones, and for each zone the position of its first event, its rank here, and how many it has."""
    order = np.lexsort((keys.offsets, keys.sources, keys.times))
    inside = np.bincount(zones, minlength=len(counts) // 2)
    return order, np.cumsum(counts)[0:-1:2], np.cumsum(inside) - inside, inside
