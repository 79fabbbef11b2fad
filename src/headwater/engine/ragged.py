"""Lists of different lengths in one array: row i is ``data[starts[i]:starts[i + 1]]``.

Runs, ordered events and sketches all hold a varying number of items per row. Keeping them end to end in one buffer makes
every step a few array operations, and a range of rows is again one stretch of the buffer.
"""

from __future__ import annotations

import numpy as np

from headwater.engine.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.events import frozen
from headwater.engine.jit import njit
from headwater.engine.memory import empty

NO_MASK = frozen(np.empty(0, np.bool_), np.bool_)


def starts_of(lengths: Int64Array) -> Int64Array:
    """Where each row begins, and behind them where the last one ends.

    >>> starts_of(np.array([2, 0, 3]))
    array([0, 2, 2, 5])
    """
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def expand(lo: Int64Array, hi: Int64Array) -> Int64Array:
    """The indices of all ranges ``[lo[i], hi[i])``, one after the other.

    >>> expand(np.array([5, 0, 3]), np.array([7, 0, 4]))
    array([5, 6, 3])
    """
    lengths = hi - lo
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    # Each index is its place in the output, moved by one shift per range.
    return np.repeat(lo - (ends - lengths), lengths) + np.arange(total, dtype=np.int64)


def row_of_item(starts: Int64Array) -> Int64Array:
    """The row of each item.

    >>> row_of_item(np.array([0, 2, 2, 5]))
    array([0, 0, 2, 2, 2])
    """
    return np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts))


def row_starts(rows: Int32Array, valid: BoolArray | None, row_count: int) -> Int64Array:
    """How the valid events of each row will lie once they are grouped; row -1 is no row.

    >>> row_starts(np.array([1, -1, 1, 0], np.int32), None, 2)
    array([0, 1, 3])
    """
    lengths = np.zeros(row_count, np.int64)
    _count(frozen(rows, np.int32), _mask(valid), valid is not None, lengths)
    return starts_of(lengths)


def group_bits(bits: Int64Array, rows: Int32Array, valid: BoolArray | None, starts: Int64Array) -> Int64Array:
    """The 8-byte values of each row's valid events, end to end, each row in the order of the events.

    >>> rows = np.array([1, -1, 1, 0], np.int32)
    >>> group_bits(np.array([10, 20, 30, 40]), rows, None, row_starts(rows, None, 2))
    array([40, 10, 30])
    """
    grouped = empty(int(starts[-1]), np.int64)
    words, places = frozen(bits, np.int64), frozen(rows, np.int32)
    _scatter(words, places, _mask(valid), valid is not None, starts[:-1].copy(), grouped)
    return grouped


def group_indices(
    rows: Int32Array, valid: BoolArray | None, row_count: int, order: Int64Array | None = None
) -> tuple[Int64Array, Int64Array]:
    """The events of each row in order, as (indices of the events, starts of the rows).

    >>> group_indices(np.array([1, -1, 1, 0], np.int32), None, 2)
    (array([3, 0, 2]), array([0, 1, 3]))
    """
    indices = np.arange(len(rows), dtype=np.int64) if order is None else order
    if order is not None:
        rows, valid = rows[order], None if valid is None else valid[order]
    starts = row_starts(rows, valid, row_count)
    return group_bits(indices, rows, valid, starts), starts


def _mask(valid: BoolArray | None) -> BoolArray:
    return NO_MASK if valid is None else frozen(valid, np.bool_)


@njit
def _count(rows: Int32Array, valid: BoolArray, masked: bool, lengths: Int64Array) -> None:
    for i in range(len(rows)):
        if rows[i] >= 0 and (not masked or valid[i]):
            lengths[rows[i]] += 1


@njit
def _scatter(
    bits: Int64Array, rows: Int32Array, valid: BoolArray, masked: bool, cursor: Int64Array, grouped: Int64Array
) -> None:
    for i in range(len(rows)):
        row = rows[i]
        if row >= 0 and (not masked or valid[i]):
            grouped[cursor[row]] = bits[i]
            cursor[row] += 1
