"""Sketches whose merge is free of order: HyperLogLog for how many are different, DDSketch for quantiles.

Both are whole numbers only until they are read, so the same values give the same bits in any order and grouping.

* HyperLogLog with 2**precision registers: the standard error is 1.04 / sqrt(2**precision), 1.6 % for precision 12.
* DDSketch: the value at position floor((n - 1) * q) of the sorted values, within the relative error asked for. Each octave
  (from a power of two to the next) is cut into equal buckets, DDSketch's linear interpolation of the logarithm: the bucket of
  a value follows from its bits, without a logarithm that could differ from one machine to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Float64Array, Int32Array, Int64Array, UInt64Array
from headwater.base.jit import leading_zeros, njit
from headwater.engine.intake.chunk import Values
from headwater.engine.intake.columns import read_values
from headwater.engine.operators.hashing import hash_values
from headwater.engine.operators.operator import clean_floats
from headwater.engine.operators.ragged import group_bits, row_starts, valid_rows
from headwater.engine.operators.sparse import SparseColumn

#: Octaves of float64: from 2**-1074 (the smallest subnormal) to 2**1023.
OCTAVE_LOWEST, OCTAVE_COUNT = -1074, 2098
#: A key and a weight in one word while events are grouped: the key above, the weight in the last byte.
WEIGHT_BITS = np.int64(8)


class HyperLogLogColumn(SparseColumn):
    """Registers that saw something; ``parameter`` is the precision, a weight is the longest run of zeros seen plus one.

    >>> column = HyperLogLogColumn.lift(12, Values(np.arange(1000), None, pa.int64()), np.zeros(1000, np.int32), 2)
    >>> column.estimates().tolist()
    [997, 0]
    """

    __slots__ = ()
    tag = 1
    largest = True
    weight_type = np.uint8

    @classmethod
    def lift(cls, precision: int, values: Values, rows: Int32Array, row_count: int) -> Self:
        """The registers of each row's values."""
        words = np.empty(len(rows), np.int64)
        _register_words(hash_values(values.data), precision, words)
        rows = valid_rows(rows, values.valid)
        starts = row_starts(rows, row_count)
        grouped = group_bits(words, rows, starts)
        keys, weights = (grouped >> WEIGHT_BITS).astype(np.int32), grouped.astype(np.uint8)
        return cls.of_entries(precision, keys, weights, starts)

    def estimates(self) -> Int64Array:
        """How many different values each row has seen, about."""
        out = np.empty(len(self), np.int64)
        _estimate(self.weights, self.starts, self.parameter, out)
        return out


class DDSketchColumn(SparseColumn):
    """How many values fell into each bucket; ``parameter`` is the number of buckets per octave.

    >>> values = Values(np.arange(1.0, 1001.0), None, pa.float64())
    >>> column = DDSketchColumn.lift(0.01, values, np.zeros(1000, np.int32), 2)
    >>> column.quantiles(0.5)  # 500 is right; an empty row has none
    array([499.18687179,          nan])
    """

    __slots__ = ()
    tag = 2
    largest = False
    weight_type = np.int64

    @classmethod
    def lift(cls, error: float, values: Values, rows: Int32Array, row_count: int) -> Self:
        """The buckets of each row's values."""
        parts = buckets_per_octave(error)
        words = np.empty(len(rows), np.int64)
        numbers = values.data if values.valid is None else np.where(values.valid, values.data, 0)
        _bucket_words(numbers.astype(np.float64), parts, words)
        rows = valid_rows(rows, values.valid)
        starts = row_starts(rows, row_count)
        keys = group_bits(words, rows, starts).astype(np.int32)
        return cls.of_entries(parts, keys, np.ones(len(keys), np.int64), starts)

    def quantiles(self, q: float) -> Float64Array:
        """The value at position floor((n - 1) * q) of each row, within the error; NaN for an empty row."""
        out = np.empty(len(self), np.float64)
        _read_quantile(self.keys, self.weights, self.starts, self.parameter, float(q), out)
        return out


def buckets_per_octave(error: float) -> int:
    """How finely octaves are cut so that the middle of a bucket is within the relative error of all its values.

    >>> buckets_per_octave(0.01)
    50
    """
    return max(1, math.ceil((1 - error) / (2 * error)))


def approx_distinct(values: Sequence[Any], precision: int) -> int:
    """How many of these values are different, about.

    >>> approx_distinct(["a", "b", "a"], 12)
    2
    """
    column = HyperLogLogColumn.lift(precision, *_one_row(values))
    return int(column.estimates()[0])


