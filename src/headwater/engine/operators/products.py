"""Products of rows: exact for integers, to about 30 digits for floats, and never lost to overflow on the way.

A magnitude of floats is a mantissa of two floats (their sum has 106 bits) times a power of two of its own, so ten million
factors stay far within 1e-12 and nothing overflows on the way. Signs, zeros, infinities and NaN are only counted: they
decide the result at the end. Integers have a 64-bit magnitude; with the signs apart, the one overflow that heals
(``2**63`` times -1) is right in every order, and zero times an overflow is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headwater.base.arrays import BoolArray, Float64Array, Int32Array, Int64Array, frozen
from headwater.base.packing import Bytes, Reader, Writer
from headwater.engine.operators.product_kernels import (
    FACTORS,
    INFINITE,
    MARKS,
    NEGATIVE,
    NOT_A_NUMBER,
    ZERO,
    identity,
    multiply_events,
    range_products,
)
from headwater.engine.operators.ranges import sum_ranges, survey
from headwater.errors import FormatError

VERSION = 1
ONE_BITS, TWO_BITS = 0x3FF << 52, 0x400 << 52
NO_MASK = frozen(np.empty(0, np.bool_), np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class ProductColumn:
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

    def __len__(self) -> int:
        return len(self.words)

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays."""
        return self.words.nbytes + self.marks.nbytes

    def take(self, indices: Int64Array) -> Self:
        """The rows at ``indices``."""
        return type(self)(self.words[indices], self.marks[indices], self.is_float)

    @classmethod
    def concat(cls, columns: Sequence[Self]) -> Self:
        """All rows, one column after the other; at least one column."""
        words = np.concatenate([column.words for column in columns])
        return cls(words, np.concatenate([column.marks for column in columns]), columns[0].is_float)

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
