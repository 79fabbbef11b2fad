"""Exact sums: whatever the order and the grouping, the same bits.

A sum of floats is kept as a whole number times a power of two, wide enough that nothing is ever rounded away; only
`SumColumn.to_float64` and `SumColumn.mean` round, once, at the very end. Every float64 is a whole multiple of
``2**-1074``, but ordinary data needs a few dozen binary places only, so a column has one unit ``2**unit`` for all its
rows and as many 64-bit words per row as its data demands: two for almost all data (see `layout`). Infinities and NaN
are counted apart.

Not floating-point expansions or a superaccumulator per row: their size depends on the order of events, or is 272 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from headwater.base.arrays import BoolArray, Float64Array, Int64Array, RowArrays, UInt64Array
from headwater.base.packing import Bytes
from headwater.engine.operators.ranges import sum_ranges, survey
from headwater.engine.operators.sums import bytes as sum_bytes
from headwater.engine.operators.sums.limbs import (
    differences,
    prefix_sums,
    quotients,
    range_sums,
    to_floats,
)

#: Bits above the largest value: sums of up to ``2**36`` events cannot overflow.
HEADROOM = 36
#: A column holds at most ``2**30`` rows, so rows that are sums already need less room above them than events.
ROW_HEADROOM = 30
#: Columns of up to this many words are not worth the search for a narrower form.
NARROW = 4
#: Columns of the array that counts special values.
NAN, POSITIVE, NEGATIVE = 0, 1, 2


def width_of(low: int, high: int) -> int:
    """How many 64-bit words hold sums of values that are multiples of ``2**low`` and smaller than ``2**high``.

    >>> width_of(low=-72, high=3), width_of(low=-1074, high=1024)
    (2, 34)
    """
    return max(2, -((low - high - HEADROOM - 1) // 64))


def layout(low: int, high: int) -> tuple[int, int]:
    """The unit's exponent and the words per row for values between ``2**low`` and ``2**high``.

    The unit is rounded down to a coarse step as far as that needs no further word. So the columns of different batches
    mostly agree and are joined without a shift. It is always a whole number of bytes, which the byte form relies on.

    >>> layout(low=-71, high=3), layout(low=-83, high=3)
    ((-80, 2), (-88, 2))
    """
    width = width_of(low & -8, high)
    unit = next(low & -step for step in (32, 16, 8) if width_of(low & -step, high) == width)
    return unit, width


@dataclass(frozen=True, slots=True, eq=False)
class SumColumn(RowArrays):
    """The exact sums of many rows. Row i is the number ``limbs[i]`` (two's complement) times ``2**unit``.

    Every value that was added is a multiple of ``2**low``, which the unit divides, and smaller than ``2**high``.
    ``specials`` counts NaN, infinity and minus infinity per row and is None while none was seen. Columns are values:
    nothing changes them.

    >>> column = SumColumn.from_python_ints([3, -5, 2**70])
    >>> column.combine_ranges(np.array([0, 0]), np.array([2, 3])).to_float64()
    array([-2.00000000e+00,  1.18059162e+21])
    """

    limbs: UInt64Array
    unit: int
    low: int
    high: int
    specials: Int64Array | None = None

    @classmethod
    def zeros(cls, count: int) -> Self:
        """A column of empty sums."""
        return cls(np.zeros((count, 2), np.uint64), 0, 0, 0)

    @classmethod
    def from_python_ints(cls, values: Sequence[int], exponent: int = 0) -> Self:
        """Row i is ``values[i] * 2**exponent``.

        >>> SumColumn.from_python_ints([1, -3], exponent=-1).to_float64()
        array([ 0.5, -1.5])
        """
        bits = max((value.bit_length() for value in values), default=0)
        high = exponent + bits - HEADROOM + ROW_HEADROOM
        unit, width = layout(exponent, high)
        rows = b"".join((value << exponent - unit).to_bytes(8 * width, "little", signed=True) for value in values)
        limbs = np.frombuffer(rows, "<u8").astype(np.uint64).reshape(len(values), width)
        return cls(limbs, unit, exponent, high)

    def take(self, indices: Int64Array) -> Self:
        """The rows at ``indices``."""
        return RowArrays.take(self, indices)._narrowed()

    @classmethod
    def concat(cls, columns: Sequence[Self]) -> Self:
        """All rows, one column after the other, with a unit and a width that hold them all."""
        high = max((column.high for column in columns), default=0)
        low = min((column.low for column in columns), default=0)
        unit, width = layout(low, high)
        limbs = [rebased(column.limbs, column.unit, unit, width) for column in columns]
        specials = None
        if any(column.specials is not None for column in columns):
            specials = np.concatenate([column._all_specials() for column in columns])
        return cls(np.concatenate(limbs) if limbs else np.zeros((0, width), np.uint64), unit, low, high, specials)

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> Self:
        """Row i is the sum of the rows ``lo[i]:hi[i]``."""
        seen = survey(lo, hi)
        if seen.all_single:
            return self.take(lo)
        specials = None if self.specials is None else sum_ranges(self.specials, lo, hi, seen)
        if seen.adds_up_directly:
            limbs = range_sums(self.limbs, lo, hi)
        else:
            limbs = differences(prefix_sums(self.limbs[seen.first : seen.last]), lo, hi, seen.first)
        return type(self)(limbs, self.unit, self.low, self.high, specials)

    def to_float64(self) -> Float64Array:
        """The nearest float of each sum, ties to even; with special values what IEEE arithmetic gives.

        >>> SumColumn.from_python_ints([2**53 + 1, 2**1024]).to_float64()
        array([9.00719925e+15,            inf])
        """
        return self._with_specials(to_floats(self.limbs, self.unit))

    def mean(self, counts: Int64Array) -> Float64Array:
        """Each sum divided by its count, exact and rounded once; NaN where the count is zero.

        >>> SumColumn.from_python_ints([1, 2**60 + 2]).mean(np.array([3, 1]))
        array([3.33333333e-01, 1.15292150e+18])
        """
        result = quotients(self.limbs, self.unit, np.ascontiguousarray(counts, np.int64))
        for i in np.flatnonzero(counts >> 32).tolist():  # more events in one row than the kernel divides by
            result[i] = _float_of_ratio(self._python_int(i), int(counts[i]), self.unit)
        return self._with_specials(result)

    def to_int64(self) -> tuple[Int64Array, BoolArray]:
        """Each sum as an integer, and whether it fits into 64 bits. Only for sums of integers.

        >>> SumColumn.from_python_ints([-7, 2**63]).to_int64()
        (array([-7,  0]), array([ True, False]))
        """
        if not _whole(self.limbs, self.unit):
            raise ValueError("a sum of fractions has no integer form")
        limbs = rebased(self.limbs, self.unit, 0, width_of(0, self.high))
        numbers = limbs[:, 0].astype(np.int64)
        fits = (limbs[:, 1:].astype(np.int64) == (numbers >> 63)[:, None]).all(axis=1)
        return np.where(fits, numbers, 0), fits

    def to_python_ints(self) -> tuple[list[int], int]:
        """The sums as whole numbers and the exponent of their unit; special values left aside.

        >>> SumColumn.from_python_ints([1, -3]).to_python_ints()
        ([1, -3], 0)
        """
        return [self._python_int(i) for i in range(len(self))], self.unit

    def to_bytes(self) -> bytes:
        """The compact byte form: equal sums give equal bytes, whatever width they have in memory."""
        return sum_bytes.encode(self.limbs, self.unit, self.specials)

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """The column whose `to_bytes` this is; anything else is a `FormatError`."""
        encoded = sum_bytes.parse(data)
        high = encoded.high + ROW_HEADROOM - HEADROOM
        unit, width = layout(encoded.low, high)
        return cls(encoded.limbs(unit, width), unit, encoded.low, high, encoded.specials)

    def _python_int(self, i: int) -> int:
        return int.from_bytes(self.limbs[i].astype("<u8").tobytes(), "little", signed=True)

    def _all_specials(self) -> Int64Array:
        return np.zeros((len(self), 3), np.int64) if self.specials is None else self.specials

    def _with_specials(self, values: Float64Array) -> Float64Array:
        if self.specials is not None:
            nan, positive, negative = self.specials.T > 0
            values[positive] = np.inf
            values[negative] = -np.inf
            values[nan | (positive & negative)] = np.nan
        return values

    def _narrowed(self) -> Self:
        """The same sums in as few words as they need: one outlier does not widen a column for ever."""
        if self.limbs.shape[1] <= NARROW:
            return self
        low, high = sum_bytes.extent(self.limbs, self.unit)
        high += ROW_HEADROOM - HEADROOM
        unit, width = layout(low, high)
        if width >= self.limbs.shape[1]:
            return self
        return type(self)(rebased(self.limbs, self.unit, unit, width), unit, low, high, self.specials)


def rebased(limbs: UInt64Array, old_unit: int, unit: int, width: int) -> UInt64Array:
    """The same numbers in units of ``2**unit`` with ``width`` words. What is cut off must be empty.

    Units are whole bytes, so this moves bytes: no word is ever shifted.

    >>> rebased(np.array([[1, 0]], np.uint64), old_unit=0, unit=-8, width=3)
    array([[256,   0,   0]], dtype=uint64)
    """
    if old_unit == unit and limbs.shape[1] == width:
        return limbs
    old = np.ascontiguousarray(limbs, "<u8").view(np.uint8)
    new = np.empty((len(limbs), 8 * width), np.uint8)
    new[:] = (old[:, -1:] >> 7) * np.uint8(255)
    start = (old_unit - unit) // 8
    first, last = max(start, 0), min(start + old.shape[1], 8 * width)
    new[:, :first] = 0
    if first < last:  # else there are only zeros
        new[:, first:last] = old[:, first - start : last - start]
    return new.view("<u8").astype(np.uint64, copy=False)


def _whole(limbs: UInt64Array, unit: int) -> bool:
    """Whether all numbers are whole: the bytes below the point are empty."""
    return unit >= 0 or not np.ascontiguousarray(limbs, "<u8").view(np.uint8)[:, : -unit // 8].any()


def _float_of_ratio(number: int, divisor: int, exponent: int) -> float:
    """``number * 2**exponent / divisor``, rounded once: Python divides whole numbers that way."""
    return (number << max(exponent, 0)) / (divisor << max(-exponent, 0))
