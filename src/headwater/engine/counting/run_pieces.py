"""Pieces of several runs of events, each in order, without putting all of them into one: pieces are cut by time.

Nothing asks for an order inside of a piece, so only events that travel raw are sorted. Merging runs takes longer than everything
else that a leaf does for a piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.counting.pieces import LiftedPieces, rows_between, spread
from headwater.engine.intake.chunk import Chunk, concat_chunks, concat_values, source_ranks
from headwater.engine.intake.reorder import OrderedEvents, concat_stretches
from headwater.engine.operators.operator import Op
from headwater.engine.wire.parts import KeyRows
from headwater.language.times import FOREVER, NEVER

SAMPLES_PER_PIECE = 16
#: Operators that depend on the order of events.
ORDERED = frozenset({"ordered", "first", "last", "user"})


@dataclass(slots=True)
class RunCuts:
    """Stretches of time, one after the other, none of them empty, and which of them travel raw.

    Of run p, events ``begins[p, j]`` to ``ends[p, j]`` lie in stretch j; runs lie one behind the other.
    """

    begins: Int64Array
    ends: Int64Array
    is_raw: BoolArray

    @property
    def sizes(self) -> Int64Array:
        sizes: Int64Array = (self.ends - self.begins).sum(axis=0)
        return sizes


def cut_runs(runs: Sequence[Int64Array], zone_begins: Int64Array, zone_ends: Int64Array, piece_max: int) -> RunCuts:
    """Cut at the ends of zones, whose events travel raw, and in between into pieces of about ``piece_max`` events.

    >>> cuts = cut_runs([np.arange(0, 20, 2), np.arange(5, 15)], np.array([8]), np.array([10]), 4)
    >>> cuts.sizes, cuts.is_raw
    (array([3, 4, 3, 3, 3, 4]), array([False, False,  True, False, False, False]))
    """
    low, high = min(int(times[0]) for times in runs), max(int(times[-1]) for times in runs) + 1
    zones = np.clip(np.stack((zone_begins, zone_ends), 1).ravel(), low, high)
    edges = np.unique(np.concatenate(([low, high], zones)))
    coarse = _bounds(runs, edges)
    whole = np.flatnonzero(~_are_in(zones, edges[:-1])).tolist()
    inner = [_inner_edges(runs, coarse, j, piece_max) for j in whole]
    edges = np.unique(np.concatenate([edges, *inner]))
    bounds = _bounds(runs, edges)
    filled = np.flatnonzero(np.diff(bounds, axis=1).sum(axis=0))
    before = np.cumsum([0, *map(len, runs)])[:-1, None]
    return RunCuts(before + bounds[:, filled], before + bounds[:, filled + 1], _are_in(zones, edges[filled]))


def zones_between(begins: Int64Array, ends: Int64Array, low: int, until: int) -> tuple[Int64Array, Int64Array]:
    """Zones, ascending by begin, together with all that lies before ``low`` or from ``until`` on.

    >>> begins, ends = zones_between(np.array([5, 20, 40]), np.array([8, 25, 50]), 3, 22)
    >>> begins[1:], ends[:-1]
    (array([ 5, 20]), array([3, 8]))
    """
    # Those that begin later are part of the last: it has to stay the last one.
    known = begins < until
    return joined_zones(
        np.concatenate(([NEVER], begins[known], [until])), np.concatenate(([low], ends[known], [FOREVER]))
    )


def joined_zones(begins: Int64Array, ends: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Zones, ascending by begin, without those that are empty; those that meet or overlap are one.

    >>> joined_zones(np.array([0, 3, 5, 9]), np.array([4, 6, 5, 12]))
    (array([0, 9]), array([ 6, 12]))
    """
    filled = begins < ends
    begins, ends = begins[filled], np.maximum.accumulate(ends[filled])
    is_new = np.append(True, begins[1:] > ends[:-1]) if len(begins) else np.zeros(0, np.bool_)
    return begins[is_new], ends[np.append(np.flatnonzero(is_new)[1:] - 1, len(ends) - 1)] if len(ends) else ends


