"""Sparse vectors of counters, one per row: what both sketches are made of.

A row is a list of (key, weight) with rising keys. Combining rows keeps the largest weight of a key (HyperLogLog) or adds the
weights up (DDSketch); both are free of order and of grouping, so the sketches are too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from headwater.base.arrays import Int32Array, Int64Array
from headwater.base.jit import njit
from headwater.base.packing import Bytes, Reader, Writer
from headwater.engine.operators.ragged import expand, read_starts, starts_of
from headwater.errors import FormatError

VERSION = 1
#: Up to this many entries are put in order by insertion instead of through a table of all keys.
SHORT_ROW = 24
#: Keys that span more than this are numbered first: each row reads the table from its smallest key to its largest.
TABLE_MAX = 1 << 12

Weights = np.ndarray[Any, Any]


@dataclass(slots=True, eq=False)
class SparseColumn:
    """Row i has keys ``keys[starts[i]:starts[i + 1]]`` with their weights; ``parameter`` is the sketch's own size."""

    parameter: int
    keys: Int32Array
    weights: Weights
    starts: Int64Array

    #: Written first in the byte form, so that one sketch is not read as the other.
    tag: ClassVar[int]
    largest: ClassVar[bool]
    weight_type: ClassVar[type]

    @classmethod
    def of_entries(cls, parameter: int, keys: Int32Array, weights: Weights, starts: Int64Array) -> Self:
        """From entries in any order, with keys that may repeat within a row."""
        return cls(parameter, *_reduced(keys, weights, starts[:-1], starts[1:], cls.largest))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays."""
        return self.keys.nbytes + self.weights.nbytes + self.starts.nbytes

    def take(self, indices: Int64Array) -> Self:
        """These rows."""
        lo, hi = self.starts[indices], self.starts[indices + 1]
        entries = expand(lo, hi)
        return type(self)(self.parameter, self.keys[entries], self.weights[entries], starts_of(hi - lo))

    @classmethod
    def concat(cls, columns: Sequence[Self]) -> Self:
        """The rows of all columns, one after the other."""
        return cls(
            columns[0].parameter,
            np.concatenate([column.keys for column in columns]),
            np.concatenate([column.weights for column in columns]),
            starts_of(np.concatenate([np.diff(column.starts) for column in columns])),
        )

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> Self:
        """Row i = the combination of rows ``lo[i]`` to ``hi[i]``."""
        if (hi - lo == 1).all():
            return self.take(lo)
        reduced = _reduced(self.keys, self.weights, self.starts[lo], self.starts[hi], self.largest)
        return type(self)(self.parameter, *reduced)

    def to_bytes(self) -> bytes:
        """Keys as steps and weights in as few bytes as they need."""
        writer = Writer(VERSION).number(self.tag).number(self.parameter).ints(np.diff(self.starts))
        return writer.ints(self.keys.astype(np.int64)).ints(self.weights.astype(np.int64)).finish()

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """The column of which these are the bytes."""
        with Reader(data, "sketches", VERSION) as reader:
            if reader.number() != cls.tag:
                raise FormatError("a sketch of another kind")
            parameter, starts = reader.number(), read_starts(reader)
            keys, weights = reader.ints(), reader.ints()
        if not len(keys) == len(weights) == starts[-1] or not cls._are_entries(keys, weights):
            raise FormatError("a sketch is damaged")
        return cls(parameter, keys.astype(np.int32), weights.astype(cls.weight_type), starts)

    @classmethod
    def _are_entries(cls, keys: Int64Array, weights: Int64Array) -> bool:
        """Whether keys and weights fit into the words that they are kept in."""
        if not len(keys):
            return True
        is_weight = int(weights.min()) > 0 and int(weights.max()) <= np.iinfo(cls.weight_type).max >> 8 * (
            not cls.largest
        )
        return is_weight and -(2**30) <= int(keys.min()) <= int(keys.max()) < 2**30


def _reduced(
    keys: Int32Array, weights: Weights, begins: Int64Array, ends: Int64Array, largest: bool
) -> tuple[Int32Array, Weights, Int64Array]:
    """One entry per key of each range of entries, in the order of the keys: (keys, weights, starts)."""
    if len(keys) == 0:
        return keys, weights, np.zeros(len(begins) + 1, np.int64)
    smallest = int(keys.min())
    span = int(keys.max()) - smallest + 1
    names: Int32Array | None = None
    if span > TABLE_MAX:
        names, keys = _numbered(keys, smallest, span)
        smallest, span = 0, len(names)
    room = int(np.minimum(ends - begins, span).sum())
    out_keys, out_weights = np.empty(room, np.int32), np.empty(room, weights.dtype)
    lengths = np.empty(len(begins), np.int64)
    table = np.zeros(span, weights.dtype)
    used = _reduce(keys, weights, begins, ends, largest, smallest, table, out_keys, out_weights, lengths)
    out_keys, out_weights = out_keys[:used].copy(), out_weights[:used].copy()
    return out_keys if names is None else names[out_keys], out_weights, starts_of(lengths)


def _numbered(keys: Int32Array, smallest: int, span: int) -> tuple[Int32Array, Int32Array]:
    """The different keys in their order, and the number of each key among them."""
    if span > 8 * len(keys):
        names, numbers = np.unique(keys, return_inverse=True)
        return names, numbers.reshape(-1).astype(np.int32)
    places = keys - np.int32(smallest)
    occurs = np.zeros(span, np.bool_)
    occurs[places] = True
    names = (np.flatnonzero(occurs) + smallest).astype(np.int32)
    return names, (np.cumsum(occurs, dtype=np.int32) - np.int32(1))[places]


@njit
def _reduce(
    keys: Int32Array,
    weights: Weights,
    begins: Int64Array,
    ends: Int64Array,
    largest: bool,
    smallest: int,
    table: Weights,
    out_keys: Int32Array,
    out_weights: Weights,
    lengths: Int64Array,
) -> int:
    """Fill the output row by row; returns how much of it is used. ``table`` is all zero before and after each row."""
    at = 0
    for row in range(len(begins)):
        begin, end = begins[row], ends[row]
        first = at
        if end - begin <= SHORT_ROW:
            for i in range(begin, end):
                at = _insert(out_keys, out_weights, first, at, keys[i], weights[i], largest)
        else:
            low, high = keys[begin], keys[begin]
            for i in range(begin, end):
                key = keys[i]
                low, high = min(low, key), max(high, key)
                place = key - smallest
                table[place] = max(table[place], weights[i]) if largest else table[place] + weights[i]
            for place in range(low - smallest, high - smallest + 1):
                if table[place] != 0:
                    out_keys[at] = place + smallest
                    out_weights[at] = table[place]
                    table[place] = 0
                    at += 1
        lengths[row] = at - first
    return at


@njit
def _insert(
    out_keys: Int32Array, out_weights: Weights, first: int, at: int, key: int, weight: int, largest: bool
) -> int:
    """Put one entry into the sorted entries from ``first`` to ``at``; returns where they end now."""
    j = at
    while j > first and out_keys[j - 1] > key:
        j -= 1
    if j > first and out_keys[j - 1] == key:
        old = out_weights[j - 1]
        out_weights[j - 1] = max(old, weight) if largest else old + weight
        return at
    for k in range(at, j, -1):
        out_keys[k] = out_keys[k - 1]
        out_weights[k] = out_weights[k - 1]
    out_keys[j] = key
    out_weights[j] = weight
    return at + 1
