"""Values that keep their place in the order: the partials behind first, last, collect and users' non-commutative aggregates.

The order is (time, source, offset); sources compare as UTF-8 bytes of their names. Each value carries that place, so partials
may be combined in any order of rows and still end up in the order of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, frozen
from headwater.base.jit import njit
from headwater.base.packing import Bytes, Reader, Writer
from headwater.engine.intake.chunk import Chunk, comes_before, source_ranks
from headwater.engine.operators.events.places import EventPlaces
from headwater.engine.operators.ragged import expand, group_indices, read_starts, starts_of, valid_rows
from headwater.errors import FormatError

VERSION = 1
Keep = Literal["all", "first", "last"]
KEEPS: tuple[Keep, ...] = ("all", "first", "last")


@dataclass(slots=True, eq=False)
class OrderedColumn:
    """Row i holds ``values[starts[i]:starts[i + 1]]`` in event order, or only the first or the last of them (``keep``).

    >>> places = EventPlaces(np.array([1, 5, 3]), *np.zeros((2, 3), np.int64), ["s"])
    >>> column = OrderedColumn("all", np.array([10, 50, 30]), places, np.array([0, 2, 3]))
    >>> column.combine_ranges(np.array([0]), np.array([2])).values.tolist()
    [10, 30, 50]
    """

    keep: Keep
    values: np.ndarray[Any, Any]
    places: EventPlaces
    starts: Int64Array

    @classmethod
    def lift(cls, keep: Keep, column: str, chunk: Chunk, rows: Int32Array, row_count: int) -> OrderedColumn:
        """The non-null values of each row with their places."""
        values = chunk.columns[column]
        rows = valid_rows(rows, values.valid)
        if keep == "all":
            indices, starts = group_indices(rows, row_count, chunk.in_order())
        else:
            indices, starts = _edges(keep, chunk, rows, row_count)
        return cls(keep, values.data[indices], EventPlaces.of_chunk(chunk, indices), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays."""
        return self.values.nbytes + self.places.nbytes + self.starts.nbytes

    def counts(self) -> Int64Array:
        """How many values each row has."""
        return np.diff(self.starts)

    def take(self, indices: Int64Array) -> OrderedColumn:
        """These rows."""
        lo, hi = self.starts[indices], self.starts[indices + 1]
        return self._with(expand(lo, hi), starts_of(hi - lo))

    @classmethod
    def concat(cls, columns: Sequence[OrderedColumn]) -> OrderedColumn:
        """The rows of all columns, one after the other, with one list of sources."""
        if len(columns) == 1:
            return columns[0]
        filled = [column.values for column in columns if len(column.values)]
        return cls(
            columns[0].keep,
            np.concatenate(filled) if filled else columns[0].values,
            EventPlaces.concat([column.places for column in columns]),
            starts_of(np.concatenate([column.counts() for column in columns])),
        )

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> OrderedColumn:
        """Row i = the values of rows ``lo[i]`` to ``hi[i]`` in event order, or the first or last of them."""
        begins, ends = self.starts[lo], self.starts[hi]
        if self.keep != "all":
            if (ends - begins <= 1).all():
                best = np.where(ends > begins, begins, -1)
            else:
                at = self.places
                best = _best_of_ranges(at.times, at.sources, at.offsets, begins, ends, self.keep == "last")
            return self._with(best[best >= 0], starts_of((best >= 0).astype(np.int64)))
        gathered = self._with(expand(begins, ends), starts_of(ends - begins))
        if gathered.places.are_in_order(gathered.starts):
            return gathered
        return gathered._with(gathered.places.order(gathered.starts), gathered.starts)

    def edge_values(self) -> tuple[np.ndarray[Any, Any], BoolArray]:
        """For first and last: the value of each row, and whether there is one."""
        present = self.counts() > 0
        values = np.zeros(len(self), self.values.dtype)
        values[present] = self.values
        return values, present

    def to_bytes(self) -> bytes:
        """Places as small steps; only the sources that occur are named."""
        names, sources = self.places.packed()
        writer = Writer(VERSION).number(KEEPS.index(self.keep)).objects(names)
        writer.ints(self.counts()).ints(self.places.times).ints(sources).ints(self.places.offsets)
        return writer.array(self.values if len(self.values) else np.empty(0, np.int64)).finish()

    @classmethod
    def from_bytes(cls, data: Bytes) -> OrderedColumn:
        """The column of which these are the bytes."""
        with Reader(data, "ordered values", VERSION) as reader:
            keep, names = reader.number(), [str(name) for name in reader.objects()]
            starts = read_starts(reader)
            places = EventPlaces(reader.ints(), reader.ints(), reader.ints(), names)
            values = reader.array()
        are_alike = len({len(places), len(values), int(starts[-1])}) == 1
        if keep >= len(KEEPS) or not are_alike or not places.are_places:
            raise FormatError("ordered values are damaged")
        return cls(KEEPS[keep], values, places, starts)

    def _with(self, indices: Int64Array, starts: Int64Array) -> OrderedColumn:
        return OrderedColumn(self.keep, self.values[indices], self.places.take(indices), starts)


def _edges(keep: Keep, chunk: Chunk, rows: Int32Array, row_count: int) -> tuple[Int64Array, Int64Array]:
    """The event of each row that comes first (or last), and the starts of rows with one event or none."""
    ranks = source_ranks(chunk.source_names)[chunk.source_ids]
    times, offsets = frozen(chunk.times, np.int64), frozen(chunk.offsets, np.int64)
    best = _best_events(times, ranks, offsets, frozen(rows, np.int32), row_count, keep == "last")
    return best[best >= 0], starts_of((best >= 0).astype(np.int64))


@njit
def _best_events(
    times: Int64Array, sources: Int64Array, offsets: Int64Array, rows: Int32Array, row_count: int, want_last: bool
) -> Int64Array:
    """The first (or last) event of each row, -1 for none."""
    best = np.full(row_count, -1, np.int64)
    for i in range(len(rows)):
        row = rows[i]
        if row < 0:
            continue
        if best[row] < 0 or comes_before(times, sources, offsets, i, best[row]) != want_last:
            best[row] = i
    return best


@njit
def _best_of_ranges(
    times: Int64Array, sources: Int64Array, offsets: Int64Array, begins: Int64Array, ends: Int64Array, want_last: bool
) -> Int64Array:
    """The first (or last) event of each range, -1 for none.

    Overlapping ranges share the work: level j of the table knows the best of every 2**j neighbours, and any range is
    covered by two of those.
    """
    count = len(times)
    best = np.full(len(begins), -1, np.int64)
    longest = np.int64(1)
    for i in range(len(begins)):
        longest = max(longest, ends[i] - begins[i])
    levels = 1
    while (np.int64(1) << levels) <= longest:
        levels += 1
    table = np.empty((levels, count), np.int64)
    for i in range(count):
        table[0, i] = i
    for level in range(1, levels):
        half = np.int64(1) << (level - 1)
        for i in range(count - 2 * half + 1):
            a, b = table[level - 1, i], table[level - 1, i + half]
            table[level, i] = a if comes_before(times, sources, offsets, a, b) != want_last else b
    for i in range(len(begins)):
        length = ends[i] - begins[i]
        if length <= 0:
            continue
        level = 0
        while (np.int64(2) << level) <= length:
            level += 1
        a, b = table[level, begins[i]], table[level, ends[i] - (np.int64(1) << level)]
        best[i] = a if comes_before(times, sources, offsets, a, b) != want_last else b
    return best
