"""Products of rows: exact for integers, to about 30 digits for floats, and never lost to overflow on the way.

A magnitude of floats is a mantissa of two floats (their sum has 106 bits) times a power of two of its own, so ten million
factors stay far within 1e-12 and nothing overflows on the way. Signs, zeros, infinities and NaN are only counted: they
decide the result at the end. Integers have a 64-bit magnitude; with the signs apart, the one overflow that heals
(``2**63`` times -1) is right in every order, and zero times an overflow is zero.

A magnitude is three 64-bit words: of floats the bits of a mantissa in [1, 2), the bits of what that rounded away, and an
exponent; of integers the number itself (0: beyond ``2**63``) and two zeros. So one set of loops serves both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.base.arrays import BoolArray, Float64Array, Int32Array, Int64Array, RowArrays, frozen
from headwater.base.jit import leading_zeros, njit
from headwater.base.packing import Bytes, Reader, Writer
from headwater.engine.operators.ranges import Survey, sum_ranges, survey
from headwater.engine.operators.sums.blocks import INFINITY_BITS, MAGNITUDE
from headwater.engine.operators.sums.limbs import U
from headwater.engine.operators.sums.one_by_one import FRACTION
from headwater.errors import FormatError

VERSION = 1
#: Columns of the array of counts, and how many there are.
FACTORS, ZERO, NEGATIVE, INFINITE, NOT_A_NUMBER = range(5)
MARKS = 5
#: Splits a float into two halves of 26 bits (Dekker).
SPLITTER = 134217729.0
ONE_BITS, TWO_BITS = np.int64(0x3FF << 52), np.int64(0x400 << 52)
TOP = U(1 << 63)

Words: TypeAlias = tuple[np.int64, np.int64, np.int64]
NO_MASK = frozen(np.empty(0, np.bool_), np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class ProductColumn(RowArrays):
    """The product of each row.

    ``words`` holds the magnitudes: mantissa, its remainder and exponent for floats (``is_float``); for integers the
    magnitude, 0 meaning "beyond 64 bits". ``marks`` counts factors, zeros, negative, infinite and NaN factors.

    >>> column = lift_product(np.array([2.0, -3.0, 0.5]), None, np.array([0, 1, 1], np.int32), 2)
    >>> column.combine_ranges(np.array([0]), np.array([2])).values()
    (array([-3.]), array([ True]))
    """

    words: Int64Array
    marks: Int64Array
    is_float: bool

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> Self:
        """Row i is the product of the rows ``lo[i]:hi[i]``."""
        seen = survey(lo, hi)
        if seen.all_single:
            return self.take(lo)
        return type(self)(
            range_products(self.words, lo, hi, self.is_float, seen), sum_ranges(self.marks, lo, hi, seen), self.is_float
        )

    def values(self) -> tuple[Int64Array | Float64Array, BoolArray]:
        """The products and which rows have factors at all; an integer product that overflowed is 0 (see `overflowed`)."""
        signs = 1 - 2 * (self.marks[:, NEGATIVE] & 1)
        present = self.marks[:, FACTORS] > 0
        if not self.is_float:
            # -(2**63) has its own magnitude as its pattern, so multiplying by the sign with wrap-around is right.
            numbers = self.words[:, 0] * signs
            return np.where(self.overflowed() | (self.marks[:, ZERO] > 0), 0, numbers), present
        with np.errstate(over="ignore", under="ignore"):
            exponents = np.clip(self.words[:, 2], -5000, 5000).astype(np.int32)
            sizes: Float64Array = np.ldexp(self._mantissas(), exponents)
        return self._with_marks(sizes * signs, signs), present

    def overflowed(self) -> BoolArray:
        """Which products of integers do not fit into 64 bits.

        >>> lift_product(np.array([2**62, 2, 0]), None, np.zeros(3, np.int32), 1).overflowed()  # the zero settles it
        array([False])
        """
        magnitudes = self.words[:, 0].astype(np.uint64)
        positive = self.marks[:, NEGATIVE] & 1 == 0
        beyond: BoolArray = (magnitudes == 0) | (positive & (magnitudes >> np.uint64(63) != 0))
        beyond[self.marks[:, ZERO] > 0] = False
        return beyond

    def geometric_mean(self) -> tuple[Float64Array, BoolArray]:
        """The n-th root of each product of n floats (NaN if the product is negative), and which rows have factors.

        >>> lift_product(np.array([1e300, 1e-300, 8.0]), None, np.zeros(3, np.int32), 1).geometric_mean()[0]
        array([2.])
        """
        counts = np.maximum(self.marks[:, FACTORS], 1)
        # The exponent is divided first, in integers: what is left for the logarithm is small and so its error is, too.
        whole, rest = np.divmod(self.words[:, 2], counts)
        with np.errstate(over="ignore", under="ignore"):
            roots = np.ldexp(np.exp2((np.log2(self._mantissas()) + rest) / counts), whole.astype(np.int32))
        odd_negatives = self.marks[:, NEGATIVE] & 1 == 1
        result = self._with_marks(roots, np.ones(len(self), np.int64))
        result[odd_negatives & (self.marks[:, ZERO] == 0)] = np.nan
        return result, self.marks[:, FACTORS] > 0

    def as_float(self) -> Self:
        """Products of integers as products of floats. One that is beyond 64 bits is infinite: its size is not known any more.

        >>> column = lift_product(np.array([2**60 + 1, -3]), None, np.zeros(2, np.int32), 1)
        >>> column.as_float().values()[0] == -3.0 * (2**60 + 1)
        array([ True])
        """
        marks, words = self.marks.copy(), np.tile(identity(True), (len(self), 1))
        for row, magnitude in enumerate(self.words[:, 0].view(np.uint64).tolist()):
            if magnitude == 0:
                marks[row, INFINITE] += 1
                continue
            exponent = magnitude.bit_length() - 1
            mantissa = float(magnitude)
            rest = math.ldexp(float(magnitude - int(mantissa)), -exponent)
            if mantissa == 2.0 ** (exponent + 1):
                exponent, rest = exponent + 1, rest / 2
            parts = np.array([math.ldexp(mantissa, -exponent), rest])
            words[row] = *parts.view(np.int64).tolist(), exponent
        return type(self)(words, marks, True)

    def to_bytes(self) -> bytes:
        """The byte form."""
        writer = Writer(VERSION).number(int(self.is_float))
        for table in (self.marks, self.words):
            for column in table.T:
                writer.ints(np.ascontiguousarray(column))
        return writer.finish()

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """The column whose `to_bytes` this is; anything else is a `FormatError`."""
        with Reader(data, "products", VERSION) as reader:
            is_float = reader.number()
            parts = [reader.ints() for _ in range(MARKS + 3)]
            marks, words = np.split(np.stack(parts, axis=1), [MARKS], axis=1)
        if is_float > 1 or not _plausible(words, marks, bool(is_float)):
            raise FormatError("a product that cannot be")
        return cls(words, marks, bool(is_float))

    def _mantissas(self) -> Float64Array:
        return np.ascontiguousarray(self.words[:, 0]).view(np.float64)

    def _with_marks(self, values: Float64Array, signs: Int64Array) -> Float64Array:
        zero, infinite = self.marks[:, ZERO] > 0, self.marks[:, INFINITE] > 0
        values[infinite] = np.inf * signs[infinite]
        values[zero] = 0.0
        values[(self.marks[:, NOT_A_NUMBER] > 0) | (zero & infinite)] = np.nan
        return values


def lift_product(
    data: NDArray[Any], valid: BoolArray | None, rows: Int32Array, row_count: int, as_float: bool = False
) -> ProductColumn:
    """The product of each row's values; row -1 is no row. Integers stay integers unless ``as_float``."""
    is_float = as_float or data.dtype.kind == "f"
    marks = np.zeros((row_count, MARKS), np.int64)
    words = np.tile(identity(is_float), (row_count, 1))
    bits = frozen(data, np.float64).view(np.int64) if is_float else frozen(data, np.int64)
    mask = NO_MASK if valid is None else frozen(valid, np.bool_)
    multiply_events(bits, frozen(rows, np.int32), mask, is_float, words, marks)
    return ProductColumn(words, marks, is_float)


