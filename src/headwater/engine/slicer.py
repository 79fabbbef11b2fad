"""Cut a batch into slices: which row (slice and key) each event adds to.

Window ends are known ahead, so no event is checked against any window: a batch is cut at the edges of all queries together
and each event is sent to the row of its slice and key. Operators then run once over (row, value), whoever shares them.

Two cutters share this file because they answer the same question. *By arrival* takes events as they come, in any order: fixed
edges and session gaps need no order. *In order* takes events whose order is final and cuts also at markers and positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.engine.arrays import BoolArray, Int32Array, Int64Array, frozen
from headwater.engine.jit import njit
from headwater.engine.keys import DirectKeys
from headwater.times import FOREVER

# A table of (slice, key) cells is used while it stays within this many cells per event, else events are sorted.
CELLS_PER_EVENT = 8
CELLS_FREE = 1 << 20
#: From this many keys on, rows do not stay in the cache, and their order matters.
KEYS_MANY = 1 << 13
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
def _assign_sorted(
    keys: Int32Array,
    bounds: Int64Array,
    key_count: int,
    table: Int32Array,
    masked: bool,
    mask: BoolArray,
    rows: Int32Array,
    row_slice: Int64Array,
    row_key: Int32Array,
) -> int:
    """Events between bounds[s] and bounds[s + 1] lie in slice s: their times need not be read again."""
    count = 0
    for s in range(len(bounds) - 1):
        cells = table[s * key_count : (s + 1) * key_count]
        # Unsigned indices: a signed one could count from the end, and every access would have to ask.
        for i in range(np.uint64(bounds[s]), np.uint64(bounds[s + 1])):
            if masked and not mask[i]:
                rows[i] = -1
                continue
            key = np.uint64(keys[i])
            row = cells[key]
            if row < 0:
                row = count
                cells[key] = row
                row_slice[row] = s
                row_key[row] = keys[i]
                count += 1
            rows[i] = row
    return count


@njit
def _assign_direct(
    keys: Int64Array,
    low: int,
    numbers: Int32Array,
    bounds: Int64Array,
    key_count: int,
    rows: Int32Array,
    row_slice: Int64Array,
    row_key: Int32Array,
) -> int:
    """As above for integer keys that are numbered on the way: key v has the number numbers[v - low]; -1: one is new."""
    count = 0
    size = np.uint64(len(numbers))
    cells = np.empty(key_count, np.int32)
    for s in range(len(bounds) - 1):
        cells[:] = -1
        for i in range(np.uint64(bounds[s]), np.uint64(bounds[s + 1])):
            place = np.uint64(keys[i] - low)
            if place >= size or numbers[place] < 0:
                return -1
            key = np.uint64(numbers[place])
            row = cells[key]
            if row < 0:
                row = count
                cells[key] = row
                row_slice[row] = s
                row_key[row] = key
                count += 1
            rows[i] = row
    return count


@njit
def _assign_in_key_order(
    keys: Int64Array,
    low: int,
    numbers: Int32Array,
    bounds: Int64Array,
    key_count: int,
    rows: Int32Array,
    row_slice: Int64Array,
    row_key: Int32Array,
) -> int:
    """The same with rows numbered by (slice, key): with many keys, later passes then run through memory in order."""
    count = 0
    size = np.uint64(len(numbers))
    cells = np.empty(key_count, np.int32)
    for s in range(len(bounds) - 1):
        cells[:] = -1
        for i in range(np.uint64(bounds[s]), np.uint64(bounds[s + 1])):
            place = np.uint64(keys[i] - low)
            if place >= size or numbers[place] < 0:
                return -1
            rows[i] = numbers[place]
            cells[np.uint64(numbers[place])] = 0
        for key in range(key_count):
            if cells[key] == 0:
                cells[key] = count
                row_slice[count] = s
                row_key[count] = key
                count += 1
        for i in range(np.uint64(bounds[s]), np.uint64(bounds[s + 1])):
            rows[i] = cells[np.uint64(rows[i])]
    return count


def cut_sorted(times: Int64Array, keys: DirectKeys, slices: tuple[Int64Array, Int64Array]) -> Rows | None:
    """Rows of events in order of time with integer keys; None if a key is new, or keys are too many for a table.

    >>> keys = DirectKeys(np.array([5, 6, 5]), 5, np.array([0, 1], np.int32), 2)
    >>> cut_sorted(np.array([1, 2, 12]), keys, (np.array([0, 10]), np.array([10, 20]))).of_event
    array([0, 1, 2], dtype=int32)
    """
    starts, _ = slices
    if len(starts) * keys.count > CELLS_PER_EVENT * len(times) + CELLS_FREE:
        return None
    bounds = np.append(np.searchsorted(times, starts), len(times))
    bounds[0] = 0
    limit = min(len(times), len(starts) * keys.count)
    rows, row_slice, row_key = np.empty(len(times), np.int32), np.empty(limit, np.int64), np.empty(limit, np.int32)
    assign = _assign_direct if keys.count < KEYS_MANY else _assign_in_key_order
    count = assign(frozen(keys.values, np.int64), keys.low, keys.table, bounds, keys.count, rows, row_slice, row_key)
    return None if count < 0 else Rows(rows, row_key[:count].copy(), starts[row_slice[:count]])


@njit
def _assign_any(
    times: Int64Array,
    keys: Int32Array,
    starts: Int64Array,
    ends: Int64Array,
    key_count: int,
    table: Int32Array,
    masked: bool,
    mask: BoolArray,
    rows: Int32Array,
    row_slice: Int64Array,
    row_key: Int32Array,
) -> int:
    """As above for events in any order: an event mostly lies in the slice of the one before it."""
    count = 0
    s = 0
    start, end = starts[0], ends[0]
    for i in range(len(times)):
        if masked and not mask[i]:
            rows[i] = -1
            continue
        time = times[i]
        if time < start or time >= end:
            s = np.searchsorted(starts, time, side="right") - 1
            start, end = starts[s], ends[s]
        cell = np.uint64(s * key_count + keys[i])
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
def _assign_sessions(
    times: Int64Array,
    keys: Int32Array,
    starts: Int64Array,
    ends: Int64Array,
    key_count: int,
    table: Int32Array,
    masked: bool,
    mask: BoolArray,
    gap: int,
    rows: Int32Array,
    first: Int64Array,
    last: Int64Array,
    row_key: Int32Array,
) -> int:
    """As above, and a row also ends where a key pauses: each row is a chain of events at most ``gap`` apart.

    Any order will do: an event within ``gap`` of a chain's bounds belongs to the chain, inside it always.
    """
    count = 0
    s = 0
    start, end = starts[0], ends[0]
    for i in range(len(times)):
        if masked and not mask[i]:
            rows[i] = -1
            continue
        time = times[i]
        if time < start or time >= end:
            s = np.searchsorted(starts, time, side="right") - 1
            start, end = starts[s], ends[s]
        cell = np.uint64(s * key_count + keys[i])
        row = table[cell]
        at = np.uint64(row)
        if row < 0 or time < first[at] - gap or time > last[at] + gap:
            row = count
            table[cell] = row
            first[row] = time
            last[row] = time
            row_key[row] = keys[i]
            count += 1
        elif time > last[at]:
            last[at] = time
        elif time < first[at]:
            first[at] = time
        rows[i] = row
    return count


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
    times, keys = frozen(times, np.int64), frozen(keys, np.int32)
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
        count = _assign_any(times, keys, starts, ends, key_count, table, masked, mask_array, rows, row_slice, row_key)
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
    made = Rows(rows, key[:count].copy(), first[:count].copy(), last[:count].copy(), event[:count].copy())
    if count_state is not None:
        made.key_position = key_position[:count].copy()
    return made