def approx_quantile(values: Sequence[Any], q: float, error: float) -> float:
    """The value at position floor((n - 1) * q) of the sorted values, within the relative error.

    >>> approx_quantile([1, 2, 1000], 0.5, 0.01)
    2.01980198019802
    """
    return float(DDSketchColumn.lift(error, *_one_row(values)).quantiles(q)[0])


def _one_row(values: Sequence[Any]) -> tuple[Values, Int32Array, int]:
    read = read_values(pa.array(values))
    if read.data.dtype.kind == "f":
        read = Values(clean_floats(read.data), read.valid, read.type)
    return read, np.zeros(len(read.data), np.int32), 1


@njit
def _register_words(hashes: UInt64Array, precision: int, words: Int64Array) -> None:
    rest = np.uint64(64 - precision)
    for i in range(len(hashes)):
        register = np.int64(hashes[i] >> rest)
        zeros = leading_zeros(hashes[i] << np.uint64(precision))
        words[i] = (register << WEIGHT_BITS) | np.int64(min(zeros, rest) + np.uint64(1))


@njit
def _estimate(weights: Any, starts: Int64Array, precision: int, out: Int64Array) -> None:
    """Ertl's improved estimator (arXiv:1702.01284, algorithm 6): no bias at either end and no tables of corrections."""
    registers = 1 << precision
    longest = 64 - precision
    for row in range(len(out)):
        counts = np.zeros(longest + 2, np.int64)
        counts[0] = registers - (starts[row + 1] - starts[row])
        for i in range(starts[row], starts[row + 1]):
            counts[weights[i]] += 1
        total = registers * _tau(1.0 - counts[longest + 1] / registers)
        for k in range(longest, 0, -1):
            total = 0.5 * (total + counts[k])
        total += registers * _sigma(counts[0] / registers)
        out[row] = np.int64(np.rint(registers / (2.0 * math.log(2.0)) * (registers / total)))


@njit
def _sigma(x: float) -> float:
    if x == 1.0:
        return np.inf
    total, factor = x, 1.0
    while True:
        x *= x
        before = total
        total += x * factor
        factor += factor
        if total == before:
            return total


@njit
def _tau(x: float) -> float:
    if x == 0.0 or x == 1.0:
        return 0.0
    total, factor = 1.0 - x, 1.0
    while True:
        x = math.sqrt(x)
        before = total
        factor *= 0.5
        total -= (1.0 - x) * (1.0 - x) * factor
        if total == before:
            return total / 3.0


@njit
def _bucket_words(values: Float64Array, parts: int, words: Int64Array) -> None:
    """Keys that rise with the values: 0 is zero, infinities lie outside all buckets, NaN above them."""
    infinity = OCTAVE_COUNT * parts + 1
    for i in range(len(values)):
        size = abs(values[i])
        if size == 0.0:
            words[i] = 0
            continue
        if size != size:
            words[i] = infinity + 1
            continue
        if size == np.inf:
            key = np.int64(infinity)
        else:
            mantissa, exponent = math.frexp(size)
            part = np.int64((2.0 * mantissa - 1.0) * parts)
            key = np.int64(exponent - 1 - OCTAVE_LOWEST) * parts + part + 1
        words[i] = key if values[i] > 0.0 else -key


@njit
def _read_quantile(
    keys: Int32Array, weights: Int64Array, starts: Int64Array, parts: int, q: float, out: Float64Array
) -> None:
    for row in range(len(out)):
        begin, end = starts[row], starts[row + 1]
        count = np.int64(0)
        for i in range(begin, end):
            count += weights[i]
        if count == 0:
            out[row] = np.nan
            continue
        rank = np.int64(np.floor((count - 1) * q))
        i = begin
        while rank >= weights[i]:
            rank -= weights[i]
            i += 1
        out[row] = _middle(keys[i], parts)


@njit
def _middle(key: int, parts: int) -> float:
    """The value that has the same relative distance to both ends of a bucket."""
    place = abs(np.int64(key)) - 1
    if place < 0:
        return 0.0
    octave = place // parts
    if octave >= OCTAVE_COUNT:
        if place > OCTAVE_COUNT * parts:
            return np.nan
        return np.inf if key > 0 else -np.inf
    low = 1.0 + (place - octave * parts) / parts
    high = 1.0 + (place - octave * parts + 1) / parts
    value = math.ldexp(2.0 * low * high / (low + high), int(octave + OCTAVE_LOWEST))
    return value if key > 0 else -value