def _plausible(words: Int64Array, marks: Int64Array, is_float: bool) -> bool:
    if (marks < 0).any() or (marks[:, 1:] > marks[:, :1]).any():
        return False
    if not is_float:
        return not words[:, 1:].any()
    remainders = np.ascontiguousarray(words[:, 1]).view(np.float64)
    normal = (words[:, 0] >= ONE_BITS) & (words[:, 0] < TWO_BITS) & (np.abs(remainders) <= 2.0**-53)
    return bool((normal & (np.abs(words[:, 2]) < 2**48)).all())


def identity(is_float: bool) -> Int64Array:
    """The magnitude of an empty product.

    >>> identity(is_float=False)
    array([1, 0, 0])
    """
    return np.array([ONE_BITS if is_float else 1, 0, 0], np.int64)


def range_products(words: Int64Array, lo: Int64Array, hi: Int64Array, is_float: bool, seen: Survey) -> Int64Array:
    """The product of the rows ``lo[i]:hi[i]`` for each i.

    >>> lo, hi = np.array([0, 1]), np.array([2, 1])
    >>> range_products(np.array([[2, 0, 0], [3, 0, 0]]), lo, hi, is_float=False, seen=survey(lo, hi))[:, 0]
    array([6, 1])
    """
    result = np.tile(identity(is_float), (len(lo), 1))
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
