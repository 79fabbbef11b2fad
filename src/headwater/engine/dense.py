"""The straightest way from events to partials: integers of few keys, in order of time, in one pass over two columns.

Where events come sorted, slices are stretches of them. With few keys the accumulators of a slice stay in the processor, and no
row number is ever written down. Everything else takes the general way (slicer, then operators), with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.engine.arrays import Int32Array, Int64Array, frozen
from headwater.engine.chunk import Chunk
from headwater.engine.events import used_bits
from headwater.engine.exact_sum import SumColumn
from headwater.engine.extremes import MinMaxColumn
from headwater.engine.jit import njit
from headwater.engine.keys import DirectKeys
from headwater.engine.limbs import U, UInt64Array, add_signed
from headwater.engine.numeric import INTEGER_HIGH, CountColumn
from headwater.engine.op import Op
from headwater.engine.operators import PartialColumn
from headwater.engine.slicer import Rows

KINDS = frozenset({"count", "valid", "sum", "min", "max"})
#: Events per stretch: their number and the sum of their values share one 64-bit accumulator.
STRETCH_BITS = 14
COUNT_BIT = 48
#: So a value may have this many bits.
VALUE_BITS = COUNT_BIT - 1 - STRETCH_BITS
#: A slice should have this many events per key, or clearing and reading accumulators is most of the work.
EVENTS_PER_KEY = 4
#: A wider table of keys costs more to copy than the pass over a batch saves.
TABLE_SPAN_MAX = 1 << 14
NEW_KEY, LARGE_VALUE = -1, -2


@njit
def _sum_slices(
    keys: Int64Array,
    low: int,
    table: Int32Array,
    values: Int64Array,
    bounds: Int64Array,
    sums: Int64Array,
    ends: Int64Array,
    row_slice: Int64Array,
    row_key: Int32Array,
    counts: Int64Array,
    limbs: UInt64Array,
    row_ends: Int64Array,
) -> int:
    """Sum, count, smallest and largest value per slice and key; returns how many rows, or why it gave up.

    ``sums`` and ``ends`` have one key more than there are: ``table`` sends unknown keys there.
    """
    unknown = len(sums) - 1
    row = 0
    for s in range(len(bounds) - 1):
        first_row = row
        for k in range(unknown + 1):
            ends[2 * k] = np.int64(2**63 - 1)
            ends[2 * k + 1] = -np.int64(2**63 - 1) - 1
        for begin in range(bounds[s], bounds[s + 1], 1 << STRETCH_BITS):
            end = min(begin + (1 << STRETCH_BITS), bounds[s + 1])
            if used_bits(values[begin:end]) >> VALUE_BITS:
                return LARGE_VALUE
            sums[:] = 0
            if not _sum_stretch(keys[begin:end], low, table, values[begin:end], sums, ends) or sums[unknown]:
                return NEW_KEY
            row = _flush(s, sums, first_row, row, row_slice, row_key, counts, limbs)
        for r in range(first_row, row):
            row_ends[2 * r] = ends[2 * row_key[r]]
            row_ends[2 * r + 1] = ends[2 * row_key[r] + 1]
    return row


@njit
def _sum_stretch(
    keys: Int64Array, low: int, table: Int32Array, values: Int64Array, sums: Int64Array, ends: Int64Array
) -> bool:
    """The hot loop; False if a key lies outside of the table."""
    size = U(len(table))
    for i in range(len(keys)):
        cell = U(keys[i] - low)
        if cell >= size:
            return False
        k = U(table[cell])
        value = values[i]
        sums[k] += value + (np.int64(1) << COUNT_BIT)
        # Branches, not min and max: a new record is rare, so they are predicted well and nothing is stored.
        if value < ends[k + k]:
            ends[k + k] = value
        if value > ends[k + k + U(1)]:
            ends[k + k + U(1)] = value
    return True


@njit
def _flush(
    s: int,
    sums: Int64Array,
    first_row: int,
    row: int,
    row_slice: Int64Array,
    row_key: Int32Array,
    counts: Int64Array,
    limbs: UInt64Array,
) -> int:
    """Add the accumulators of a stretch to the rows of its slice, new ones behind those there are; returns the next row."""
    for k in range(len(sums) - 1):
        if sums[k] == 0:
            continue
        count = (sums[k] + (np.int64(1) << (COUNT_BIT - 1))) >> COUNT_BIT
        total = sums[k] - (count << COUNT_BIT)
        at = row
        for r in range(first_row, row):
            if row_key[r] == k:
                at = r
                break
        if at == row:
            row_slice[row] = s
            row_key[row] = k
            row += 1
        counts[at] += count
        add_signed(limbs, U(at), U(0), U(total), U(total >> 63))
    return row


def lift_slices(
    ops: Sequence[Op], chunk: Chunk, keys: DirectKeys, slices: tuple[Int64Array, Int64Array]
) -> tuple[Rows, dict[Op, PartialColumn]] | None:
    """Rows and partials of events in order of time, or None if they are not of the simple kind."""
    columns = {op.column for op in ops if op.column is not None}
    if len(columns) != 1 or any(op.kind not in KINDS for op in ops):
        return None
    values = chunk.columns[next(iter(columns))]
    if values.data.dtype != np.int64 or values.valid is not None:
        return None
    starts, key_count = slices[0], keys.count
    if not 0 < key_count <= len(keys.table) <= TABLE_SPAN_MAX or EVENTS_PER_KEY * key_count * len(starts) > len(chunk):
        return None
    bounds = np.append(np.searchsorted(chunk.times, starts), len(chunk))
    bounds[0] = 0
    size = len(starts) * key_count
    row_slice, row_key, counts = np.empty(size, np.int64), np.empty(size, np.int32), np.zeros(size, np.int64)
    limbs, ends = np.zeros((size, 2), np.uint64), np.empty(2 * size, np.int64)
    table = np.where(keys.table < 0, np.int32(key_count), keys.table)
    count = _sum_slices(
        frozen(keys.values, np.int64), keys.low, table, frozen(values.data, np.int64), bounds,
        np.empty(key_count + 1, np.int64), np.empty(2 * key_count + 2, np.int64), row_slice, row_key, counts, limbs, ends,
    )  # fmt: skip
    if count < 0:
        return None
    rows = Rows(NO_EVENTS, row_key[:count].copy(), starts[row_slice[:count]])
    counted = CountColumn(counts[:count].copy())
    made: dict[str, PartialColumn] = {
        "count": counted,
        "valid": counted,
        "sum": SumColumn(limbs[:count].copy(), 0, 0, INTEGER_HIGH),
        "min": MinMaxColumn.of(ends[0 : 2 * count : 2], largest=False, is_float=False),
        "max": MinMaxColumn.of(ends[1 : 2 * count : 2], largest=True, is_float=False),
    }
    return rows, {op: made[op.kind] for op in ops}


NO_EVENTS = np.empty(0, np.int32)
