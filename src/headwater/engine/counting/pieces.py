"""How events in order are cut into pieces, by the node that has the events: a leaf, or the root for events that travelled raw.

A piece is a range of events in order; a range is (start, size, whether its events travel as they are).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.count_limits import CountLimits
from headwater.base.jit import njit
from headwater.engine.intake.chunk import Chunk, concat_chunks, concat_values, source_ranks
from headwater.engine.intake.reorder import OrderedEvents, concat_stretches
from headwater.engine.operators.operator import Op
from headwater.engine.operators.ragged import spread
from headwater.engine.wire.parts import KeyRows
from headwater.language.aggregations import FOLLOW_ORDER
from headwater.language.times import FOREVER, NEVER

#: A look into a piece is answered with raw events if it is about no more than these, unless a plan says otherwise.
RAW_MAX = CountLimits().raw_answer_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Zoning:
    """Where a leaf expects cuts of windows over all events, and what it does about that.

    This one expects nothing: every piece is as likely to hold a cut as any other.
    """

    #: No piece has more events.
    piece_max: int = 1 << 20
    #: Events from this time on wait until there is another plan ...
    horizon: int = FOREVER
    #: ... but only until events have come that are later than the horizon by this much.
    patience: int = 0
    #: A look into a piece is answered with raw events if it is about no more than these.
    raw_max: int = RAW_MAX
    #: Whether the leaf's own events are counted, whatever their times are.
    goes_by_position: ClassVar[bool] = False

    def zones(self, low: int, high: int) -> tuple[Int64Array, Int64Array]:
        """The stretches of time between ``low`` and ``high`` in which events travel raw: begins and ends, ascending."""
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def awaits(self, since: int, closed: int, first: int, last: int) -> bool:
        """Whether a cut may be provable by events between two times, which are the leaf's events ``first`` to ``last``."""
        return True

    def ranges(self, times: Int64Array, index: int, piece_max: int) -> Ranges:
        """Events in order, of which the first is the leaf's event ``index``, cut into pieces of at most ``piece_max``."""
        begins, ends = self.zones(int(times[0]), int(times[-1]))
        if not len(begins) and len(times) <= piece_max:
            return Ranges(np.zeros(1, np.int64), np.array([len(times)]), np.zeros(1, np.bool_))
        inner = np.searchsorted(times, np.stack((begins, ends), 1).ravel())
        edges = np.concatenate(([0], inner, [len(times)]))
        return Ranges.between(edges, np.arange(len(edges) - 1) % 2 == 1, piece_max)


