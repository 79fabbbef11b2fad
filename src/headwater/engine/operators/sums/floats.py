"""Floats into rows: count, exact sum, smallest and largest of each row in one pass over the events.

The exact sum costs six additions per event. If all values of a block lie within 42 powers of two of each other, adding
the right large constant to a value leaves its upper bits, as a whole number, in the bits of the result; what was rounded
away is found exactly by subtracting, and a second constant leaves its bits the same way:

    upper = value + LARGE;  lower = (value - (upper - LARGE)) + SMALL

Both are then added up as plain 64-bit integers; the constants' own bits are taken off once per row and block. Wider
blocks, and blocks whose rows are too many for accumulators of their own, are added value by value (`added_values`).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from headwater.base.arrays import BoolArray, Float64Array, Int32Array, Int64Array, UInt64Array
from headwater.base.jit import njit
from headwater.engine.operators.sums import blocks
from headwater.engine.operators.sums.blocks import (
    BLOCK,
    BLOCK_BITS,
    CELLS,
    INFINITY_BITS,
    MAGNITUDE,
    Accumulators,
    Scratch,
)
from headwater.engine.operators.sums.exact_sum import HEADROOM, NAN, NEGATIVE, POSITIVE
from headwater.engine.operators.sums.limbs import Integer, U, add_signed
from headwater.engine.operators.sums.one_by_one import add_floats, add_squares_of_floats

#: Bits of each half of a value: with the sign and a block's worth of additions they fill 64.
PART_BITS = 62 - BLOCK_BITS
#: A block is added in two halves if its values use no more bits than this, from the largest's first to the smallest's last.
SPREAD_MAX = 2 * PART_BITS + 1
#: Above this exponent LARGE would be infinite.
HIGH_MAX = 1018
#: What the target cannot hold yet. The caller makes room, and the kernel goes on where it stopped.
NEEDS_NOTHING, NEEDS_WIDTH, NEEDS_SPECIALS = 0, 1, 2
#: LARGE and SMALL.
Constants: TypeAlias = tuple[np.float64, np.float64]
#: The bounds of no value at all.
NO_LOW, NO_HIGH = 1 << 20, -(1 << 20)


@njit
def add_float_events(
    bits: Int64Array,
    values: Float64Array,
    rows: Int32Array,
    valid: BoolArray,
    start: int,
    unit: int,
    squares_unit: int,
    scratch: Scratch,
    target: Accumulators,
) -> tuple[int, int, Integer, Integer]:
    """Add the events from ``start`` on to their rows, until all are in or the target has no room.

    Returns the next event, what it needs, and the bounds of all values seen: multiples of ``2**low`` below ``2**high``.
    """
    low, high = np.int64(NO_LOW), np.int64(NO_HIGH)
    for begin in range(start, len(rows), BLOCK):
        end = min(begin + BLOCK, len(rows))
        block_bits, block_values, block_rows = bits[begin:end], values[begin:end], rows[begin:end]
        if len(valid) or blocks.row_span(block_rows)[0] < 0:
            kept = blocks.keep(block_bits, block_rows, valid[begin:end], scratch.kept_bits, scratch.kept_rows)
            block_bits, block_values, block_rows = scratch.bits[:kept], scratch.values[:kept], scratch.rows[:kept]
        largest, smallest = blocks.magnitude_span(block_bits)
        special = largest >= INFINITY_BITS
        if special:
            if len(target.specials) == 0:
                return begin, NEEDS_SPECIALS, low, high
            largest, smallest = blocks.finite_magnitude_span(block_bits)
        # Zeros need nothing: any bounds that fit will do.
        block_low = max(np.int64(unit), np.int64(-1074))
        block_high = block_low + 53
        if largest != 0:
            # Subnormal numbers have the exponent 0 but the unit of exponent 1.
            block_low = max(smallest >> 52, np.int64(1)) - 1075
            block_high = max(largest >> 52, np.int64(1)) - 1022
            low, high = min(low, block_low), max(high, block_high)
            if not _fits(block_low, block_high, target.limbs, unit):
                return begin, NEEDS_WIDTH, low, high
            if not _fits(2 * block_low, 2 * block_high, target.squares, squares_unit):
                return begin, NEEDS_WIDTH, low, high
        if special:
            kept = _set_apart(block_bits, block_values, block_rows, scratch.kept_bits, scratch.kept_rows, target)
            block_bits, block_values, block_rows = scratch.bits[:kept], scratch.values[:kept], scratch.rows[:kept]
        if len(block_rows):
            _add_block(block_bits, block_values, block_rows, block_low, block_high, unit, scratch.sums, target)
            if len(target.squares):
                add_squares_of_floats(block_bits, block_rows, target.squares, squares_unit)
    return len(rows), NEEDS_NOTHING, low, high


@njit
def _fits(low: Integer, high: Integer, limbs: UInt64Array, unit: int) -> bool:
    """Whether sums of such values fit; nothing is asked of accumulators that are not wanted."""
    return len(limbs) == 0 or bool((low >= unit) & (high <= unit + 64 * limbs.shape[1] - 1 - HEADROOM))


@njit
def _set_apart(
    bits: Int64Array,
    values: Float64Array,
    rows: Int32Array,
    kept_bits: Int64Array,
    kept_rows: Int32Array,
    target: Accumulators,
) -> np.int64:
    """Account for infinities and NaN, and copy all other events; returns how many those are."""
    kept = np.int64(0)
    for i in range(len(bits)):
        row, magnitude = U(rows[i]), bits[i] & MAGNITUDE
        if magnitude < INFINITY_BITS:
            kept_bits[kept] = bits[i]
            kept_rows[kept] = rows[i]
            kept += 1
            continue
        target.counts[row] += 1
        if magnitude > INFINITY_BITS:
            target.specials[row, NAN] += 1
            continue
        target.specials[row, POSITIVE if bits[i] > 0 else NEGATIVE] += 1
        if len(target.ends):
            blocks.add_end(values[i], row, target.ends)
    return kept


@njit
def _add_block(
    bits: Int64Array,
    values: Float64Array,
    rows: Int32Array,
    low: Integer,
    high: Integer,
    unit: int,
    sums: Int64Array,
    target: Accumulators,
) -> None:
    """Add finite values, all multiples of ``2**low`` and below ``2**high``, to their rows."""
    first, last = blocks.row_span(rows)
    span = last - first + 1
    narrow = high - low <= SPREAD_MAX and high <= HIGH_MAX
    if len(target.limbs) == 0 or not narrow or (span > 1 and span * blocks.EVENTS_PER_ROW > len(rows)):
        blocks.add_counts(rows, target.counts)
        if len(target.limbs):
            add_floats(bits, rows, target.limbs, unit)
        if len(target.ends):
            blocks.add_ends(values, rows, target.ends)
        return
    sums[: CELLS * span] = 0
    constants = _constant(high - PART_BITS), _constant(low)
    if span == 1:
        _one_row(bits, values, U(first), constants, sums, target.ends)
    else:
        blindly = bool(len(target.ends) and span * blocks.EVENTS_PER_RECORD > len(rows))
        _several_rows(values, rows, U(first), constants, sums, target.ends, blindly)
    _flush(first, span, low, high, unit, sums, target)


@njit
def _constant(exponent: Integer) -> np.float64:
    """The float in the middle of the binade whose last bit is worth ``2**exponent``."""
    return np.int64((np.int64(exponent + 52 + 1023) << 52) | (np.int64(1) << 51)).view(np.float64)


@njit
def _several_rows(
    values: Float64Array,
    rows: Int32Array,
    first: U,
    constants: Constants,
    sums: Int64Array,
    ends: Float64Array,
    blindly: bool,
) -> None:
    large, small = constants
    for i in range(len(values)):
        value = values[i]
        upper = value + large
        lower = (value - (upper - large)) + small
        at = (U(rows[i]) - first) * U(CELLS)
        sums[at] += np.float64(upper).view(np.int64)
        sums[at + U(1)] += np.float64(lower).view(np.int64)
        sums[at + U(2)] += 1
        if blindly:
            blocks.add_end_blindly(value, U(rows[i]), ends)
        elif len(ends):
            blocks.add_end(value, U(rows[i]), ends)


@njit
def _one_row(
    bits: Int64Array, values: Float64Array, row: U, constants: Constants, sums: Int64Array, ends: Float64Array
) -> None:
    """All events of a block in one row: nothing is stored before the end, and the loops run four values at a time."""
    large, small = constants
    upper_sum, lower_sum = np.int64(0), np.int64(0)
    for i in range(len(values)):
        upper = values[i] + large
        lower = (values[i] - (upper - large)) + small
        upper_sum += np.float64(upper).view(np.int64)
        lower_sum += np.float64(lower).view(np.int64)
    sums[0], sums[1], sums[2] = upper_sum, lower_sum, len(values)
    if len(ends):
        # As integers of the same order: only those are compared four at a time.
        smallest, largest = MAGNITUDE, ~MAGNITUDE
        for i in range(len(bits)):
            key = bits[i] ^ ((bits[i] >> 63) & MAGNITUDE)
            smallest = min(smallest, key)
            largest = max(largest, key)
        blocks.add_end(np.int64(smallest ^ ((smallest >> 63) & MAGNITUDE)).view(np.float64), row, ends)
        blocks.add_end(np.int64(largest ^ ((largest >> 63) & MAGNITUDE)).view(np.float64), row, ends)


@njit
def _flush(
    first: np.int64, span: np.int64, low: Integer, high: Integer, unit: int, sums: Int64Array, target: Accumulators
) -> None:
    """Add a block's sums to the rows, without the bits of the constants that each event brought along."""
    large_bits = np.float64(_constant(high - PART_BITS)).view(np.int64)
    small_bits = np.float64(_constant(low)).view(np.int64)
    place = np.int64(high - PART_BITS - low)
    for j in range(span):
        count = sums[CELLS * j + 2]
        if count:
            row = U(first + j)
            target.counts[row] += count
            upper = sums[CELLS * j] - count * large_bits
            lower = sums[CELLS * j + 1] - count * small_bits
            low_word = U(upper << place) + U(lower)
            high_word = U(upper >> (64 - place)) + U(lower >> 63) + U(low_word < U(lower))
            add_signed(target.limbs, row, U(low - unit), low_word, high_word)
