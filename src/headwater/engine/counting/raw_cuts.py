"""Cuts among events that came as themselves: nobody has to be asked where they are, for sorting these events tells.

Pieces that may hold the same cuts form a cluster. If all of its events are here, the c-th event of all is the one behind which as
many of the cluster's events lie in order as pieces outside, which are on one side of the cut for sure, do not account for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.base.arrays import BoolArray, Int64Array, frozen
from headwater.base.jit import njit
from headwater.engine.counting.piece_table import AT, BLOCK, COUNT, FIRST, IS_RAW, LAST, SEQUENCE, split_run
from headwater.engine.counting.search import KnownPieces, key_order, plain
from headwater.engine.intake.reorder import OrderedEvents
from headwater.engine.operators.ragged import spread
from headwater.engine.slices.order_slicer import next_position_cut
from headwater.engine.wire.parts import KeyRows


@dataclass(slots=True)
class CutCluster:
    """Pieces (their places in the table) that may hold some cuts; so many of their events lie before each of these."""

    places: Int64Array
    targets: Int64Array


def clusters(rows: Int64Array, found: KnownPieces, base: Int64Array, windows: Int64Array) -> list[CutCluster]:
    """Those of which all events are here."""
    sequence, counts = (plain(rows[name]) for name in (SEQUENCE, COUNT))
    is_here = frozen((rows[IS_RAW] == 1) | (rows[COUNT] == 1), np.bool_)
    bounds = plain(found.before), plain(found.upto)
    number, is_whole = _clusters(sequence, counts, is_here, *bounds, plain(windows))
    made = []
    # Only what somebody asks for: a cut that not all events before are known of is left alone.
    for cluster in np.unique(number[found.asked & is_whole]).tolist():
        places = np.flatnonzero(number == cluster)
        q = int(sequence[places[0]])
        targets = _targets(sequence, counts, number, cluster, *bounds, base[q], plain(windows), found.sure[q])
        if len(targets):
            made.append(CutCluster(places, targets))
    return made


@njit
def _clusters(
    sequence: Int64Array, counts: Int64Array, is_here: BoolArray, before: Int64Array, upto: Int64Array,
    windows: Int64Array,
) -> tuple[Int64Array, BoolArray]:  # fmt: skip
    """The cluster of each piece, -1 if it holds no cut for sure, and whether all events of its cluster are here."""
    n = len(counts)
    number, is_whole = np.full(n, -1, np.int64), np.zeros(n, np.bool_)
    whole_clusters = np.ones(n, np.bool_)
    cluster, reach, last = -1, np.int64(0), np.int64(-1)
    for i in range(n):
        cut = next_position_cut(windows, before[i])
        if cut >= upto[i]:
            continue
        # `before` ascends: whoever holds no cut of the last cluster begins another.
        if sequence[i] != last or cut >= reach:
            cluster += 1
            reach, last = upto[i], sequence[i]
        reach = max(reach, upto[i])
        number[i] = cluster
        whole_clusters[cluster] &= is_here[i]
    for i in range(n):
        is_whole[i] = number[i] >= 0 and whole_clusters[number[i]]
    return number, is_whole


@njit
def _targets(
    sequence: Int64Array, counts: Int64Array, number: Int64Array, cluster: int, before: Int64Array, upto: Int64Array,
    base: np.int64, windows: Int64Array, sure: np.int64,
) -> Int64Array:  # fmt: skip
    """How many events of a cluster lie before each of its cuts."""
    low, high, q = np.int64(-1), np.int64(0), np.int64(0)
    for i in range(len(counts)):
        if number[i] == cluster:
            if low < 0:
                low, q = before[i], sequence[i]
            high = max(high, upto[i])
    cuts = []
    cut = next_position_cut(windows, low)
    while cut < high and cut <= sure:
        cuts.append(cut)
        cut = next_position_cut(windows, cut)
    # Pieces outside that end before the first cut, and those between two cuts.
    gains = np.zeros(len(cuts) + 1, np.int64)
    for i in range(len(counts)):
        if sequence[i] == q and number[i] != cluster:
            for k in range(len(cuts)):
                if upto[i] <= cuts[k]:
                    gains[k] += counts[i]
                    break
    targets = np.empty(len(cuts), np.int64)
    outside = base
    for k in range(len(cuts)):
        outside += gains[k]
        targets[k] = cuts[k] - outside
    return targets


def cut_cluster(
    rows: Int64Array, cluster: CutCluster, events: Mapping[int, OrderedEvents], ranks: Int64Array
) -> Int64Array:
    """The pieces of a cluster, cut so that no piece holds any of its cuts inside."""
    own = rows[:, cluster.places]
    begins = np.cumsum(own[COUNT]) - own[COUNT]
    times, sources, offsets = keys = _events_of(own, begins, events)
    run = np.repeat(np.arange(own.shape[1]), own[COUNT])
    order = key_order(times, ranks[sources], offsets)
    of_run, start, count = _cut_runs(run[order], plain(cluster.targets), own.shape[1])
    made = own[:, of_run]
    first = begins[of_run] + start
    made[FIRST], made[LAST] = keys[:, first], keys[:, first + count - 1]
    made[AT] += start
    made[COUNT] = count
    return made


def _events_of(rows: Int64Array, begins: Int64Array, events: Mapping[int, OrderedEvents]) -> KeyRows:
    """The keys of the events of pieces, one piece after the other; ``begins``: where each begins."""
    keys = np.empty((3, int(rows[COUNT].sum())), np.int64)
    raw = rows[IS_RAW] == 1
    keys[:, begins[~raw]] = rows[FIRST][:, ~raw]  # of a single event the piece says it all
    for block in np.unique(rows[BLOCK, raw]).tolist():
        mine = np.flatnonzero(raw & (rows[BLOCK] == block))
        sizes = rows[COUNT, mine]
        keys[:, spread(begins[mine], sizes)] = events[block].chunk.places(spread(rows[AT, mine], sizes))
    return keys


@njit
def _cut_runs(run: Int64Array, targets: Int64Array, runs: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """``run``: of each event in order. Stretches (of which run, from which of its events on, how many) between targets."""
    most = runs * (len(targets) + 1)
    of_run, start, count = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    seen, told = np.zeros(runs, np.int64), np.zeros(runs, np.int64)
    n, place = 0, 0
    for k in range(len(targets) + 1):
        stop = targets[k] if k < len(targets) else len(run)
        while place < stop:
            seen[run[place]] += 1
            place += 1
        for r in range(runs):
            if seen[r] > told[r]:
                of_run[n], start[n], count[n] = r, told[r], seen[r] - told[r]
                told[r] = seen[r]
                n += 1
    return of_run[:n], start[:n], count[:n]


def split_some(
    rows: Int64Array, places: Int64Array, found: KnownPieces, events: Mapping[int, OrderedEvents], parts: int
) -> Int64Array:
    """All pieces, of which raw ones that may hold a cut are now about so many smaller runs."""
    is_kept = np.ones(rows.shape[1], np.bool_)
    is_kept[places] = False
    made = []
    for place in places.tolist():
        start, count, block = int(rows[AT, place]), int(rows[COUNT, place]), int(rows[BLOCK, place])
        chunk = events[block].chunk
        edges = _split_edges(plain(chunk.times[start : start + count]), found.low[place], found.high[place], parts)
        made.append(split_run(rows[:, place : place + 1], edges, chunk))
    return np.concatenate([rows[:, is_kept], *made], axis=1)


@njit
def _split_edges(times: Int64Array, low: int, high: int, parts_max: int) -> Int64Array:
    """Where to cut events that may hold a cut between two times: in small parts there, and around them as few as can be."""
    count = len(times)
    begin: Any = np.searchsorted(times, low)
    end: Any = np.searchsorted(times, high, side="right")
    parts = min(end - begin, parts_max)
    edges = np.empty(parts + 3, np.int64)
    edges[0] = 0
    n = 1
    for k in range(parts + 1):
        edge = begin + k * (end - begin) // max(parts, 1)
        if edge > edges[n - 1]:
            edges[n] = edge
            n += 1
    if n == 1 or (n == 2 and edges[1] == count):
        return np.array([0, count // 2, count]) if count > 1 else np.array([0, count])
    if edges[n - 1] < count:
        edges[n] = count
        n += 1
    return edges[:n]