def _are_in(zones: Int64Array, times: Int64Array) -> BoolArray:
    are_in: BoolArray = np.searchsorted(zones, times, side="right") % 2 == 1
    return are_in


def _bounds(runs: Sequence[Int64Array], edges: Int64Array) -> Int64Array:
    return np.stack([np.searchsorted(times, edges) for times in runs])


def _inner_edges(runs: Sequence[Int64Array], bounds: Int64Array, j: int, piece_max: int) -> Int64Array:
    """Times that cut a stretch into about equal parts, as far as a sample of its events tells."""
    count = -(-int((bounds[:, j + 1] - bounds[:, j]).sum()) // piece_max)
    step = max(1, piece_max // SAMPLES_PER_PIECE)
    samples = [times[begin:end:step] for times, begin, end in zip(runs, bounds[:, j], bounds[:, j + 1])]
    sample = np.sort(np.concatenate(samples))
    times: Int64Array = sample[np.arange(1, count) * len(sample) // max(count, 1)]
    return times


def ends_of(runs: Sequence[OrderedEvents], cuts: RunCuts) -> tuple[KeyRows, KeyRows]:
    """The first and the last key of each stretch that does not travel raw."""
    whole = np.flatnonzero(~cuts.is_raw)
    begins, ends = cuts.begins[:, whole], cuts.ends[:, whole]
    is_there = begins < ends
    before = _before(runs)
    firsts, lasts = np.where(is_there, begins - before, 0), np.where(is_there, ends - 1 - before, 0)
    return _extreme(runs, firsts, is_there, 1), _extreme(runs, lasts, is_there, -1)


def _extreme(runs: Sequence[OrderedEvents], events: Int64Array, is_there: BoolArray, sign: int) -> KeyRows:
    """Of the events of each column, one of each run, the first in the order, or with the sign -1 the last."""
    found = np.empty((3, events.shape[1]), np.int64)
    has_any = np.zeros(events.shape[1], np.bool_)
    ranks = source_ranks(max((run.chunk.source_names for run in runs), key=len))
    for run, some, there in zip(runs, events, is_there, strict=True):
        keys = run.chunk.places(some)
        (t, s, o), (t0, s0, o0) = keys, found
        s, s0 = ranks[s], ranks[np.where(has_any, s0, 0)]
        is_before = (sign * t < sign * t0) | (t == t0) & ((sign * s < sign * s0) | (s == s0) & (sign * o < sign * o0))
        better = there & (~has_any | is_before)
        found[:, better] = keys[:, better]
        has_any |= there
    return found


def raw_of(runs: Sequence[OrderedEvents], cuts: RunCuts) -> OrderedEvents:
    """The events that travel, in order."""
    sizes, begins = (cuts.ends - cuts.begins)[:, cuts.is_raw], (cuts.begins - _before(runs))[:, cuts.is_raw]
    return concat_stretches([run.take(spread(b, s)) for run, b, s in zip(runs, begins, sizes, strict=True)]).in_order()


def values_of(runs: Sequence[OrderedEvents], ops: Iterable[Op]) -> Chunk:
    """All values, one run after the other; where and when events were born only if some operator asks."""
    chunks = [run.chunk for run in runs]
    if any(op.kind in ORDERED for op in ops):
        return concat_chunks(chunks)
    shared = [name for name in chunks[0].columns if all(name in chunk.columns for chunk in chunks)]
    columns = {name: concat_values([chunk.columns[name] for chunk in chunks]) for name in shared}
    return Chunk(np.empty(sum(map(len, runs)), np.int64), 0, 0, chunks[0].source_names, columns)


def _before(runs: Sequence[OrderedEvents]) -> Int64Array:
    """How many events lie in the runs before each."""
    counts: Int64Array = np.cumsum([0, *map(len, runs)])[:-1, None]
    return counts


def run_rows(keys: Int32Array, key_count: int, cuts: RunCuts) -> LiftedPieces:
    """As `rows_of`: a row for each stretch and key that does not travel raw."""
    return rows_between(keys, key_count, cuts.begins, cuts.ends, cuts.is_raw)
