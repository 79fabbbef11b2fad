"""Lists of different lengths in one array: row i is ``data[starts[i]:starts[i + 1]]``.

Runs, ordered events and sketches all hold a varying number of items per row. Keeping them end to end in one buffer makes
every step a few array operations, and a range of rows is again one stretch of the buffer.
"""

from __future__ import annotations

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, UInt64Array, empty, frozen
from headwater.base.jit import njit
from headwater.base.packing import Reader
from headwater.errors import FormatError


def starts_of(lengths: Int64Array) -> Int64Array:
    """Where each row begins, and behind them where the last one ends.

    >>> starts_of(np.array([2, 0, 3]))
    array([0, 2, 2, 5])
    """
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def read_starts(reader: Reader) -> Int64Array:
    """Where rows begin whose lengths were written; a `FormatError` if no rows have such lengths."""
    lengths = reader.ints()
    # Few enough bits that the sum of them cannot wrap around.
    if len(lengths) and not 0 <= int(lengths.min()) <= int(lengths.max()) < 1 << 40:
        raise FormatError("a row has a length that there cannot be")
    return starts_of(lengths)


def expand(lo: Int64Array, hi: Int64Array) -> Int64Array:
    """The indices of all ranges ``[lo[i], hi[i])``, one after the other.

    >>> expand(np.array([5, 0, 3]), np.array([7, 0, 4]))
    array([5, 6, 3])
    """
    return spread(lo, hi - lo)


def spread(starts: Int64Array, sizes: Int64Array) -> Int64Array:
    """The indices of all ranges ``[starts[i], starts[i] + sizes[i])``, one after the other.

    >>> spread(np.array([3, 10]), np.array([2, 3]))
    array([ 3,  4, 10, 11, 12])
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    # Each index is its place in the output, moved by one shift per range.
    return np.repeat(starts - (ends - sizes), sizes) + np.arange(total, dtype=np.int64)


def row_of_item(starts: Int64Array) -> Int64Array:
    """The row of each item.

    >>> row_of_item(np.array([0, 2, 2, 5]))
    array([0, 0, 2, 2, 2])
    """
    return np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts))


def valid_rows(rows: Int32Array, valid: BoolArray | None) -> Int32Array:
    """The row of each event, -1 where its value is null.

    >>> valid_rows(np.array([1, 0], np.int32), np.array([True, False]))
    array([ 1, -1], dtype=int32)
    """
    return rows if valid is None else np.where(valid, rows, np.int32(-1))


def row_starts(rows: Int32Array, row_count: int) -> Int64Array:
    """How the events of each row will lie once they are grouped; row -1 is no row.

    >>> row_starts(np.array([1, -1, 1, 0], np.int32), 2)
    array([0, 1, 3])
    """
    lengths = np.zeros(row_count + 1, np.int64)
    _count(frozen(rows, np.int32), lengths)
    return starts_of(lengths[:-1])


def group_bits(bits: Int64Array, rows: Int32Array, starts: Int64Array) -> Int64Array:
    """The 8-byte values of each row's events, end to end, each row in the order of the events.

    >>> rows = np.array([1, -1, 1, 0], np.int32)
    >>> group_bits(np.array([10, 20, 30, 40]), rows, row_starts(rows, 2))
    array([40, 10, 30])
    """
    grouped = empty(int(starts[-1]) + 1, np.int64)  # one place more, for events of no row
    _scatter(frozen(bits, np.int64), frozen(rows, np.int32), starts.astype(np.uint64), grouped)
    return grouped[:-1]


def group_indices(rows: Int32Array, row_count: int, order: Int64Array | None = None) -> tuple[Int64Array, Int64Array]:
    """The events of each row in order, as (indices of the events, starts of the rows).

    >>> group_indices(np.array([1, -1, 1, 0], np.int32), 2)
    (array([3, 0, 2]), array([0, 1, 3]))
    """
    indices = np.arange(len(rows), dtype=np.int64) if order is None else order
    rows = rows if order is None else rows[order]
    starts = row_starts(rows, row_count)
    return group_bits(indices, rows, starts), starts


@njit
def _count(rows: Int32Array, lengths: Int64Array) -> None:
    """Events of no row are counted at the end: as an unsigned number, -1 is the largest."""
    nowhere = np.uint32(len(lengths) - 1)
    for i in range(len(rows)):
        lengths[min(np.uint32(rows[i]), nowhere)] += 1


@njit
def _scatter(words: Int64Array, rows: Int32Array, cursor: UInt64Array, grouped: Int64Array) -> None:
    """Events of no row all go to the last place, whose cursor stands still.

    Four events at a time, with all cursors moved before the first value is written: a value might be written to where the
    next cursor is read, and a processor that has to find out waits; this takes less than half the time.
    """
    one = np.uint64(1)
    nowhere = np.uint32(len(cursor) - 1)
    rest = len(rows) % 4
    for i in range(0, len(rows) - rest, 4):
        a, b = min(np.uint32(rows[i]), nowhere), min(np.uint32(rows[i + 1]), nowhere)
        c, d = min(np.uint32(rows[i + 2]), nowhere), min(np.uint32(rows[i + 3]), nowhere)
        word_a, word_b, word_c, word_d = words[i], words[i + 1], words[i + 2], words[i + 3]
        at_a = cursor[a]
        cursor[a] = at_a + np.uint64(a != nowhere)
        at_b = cursor[b]
        cursor[b] = at_b + np.uint64(b != nowhere)
        at_c = cursor[c]
        cursor[c] = at_c + np.uint64(c != nowhere)
        at_d = cursor[d]
        cursor[d] = at_d + np.uint64(d != nowhere)
        grouped[at_a] = word_a
        grouped[at_b] = word_b
        grouped[at_c] = word_c
        grouped[at_d] = word_d
    for i in range(len(rows) - rest, len(rows)):
        a = min(np.uint32(rows[i]), nowhere)
        if a != nowhere:
            grouped[cursor[a]] = words[i]
            cursor[a] += one
