"""The sample variance from exact sums, rounded once.

With n values, their sum S and the sum of their squares Q, the variance is (n * Q - S * S) / (n * (n - 1)). Everything above the
line is computed as a whole number of many words, so nothing cancels; the one division rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.base.arrays import BoolArray, Float64Array, Int64Array, UInt64Array
from headwater.base.jit import njit
from headwater.engine.operators.sums.exact_sum import SumColumn, rebased
from headwater.engine.operators.sums.limbs import HALF, LAST_BIT, LOW_HALF, ONE, ZERO, U, quotients

#: Up to this many values n * (n - 1) is a divisor that `quotients` takes.
COUNT_MAX = 1 << 16


def variances(sums: SumColumn, squares: SumColumn, counts: Int64Array) -> tuple[Float64Array, BoolArray]:
    """The variance of each row, and whether it has one: it takes two values.

    >>> sums, squares = SumColumn.from_python_ints([6, 7]), SumColumn.from_python_ints([14, 49])
    >>> variances(sums, squares, np.array([3, 1]))
    (array([ 1., nan]), array([ True, False]))
    """
    above, unit = _numerators(sums, squares, counts)
    small = (counts > 1) & (counts <= COUNT_MAX)
    result = quotients(above, unit, np.where(small, counts * (counts - 1), 0))
    for i in np.flatnonzero(counts > COUNT_MAX).tolist():
        number = int.from_bytes(above[i].astype("<u8").tobytes(), "little", signed=True)
        result[i] = _ratio(number, int(counts[i]) * (int(counts[i]) - 1), unit)
    if sums.specials is not None:
        result[(sums.specials > 0).any(axis=1)] = np.nan
    return result, counts > 1


def decimal_variances(
    sums: Sequence[int | None], squares: Sequence[int | None], counts: Int64Array, scale: int
) -> tuple[Float64Array, BoolArray]:
    """The variance of each row of decimals, and whether it has one.

    Their sums are whole numbers of the last digit and of its square.

    >>> decimal_variances([300, None], [50000, None], np.array([2, 0]), scale=2)
    (array([0.5, nan]), array([ True, False]))
    """
    result = np.full(len(counts), np.nan)
    for i, (total, square, count) in enumerate(zip(sums, squares, counts.tolist())):
        if count > 1 and total is not None and square is not None:
            result[i] = (count * square - total * total) / (count * (count - 1) * 10 ** (2 * scale))
    return result, counts > 1


def _ratio(number: int, divisor: int, exponent: int) -> float:
    """``number * 2**exponent / divisor``, rounded once: Python divides whole numbers that way."""
    try:
        return (number << max(exponent, 0)) / (divisor << max(-exponent, 0))
    except OverflowError:
        return float("inf")


def _numerators(sums: SumColumn, squares: SumColumn, counts: Int64Array) -> tuple[UInt64Array, int]:
    """n * Q - S * S of each row as words, and the exponent of their unit."""
    unit = min(squares.unit, 2 * sums.unit)
    # One word more than either side needs: n is smaller than that.
    words_of_squares = squares.limbs.shape[1] + (squares.unit - unit + 63) // 64 + 1
    words_of_product = 2 * sums.limbs.shape[1] + (2 * sums.unit - unit + 63) // 64 + 1
    width = max(words_of_squares, words_of_product)
    product = np.zeros((len(counts), 2 * sums.limbs.shape[1] + 1), np.uint64)
    _square(sums.limbs, product)
    above = rebased(squares.limbs, squares.unit, unit, width)
    above = above.copy() if above is squares.limbs else above
    _scale_and_subtract(above, counts, rebased(product, 2 * sums.unit, unit, width))
    return above, unit


@njit
def _square(limbs: UInt64Array, out: UInt64Array) -> None:
    """The square of each number; ``out`` is zero and one word wider than twice the numbers."""
    width = limbs.shape[1]
    halves = np.empty(2 * width, np.uint64)
    for i in range(len(limbs)):
        negative = limbs[i, width - 1] >> LAST_BIT != ZERO
        carry = ONE
        for k in range(width):
            word = limbs[i, k]
            if negative:
                word = ~word + carry
                carry = U((carry != ZERO) & (word == ZERO))
            halves[2 * k] = word & LOW_HALF
            halves[2 * k + 1] = word >> HALF
        for a in range(2 * width):
            if halves[a] == ZERO:
                continue
            carry = ZERO
            for b in range(2 * width):
                # Half a word at a time: product, carry and what is there already fit into one word.
                at = a + b
                shift = HALF * U(at & 1)
                there = (out[i, at >> 1] >> shift) & LOW_HALF
                total = halves[a] * halves[b] + carry + there
                out[i, at >> 1] ^= (there ^ (total & LOW_HALF)) << shift
                carry = total >> HALF
            at = a + 2 * width
            out[i, at >> 1] += carry << (HALF * U(at & 1))


@njit
def _scale_and_subtract(above: UInt64Array, counts: Int64Array, product: UInt64Array) -> None:
    """Multiply each number (not negative) by its count and subtract the other; in place."""
    for i in range(len(above)):
        low_count, high_count = U(counts[i]) & LOW_HALF, U(counts[i]) >> HALF
        carry, borrow = ZERO, ZERO
        for k in range(above.shape[1]):
            low, high = above[i, k] & LOW_HALF, above[i, k] >> HALF
            # (high, low) * (high_count, low_count) + carry, as two words.
            first = low * low_count
            cross = high * low_count + (first >> HALF)
            cross_2 = low * high_count + (cross & LOW_HALF)
            word = (cross_2 << HALF) | (first & LOW_HALF)
            over = high * high_count + (cross >> HALF) + (cross_2 >> HALF)
            total = word + carry
            carry = over + U(total < word)
            subtrahend = product[i, k]
            rest = total - subtrahend
            above[i, k] = rest - borrow
            borrow = U((total < subtrahend) | (rest < borrow))