@dataclass(slots=True)
class Ranges:
    """Ranges of events, one after the other without gaps."""

    starts: Int64Array
    sizes: Int64Array
    is_raw: BoolArray

    @classmethod
    def between(cls, edges: Int64Array, is_raw: BoolArray, piece_max: int) -> Ranges:
        """From edge to edge where anything is between, those that are not raw in equal parts of at most ``piece_max``.

        >>> Ranges.between(np.array([0, 10, 12, 12]), np.array([False, True, False]), 5).starts
        array([ 0,  5, 10])
        """
        sizes = np.diff(edges)
        parts = np.where(is_raw, sizes > 0, -(-sizes // piece_max))
        whole, place = np.repeat(np.arange(len(sizes)), parts), spread(np.zeros_like(parts), parts)
        starts = edges[whole] + place * sizes[whole] // parts[whole]
        return cls(starts, np.diff(starts, append=edges[-1]), is_raw[whole])


def joined_ranges(parts: Sequence[Ranges]) -> Ranges:
    """Several lists of ranges as one."""
    if len(parts) == 1:
        return parts[0]
    starts, sizes, is_raw = zip(*((part.starts, part.sizes, part.is_raw) for part in parts))
    return Ranges(np.concatenate(starts), np.concatenate(sizes), np.concatenate(is_raw))


def key_ranges(keys: Int32Array, travels: BoolArray, piece_max: int, raw_max: int) -> Ranges:
    """Events sorted by key: pieces never hold two keys, and of keys with at most ``raw_max`` events these travel."""
    edges = np.concatenate(([0], np.flatnonzero(np.diff(keys) | np.diff(travels)) + 1, [len(keys)]))
    return Ranges.between(edges, travels[edges[:-1]] | (np.diff(edges) <= raw_max), piece_max)


def looked_ranges(times: Int64Array, low: int, high: int, raw_max: int, parts: int) -> Ranges:
    """The answer to a look into a piece, for a cut between two times: what lies before and behind them stays together.

    What lies between is raw up to ``raw_max`` events, else it is cut into this many ``parts``.

    >>> ranges = looked_ranges(np.arange(1000), 100, 120, raw_max=128, parts=32)
    >>> ranges.starts, ranges.is_raw
    (array([  0, 100, 121]), array([False,  True, False]))
    """
    inner = np.searchsorted(times, (low, high + 1))
    size = int(inner[1] - inner[0])
    is_few = size <= raw_max
    middle = inner[:1] if is_few else inner[0] + np.arange(parts) * size // parts
    edges = np.concatenate(([0], middle, inner[1:], [len(times)]))
    is_raw = np.zeros(len(edges) - 1, np.bool_)
    is_raw[1:-1] = is_few
    return Ranges.between(edges, is_raw, len(times))


@dataclass(slots=True)
class LiftedPieces:
    """Rows of partials for pieces: ``of_event`` is -1 for events that travel raw."""

    of_event: Int32Array
    key: Int32Array
    piece: Int64Array


def rows_of(keys: Int32Array, key_count: int, ranges: Ranges) -> LiftedPieces:
    """A row for each piece and key that is not raw; pieces are numbered without the raw ones."""
    if key_count == 1:
        rows = np.where(ranges.is_raw, -1, np.cumsum(~ranges.is_raw) - 1)
        count = int(rows.max(initial=-1)) + 1
        return LiftedPieces(np.repeat(rows.astype(np.int32), ranges.sizes), np.zeros(count, np.int32), np.arange(count))
    starts = ranges.starts[None, :]
    return rows_between(keys, key_count, starts, starts + ranges.sizes, ranges.is_raw)


def rows_between(
    keys: Int32Array, key_count: int, begins: Int64Array, ends: Int64Array, is_raw: BoolArray
) -> LiftedPieces:
    """The same where piece j has the events ``begins[p, j]`` to ``ends[p, j]`` of several runs p."""
    of_event = np.empty(len(keys), np.int32)
    row_key, row_piece = np.empty(len(keys), np.int32), np.empty(len(keys), np.int64)
    current = np.full(key_count, -1, np.int64)
    count = _assign(keys, begins, ends, is_raw, current, of_event, row_key, row_piece)
    return LiftedPieces(of_event, row_key[:count].copy(), row_piece[:count].copy())


@njit
def _assign(
    keys: Int32Array, begins: Int64Array, ends: Int64Array, is_raw: BoolArray, current: Int64Array,
    of_event: Int32Array, row_key: Int32Array, row_piece: Int64Array,
) -> int:  # fmt: skip
    count, piece = 0, 0
    for j in range(len(is_raw)):
        floor = count
        for p in range(len(begins)):
            for i in range(begins[p, j], ends[p, j]):
                if is_raw[j]:
                    of_event[i] = -1
                    continue
                row = current[keys[i]]
                if row < floor:
                    row = count
                    current[keys[i]] = row
                    row_key[row] = keys[i]
                    row_piece[row] = piece
                    count += 1
                of_event[i] = row
        piece += not is_raw[j]
    return count


def between_keys(stretch: OrderedEvents, first: Int64Array, last: Int64Array) -> OrderedEvents:
    """The events of a stretch in order from one key to another, both included; sources are numbers."""
    times = stretch.chunk.times
    low, high = np.searchsorted(times, first[0]), np.searchsorted(times, last[0], side="right")
    near = stretch.take(slice(int(low), int(high)))
    times, offsets = near.chunk.times, near.chunk.offsets
    if len(times) == 0:
        return near
    ranks = source_ranks(near.chunk.source_names)
    places = ranks[near.chunk.source_ids]
    begin, end = (int(first[0]), int(ranks[first[1]]), int(first[2])), (int(last[0]), int(ranks[last[1]]), int(last[2]))
    inside = _between(times, places, offsets, begin, end)
    return near if inside.all() else near.take(np.flatnonzero(inside))


@njit
def _between(
    times: Int64Array, ranks: Int64Array, offsets: Int64Array, begin: tuple[int, int, int], end: tuple[int, int, int]
) -> BoolArray:
    inside = np.empty(len(times), np.bool_)
    for i in range(len(times)):
        key = (times[i], ranks[i], offsets[i])
        inside[i] = begin <= key and key <= end
    return inside


SAMPLES_PER_PIECE = 16


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
    if any(op.kind in FOLLOW_ORDER or op.kind == "user" for op in ops):
        return concat_chunks(chunks)
    shared = [name for name in chunks[0].columns if all(name in chunk.columns for chunk in chunks)]
    columns = {name: concat_values([chunk.columns[name] for chunk in chunks]) for name in shared}
    return Chunk(np.empty(sum(map(len, runs)), np.int64), 0, 0, chunks[0].source_names, columns)


def _before(runs: Sequence[OrderedEvents]) -> Int64Array:
    """How many events lie in the runs before each."""
    counts: Int64Array = np.cumsum([0, *map(len, runs)])[:-1, None]
    return counts
