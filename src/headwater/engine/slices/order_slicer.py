"""Cut events whose order is final: at edges, markers, positions and pauses together, so that all queries share one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import Int32Array, Int64Array, frozen
from headwater.base.jit import njit
from headwater.engine.slices.slicer import NO_INTEGERS, SlicedRows
from headwater.language.times import FOREVER


@njit
def next_position_cut(counts: Int64Array, position: int | np.int64) -> np.int64:
    """The first position after ``position`` at which a count window of any query begins or ends.

    ``counts`` rows are (size, step, origin): windows hold [origin + k * step, origin + k * step + size).
    """
    best = np.int64(2**62)
    for i in range(len(counts)):
        size, step, origin = counts[i, 0], counts[i, 1], counts[i, 2]
        passed = position + 1 - origin
        start = origin + max(-(-passed // step), 0) * step
        end = origin + size + max(-(-(passed - size) // step), 0) * step
        best = min(best, min(start, end))
    return best


@njit
def _assign_in_order(
    times: Int64Array,
    keys: Int32Array,
    cuts: Int64Array,
    key_cuts: tuple[Int64Array, Int64Array],
    counting: tuple[Int64Array, Int64Array, Int64Array, Int64Array],
    gap: int,
    current: Int64Array,
    rows: Int32Array,
    made: tuple[Int32Array, Int64Array, Int64Array, Int64Array],
) -> int:
    """Rows of events whose order is final; returns how many.

    ``cuts``: positions in the batch at which every key's row ends. ``key_cuts`` (starts, times): key k's row also ends at
    times[starts[k]:starts[k + 1]]. ``counting`` (windows, position by key, next cut by key, out: position of each row): count
    windows by key. ``gap``: session gap or -1. ``made`` (key, first, last, first event) describe the rows.
    """
    cut_start, cut_times = key_cuts
    counts, position, next_cut, key_position = counting
    key, first, last, event = made
    place = cut_start[:-1].copy()
    due = _cuts_due(cut_start, cut_times)
    count = 0
    for segment in range(len(cuts) + 1):
        floor = count  # rows below this one were ended by a cut for all keys
        begin = 0 if segment == 0 else cuts[segment - 1]
        end = len(times) if segment == len(cuts) else cuts[segment]
        # Unsigned indices: a signed one could count from the end, and every access would have to ask.
        for i in range(np.uint64(begin), np.uint64(end)):
            k, time = np.uint64(keys[i]), times[i]
            row = current[k]
            begins = row < floor
            if gap >= 0 and not begins:
                begins = time > last[np.uint64(row)] + gap
            if time >= due[k]:
                begins = True
                while place[k] < cut_start[k + np.uint64(1)] and cut_times[place[k]] <= time:
                    place[k] += 1
                due[k] = cut_times[place[k]] if place[k] < cut_start[k + np.uint64(1)] else FOREVER
            if len(counts) > 0:
                if position[k] == next_cut[k]:
                    begins = True
                    next_cut[k] = next_position_cut(counts, position[k])
                if begins:
                    key_position[count] = position[k]
                position[k] += 1
            if begins:
                row = count
                current[k] = row
                key[row] = keys[i]
                first[row] = time
                event[row] = i
                count += 1
            last[np.uint64(row)] = time
            rows[i] = row
    return count


@njit
def _cuts_due(cut_start: Int64Array, cut_times: Int64Array) -> Int64Array:
    """The first cut of each key, FOREVER if it has none."""
    due = np.full(len(cut_start) - 1, FOREVER)
    for k in range(len(due)):
        if cut_start[k] < cut_start[k + 1]:
            due[k] = cut_times[cut_start[k]]
    return due


@njit
def _position_cuts(counts: Int64Array, base: int, length: int) -> Int64Array:
    """Positions in [0, length) of a stretch beginning at ``base`` where a count window begins or ends."""
    out = []
    position = next_position_cut(counts, base - 1)
    while position < base + length:
        out.append(position - base)
        position = next_position_cut(counts, position)
    return np.array(out, dtype=np.int64)


def position_cuts(counts: Int64Array, base: int, length: int) -> Int64Array:
    """Where count windows over all events cut the next ``length`` events.

    >>> position_cuts(np.array([[3, 3, 0]]), 2, 6)
    array([1, 4])
    """
    return _position_cuts(counts, base, length) if len(counts) else NO_INTEGERS


@dataclass(slots=True)
class KeyCuts:
    """Times at which single keys' rows end, as a list per key: ``times[starts[k]:starts[k + 1]]``, sorted."""

    starts: Int64Array
    times: Int64Array

    @classmethod
    def of(cls, keys: Int64Array, times: Int64Array, key_count: int) -> KeyCuts:
        order = np.lexsort((times, keys))
        starts = np.zeros(key_count + 1, np.int64)
        np.cumsum(np.bincount(keys, minlength=key_count), out=starts[1:])
        return cls(starts, times[order])


@dataclass(slots=True)
class CountState:
    """How far each key has counted, for count windows by key. ``counts`` rows are (size, step, origin)."""

    counts: Int64Array
    base: Int64Array

    def grow(self, key_count: int) -> None:
        if len(self.base) < key_count:
            self.base = np.concatenate((self.base, np.zeros(key_count - len(self.base), np.int64)))


@njit
def _next_cuts(counts: Int64Array, base: Int64Array) -> Int64Array:
    out = np.empty(len(base), np.int64)
    for k in range(len(base)):
        out[k] = next_position_cut(counts, base[k] - 1)
    return out


def position_cut_count(counts: Int64Array, positions: Int64Array) -> int:
    """How many of these positions are ones at which a count window begins or ends.

    >>> position_cut_count(np.array([[3, 3, 0]]), np.array([0, 2, 3]))
    2
    """
    return int((_next_cuts(counts, positions) == positions).sum())


def cut_in_order(
    times: Int64Array,
    keys: Int32Array,
    key_count: int,
    cuts: Int64Array,
    key_cuts: KeyCuts | None,
    count_state: CountState | None,
    gap: int | None,
) -> SlicedRows:
    """Rows of a batch that is in its final order. Advances ``count_state`` by the batch.

    >>> rows = cut_in_order(np.array([1, 2, 9]), np.zeros(3, np.int32), 1, np.array([0, 2]), None, None, None)
    >>> rows.of_event, rows.first
    (array([0, 0, 1], dtype=int32), array([1, 9]))
    """
    n = len(times)
    cut_start = np.zeros(key_count + 1, np.int64) if key_cuts is None else key_cuts.starts
    cut_times = NO_INTEGERS if key_cuts is None else key_cuts.times
    rows, key = np.empty(n, np.int32), np.empty(n, np.int32)
    first, last, event = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    if count_state is None:
        counts, base, next_cut, key_position = np.empty((0, 3), np.int64), NO_INTEGERS, NO_INTEGERS, NO_INTEGERS
    else:
        count_state.grow(key_count)
        counts, base = count_state.counts, count_state.base
        next_cut, key_position = _next_cuts(counts, base), np.empty(n, np.int64)
    count = _assign_in_order(
        frozen(times, np.int64),
        frozen(keys, np.int32),
        cuts,
        (cut_start, cut_times),
        (counts, base, next_cut, key_position),
        -1 if gap is None else gap,
        np.full(key_count, -1, np.int64),
        rows,
        (key, first, last, event),
    )
    made = SlicedRows(rows, key[:count].copy(), first[:count].copy(), last[:count].copy(), event[:count].copy())
    if count_state is not None:
        made.key_position = key_position[:count].copy()
    return made
