"""Cut a batch into slices: which row (slice and key) each event adds to.

Window ends are known ahead, so no event is checked against any window: a batch is cut at the edges of all queries together
and each event is sent to the row of its slice and key. Operators then run once over (row, value), however many queries share them.

Two cutters share this file because they answer the same question. *By arrival* takes events as they come, in any order: fixed
edges and session gaps need no order. *In order* takes events whose order is final and cuts also at markers and positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.engine.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.jit import njit

# A table of (slice, key) cells is used while it stays within this many cells per event, else events are sorted.
CELLS_PER_EVENT = 8
CELLS_FREE = 1 << 20
NO_EVENTS = np.empty(0, np.bool_)
NO_INTEGERS = np.empty(0, np.int64)


@dataclass(slots=True)
class Rows:
    """What a batch was cut into: ``of_event`` names each event's row (-1: none), the rest describes each row.

    Invariant: a row's events all lie in one slice and have one key. ``first`` is a time inside the slice that is not after
    any of the row's events in another slice; with sessions it is the first event's time, and ``last`` the last one's. In order,
    ``position`` is the place of the row's first event in the batch, ``key_position`` its place among all events of its key.
    """

    of_event: Int32Array
    key: Int32Array
    first: Int64Array
    last: Int64Array | None = None
    position: Int64Array | None = None
    key_position: Int64Array | None = None

    def __len__(self) -> int:
        return len(self.key)


@njit
def _assign_sorted(keys, bounds, key_count, table, masked, mask, rows, row_slice, row_key):
    """Events between bounds[s] and bounds[s + 1] lie in slice s: their times need not be read again."""
    count = 0
    for s in range(len(bounds) - 1):
        base = s * key_count
        for i in range(bounds[s], bounds[s + 1]):
            if masked and not mask[i]:
                rows[i] = -1
                continue
            cell = base + keys[i]
            row = table[cell]
            if row < 0:
                row = count
                table[cell] = row
                row_slice[row] = s
                row_key[row] = keys[i]
                count += 1
            rows[i] = row
    return count


@njit
def _assign_any(times, keys, starts, ends, key_count, table, masked, mask, rows, row_slice, row_key):
    """As above for events in any order: an event mostly lies in the slice of the one before it."""
    count = 0
    s = 0
    for i in range(len(times)):
        if masked and not mask[i]:
            rows[i] = -1
            continue
        time = times[i]
        if time < starts[s] or time >= ends[s]:
            s = np.searchsorted(starts, time, side="right") - 1
        cell = s * key_count + keys[i]
        row = table[cell]
        if row < 0:
            row = count
            table[cell] = row
            row_slice[row] = s
            row_key[row] = keys[i]
            count += 1
        rows[i] = row
    return count


@njit
def _assign_sessions(times, keys, starts, ends, key_count, table, masked, mask, gap, rows, first, last, row_key):
    """As above, and a row also ends where a key pauses: each row is a chain of events at most ``gap`` apart.

    Any order will do: an event within ``gap`` of a chain's bounds belongs to the chain, inside it always.
    """
    count = 0
    s = 0
    for i in range(len(times)):
        if masked and not mask[i]:
            rows[i] = -1
            continue
        time = times[i]
        if time < starts[s] or time >= ends[s]:
            s = np.searchsorted(starts, time, side="right") - 1
        cell = s * key_count + keys[i]
        row = table[cell]
        if row < 0 or time < first[row] - gap or time > last[row] + gap:
            row = count
            table[cell] = row
            first[row] = time
            last[row] = time
            row_key[row] = keys[i]
            count += 1
        elif time > last[row]:
            last[row] = time
        elif time < first[row]:
            first[row] = time
        rows[i] = row
    return count


@njit
def is_sorted(times):
    """Whether times never step back."""
    for i in range(1, len(times)):
        if times[i] < times[i - 1]:
            return False
    return True


def cut_by_arrival(
    times: Int64Array,
    keys: Int32Array,
    key_count: int,
    slices: tuple[Int64Array, Int64Array],
    mask: BoolArray | None,
    gap: int | None,
    in_time_order: bool,
) -> Rows:
    """Rows of a batch in any order. ``gap``: the smallest session gap of the queries, None without sessions.

    >>> slices = np.array([0, 10]), np.array([10, 20])
    >>> rows = cut_by_arrival(np.array([1, 12, 3]), np.zeros(3, np.int32), 1, slices, None, None, False)
    >>> rows.of_event, rows.first
    (array([0, 1, 0], dtype=int32), array([ 0, 10]))
    """
    starts, ends = slices
    if len(starts) * key_count > CELLS_PER_EVENT * len(times) + CELLS_FREE:
        return _cut_by_sorting(times, keys, key_count, slices, mask, gap)
    table = np.full(len(starts) * key_count, -1, np.int32)
    rows = np.empty(len(times), np.int32)
    limit = len(times) if gap is not None else min(len(times), len(table))
    row_key = np.empty(limit, np.int32)
    masked, mask_array = mask is not None, NO_EVENTS if mask is None else mask
    if gap is not None:
        first, last = np.empty(limit, np.int64), np.empty(limit, np.int64)
        count = _assign_sessions(
            times, keys, starts, ends, key_count, table, masked, mask_array, gap, rows, first, last, row_key
        )
        return Rows(rows, row_key[:count].copy(), first[:count].copy(), last[:count].copy())
    row_slice = np.empty(limit, np.int64)
    if in_time_order:
        bounds = np.append(np.searchsorted(times, starts), len(times))
        bounds[0] = 0
        count = _assign_sorted(keys, bounds, key_count, table, masked, mask_array, rows, row_slice, row_key)
    else:
        count = _assign_any(
            times, keys, starts, ends, key_count, table, masked, mask_array, rows, row_slice, row_key
        )
    return Rows(rows, row_key[:count].copy(), starts[row_slice[:count]])


def _cut_by_sorting(
    times: Int64Array,
    keys: Int32Array,
    key_count: int,
    slices: tuple[Int64Array, Int64Array],
    mask: BoolArray | None,
    gap: int | None,
) -> Rows:
    """The same for keys and slices too many for a table: sort by (key, time) and begin a row wherever either changes."""
    starts, _ = slices
    members = np.arange(len(times)) if mask is None else np.flatnonzero(mask)
    order = members[np.lexsort((times[members], keys[members]))]
    at, key = times[order], keys[order]
    slice_of = np.searchsorted(starts, at, side="right") - 1
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(key) != 0) | (np.diff(slice_of) != 0)
    if gap is not None:
        begins[1:] |= np.diff(at) > gap
    row_of = np.cumsum(begins) - 1
    rows = np.full(len(times), -1, np.int32)
    rows[order] = row_of
    heads = np.flatnonzero(begins)
    if gap is None:
        return Rows(rows, key[heads], starts[slice_of[heads]])
    tails = np.append(heads[1:], len(order)) - 1
    return Rows(rows, key[heads], at[heads], at[tails])


@njit
def next_position_cut(counts, position):
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
    times, keys, cuts, cut_start, cut_times, cut_next, counts, key_base, next_cut, gap, current, rows, key, first, last, event, key_position
):  # fmt: skip
    """Rows of events whose order is final; returns how many.

    ``cuts``: positions in the batch at which every key's row ends; ``cut_times[cut_start[k]:cut_start[k + 1]]``: times at
    which key k's row ends; ``counts``: count windows by key; ``gap``: session gap or -1.
    """
    count = 0
    next_global = 0
    floor = 0  # rows below this one were ended by a cut for all keys
    for i in range(len(times)):
        if next_global < len(cuts) and i == cuts[next_global]:
            next_global += 1
            floor = count
        k, time = keys[i], times[i]
        begins = current[k] < floor or (gap >= 0 and time > last[current[k]] + gap)
        while cut_next[k] < cut_start[k + 1] and cut_times[cut_next[k]] <= time:
            cut_next[k] += 1
            begins = True
        if len(counts) > 0:
            if key_base[k] == next_cut[k]:
                begins = True
                next_cut[k] = next_position_cut(counts, key_base[k])
            if begins:
                key_position[count] = key_base[k]
            key_base[k] += 1
        if begins:
            current[k] = count
            key[count] = k
            first[count] = time
            event[count] = i
            count += 1
        last[current[k]] = time
        rows[i] = current[k]
    return count


@njit
def _position_cuts(counts, base, length):
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
def _next_cuts(counts, base):
    out = np.empty(len(base), np.int64)
    for k in range(len(base)):
        out[k] = next_position_cut(counts, base[k] - 1)
    return out


def cut_in_order(
    times: Int64Array,
    keys: Int32Array,
    key_count: int,
    cuts: Int64Array,
    key_cuts: KeyCuts | None,
    count_state: CountState | None,
    gap: int | None,
) -> Rows:
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
        times, keys, cuts, cut_start, cut_times, cut_start[:-1].copy(), counts, base, next_cut,
        -1 if gap is None else gap, np.full(key_count, -1, np.int64), rows, key, first, last, event, key_position,
    )  # fmt: skip
    made = Rows(rows, key[:count].copy(), first[:count].copy(), last[:count].copy(), event[:count].copy())
    if count_state is not None:
        made.key_position = key_position[:count].copy()
    return made
