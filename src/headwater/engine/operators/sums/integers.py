"""Integers into rows: count, exact sum, smallest and largest of each row in one pass over the events.

As long as a block's values are small enough that their sum cannot overflow, one 64-bit addition per event is exact; the
sum of the call has two words. Larger values, and rows too many for accumulators of their own, are added with a carry.
"""

from __future__ import annotations

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.jit import njit
from headwater.engine.operators.sums import blocks
from headwater.engine.operators.sums.blocks import BLOCK, BLOCK_BITS, CELLS, Accumulators, Scratch
from headwater.engine.operators.sums.limbs import U, add_signed
from headwater.engine.operators.sums.one_by_one import add_integers, add_squares_of_integers

#: A block's sums fit into 64 bits if its values are smaller than this.
SMALL = np.int64(1) << (63 - BLOCK_BITS)


@njit
def add_integer_events(
    values: Int64Array, rows: Int32Array, valid: BoolArray, scratch: Scratch, target: Accumulators
) -> None:
    """Add all events to their rows."""
    for begin in range(0, len(rows), BLOCK):
        end = min(begin + BLOCK, len(rows))
        block_values, block_rows = values[begin:end], rows[begin:end]
        if len(valid) or blocks.row_span(block_rows)[0] < 0:
            kept = blocks.keep(block_values, block_rows, valid[begin:end], scratch.kept_bits, scratch.kept_rows)
            block_values, block_rows = scratch.bits[:kept], scratch.rows[:kept]
        if len(block_rows):
            _add_block(block_values, block_rows, scratch.sums, target)
            if len(target.squares):
                add_squares_of_integers(block_values, block_rows, target.squares)


@njit
def _add_block(values: Int64Array, rows: Int32Array, sums: Int64Array, target: Accumulators) -> None:
    first, last = blocks.row_span(rows)
    span = last - first + 1
    few_rows = span == 1 or span * blocks.EVENTS_PER_ROW <= len(rows)
    if len(target.limbs) == 0 or not few_rows or blocks.used_bits(values) >= SMALL:
        blocks.add_counts(rows, target.counts)
        if len(target.limbs):
            add_integers(values, rows, target.limbs)
        if len(target.ends):
            blocks.add_ends(values, rows, target.ends)
        return
    sums[: CELLS * span] = 0
    if span == 1:
        _one_row(values, U(first), sums, target.ends)
    else:
        blindly = bool(len(target.ends) and span * blocks.EVENTS_PER_RECORD > len(rows))
        _several_rows(values, rows, U(first), sums, target.ends, blindly)
    for j in range(span):
        row, total = U(first + j), sums[CELLS * j]
        target.counts[row] += sums[CELLS * j + 1]
        add_signed(target.limbs, row, U(0), U(total), U(total >> 63))


@njit
def _several_rows(
    values: Int64Array, rows: Int32Array, first: U, sums: Int64Array, ends: Int64Array, blindly: bool
) -> None:
    for i in range(len(values)):
        at = (U(rows[i]) - first) * U(CELLS)
        sums[at] += values[i]
        sums[at + U(1)] += 1
        if blindly:
            blocks.add_end_blindly(values[i], U(rows[i]), ends)
        elif len(ends):
            blocks.add_end(values[i], U(rows[i]), ends)


@njit
def _one_row(values: Int64Array, row: U, sums: Int64Array, ends: Int64Array) -> None:
    """All events of a block in one row: nothing is stored before the end, and the loop runs four values at a time."""
    total, smallest, largest = np.int64(0), values[0], values[0]
    for i in range(len(values)):
        total += values[i]
        smallest = min(smallest, values[i])
        largest = max(largest, values[i])
    sums[0], sums[1] = total, len(values)
    if len(ends):
        blocks.add_end(smallest, row, ends)
        blocks.add_end(largest, row, ends)
