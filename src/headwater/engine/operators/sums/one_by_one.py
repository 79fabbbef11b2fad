"""Single values added to numbers of several words: the way that always works, one value at a time.

A float is a whole number of 53 bits times a power of two; added at the right bit of its row's number it is exact, and so is
its square of 106 bits. `floats` and `integers` have faster ways for blocks of ordinary values.
"""

from __future__ import annotations

import numpy as np

from headwater.base.arrays import Int32Array, Int64Array, UInt64Array
from headwater.base.jit import njit
from headwater.engine.operators.sums.limbs import (
    HALF,
    LAST_BIT,
    LOW_HALF,
    ONE,
    ZERO,
    U,
    add_two_words,
    add_words,
    subtract_words,
)

#: The bits of a float that hold its fraction, and the one above them that is not written.
FRACTION = np.int64(2**52 - 1)
IMPLICIT_ONE = np.int64(2**52)


@njit
def add_floats(bits: Int64Array, rows: Int32Array, limbs: UInt64Array, low: int) -> None:
    """Add finite floats, given by their bits, to their rows; ``2**low`` is the unit of the numbers."""
    two_words = limbs.shape[1] == 2
    for i in range(len(bits)):
        pattern = bits[i]
        exponent = (pattern >> 52) & 0x7FF
        mantissa = pattern & FRACTION
        if exponent == 0:
            if mantissa == 0:
                continue  # also -0.0, whose sign without a number would count as minus one in the upper word
            exponent = 1  # subnormal: the same unit as the smallest normal numbers, without the implicit one
        else:
            mantissa |= IMPLICIT_ONE
        shift = U(exponent - 1075 - low)
        if two_words:
            sign = pattern >> 63
            add_two_words(limbs, U(rows[i]), shift, U((mantissa ^ sign) - sign), U(sign))
        else:
            place = shift & LAST_BIT
            low_word = U(mantissa) << place
            high_word = (U(mantissa) >> ONE) >> (LAST_BIT - place)
            if pattern >= 0:
                add_words(limbs, U(rows[i]), shift >> U(6), low_word, high_word)
            else:
                subtract_words(limbs, U(rows[i]), shift >> U(6), low_word, high_word)


@njit
def add_integers(values: Int64Array, rows: Int32Array, limbs: UInt64Array) -> None:
    """Add integers to the rows of numbers whose unit is one and that have two words."""
    for i in range(len(values)):
        row = U(rows[i])
        word = U(values[i])
        total = limbs[row, 0] + word
        limbs[row, 0] = total
        limbs[row, 1] += U(values[i] >> 63) + U(total < word)


@njit
def square(word: U) -> tuple[U, U]:
    """The square of a 64-bit number as (low, high)."""
    low, high = word & LOW_HALF, word >> HALF
    middle = low * high
    bottom = low * low
    total = bottom + (middle << U(33))
    return total, high * high + (middle >> U(31)) + U(total < bottom)


@njit
def add_squares_of_floats(bits: Int64Array, rows: Int32Array, limbs: UInt64Array, low: int) -> None:
    """Add the squares of finite floats to their rows; ``2**low`` is the unit of the numbers."""
    for i in range(len(bits)):
        exponent = (bits[i] >> 52) & 0x7FF
        mantissa = bits[i] & FRACTION
        if exponent == 0:
            exponent = 1
        else:
            mantissa |= IMPLICIT_ONE
        if mantissa != 0:
            below, above = square(U(mantissa))
            shift = U(2 * (exponent - 1075) - low)
            place, k, row = shift & LAST_BIT, shift >> U(6), U(rows[i])
            rest = LAST_BIT - place
            low_word, middle = below << place, (above << place) | ((below >> ONE) >> rest)
            total = limbs[row, k] + low_word
            carry = U(total < low_word)
            limbs[row, k] = total
            total = limbs[row, k + ONE] + middle
            with_carry = total + carry
            carry = U((total < middle) | (with_carry < total))
            limbs[row, k + ONE] = with_carry
            # The room above the largest square is what makes a third word certain to exist.
            add_words(limbs, row, k + U(2), ((above >> ONE) >> rest) + carry, ZERO)


@njit
def add_squares_of_integers(values: Int64Array, rows: Int32Array, limbs: UInt64Array) -> None:
    """Add the squares of integers to the rows of numbers whose unit is one."""
    for i in range(len(values)):
        word = U(values[i]) if values[i] >= 0 else ZERO - U(values[i])
        below, above = square(word)
        add_words(limbs, U(rows[i]), ZERO, below, above)
