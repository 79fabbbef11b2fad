"""Arithmetic on whole numbers of several 64-bit words, many at a time: the ground the exact sum stands on.

Row i of ``limbs`` (uint64, one row per number, least significant word first) is a number in two's complement.
Additions carry from word to word and wrap around at the top, so that differences of prefix sums are right even where a
prefix is not.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from headwater.base.arrays import Float64Array, Int64Array, UInt64Array
from headwater.base.jit import leading_zeros, njit

Integer: TypeAlias = int | np.int64
#: (negative, first 64 bits, next 64 bits, whether more follows, exponent of the first word's unit)
Leading: TypeAlias = tuple[bool, np.uint64, np.uint64, bool, Integer]

U = np.uint64
ZERO, ONE, WORD, LAST_BIT = U(0), U(1), U(64), U(63)
LOW_HALF = U(2**32 - 1)
HALF = U(32)


@njit
def add_words(limbs: UInt64Array, row: U, k: U, low: U, high: U) -> None:
    """Add ``low + high * 2**64`` to one number, from its word ``k`` on."""
    width = U(limbs.shape[1])
    word = limbs[row, k] + low
    carry = U(word < low)
    limbs[row, k] = word
    k += ONE
    word = high
    while k < width and (word | carry) != ZERO:
        total = limbs[row, k] + word
        with_carry = total + carry
        carry = U((total < word) | (with_carry < total))
        limbs[row, k] = with_carry
        word = ZERO
        k += ONE


@njit
def subtract_words(limbs: UInt64Array, row: U, k: U, low: U, high: U) -> None:
    """Subtract ``low + high * 2**64`` from one number, from its word ``k`` on."""
    width = U(limbs.shape[1])
    word = limbs[row, k]
    borrow = U(word < low)
    limbs[row, k] = word - low
    k += ONE
    word = high
    while k < width and (word | borrow) != ZERO:
        old = limbs[row, k]
        rest = old - word
        limbs[row, k] = rest - borrow
        borrow = U((old < word) | (rest < borrow))
        word = ZERO
        k += ONE


@njit
def add_two_words(limbs: UInt64Array, row: U, shift: U, low: U, high: U) -> None:
    """What `add_signed` does, for numbers of two words: ordinary data has no more, so this is the path that counts."""
    if shift < WORD:
        high = (high << shift) | ((low >> ONE) >> (LAST_BIT - shift))
        low <<= shift
    else:
        high = low << (shift - WORD)
        low = ZERO
    total = limbs[row, 0] + low
    limbs[row, 0] = total
    limbs[row, 1] += high + U(total < low)


@njit
def add_signed(limbs: UInt64Array, row: U, shift: U, low: U, high: U) -> None:
    """Add the signed 128-bit number ``(high, low)``, shifted left by ``shift`` bits, to one number."""
    if limbs.shape[1] == 2:
        add_two_words(limbs, row, shift, low, high)
        return
    bits = shift & LAST_BIT
    sign = U(np.int64(high) >> 63)
    words = (low, high, sign)
    if bits != ZERO:
        rest = WORD - bits
        words = (low << bits, (high << bits) | (low >> rest), (sign << bits) | (high >> rest))
    carry = ZERO
    word, following, last = words
    for k in range(shift >> U(6), U(limbs.shape[1])):
        total = limbs[row, k] + word
        with_carry = total + carry
        carry = U((total < word) | (with_carry < total))
        limbs[row, k] = with_carry
        word, following, last = following, last, sign


@njit
def prefix_sums(limbs: UInt64Array) -> UInt64Array:
    """Row i of the result is the sum of the rows before i; there is one row more."""
    count, width = limbs.shape
    sums = np.empty((count + 1, width), np.uint64)
    sums[0, :] = ZERO
    if width == 2:
        low, high = ZERO, ZERO
        for i in range(count):
            low += limbs[i, 0]
            high += limbs[i, 1] + U(low < limbs[i, 0])
            sums[i + 1, 0] = low
            sums[i + 1, 1] = high
        return sums
    for i in range(count):
        carry = ZERO
        for k in range(width):
            total = sums[i, k] + limbs[i, k]
            with_carry = total + carry
            carry = U((total < limbs[i, k]) | (with_carry < total))
            sums[i + 1, k] = with_carry
    return sums


@njit
def differences(sums: UInt64Array, lo: Int64Array, hi: Int64Array, base: int) -> UInt64Array:
    """Row ``hi[i]`` minus row ``lo[i]`` of prefix sums that begin at row ``base``."""
    count, width = len(lo), sums.shape[1]
    result = np.empty((count, width), np.uint64)
    if width == 2:
        for i in range(count):
            start, end = U(lo[i] - base), U(hi[i] - base)
            low = sums[end, 0] - sums[start, 0]
            result[i, 0] = low
            result[i, 1] = sums[end, 1] - sums[start, 1] - U(low > sums[end, 0])
        return result
    for i in range(count):
        start, end = U(lo[i] - base), U(hi[i] - base)
        borrow = ZERO
        for k in range(width):
            old, word = sums[end, k], sums[start, k]
            rest = old - word
            result[i, k] = rest - borrow
            borrow = U((old < word) | (rest < borrow))
    return result


@njit
def range_sums(limbs: UInt64Array, lo: Int64Array, hi: Int64Array) -> UInt64Array:
    """The sum of the rows ``lo[i]:hi[i]`` for each i, row by row: the better way when ranges are few or short."""
    count, width = len(lo), limbs.shape[1]
    result = np.zeros((count, width), np.uint64)
    for i in range(count):
        for j in range(lo[i], hi[i]):
            carry = ZERO
            for k in range(width):
                total = result[i, k] + limbs[j, k]
                with_carry = total + carry
                carry = U((total < limbs[j, k]) | (with_carry < total))
                result[i, k] = with_carry
    return result


@njit
def leading_bits_of_two(low: U, high: U) -> Leading:
    """What `leading_bits` gives, for a number of two words: ordinary data has no more, so this one counts."""
    mask = U(np.int64(high) >> 63)
    low = (low ^ mask) - mask
    high = (high ^ mask) + (U(low == ZERO) & mask)
    if high == ZERO:
        if low == ZERO:
            return False, ZERO, ZERO, False, 0
        zeros = U(leading_zeros(low))
        return bool(mask != ZERO), low << zeros, ZERO, False, -np.int64(zeros)
    zeros = U(leading_zeros(high))
    first = (high << zeros) | ((low >> ONE) >> (LAST_BIT - zeros))
    return bool(mask != ZERO), first, low << zeros, False, 64 - np.int64(zeros)


@njit
def leading_bits(limbs: UInt64Array, i: int, magnitude: UInt64Array) -> Leading:
    """One number as its sign and its first bits.

    The first bit is set, except for zero, where both words are zero. ``magnitude`` is room for one number.
    """
    width = limbs.shape[1]
    negative = bool(limbs[i, width - 1] >> LAST_BIT != ZERO)
    carry = ONE
    top = -1
    for k in range(width):
        word = limbs[i, k]
        if negative:
            word = ~word + carry
            carry = U((carry != ZERO) & (word == ZERO))
        magnitude[k] = word
        if word != ZERO:
            top = k
    if top < 0:
        return False, ZERO, ZERO, False, 0
    zeros = U(leading_zeros(magnitude[top]))
    rest = LAST_BIT - zeros
    first = magnitude[top] << zeros
    following = ZERO
    more = False
    if top > 0:
        first |= (magnitude[top - 1] >> ONE) >> rest
        following = magnitude[top - 1] << zeros
    if top > 1:
        following |= (magnitude[top - 2] >> ONE) >> rest
        more = (magnitude[top - 2] << zeros) != ZERO
    for k in range(top - 2):
        more |= magnitude[k] != ZERO
    return negative, first, following, more, 64 * top - np.int64(zeros)


@njit
def rounded(negative: bool, word: U, more: bool, exponent: Integer) -> float:
    """The float nearest to ``word * 2**exponent`` (plus a little if ``more``), ties to even.

    The first bit of ``word`` is set. It is rounded once, also where the result is subnormal; beyond the largest float
    lies infinity.
    """
    if more:
        word |= ONE  # eleven bits are cut off at least: the last one only says that something follows
    if exponent + 63 >= -1022:
        # 63 bits, the last one still saying whether more follows: the machine converts signed numbers faster.
        pattern = np.float64(np.int64((word >> ONE) | (word & ONE))).view(np.int64)
        exponent += 1
        if (pattern >> 52) + exponent >= 2047:
            pattern = np.int64(2047) << 52
        else:
            pattern += np.int64(exponent) << 52
    elif exponent < -1138:
        pattern = np.int64(0)
    elif exponent == -1138:  # below the smallest float: above its half, or not
        pattern = np.int64(word > (ONE << LAST_BIT))
    else:
        cut = U(-1074 - exponent)
        kept, lost, half = word >> cut, word & ((ONE << cut) - ONE), ONE << (cut - ONE)
        pattern = np.int64(kept + U((lost > half) | ((lost == half) & (kept & ONE != ZERO))))
    value = np.int64(pattern).view(np.float64)
    return -value if negative else value


@njit
def to_floats(limbs: UInt64Array, low: int) -> Float64Array:
    """Each number times ``2**low`` as the nearest float."""
    result = np.zeros(len(limbs), np.float64)
    if limbs.shape[1] == 2:
        for i in range(len(limbs)):
            negative, first, following, more, exponent = leading_bits_of_two(limbs[i, 0], limbs[i, 1])
            if first != ZERO:
                result[i] = rounded(negative, first, following != ZERO, exponent + low)
        return result
    magnitude = np.empty(limbs.shape[1], np.uint64)
    for i in range(len(limbs)):
        negative, first, following, more, exponent = leading_bits(limbs, i, magnitude)
        if first != ZERO:
            result[i] = rounded(negative, first, more | (following != ZERO), exponent + low)
    return result


@njit
def quotient(negative: bool, first: U, following: U, more: bool, exponent: Integer, divisor: U) -> float:
    """What `leading_bits` describes, divided by a number in ``1..2**32 - 1``, as the nearest float.

    A long division in base ``2**32`` of the first 96 bits: that leaves at least 64 bits of quotient, and whether a
    remainder follows decides the rest.
    """
    high = (first >> HALF) // divisor
    part = (((first >> HALF) - high * divisor) << HALF) | (first & LOW_HALF)
    middle = part // divisor
    part = ((part - middle * divisor) << HALF) | (following >> HALF)
    last = part // divisor
    more |= (part != last * divisor) | (following & LOW_HALF != ZERO)
    word = (middle << HALF) | last
    cut = WORD - U(leading_zeros(high))
    if cut != ZERO:
        more |= word << (WORD - cut) != ZERO
        word = (high << (WORD - cut)) | (word >> cut)
    return rounded(negative, word, more, exponent + np.int64(cut) - 32)


@njit
def quotients(limbs: UInt64Array, low: int, counts: Int64Array) -> Float64Array:
    """Each number times ``2**low``, divided by its count, as the nearest float; NaN where that is not in 1..2**32-1."""
    result = np.zeros(len(limbs), np.float64)
    magnitude = np.empty(limbs.shape[1], np.uint64)
    two_words = limbs.shape[1] == 2
    for i in range(len(limbs)):
        if counts[i] <= 0 or counts[i] >> 32 != 0:
            result[i] = np.nan
            continue
        if two_words:
            negative, first, following, more, exponent = leading_bits_of_two(limbs[i, 0], limbs[i, 1])
        else:
            negative, first, following, more, exponent = leading_bits(limbs, i, magnitude)
        if first != ZERO:
            result[i] = quotient(negative, first, following, more, exponent + low, U(counts[i]))
    return result
