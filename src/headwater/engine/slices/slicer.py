"""Cut a batch into slices: which row (slice and key) each event adds to.

Window ends are known ahead, so no event is checked against any window: a batch is cut at the edges of all queries together
and each event is sent to the row of its slice and key. Operators then run once over (row, value), for all queries alike.

Here events are taken as they come, in any order: fixed edges and session gaps need no order. `order_slicer` cuts events whose
order is final, at markers and positions as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, frozen
from headwater.base.jit import njit
from headwater.engine.intake.keys import DirectKeys

# A table of (slice, key) cells is used while it stays within this many cells per event, else events are sorted.
CELLS_PER_EVENT = 8
CELLS_FREE = 1 << 20
#: From this many keys on, rows do not stay in the cache, and their order matters.
KEYS_MANY = 1 << 13
NO_EVENTS = np.empty(0, np.bool_)
NO_INTEGERS = np.empty(0, np.int64)


@dataclass(slots=True)
class SlicedRows:
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


class RowsMade(NamedTuple):
    """Room for the rows of a batch, which kernels fill: each event's row; each row's key, first time and last time."""

    of_event: Int32Array
    key: Int32Array
    first: Int64Array
    last: Int64Array

    @classmethod
    def of(cls, event_count: int, row_count: int) -> RowsMade:
        keys, first, last = np.empty(row_count, np.int32), np.empty(row_count, np.int64), np.empty(row_count, np.int64)
        return cls(np.empty(event_count, np.int32), keys, first, last)

    def rows(self, count: int, with_last: bool = False) -> SlicedRows:
        """The first ``count`` rows."""
        last = self.last[:count].copy() if with_last else None
        return SlicedRows(self.of_event, self.key[:count].copy(), self.first[:count].copy(), last)


@njit
def slice_bounds(times: Int64Array, starts: Int64Array) -> Int64Array:
    """Where each slice begins among sorted times, and the end; the first slice begins with the first event.

    The next slice is seldom far away: steps that double find it faster than halving all that is left.
    """
    bounds = np.empty(len(starts) + 1, np.int64)
    bounds[0] = 0
    low = 0
    for s in range(1, len(starts)):
        start = starts[s]
        step = 1
        high = low
        while high < len(times) and times[high] < start:
            low = high + 1
            high += step
            step *= 2
        high = min(high, len(times))
        while low < high:
            middle = (low + high) // 2
            if times[middle] < start:
                low = middle + 1
            else:
                high = middle
        bounds[s] = low
    bounds[len(starts)] = len(times)
    return bounds


@njit
def _assign_sorted(
    keys: Int32Array, starts: Int64Array, bounds: Int64Array, key_count: int, mask: BoolArray, made: RowsMade
) -> int:
    """Rows of events in order of time: those from bounds[s] to bounds[s + 1] lie in slice s. Returns how many rows."""
    count = 0
    cells = np.empty(key_count, np.int32)
    for s in range(len(starts)):
        cells[:] = -1
        # Unsigned indices: a signed one could count from the end, and every access would have to ask.
        for i in range(np.uint64(bounds[s]), np.uint64(bounds[s + 1])):
            if len(mask) and not mask[i]:
                made.of_event[i] = -1
                continue
            key = np.uint64(keys[i])
            row = cells[key]
            if row < 0:
                row = count
                cells[key] = row
                made.first[row] = starts[s]
                made.key[row] = keys[i]
                count += 1
            made.of_event[i] = row
    return count


@njit
def _assign_direct(keys: DirectKeys, starts: Int64Array, bounds: Int64Array, made: RowsMade) -> int:
    """Rows of events in order of time with integer keys, which are numbered on the way. Returns -1 if a key is new."""
    count = 0
    size = np.uint64(len(keys.table))
    cells = np.empty(keys.key_count, np.int32)
    for s in range(len(starts)):
        cells[:] = -1
        for i in range(np.uint64(bounds[s]), np.uint64(bounds[s + 1])):
            place = np.uint64(keys.values[i] - keys.low)
            if place >= size or keys.table[place] < 0:
                return -1
            key = np.uint64(keys.table[place])
            row = cells[key]
            if row < 0:
                row = count
                cells[key] = row
                made.first[row] = starts[s]
                made.key[row] = key
                count += 1
            made.of_event[i] = row
    return count


@njit
def _assign_in_key_order(keys: DirectKeys, starts: Int64Array, bounds: Int64Array, made: RowsMade) -> int:
    """What `_assign_direct` does, with rows numbered by (slice, key): with many keys, later passes read memory in order."""
    count = 0
    size = np.uint64(len(keys.table))
    cells = np.empty(keys.key_count, np.int32)
    for s in range(len(starts)):
        cells[:] = -1
        for i in range(np.uint64(bounds[s]), np.uint64(bounds[s + 1])):
            place = np.uint64(keys.values[i] - keys.low)
            if place >= size or keys.table[place] < 0:
                return -1
            made.of_event[i] = keys.table[place]
            cells[np.uint64(keys.table[place])] = 0
        for key in range(keys.key_count):
            if cells[key] == 0:
                cells[key] = count
                made.first[count] = starts[s]
                made.key[count] = key
                count += 1
        for i in range(np.uint64(bounds[s]), np.uint64(bounds[s + 1])):
            made.of_event[i] = cells[np.uint64(made.of_event[i])]
    return count


def cut_sorted(
    times: Int64Array,
    keys: DirectKeys,
    slices: tuple[Int64Array, Int64Array],
    keys_many: int = KEYS_MANY,
    bounds: Int64Array | None = None,
) -> SlicedRows | None:
    """Rows of events in order of time with integer keys; None if a key is new, or keys are too many for a table.

    From ``keys_many`` keys on, rows are numbered in the order of keys. ``bounds``: where slices begin among the events, if that
    is known.

    >>> keys = DirectKeys(np.array([5, 6, 5]), 5, np.array([0, 1], np.int32), 2)
    >>> cut_sorted(np.array([1, 2, 12]), keys, (np.array([0, 10]), np.array([10, 20]))).of_event
    array([0, 1, 2], dtype=int32)
    """
    starts, _ = slices
    if len(starts) * keys.key_count > CELLS_PER_EVENT * len(times) + CELLS_FREE:
        return None
    bounds = slice_bounds(frozen(times, np.int64), starts) if bounds is None else bounds
    made = RowsMade.of(len(times), min(len(times), len(starts) * keys.key_count))
    count = (_assign_direct if keys.key_count < keys_many else _assign_in_key_order)(keys, starts, bounds, made)
    return None if count < 0 else made.rows(count)


@njit
def _assign_any(
    times: Int64Array, keys: Int32Array, slices: tuple[Int64Array, Int64Array], key_count: int, mask: BoolArray,
    gap: int | None, made: RowsMade,
) -> int:  # fmt: skip
    """Rows of events in any order: an event mostly lies in the slice of the one before it. Returns how many rows.

    With sessions a row also ends where a key pauses: each row is a chain of events at most ``gap`` apart. Order does not
    matter: an event within ``gap`` of a chain's bounds belongs to the chain, inside it always.
    """
    starts, ends = slices
    rows, keys_made, first, last = made
    masked = len(mask) > 0
    table = np.full(len(starts) * key_count, np.int32(-1))
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
        if row < 0 or (gap is not None and (time < first[at] - gap or time > last[at] + gap)):
            row = count
            table[cell] = row
            if gap is None:
                first[row] = starts[s]
            else:
                first[row] = last[row] = time
            keys_made[row] = keys[i]
            count += 1
        elif gap is not None:
            if time > last[at]:
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
) -> SlicedRows:
    """Rows of a batch in any order. ``gap``: the smallest session gap of the queries, None without sessions.

    >>> slices = np.array([0, 10]), np.array([10, 20])
    >>> rows = cut_by_arrival(np.array([1, 12, 3]), np.zeros(3, np.int32), 1, slices, None, None, False)
    >>> rows.of_event, rows.first
    (array([0, 1, 0], dtype=int32), array([ 0, 10]))
    """
    starts, _ = slices
    if len(starts) * key_count > CELLS_PER_EVENT * len(times) + CELLS_FREE:
        return _cut_by_sorting(times, keys, starts, mask, gap)
    times, keys = frozen(times, np.int64), frozen(keys, np.int32)
    made = RowsMade.of(len(times), len(times) if gap is not None else min(len(times), len(starts) * key_count))
    chosen = NO_EVENTS if mask is None else mask
    if in_time_order and gap is None:
        count = _assign_sorted(keys, starts, slice_bounds(times, starts), key_count, chosen, made)
    else:
        count = _assign_any(times, keys, slices, key_count, chosen, gap, made)
    return made.rows(count, with_last=gap is not None)


def _cut_by_sorting(
    times: Int64Array, keys: Int32Array, starts: Int64Array, mask: BoolArray | None, gap: int | None
) -> SlicedRows:
    """`cut_by_arrival` without a table of cells: sort by (key, time) and begin a row wherever either changes."""
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
        return SlicedRows(rows, key[heads], starts[slice_of[heads]])
    tails = np.append(heads, len(order))[1:] - 1
    return SlicedRows(rows, key[heads], at[heads], at[tails])
