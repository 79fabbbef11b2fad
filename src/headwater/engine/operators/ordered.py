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
from headwater.engine.intake.chunk import Chunk, are_in_order, comes_before, source_ranks
from headwater.engine.operators.ragged import expand, group_indices, read_starts, row_of_item, starts_of, valid_rows
from headwater.errors import FormatError

VERSION = 1
Keep = Literal["all", "first", "last"]
KEEPS: tuple[Keep, ...] = ("all", "first", "last")


@dataclass(slots=True, eq=False)
class OrderedColumn:
    """Row i holds ``values[starts[i]:starts[i + 1]]`` in event order, or only the first or the last of them (``keep``).

    ``sources`` index ``names``, which is sorted as bytes: comparing the numbers compares the names.

    >>> times, none = np.array([1, 5, 3]), np.zeros(3, np.int64)
    >>> column = OrderedColumn("all", np.array([10, 50, 30]), times, none, none, np.array([0, 2, 3]), ["s"])
    >>> column.combine_ranges(np.array([0]), np.array([2])).values.tolist()
    [10, 30, 50]
    """

    keep: Keep
    values: np.ndarray[Any, Any]
    times: Int64Array
    sources: Int64Array
    offsets: Int64Array
    starts: Int64Array
    names: Sequence[str]

    @classmethod
    def lift(cls, keep: Keep, column: str, chunk: Chunk, rows: Int32Array, row_count: int) -> OrderedColumn:
        """The non-null values of each row with their places."""
        values = chunk.columns[column]
        rows = valid_rows(rows, values.valid)
        if keep == "all":
            indices, starts = group_indices(rows, row_count, chunk.in_order())
        else:
            indices, starts = _edges(keep, chunk, rows, row_count)
        ranks = source_ranks(chunk.source_names)
        names = sorted(chunk.source_names, key=str.encode)
        sources = ranks[chunk.source_ids[indices]]
        return cls(keep, values.data[indices], chunk.times[indices], sources, chunk.offsets[indices], starts, names)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays."""
        return self.values.nbytes + 3 * self.times.nbytes + self.starts.nbytes

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
        names: Sequence[str] = columns[0].names
        sources = [column.sources for column in columns]
        if any(column.names != names for column in columns):
            names = sorted({name for column in columns for name in column.names}, key=str.encode)
            places = {name: place for place, name in enumerate(names)}
            sources = [
                np.array([places[name] for name in column.names], np.int64)[column.sources] for column in columns
            ]
        filled = [column.values for column in columns if len(column.values)]
        return cls(
            columns[0].keep,
            np.concatenate(filled) if filled else columns[0].values,
            np.concatenate([column.times for column in columns]),
            np.concatenate(sources),
            np.concatenate([column.offsets for column in columns]),
            starts_of(np.concatenate([column.counts() for column in columns])),
            names,
        )

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> OrderedColumn:
        """Row i = the values of rows ``lo[i]`` to ``hi[i]`` in event order, or the first or last of them."""
        begins, ends = self.starts[lo], self.starts[hi]
        if self.keep != "all":
            if (ends - begins <= 1).all():
                best = np.where(ends > begins, begins, -1)
            else:
                best = _best_of_ranges(self.times, self.sources, self.offsets, begins, ends, self.keep == "last")
            return self._with(best[best >= 0], starts_of((best >= 0).astype(np.int64)))
        gathered = self._with(expand(begins, ends), starts_of(ends - begins))
        if are_in_order(gathered.times, gathered.sources, gathered.offsets, gathered.starts):
            return gathered
        rows = row_of_item(gathered.starts)
        order = np.lexsort((gathered.offsets, gathered.sources, gathered.times, rows)).astype(np.int64)
        return gathered._with(order, gathered.starts)

    def edge_values(self) -> tuple[np.ndarray[Any, Any], BoolArray]:
        """For first and last: the value of each row, and whether there is one."""
        present = self.counts() > 0
        values = np.zeros(len(self), self.values.dtype)
        values[present] = self.values
        return values, present

    def to_bytes(self) -> bytes:
        """Places as small steps; only the sources that occur are named."""
        used, sources = np.unique(self.sources, return_inverse=True)
        writer = Writer(VERSION).number(KEEPS.index(self.keep)).objects([self.names[source] for source in used])
        writer.ints(self.counts()).ints(self.times).ints(sources.reshape(-1).astype(np.int64)).ints(self.offsets)
        return writer.array(self.values if len(self.values) else np.empty(0, np.int64)).finish()

    @classmethod
    def from_bytes(cls, data: Bytes) -> OrderedColumn:
        """The column of which these are the bytes."""
        with Reader(data, "ordered values", VERSION) as reader:
            keep, names = reader.number(), [str(name) for name in reader.objects()]
            starts = read_starts(reader)
            times, sources, offsets = reader.ints(), reader.ints(), reader.ints()
            values = reader.array()
        sizes = {len(times), len(sources), len(offsets), len(values), int(starts[-1])}
        are_named = not len(sources) or 0 <= int(sources.min()) <= int(sources.max()) < len(names)
        if keep >= len(KEEPS) or len(sizes) > 1 or not are_named:
            raise FormatError("ordered values are damaged")
        return cls(KEEPS[keep], values, times, sources, offsets, starts, names)

    def _with(self, indices: Int64Array, starts: Int64Array) -> OrderedColumn:
        times, sources, offsets = self.times[indices], self.sources[indices], self.offsets[indices]
        return OrderedColumn(self.keep, self.values[indices], times, sources, offsets, starts, self.names)


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
