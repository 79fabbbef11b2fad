"""The loops behind products: events into rows, and many overlapping ranges of rows at once.

A magnitude is three 64-bit words: of floats the bits of a mantissa in [1, 2), the bits of what that rounded away, and an
exponent; of integers the number itself (0: beyond ``2**63``) and two zeros. So one set of loops serves both.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.jit import leading_zeros, njit
from headwater.engine.operators.ranges import Survey, survey
from headwater.engine.operators.sums.blocks import INFINITY_BITS, MAGNITUDE
from headwater.engine.operators.sums.limbs import U
from headwater.engine.operators.sums.one_by_one import FRACTION

#: Columns of the array of counts, and how many there are.
FACTORS, ZERO, NEGATIVE, INFINITE, NOT_A_NUMBER = 0, 1, 2, 3, 4
MARKS = 5
#: Splits a float into two halves of 26 bits (Dekker).
SPLITTER = 134217729.0
ONE_BITS = np.int64(0x3FF << 52)
TOP = U(1 << 63)

Words: TypeAlias = tuple[np.int64, np.int64, np.int64]


def identity(is_float: bool) -> Int64Array:
    """The magnitude of an empty product.

    >>> identity(is_float=False)
    array([1, 0, 0])
    """
    return np.array([ONE_BITS if is_float else 1, 0, 0], np.int64)


def range_products(
    words: Int64Array, lo: Int64Array, hi: Int64Array, is_float: bool, seen: Survey | None = None
) -> Int64Array:
    """The product of the rows ``lo[i]:hi[i]`` for each i.

    >>> range_products(np.array([[2, 0, 0], [3, 0, 0]]), np.array([0, 1]), np.array([2, 1]), is_float=False)[:, 0]
    array([6, 1])
    """
    result = np.tile(identity(is_float), (len(lo), 1))
    seen = seen or survey(lo, hi)
    span = seen.last - seen.first
    if seen.total <= span.bit_length() * span:
        _products_directly(words, lo, hi, is_float, result)
    else:
        _products_by_level(words, lo, hi, seen.first, span.bit_length(), is_float, result)
    return result


@njit
def _float(bits: np.int64) -> np.float64:
    return np.int64(bits).view(np.float64)


@njit
def _bits(value: np.float64) -> np.int64:
    return np.float64(value).view(np.int64)


@njit
def _times_float(left: Words, right: Words) -> Words:
    a, b = _float(left[0]), _float(right[0])
    product = a * b
    a_high = a * SPLITTER - (a * SPLITTER - a)
    b_high = b * SPLITTER - (b * SPLITTER - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    rest = error + (a * _float(right[1]) + _float(left[1]) * b)
    mantissa = product + rest
    rest -= mantissa - product
    exponent = left[2] + right[2]
    if mantissa >= 2.0:
        mantissa, rest, exponent = mantissa * 0.5, rest * 0.5, exponent + 1
    elif mantissa < 1.0:
        mantissa, rest, exponent = mantissa * 2.0, rest * 2.0, exponent - 1
    return _bits(mantissa), _bits(rest), exponent


@njit
def _times_integer(left: Words, right: Words) -> Words:
    a, b = U(left[0]), U(right[0])
    spare = np.int64(leading_zeros(a)) + np.int64(leading_zeros(b))
    product = np.int64(0)
    if a != U(0) and b != U(0):
        if spare >= 64 and a * b <= TOP:
            product = np.int64(a * b)
        elif spare == 63 and a & (a - U(1)) == U(0) and b & (b - U(1)) == U(0):
            product = np.int64(TOP)  # exactly 2**63
    return product, np.int64(0), np.int64(0)


@njit
def _multiply_into(table: Int64Array, row: U, other: Words, is_float: bool) -> None:
    mine = (table[row, 0], table[row, 1], table[row, 2])
    product = _times_float(mine, other) if is_float else _times_integer(mine, other)
    table[row, 0], table[row, 1], table[row, 2] = product


@njit
def _magnitude_of_float(bits: np.int64) -> Words:
    """A finite float other than zero: mantissa in [1, 2) and exponent, subnormal numbers too."""
    magnitude = bits & MAGNITUDE
    exponent = magnitude >> 52
    fraction = magnitude & FRACTION
    if exponent == 0:
        shift = np.int64(leading_zeros(U(fraction))) - 11
        fraction = (fraction << shift) & FRACTION
        exponent = 1 - shift
    return fraction | ONE_BITS, np.int64(0), exponent - 1023


@njit
def multiply_events(
    bits: Int64Array, rows: Int32Array, valid: BoolArray, is_float: bool, words: Int64Array, marks: Int64Array
) -> None:
    """Multiply the events into their rows; row -1 is no row, and ``valid`` is empty if every event has a value."""
    for i in range(len(rows)):
        if rows[i] < 0 or (len(valid) and not valid[i]):
            continue
        row, value = U(rows[i]), bits[i]
        marks[row, FACTORS] += 1
        if is_float and value & MAGNITUDE > INFINITY_BITS:
            marks[row, NOT_A_NUMBER] += 1
            continue
        if value == 0 or (is_float and value & MAGNITUDE == 0):
            marks[row, ZERO] += 1
            continue
        marks[row, NEGATIVE] += value < 0
        if is_float and value & MAGNITUDE == INFINITY_BITS:
            marks[row, INFINITE] += 1
        elif is_float:
            _multiply_into(words, row, _magnitude_of_float(value), True)
        else:
            _multiply_into(words, row, (abs(value), np.int64(0), np.int64(0)), False)


@njit
def _products_directly(words: Int64Array, lo: Int64Array, hi: Int64Array, is_float: bool, result: Int64Array) -> None:
    for i in range(len(lo)):
        for j in range(lo[i], hi[i]):
            _multiply_into(result, U(i), (words[j, 0], words[j, 1], words[j, 2]), is_float)


@njit
def _products_by_level(
    words: Int64Array, lo: Int64Array, hi: Int64Array, first: int, levels: int, is_float: bool, result: Int64Array
) -> None:
    """A disjoint sparse table that holds one level at a time.

    On each level rows lie in blocks of ``2**level``, and the table holds products from the middle of the block outwards.
    A range is cut by the middle of exactly one block, on the level of the highest bit in which its ends differ: there it is
    the product of two entries. Products have no inverse after an overflow, so prefix products would not do.
    """
    table = np.empty((hi.max() - first, 3), np.int64)
    for level in range(levels + 1):
        half = 1 << max(level - 1, 0)
        if level > 0:
            _fill_outwards(words, first, half, is_float, table)
        for i in range(len(lo)):
            start, end = lo[i] - first, hi[i] - first - 1
            if start > end or 64 - np.int64(leading_zeros(U(start ^ end))) != level:
                continue
            if level == 0:
                result[i, :] = words[lo[i], :]
            else:
                result[i, :] = table[start, :]
                _multiply_into(result, U(i), (table[end, 0], table[end, 1], table[end, 2]), is_float)


@njit
def _fill_outwards(words: Int64Array, first: int, half: int, is_float: bool, table: Int64Array) -> None:
    for j in range(len(table)):
        table[j, :] = words[first + j, :]
    for middle in range(half, len(table), 2 * half):
        for j in range(middle + 1, min(middle + half, len(table))):
            _multiply_into(table, U(j), (table[j - 1, 0], table[j - 1, 1], table[j - 1, 2]), is_float)
        for j in range(middle - 2, middle - half - 1, -1):
            _multiply_into(table, U(j), (table[j + 1, 0], table[j + 1, 1], table[j + 1, 2]), is_float)
