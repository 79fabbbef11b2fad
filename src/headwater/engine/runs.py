"""Sorted runs: the partial behind quantiles, median, mode and count distinct.

A row is a range of runs that lie end to end in one buffer, so combining rows is arithmetic on two numbers and overlapping
windows share every value. Runs are merged only when somebody needs them merged: a few quantiles are picked from many runs by
selection; mode, count distinct, the byte form or many quantiles sort the row once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headwater.engine import run_kernels as kernels
from headwater.engine.arrays import BoolArray, Float64Array, Int32Array, Int64Array
from headwater.engine.chunk import Values
from headwater.engine.memory import empty
from headwater.engine.packing import Reader, Writer
from headwater.engine.ragged import expand, group_bits, group_indices, row_of_item, row_starts, starts_of
from headwater.errors import FormatError

VERSION = 1
PLAIN, RUN_LENGTHS = 0, 1
#: Picking one quantile costs about as much per run as sorting this many values.
PICK_COST = 20
#: Values merged at once when every row is wanted but none has to stay.
BLOCK_VALUES = 1 << 21


class RunColumn:
    """Row i holds the values of runs ``first[i]`` to ``last[i]``; run j is ``values[starts[j]:starts[j + 1]]``, sorted.

    Values are int64, float64 or objects with an order (text, decimals); NaN comes last.

    >>> runs = RunColumn.of_rows([[1.0, 4.0], [2.0], []])
    >>> both = runs.combine_ranges(np.array([0, 2]), np.array([2, 3]))
    >>> both.counts().tolist(), both.quantiles(np.array([0.5])).tolist()
    ([3, 0], [[2.0, nan]])
    """

    __slots__ = ("_merged", "first", "last", "starts", "values")

    def __init__(self, values: np.ndarray[Any, Any], starts: Int64Array, first: Int64Array, last: Int64Array) -> None:
        self.values = values
        self.starts = starts
        self.first = first
        self.last = last
        self._merged: RunColumn | None = None

    @classmethod
    def of_runs(cls, values: np.ndarray[Any, Any], starts: Int64Array) -> RunColumn:
        """One row per run."""
        rows = np.arange(len(starts), dtype=np.int64)
        return cls(values, starts, rows[:-1], rows[1:])

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[object]]) -> RunColumn:
        """One row per list of values, in any order; convenient in examples and tests."""
        flat = [value for row in rows for value in row]
        values = np.array(flat) if flat else np.empty(0)
        if values.dtype.kind not in "if":
            values = np.array(flat, dtype=object)
        column = cls.of_runs(values, starts_of(np.array([len(row) for row in rows], np.int64)))
        _sort_runs(column.values, column.starts, np.arange(len(rows), dtype=np.int64))
        return column

    @classmethod
    def lift(cls, values: Values, rows: Int32Array, row_count: int) -> RunColumn:
        """Sort the values of each row; nulls and events of row -1 are left out."""
        if values.data.dtype == object:
            indices, starts = group_indices(rows, values.valid, row_count)
            grouped = values.data[indices]
        else:
            starts = row_starts(rows, values.valid, row_count)
            bits = np.ascontiguousarray(values.data).view(np.int64)
            grouped = group_bits(bits, rows, values.valid, starts).view(values.data.dtype)
        _sort_runs(grouped, starts, np.arange(row_count, dtype=np.int64))
        return cls.of_runs(grouped, starts)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def begins(self) -> Int64Array:
        """Where the values of each row begin."""
        return self.starts[self.first]

    @property
    def ends(self) -> Int64Array:
        """Where the values of each row end."""
        return self.starts[self.last]

    @property
    def nbytes(self) -> int:
        """Memory held, shared buffers included."""
        return self.values.nbytes + self.starts.nbytes + self.first.nbytes + self.last.nbytes

    def counts(self) -> Int64Array:
        """How many values each row has."""
        return self.ends - self.begins

    def take(self, indices: Int64Array) -> RunColumn:
        """These rows. The buffer is shared unless less than half of it would still be used."""
        taken = RunColumn(self.values, self.starts, self.first[indices], self.last[indices])
        return taken._compact() if 2 * int(taken.counts().sum()) < len(self.values) else taken

    @classmethod
    def concat(cls, columns: Sequence[RunColumn]) -> RunColumn:
        """The rows of all columns, one after the other."""
        if len(columns) == 1:
            return columns[0]
        chains = [column._chained() for column in columns]
        # An empty column may have come into being before anything told its type.
        filled = [chain.values for chain in chains if len(chain.values)]
        values = _joined(filled) if filled else chains[0].values
        value_base = starts_of(np.array([chain.starts[-1] for chain in chains], np.int64))
        run_base = starts_of(np.array([len(chain.starts) - 1 for chain in chains], np.int64))
        starts = [chain.starts[:-1] + base for chain, base in zip(chains, value_base)]
        return cls(
            values,
            np.concatenate([*starts, value_base[-1:]]),
            np.concatenate([chain.first + base for chain, base in zip(chains, run_base)]),
            np.concatenate([chain.last + base for chain, base in zip(chains, run_base)]),
        )

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> RunColumn:
        """Row i = all values of rows ``lo[i]`` to ``hi[i]``. Nothing is sorted yet, and mostly nothing copied."""
        if (hi - lo == 1).all():
            return RunColumn(self.values, self.starts, self.first[lo], self.last[lo])
        chain = self._chained()
        edges = np.append(chain.first, chain.last[-1:]) if len(chain) else np.zeros(1, np.int64)
        return RunColumn(chain.values, chain.starts, edges[lo], edges[hi])

    def merged(self) -> RunColumn:
        """The same rows with one run each; equal ranges of runs are merged once."""
        if self._merged is None:
            self._merged = self if self._is_merged() else self._merge_all()
        return self._merged

    def quantiles(self, qs: Float64Array) -> Float64Array:
        """Quantile ``qs[k]`` of row i at [k, i], interpolated linearly like Spark's exact percentile; NaN for an empty row.

        >>> RunColumn.of_rows([[3, 1], [5]]).quantiles(np.array([0.5, 1.0]))
        array([[2., 5.], [3., 5.]])
        """
        out = _table(len(qs), len(self))
        if self.values.dtype == object:
            for k, q in enumerate(qs):
                out[k] = self._picked_quantile(q)
        elif self._merged is not None or self._is_merged():
            _read(self.merged(), qs, out)
        elif self._picking_pays(len(qs)):
            for k, q in enumerate(qs):
                out[k] = self._picked_quantile(q)
        else:
            for rows, block in self._merged_blocks():
                part = np.empty((len(qs), len(block)), np.float64)
                _read(block, qs, part)
                out[:, rows] = part
        return out

    def order_statistics(self, ranks: Int64Array) -> np.ndarray[Any, Any]:
        """The value at ``ranks[i]`` of row i in sorted order; anything at all where the row is empty."""
        return self._pick(ranks)[0]

    def modes(self) -> np.ndarray[Any, Any]:
        """The most frequent value of each row, the smallest if several are; anything at all where the row is empty."""
        merged, table = self._words()
        places = np.empty(len(self), np.int64)
        kernels.most_frequent(merged.values.view(np.int64), merged.begins, merged.ends, places)
        if len(merged.values) == 0:
            return np.zeros(len(self), self.values.dtype)
        values = merged.values[np.minimum(places, len(merged.values) - 1)]
        return values if table is None else table[values]

    def count_distinct(self) -> Int64Array:
        """How many different values each row has; NaN counts once."""
        merged, _ = self._words()
        counts = np.empty(len(self), np.int64)
        kernels.count_distinct(merged.values.view(np.int64), merged.begins, merged.ends, counts)
        return counts

    def to_bytes(self) -> bytes:
        """Sorted values as steps, or each value once with how often it comes, whichever is smaller."""
        canonical = self.merged()._compact()
        writer = Writer()
        writer.number(VERSION)
        writer.ints(canonical.counts())
        if len(canonical.values) == 0:
            writer.array(np.empty(0, np.int64))
            return writer.finish()
        plain, lengths = Writer(), Writer()
        plain.number(PLAIN)
        plain.array(canonical.values)
        lengths.number(RUN_LENGTHS)
        starts = _starts_of_equals(canonical.values, canonical.starts)
        lengths.array(canonical.values[starts])
        lengths.ints(np.diff(np.append(starts, len(canonical.values))))
        smallest = min(plain.finish(), lengths.finish(), key=len)
        return writer.finish() + smallest

    @classmethod
    def from_bytes(cls, data: bytes) -> RunColumn:
        """The column of which these are the bytes."""
        reader = Reader(data)
        if reader.number() != VERSION:
            raise FormatError("sorted runs of a version this release does not know")
        starts = starts_of(reader.ints())
        if starts[-1] == 0:
            values = reader.array()
        elif (form := reader.number()) == PLAIN:
            values = reader.array()
        elif form == RUN_LENGTHS:
            distinct = reader.array()
            values = np.repeat(distinct, reader.ints())
        else:
            raise FormatError(f"sorted runs have no form {form}")
        reader.finish()
        if len(values) != starts[-1]:
            raise FormatError(f"sorted runs announce {starts[-1]} values and hold {len(values)}")
        return cls.of_runs(values, starts)

    def _is_merged(self) -> bool:
        """Whether no row has values in more than one run."""
        filled = starts_of((np.diff(self.starts) > 0).astype(np.int64))
        return bool((filled[self.last] - filled[self.first] <= 1).all())

    def _picking_pays(self, quantile_count: int) -> bool:
        run_count = int((self.last - self.first).sum())
        return run_count * PICK_COST * quantile_count < int(self.counts().sum())

    def _compact(self) -> RunColumn:
        """The same rows in a buffer of their own, in their order and without gaps."""
        whole = len(self) > 0 and self.first[0] == 0 and self.last[-1] == len(self.starts) - 1
        if whole and self._is_chain():
            return self
        runs = expand(self.first, self.last)
        row_edges = starts_of(self.last - self.first)
        starts = starts_of(self.starts[runs + 1] - self.starts[runs])
        return RunColumn(self._copied(), starts, row_edges[:-1], row_edges[1:])

    def _copied(self) -> np.ndarray[Any, Any]:
        """The values of all rows, end to end in a buffer of their own."""
        if self.values.dtype == object:
            return self.values[expand(self.begins, self.ends)]
        copied = empty(int(self.counts().sum()), self.values.dtype)
        kernels.copy_runs(self.values.view(np.int64), self.begins, self.ends, copied.view(np.int64))
        return copied

    def _is_chain(self) -> bool:
        return bool((self.last[:-1] == self.first[1:]).all())

    def _chained(self) -> RunColumn:
        """The same rows such that each begins with the run behind the one before."""
        return self if self._is_chain() else self._compact()

    def _merge_all(self) -> RunColumn:
        ranges, row_of = np.unique(np.stack([self.first, self.last]), axis=1, return_inverse=True)
        distinct = RunColumn(self.values, self.starts, *np.ascontiguousarray(ranges))
        values, starts = distinct._copied(), starts_of(distinct.counts())
        _sort_runs(values, starts, np.flatnonzero(distinct.last - distinct.first > 1))
        row_of = row_of.reshape(-1).astype(np.int64)
        return RunColumn(values, starts, row_of, row_of + 1)

    def _merged_blocks(self) -> Iterator[tuple[Int64Array, RunColumn]]:
        """All rows merged, some at a time: many long windows need not be in memory together."""
        block_of_row = np.cumsum(self.counts()) // BLOCK_VALUES
        for block in np.split(np.arange(len(self)), np.flatnonzero(np.diff(block_of_row)) + 1):
            rows = RunColumn(self.values, self.starts, self.first[block], self.last[block])
            yield block, rows.merged()

    def _coded(self) -> tuple[RunColumn, np.ndarray[Any, Any]]:
        """Objects as numbers of the same order, with the table that leads back."""
        table, codes = np.unique(self.values, return_inverse=True)
        return RunColumn(codes.reshape(-1).astype(np.int64), self.starts, self.first, self.last), table

    def _words(self) -> tuple[RunColumn, np.ndarray[Any, Any] | None]:
        """Merged rows of 8-byte values; objects are replaced by codes into the table."""
        if self.values.dtype != object:
            return self.merged(), None
        coded, table = self._coded()
        return coded.merged(), table

    def _pick(self, ranks: Int64Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], BoolArray]:
        """The value at each rank, the next one (itself if it is the last), and whether they are the same."""
        if self.values.dtype == object:
            coded, table = self._coded()
            low, high, same = coded._pick(ranks)
            return (table[low], table[high], same) if len(table) else (low.astype(object), high.astype(object), same)
        words = self.values.view(np.int64)
        ranks = np.where(self.counts() > 0, ranks, -1)
        low, high = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        if len(words) and (self._merged is not None or self._is_merged() or not self._picking_pays(1)):
            merged = self.merged()
            places = np.minimum(merged.begins + np.maximum(ranks, 0), len(merged.values) - 1)
            low = merged.values.view(np.int64)[places]
            high = merged.values.view(np.int64)[np.minimum(places + 1, np.maximum(merged.ends - 1, 0))]
        else:
            kernels.select(words, self.starts, self.first, self.last, ranks, _flip(self.values), low, high)
        return low.view(self.values.dtype), high.view(self.values.dtype), low == high

    def _picked_quantile(self, q: float) -> Float64Array:
        counts = self.counts()
        positions = np.maximum(counts - 1, 0) * float(q)
        low, high, same = self._pick(positions.astype(np.int64))
        out = np.empty(len(self), np.float64)
        kernels.interpolate(low.astype(np.float64), high.astype(np.float64), same, positions, out)
        out[counts == 0] = np.nan
        return out


def _table(height: int, width: int) -> Float64Array:
    """An empty table whose rows begin in different sets of the cache: results are written down its columns."""
    stride = width // 16 * 16 + 24
    return empty(height * stride, np.float64).reshape(height, stride)[:, :width]


def _joined(arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    if arrays[0].dtype == object:
        return np.concatenate(arrays)
    return np.concatenate(arrays, out=empty(sum(map(len, arrays)), arrays[0].dtype))


def _flip(values: np.ndarray[Any, Any]) -> np.int64:
    return kernels.FLIP_FLOAT if values.dtype.kind == "f" else kernels.FLIP_NONE


def _read(column: RunColumn, qs: Float64Array, out: Float64Array) -> None:
    if column.values.dtype.kind == "f":
        kernels.read_quantiles_float(column.values, column.begins, column.ends, qs, out)
    else:
        kernels.read_quantiles_int(column.values, column.begins, column.ends, qs, out)


def _sort_runs(values: np.ndarray[Any, Any], starts: Int64Array, runs: Int64Array) -> None:
    """Sort these runs in place: short ones in one loop, each long one by NumPy, whose sort uses vector instructions."""
    lengths = starts[runs + 1] - starts[runs]
    if values.dtype == object:
        long_runs = runs[lengths > 1]
    else:
        long_runs = runs[lengths > kernels.SHORT_RUN]
        if len(long_runs) < len(runs):
            kernels.sort_short(values.view(np.int64), starts, _flip(values))
    for begin, end in zip(starts[long_runs].tolist(), starts[long_runs + 1].tolist()):
        values[begin:end].sort()


def _starts_of_equals(values: np.ndarray[Any, Any], starts: Int64Array) -> Int64Array:
    """Where a value differs from the one before it, or a row begins."""
    words = values.view(np.int64) if values.dtype != object else values
    begins = np.ones(len(values), bool)
    begins[1:] = words[1:] != words[:-1]
    rows = row_of_item(starts)
    begins[1:] |= rows[1:] != rows[:-1]
    return np.flatnonzero(begins)
