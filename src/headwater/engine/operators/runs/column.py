"""Sorted runs: the partial behind quantiles, median, mode and count distinct.

Values are the bulk of such a column, so they are sorted once, where they were lifted, and then stay there: a column is a list of
buffers (`RunPart`) and says for each row where it lies. Joining columns joins the lists; combining rows is arithmetic on ranges
of runs, and only rows from different buffers are brought together first. How a row of several runs is read best depends on what
is asked of it; `run_parts` decides that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headwater.base.arrays import Float64Array, Int32Array, Int64Array, empty
from headwater.base.packing import Bytes
from headwater.engine.intake.chunk import Values
from headwater.engine.operators.ragged import expand, group_bits, group_indices, row_starts, starts_of, valid_rows
from headwater.engine.operators.runs import bytes as run_bytes
from headwater.engine.operators.runs import kernels
from headwater.engine.operators.runs.part import RunPart

#: More parts than this are joined if they are small: reading goes from part to part.
PARTS_MAX, SMALL_PART = 64, 1 << 16


class RunColumn:
    """Row i is row ``place[i]`` of ``parts[part[i]]``: all its values, in one or several sorted runs.

    >>> runs = RunColumn.of_rows([[1.0, 4.0], [2.0], []])
    >>> both = runs.combine_ranges(np.array([0, 2]), np.array([2, 3]))
    >>> both.counts().tolist(), both.quantiles(np.array([0.5])).tolist()
    ([3, 0], [[2.0, nan]])
    """

    __slots__ = ("_pieces", "part", "parts", "place")

    def __init__(self, parts: Sequence[RunPart], part: Int64Array, place: Int64Array) -> None:
        self.parts = parts
        self.part = part
        self.place = place
        self._pieces: list[tuple[Int64Array, RunPart]] | None = None

    @classmethod
    def of_part(cls, part: RunPart) -> RunColumn:
        """The rows of one part."""
        return cls([part], np.zeros(len(part), np.int64), np.arange(len(part), dtype=np.int64))

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[object]]) -> RunColumn:
        """One row per list of values, in any order; convenient in examples and tests."""
        flat = [value for row in rows for value in row]
        values = np.array(flat) if flat else np.empty(0)
        if values.dtype.kind not in "if":
            values = np.array(flat, dtype=object)
        starts = starts_of(np.array([len(row) for row in rows], np.int64))
        kernels.sort_runs(values, starts)
        return cls.of_part(RunPart.of_runs(values, starts))

    @classmethod
    def lift(cls, values: Values, rows: Int32Array, row_count: int) -> RunColumn:
        """Sort the values of each row; nulls and events of row -1 are left out."""
        rows = valid_rows(rows, values.valid)
        if values.data.dtype == object:
            indices, starts = group_indices(rows, row_count)
            grouped = values.data[indices]
        else:
            starts = row_starts(rows, row_count)
            bits = np.ascontiguousarray(values.data).view(np.int64)
            grouped = group_bits(bits, rows, starts).view(values.data.dtype)
        kernels.sort_runs(grouped, starts)
        return cls.of_part(RunPart.of_runs(grouped, starts))

    def __len__(self) -> int:
        return len(self.part)

    @property
    def nbytes(self) -> int:
        """Memory held, shared buffers included."""
        return self.part.nbytes + self.place.nbytes + sum(p.values.nbytes + p.starts.nbytes for p in self.parts)

    def counts(self) -> Int64Array:
        """How many values each row has."""
        counts = np.zeros(len(self), np.int64)
        for rows, part in self.pieces():
            counts[rows] = part.counts()
        return counts

    def take(self, indices: Int64Array) -> RunColumn:
        """These rows. Buffers are shared, except those of which less than half would still be used."""
        taken = RunColumn(self.parts, self.part[indices], self.place[indices])
        sparse = [2 * int(part.counts().sum()) < len(part.values) for _, part in taken.pieces()]
        if len(sparse) == len(self.parts) and not any(sparse):
            return taken
        kept = [piece for piece, is_sparse in zip(taken.pieces(), sparse) if not is_sparse]
        if any(sparse):
            rows = np.sort(np.concatenate([rows for (rows, _), is_sparse in zip(taken.pieces(), sparse) if is_sparse]))
            kept.append((rows, taken._gathered(rows)))
        return _of_pieces(kept, len(taken))

    @classmethod
    def concat(cls, columns: Sequence[RunColumn]) -> RunColumn:
        """The rows of all columns, one after the other."""
        if len(columns) == 1:
            return columns[0]
        parts = [part for column in columns for part in column.parts]
        base = starts_of(np.array([len(column.parts) for column in columns], np.int64))
        part = np.concatenate([column.part + first for column, first in zip(columns, base)])
        joined = cls(parts, part, np.concatenate([column.place for column in columns]))
        if len(parts) > PARTS_MAX and sum(len(p.values) for p in parts) < SMALL_PART * len(parts):
            return cls.of_part(joined._gathered(np.arange(len(joined))))
        return joined

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> RunColumn:
        """Row i = all values of rows ``lo[i]`` to ``hi[i]``. Nothing is sorted, and only rows to be combined are copied."""
        single = hi - lo == 1
        if single.all():
            return RunColumn(self.parts, self.part[lo], self.place[lo])
        several = np.flatnonzero(~single)
        touched = _touched(lo[several], hi[several], len(self))
        gathered = self._gathered(np.flatnonzero(touched))
        # In the gathered part each row begins with the run behind the one before: a range of rows is a range of runs.
        edges = np.append(gathered.first, gathered.last[-1:]) if len(gathered) else np.zeros(1, np.int64)
        number = starts_of(touched.astype(np.int64))
        combined = RunPart(gathered.values, gathered.starts, edges[number[lo[several]]], edges[number[hi[several]]])
        part, place = np.full(len(lo), len(self.parts), np.int64), np.empty(len(lo), np.int64)
        alone = np.flatnonzero(single)
        part[alone], place[alone] = self.part[lo[alone]], self.place[lo[alone]]
        place[several] = np.arange(len(several))
        used = np.unique(part)  # a part that no row lies in any more must not be kept alive
        parts = [*self.parts, combined]
        return RunColumn([parts[number] for number in used], np.searchsorted(used, part), place)

    def quantiles(self, qs: Float64Array) -> Float64Array:
        """Quantile ``qs[k]`` of row i at [k, i], interpolated linearly like Spark's exact percentile; NaN for an empty row.

        >>> RunColumn.of_rows([[3, 1], [5]]).quantiles(np.array([0.5, 1.0]))
        array([[2., 5.], [3., 5.]])
        """
        out = _table(len(qs), len(self))
        for rows, part in self.pieces():
            if len(part.values):
                part.read_quantiles(qs, rows, out)
            else:
                out[:, rows] = np.nan
        return out

    def order_statistics(self, ranks: Int64Array) -> np.ndarray[Any, Any]:
        """The value at ``ranks[i]`` of row i in sorted order; anything at all where the row is empty."""
        return self._filled((rows, part.picked(ranks[rows])[0]) for rows, part in self.pieces() if len(part.values))

    def modes(self) -> np.ndarray[Any, Any]:
        """The most frequent value of each row, the smallest if several are; anything at all where the row is empty."""
        return self._filled((rows, part.modes()) for rows, part in self.pieces() if len(part.values))

    def count_distinct(self) -> Int64Array:
        """How many different values each row has; NaN counts once."""
        return self._filled((rows, part.count_distinct()) for rows, part in self.pieces() if len(part.values))

    def distinct(self) -> tuple[np.ndarray[Any, Any], Int64Array]:
        """The different values of each row in their order, end to end, and where each row begins.

        >>> [part.tolist() for part in RunColumn.of_rows([[3, 1, 3], [], [2, 2]]).distinct()]
        [[1, 3, 2], [0, 2, 2, 3]]
        """
        part = self._gathered(np.arange(len(self))).merged()
        values, starts = part.values, part.starts
        is_new = np.ones(len(values), np.bool_)
        # Every NaN is the same one, bit by bit.
        bits = values.view(np.int64) if values.dtype.kind == "f" else values
        is_new[1:] = bits[1:] != bits[:-1]
        is_new[starts[:-1][np.diff(starts) > 0]] = True
        before = starts_of(is_new.astype(np.int64))
        return values[is_new], before[starts]

    def _filled(self, found: Iterator[tuple[Int64Array, np.ndarray[Any, Any]]]) -> np.ndarray[Any, Any]:
        out: np.ndarray[Any, Any] = np.zeros(len(self), np.int64)
        for rows, values in found:
            out = out if out.dtype == values.dtype else out.astype(values.dtype)
            out[rows] = values
        return out

    def to_bytes(self) -> bytes:
        """Every row as one sorted run, whatever runs it was put together from."""
        merged = self._gathered(np.arange(len(self))).merged()
        return run_bytes.encode(merged.values, merged.starts)

    @classmethod
    def from_bytes(cls, data: Bytes) -> RunColumn:
        """The column of which these are the bytes; anything else is a `FormatError`."""
        return cls.of_part(RunPart.of_runs(*run_bytes.decode(data)))

    def pieces(self) -> list[tuple[Int64Array, RunPart]]:
        """Part by part: which rows lie there, and a part of just these."""
        if self._pieces is None:
            self._pieces = [
                (rows, self.parts[part].rows(self.place[rows])) for part, rows in _grouped(self.part, len(self.parts))
            ]
        return self._pieces

    def _gathered(self, rows: Int64Array) -> RunPart:
        """A part of these rows in their order, with their runs, in a buffer of its own."""
        chosen = RunColumn(self.parts, self.part[rows], self.place[rows])
        run_counts, counts = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        for at, part in chosen.pieces():
            run_counts[at], counts[at] = part.last - part.first, part.counts()
        edges, places = starts_of(run_counts), starts_of(counts)
        filled = [part.values.dtype for _, part in chosen.pieces() if len(part.values)]
        values = empty(int(places[-1]), filled[0] if filled else np.int64)
        lengths = np.zeros(int(edges[-1]), np.int64)
        for at, part in chosen.pieces():
            if len(part.values):
                part.copy_to(values, places[at])
            runs = expand(part.first, part.last)
            lengths[expand(edges[at], edges[at] + run_counts[at])] = part.starts[runs + 1] - part.starts[runs]
        return RunPart(values, starts_of(lengths), edges[:-1], edges[1:])


def _of_pieces(pieces: Sequence[tuple[Int64Array, RunPart]], count: int) -> RunColumn:
    part, place = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for number, (rows, held) in enumerate(pieces):
        part[rows], place[rows] = number, np.arange(len(held))
    return RunColumn([held for _, held in pieces] or [RunPart.of_runs(np.empty(0), np.zeros(1, np.int64))], part, place)


def _grouped(part: Int64Array, part_count: int) -> Iterator[tuple[int, Int64Array]]:
    """The rows of each part that has any."""
    if part_count == 1 or len(part) == 0:
        yield from [(0, np.arange(len(part), dtype=np.int64))] if part_count else []
        return
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(part_count + 1))
    for number in np.flatnonzero(np.diff(bounds)).tolist():
        yield number, order[bounds[number] : bounds[number + 1]]


def _touched(lo: Int64Array, hi: Int64Array, count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows lie in any of the ranges."""
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, lo, 1)
    np.add.at(change, hi, -1)
    covered: np.ndarray[Any, np.dtype[np.bool_]] = np.cumsum(change[:-1]) > 0
    return covered


def _table(height: int, width: int) -> Float64Array:
    """An empty table whose rows begin in different sets of the cache: results are written down its columns."""
    stride = width // 16 * 16 + 24
    return empty(height * stride, np.float64).reshape(height, stride)[:, :width]
