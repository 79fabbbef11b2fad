"""Where cuts of count windows lie, in the order of events itself and so narrowly that what lies there can be carried.

As in `selection` samples of sorted runs bound the rank of every sample from both sides. But here samples are whole keys, (time,
source, offset): between two of them in a run lie fewer than ``every`` events, however many share a time, so that it is known
before anything is read how many events zones can hold. Between zones every event knows how many cuts are before it; the few
inside travel to one place, where their ranks say the rest. So cuts need no pass over the events of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import Int64Array, frozen
from headwater.base.jit import njit


@dataclass(frozen=True, slots=True)
class Keys:
    """Places in the order of events."""

    times: Int64Array
    sources: Int64Array
    offsets: Int64Array


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
class KeyZones:
    """Stretches of the order: before the first zone, inside it, up to the second, inside that, and so on behind the last.

    ``edges``: the first key of each stretch but the first. ``cuts``: how many cuts lie before each stretch that is no zone.
    """

    edges: Keys
    cuts: Int64Array


def find_key_zones(runs: Sequence[SampledKeys], step: int) -> KeyZones:
    """The zones in which the events at positions step, 2 step, ... lie.

    >>> even, odd = np.arange(0, 100, 2), np.arange(1, 100, 2)
    >>> zones = find_key_zones([sampled_keys(even, 0, even, 10), sampled_keys(odd, 1, odd, 10)], 50)
    >>> zones.edges.times, zones.cuts
    (array([41, 60]), array([0, 1]))
    """
    samples, least, most = _bounds(runs)
    # A cut at the very end has no event behind it.
    cuts = np.arange(step, sum(run.count for run in runs), step, dtype=np.int64)
    # Events before a sample are at most those up to the gaps that follow the sample before it: so a cut is no earlier than the
    # first sample for which these may be more, and no later than the first up to which there are certainly more.
    low, high = np.searchsorted(most, cuts, "right"), np.searchsorted(least, cuts, "right")
    begins = np.append(True, low[1:] > high[:-1])[: len(cuts)]
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(cuts))[: len(firsts)]
    rows = np.stack([low[firsts], high[lasts - 1]], axis=1).ravel()
    behind = np.tile(np.array([0, 1]), len(firsts))
    edges = Keys(samples.times[rows], samples.sources[rows], samples.offsets[rows] + behind)
    return KeyZones(edges, np.append(0, lasts))


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
    return Keys(times[order], sources[order], offsets[order]), least, most


def edge_rows(times: Int64Array, source: int, offsets: Int64Array, edges: Keys) -> Int64Array:
    """Where in a sorted run of one source each stretch begins and ends, from the first to the last.

    >>> edges = Keys(np.array([4, 4, 7]), np.array([0, 2, 1]), np.array([9, 0, 3]))
    >>> edge_rows(np.array([3, 4, 4, 7, 7]), 1, np.arange(5), edges)
    array([0, 1, 3, 3, 5])
    """
    rows = np.empty(len(edges.times) + 2, np.int64)
    rows[0], rows[-1] = 0, len(times)
    of_edges = frozen(edges.times, np.int64), frozen(edges.sources, np.int64), frozen(edges.offsets, np.int64)
    _find_rows(frozen(times, np.int64), np.int64(source), frozen(offsets, np.int64), *of_edges, rows[1:-1])
    return rows


@njit
def _find_rows(
    times: Int64Array,
    source: np.int64,
    offsets: Int64Array,
    edge_times: Int64Array,
    edge_sources: Int64Array,
    edge_offsets: Int64Array,
    out: Int64Array,
) -> None:
    for i in range(len(edge_times)):
        time, other, offset = edge_times[i], edge_sources[i], edge_offsets[i]
        low, high = 0, len(times)
        while low < high:
            middle = (low + high) // 2
            is_tied_before = source < other or source == other and offsets[middle] < offset
            if times[middle] < time or times[middle] == time and is_tied_before:
                low = middle + 1
            else:
                high = middle
        out[i] = low


def positions_inside(counts: Int64Array, zones: Int64Array, keys: Keys) -> Int64Array:
    """The positions of all events that lie in zones, given in any order, each with the number of its zone.

    ``counts``: how many events lie in each stretch.

    >>> keys = Keys(np.array([5, 3, 9]), np.zeros(3, np.int64), np.array([1, 0, 2]))
    >>> positions_inside(np.array([10, 2, 100, 1, 7]), np.array([0, 0, 1]), keys)
    array([ 11,  10, 112])
    """
    order = np.lexsort((keys.offsets, keys.sources, keys.times))
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order)) + np.cumsum(counts[0::2])[zones[order]]
    return positions
