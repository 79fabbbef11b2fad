"""Smallest and largest values, and how to find them for many overlapping ranges of rows at once.

Values are kept as 64-bit integers that compare like them (floats: NaN above all, as docs/semantics.md asks), for a largest value
with all bits flipped: then both kinds only ever look for the smallest integer, and the largest integer means "no value".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headwater.base.arrays import BoolArray, Float64Array, Int64Array, RowArrays
from headwater.base.jit import leading_zeros, njit
from headwater.base.packing import Bytes, Reader, Writer, float_of_bits
from headwater.engine.operators.ranges import Survey, sum_ranges, survey
from headwater.errors import FormatError

VERSION = 1
ABSENT = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class MinMaxColumn(RowArrays):
    """The smallest value of each row, or the largest.

    ``keys`` are integers in the order of the values, flipped if ``largest``; a row without a value holds `ABSENT`. An
    integer column may really contain the value `ABSENT`: only then is ``present`` there to tell them apart.

    >>> column = MinMaxColumn.of(np.array([5, 3, 9]), largest=True, is_float=False)
    >>> column.combine_ranges(np.array([0, 1, 1]), np.array([2, 3, 1])).values()
    (array([5, 9, 0]), array([ True,  True, False]))
    """

    keys: Int64Array
    largest: bool
    is_float: bool
    present: BoolArray | None = None

    @classmethod
    def of(cls, order: Int64Array, largest: bool, is_float: bool, present: BoolArray | None = None) -> Self:
        """A column of values given as integers in their order, of which only those ``present`` count."""
        keys = ~order if largest else order
        if present is None:
            present = np.ones(len(keys), np.bool_)
        keys = np.where(present, keys, ABSENT)
        return cls(keys, largest, is_float, None if ((keys != ABSENT) == present).all() else present)

    @classmethod
    def concat(cls, columns: Sequence[Self]) -> Self:
        """All rows, one column after the other; at least one column."""
        present = None
        if any(column.present is not None for column in columns):
            present = np.concatenate([column.has_value() for column in columns])
        keys = np.concatenate([column.keys for column in columns])
        return cls(keys, columns[0].largest, columns[0].is_float, present)

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> Self:
        """Row i is the smallest (largest) of the rows ``lo[i]:hi[i]``."""
        seen = survey(lo, hi)
        if seen.all_single:
            return self.take(lo)
        present = None
        if self.present is not None:
            present = sum_ranges(self.present.astype(np.int64), lo, hi, seen) > 0
        return type(self)(range_minima(self.keys, lo, hi, seen), self.largest, self.is_float, present)

    def has_value(self) -> BoolArray:
        """Which rows have a value at all."""
        return self.keys != ABSENT if self.present is None else self.present

    def values(self) -> tuple[Int64Array | Float64Array, BoolArray]:
        """The values (zero where there is none), and which rows have one."""
        present = self.has_value()
        order = np.where(present, ~self.keys if self.largest else self.keys, 0)
        return (float_of_bits(order) if self.is_float else order), present

    def to_bytes(self) -> bytes:
        """The byte form: equal values give equal bytes."""
        present = self.has_value()
        writer = Writer(VERSION).number(self.largest | self.is_float << 1).number(len(self))
        writer.blob(b"" if present.all() else np.packbits(present).tobytes())
        return writer.ints(self.keys[present] ^ np.int64(-self.largest)).finish()

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """The column whose `to_bytes` this is; anything else is a `FormatError`."""
        with Reader(data, "smallest values", VERSION) as reader:
            flags, count = reader.number(), reader.number()
            mask = np.frombuffer(reader.blob(), np.uint8)
            found = reader.ints()
            reader.spend(count - len(found))
        present = _presence(mask, count, len(found))
        if flags > 3:
            raise FormatError(f"smallest values with the unknown flags {flags}")
        order = np.zeros(count, np.int64)
        order[present] = found
        return cls.of(order, largest=bool(flags & 1), is_float=bool(flags & 2), present=present)


def _presence(mask: NDArray[np.uint8], count: int, found: int) -> BoolArray:
    """Which rows have a value, from its packed bits; no bits at all say that every row has one."""
    if len(mask) == 0 and count == found:
        return np.ones(count, np.bool_)
    if len(mask) == 0 or len(mask) != (count + 7) // 8:
        raise FormatError("smallest values: the parts do not fit together")
    bits = np.unpackbits(mask).view(np.bool_)
    if bits[count:].any() or bits.sum() != found or found == count:
        raise FormatError("smallest values: the parts do not fit together")
    return bits[:count]


def range_minima(keys: Int64Array, lo: Int64Array, hi: Int64Array, seen: Survey | None = None) -> Int64Array:
    """The smallest of ``keys[lo[i]:hi[i]]`` for each i, `ABSENT` for empty ranges.

    >>> range_minima(np.array([4, 2, 7, 1]), np.array([0, 2, 1]), np.array([3, 4, 1])).tolist() == [2, 1, ABSENT]
    True
    """
    seen = seen or survey(lo, hi)
    levels = seen.longest.bit_length()
    result = np.empty(len(lo), np.int64)
    if seen.total <= 2 * levels * (seen.last - seen.first):
        _minima_directly(keys, lo, hi, result)
    else:
        _minima_by_level(keys[seen.first : seen.last].copy(), lo, hi, seen.first, levels, result)
    return result


@njit
def _minima_directly(keys: Int64Array, lo: Int64Array, hi: Int64Array, result: Int64Array) -> None:
    for i in range(len(lo)):
        smallest = ABSENT
        for j in range(np.uint64(lo[i]), np.uint64(hi[i])):
            smallest = min(smallest, keys[j])
        result[i] = smallest


@njit
def _minima_by_level(
    table: Int64Array, lo: Int64Array, hi: Int64Array, first: int, levels: int, result: Int64Array
) -> None:
    """A sparse table that holds one level at a time: ``table[i]`` is the smallest of ``2**level`` rows from i on.

    Two overlapping stretches of that length cover each range of the level, so ranges are answered level by level and
    the table stays as small as the rows themselves.
    """
    starts = np.zeros(levels + 2, np.int64)
    for i in range(len(lo)):
        starts[65 - leading_zeros(np.uint64(hi[i] - lo[i]))] += 1
    for level in range(levels + 1):
        starts[level + 1] += starts[level]
    order = np.empty(len(lo), np.int64)
    for i in range(len(lo)):
        level = 64 - leading_zeros(np.uint64(hi[i] - lo[i]))
        order[starts[level]] = i
        starts[level] += 1
    # Each start has moved on to where the next one was; level 0 are the empty ranges.
    for k in range(starts[0]):
        result[order[k]] = ABSENT
    for level in range(1, levels + 1):
        length = 1 << (level - 1)
        for k in range(starts[level - 1], starts[level]):
            at = order[k]
            result[at] = min(table[np.uint64(lo[at] - first)], table[np.uint64(hi[at] - first - length)])
        for j in range(len(table) - 2 * length + 1):
            table[j] = min(table[j], table[j + length])
