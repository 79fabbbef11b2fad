"""The straightest way from events to partials: integers of few keys, in order of time, in one pass over two columns.

Where events come sorted, slices are stretches of them. With few keys the accumulators of a slice stay in the processor, and no
row number is ever written down. Everything else takes the general way (slicer, then operators), with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from headwater.base.arrays import Int64Array, UInt64Array, frozen
from headwater.base.jit import njit
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.keys import DirectKeys
from headwater.engine.operators.extremes import MinMaxColumn
from headwater.engine.operators.numeric import INTEGER_HIGH, CountColumn
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import PartialColumn
from headwater.engine.operators.sums.exact_sum import SumColumn
from headwater.engine.operators.sums.limbs import U, add_signed
from headwater.engine.slices.slicer import RowsMade, SlicedRows, slice_bounds

KINDS = frozenset({"count", "valid", "sum", "min", "max"})
#: Events per stretch: their number and the sum of their values share one 64-bit accumulator.
STRETCH_BITS = 14
COUNT_BIT = 48
#: So a value may have this many bits.
VALUE_BITS = COUNT_BIT - 1 - STRETCH_BITS
#: A slice should have this many events per accumulator, or clearing and reading them is most of the work.
EVENTS_PER_CELL = 4
NEW_KEY, LARGE_VALUE = -1, -2
#: Of each row the count, the words of the sum, and the smallest and the largest value.
Totals: TypeAlias = tuple[Int64Array, UInt64Array, Int64Array]


@njit
def _sum_slices(
    keys: DirectKeys, values: Int64Array, slices: tuple[Int64Array, Int64Array], made: RowsMade, totals: Totals
) -> int:
    """Sum, count, smallest and largest value per slice and key; returns how many rows, or why it gave up.

    Accumulators stand at key - low, a cell of ``table``; only when a stretch is done is the number of a key looked up there.
    """
    table, (starts, bounds), (counts, limbs, row_ends) = keys.table, slices, totals
    sums, row_of, ends = (
        np.empty(len(table), np.int64),
        np.empty(len(table), np.int64),
        np.empty(2 * len(table), np.int64),
    )
    row = 0
    for s in range(len(starts)):
        row_of[:] = -1
        for cell in range(len(table)):
            ends[2 * cell] = np.int64(2**63 - 1)
            ends[2 * cell + 1] = -np.int64(2**63 - 1) - 1
        for begin in range(bounds[s], bounds[s + 1], 1 << STRETCH_BITS):
            end = min(begin + (1 << STRETCH_BITS), bounds[s + 1])
            sums[:] = 0
            used = _sum_stretch(keys.values[begin:end], keys.low, values[begin:end], sums, ends)
            if used < 0:
                return NEW_KEY
            if used >> VALUE_BITS:
                return LARGE_VALUE
            for cell in range(len(table)):
                if sums[cell] == 0:
                    continue
                if table[cell] < 0:
                    return NEW_KEY
                if row_of[cell] < 0:
                    made.first[row] = starts[s]
                    made.key[row] = table[cell]
                    row_of[cell] = row
                    row += 1
                count = (sums[cell] + (np.int64(1) << (COUNT_BIT - 1))) >> COUNT_BIT
                total = sums[cell] - (count << COUNT_BIT)
                counts[row_of[cell]] += count
                add_signed(limbs, U(row_of[cell]), U(0), U(total), U(total >> 63))
        for cell in range(len(table)):
            if row_of[cell] >= 0:
                row_ends[2 * row_of[cell]] = ends[2 * cell]
                row_ends[2 * row_of[cell] + 1] = ends[2 * cell + 1]
    return row


@njit
def _sum_stretch(keys: Int64Array, low: int, values: Int64Array, sums: Int64Array, ends: Int64Array) -> np.int64:
    """The hot loop; returns a number with every bit set that a value's magnitude needs, -1 if a key has no cell."""
    size = U(len(sums))
    used = np.int64(0)
    for i in range(len(keys)):
        cell = U(keys[i] - low)
        if cell >= size:
            return np.int64(-1)
        value = values[i]
        used |= value ^ (value >> 63)
        sums[cell] += value + (np.int64(1) << COUNT_BIT)
        # Branches, not min and max: a new record is rare, so they are predicted well and nothing is stored.
        if value < ends[cell + cell]:
            ends[cell + cell] = value
        if value > ends[cell + cell + U(1)]:
            ends[cell + cell + U(1)] = value
    return used


def lift_slices(
    ops: Sequence[Op],
    chunk: Chunk,
    keys: DirectKeys,
    slices: tuple[Int64Array, Int64Array],
    bounds: Int64Array | None = None,
) -> tuple[SlicedRows, dict[Op, PartialColumn]] | None:
    """Rows and partials of events in order of time, or None if they are not of the simple kind.

    ``bounds``: where slices begin among the events, if that is known.
    """
    names = {name for op in ops for name in op.columns}
    if len(names) != 1 or any(op.kind not in KINDS for op in ops):
        return None
    values = chunk.columns[next(iter(names))]
    if values.data.dtype != np.int64 or values.valid is not None:
        return None
    starts, cell_count = slices[0], len(keys.table)
    if EVENTS_PER_CELL * cell_count * len(starts) > len(chunk):
        return None
    bounds = slice_bounds(frozen(chunk.times, np.int64), starts) if bounds is None else bounds
    size = len(starts) * keys.key_count
    made = RowsMade.of(0, size)
    counts, limbs, ends = np.zeros(size, np.int64), np.zeros((size, 2), np.uint64), np.empty(2 * size, np.int64)
    count = _sum_slices(keys, frozen(values.data, np.int64), (starts, bounds), made, (counts, limbs, ends))
    if count < 0:
        return None
    counted = CountColumn(counts[:count].copy())
    columns: dict[str, PartialColumn] = {
        "count": counted,
        "valid": counted,
        "sum": SumColumn(limbs[:count].copy(), 0, 0, INTEGER_HIGH),
        "min": MinMaxColumn.of(ends[0 : 2 * count : 2], largest=False, is_float=False),
        "max": MinMaxColumn.of(ends[1 : 2 * count : 2], largest=True, is_float=False),
    }
    return made.rows(count), {op: columns[op.kind] for op in ops}
