"""Sorted runs end to end in one buffer, and rows that are ranges of them.

A row of one run is read where it lies. A row of several runs is a *tangle*: a few quantiles of it are picked by selection, which
costs about as much per run as sorting twenty values; for anything else, or once enough has been picked, tangles are merged into
a copy that is kept. So a sliding median never sorts a window, and a thousand quantiles sort it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from headwater.base.arrays import BoolArray, Float64Array, Int64Array, empty
from headwater.engine.operators.ragged import expand, starts_of
from headwater.engine.operators.runs import kernels

#: Picking one value costs about as much per run as sorting this many values.
PICK_COST = 20
#: A merged copy is kept up to this many values; more are merged block by block and let go.
KEEP_VALUES = 1 << 26
BLOCK_VALUES = 1 << 21

Array = np.ndarray[Any, Any]


class RunPart:
    """Row i holds the values of runs ``first[i]`` to ``last[i]``; run j is ``values[starts[j]:starts[j + 1]]``, sorted.

    Values are int64, float64 or objects with an order; NaN comes last. What reading had to merge is remembered, so many
    aggregates of the same rows share it.

    >>> part = RunPart.of_runs(np.array([1, 4, 2]), np.array([0, 2, 3]))
    >>> both = RunPart(part.values, part.starts, np.array([0]), np.array([2]))
    >>> both.modes(), both.picked(np.array([1]))[0]
    (array([1]), array([2]))
    """

    __slots__ = ("_merged", "_picks", "_tangled", "begins", "ends", "first", "last", "starts", "values")

    def __init__(self, values: Array, starts: Int64Array, first: Int64Array, last: Int64Array) -> None:
        self.values = values
        self.starts = starts
        self.first = first
        self.last = last
        self.begins: Int64Array = starts[first]
        self.ends: Int64Array = starts[last]
        self._tangled: Int64Array | None = None
        self._merged: RunPart | None = None
        self._picks = 0

    @classmethod
    def of_runs(cls, values: Array, starts: Int64Array) -> RunPart:
        """One row per run."""
        rows = np.arange(len(starts), dtype=np.int64)
        return cls(values, starts, rows[:-1], rows[1:])

    def __len__(self) -> int:
        return len(self.first)

    def counts(self) -> Int64Array:
        """How many values each row has."""
        return self.ends - self.begins

    def rows(self, indices: Int64Array) -> RunPart:
        """These rows, in the same buffer."""
        return RunPart(self.values, self.starts, self.first[indices], self.last[indices])

    def merged(self) -> RunPart:
        """The same rows in a buffer of their own, each as one sorted run."""
        starts = starts_of(self.counts())
        values = empty(int(starts[-1]), self.values.dtype)
        self.copy_to(values, starts[:-1])
        kernels.sort_runs(values, starts, np.flatnonzero(self.last - self.first > 1))
        return RunPart.of_runs(values, starts)

    def copy_to(self, values: Array, places: Int64Array) -> None:
        """Write the values of row i to ``values`` from ``places[i]`` on, run by run."""
        if self.values.dtype == object:
            values[expand(places, places + self.counts())] = self.values[expand(self.begins, self.ends)]
        else:
            kernels.copy_runs(self.values.view(np.int64), self.begins, self.ends, places, values.view(np.int64))

    def read_quantiles(self, qs: Float64Array, columns: Int64Array, out: Float64Array) -> None:
        """Write quantile ``qs[k]`` of row i to ``out[k, columns[i]]``, as Spark's exact percentile interpolates; NaN for none."""
        if self.values.dtype == object or self._picking_pays(len(qs)):
            for k, q in enumerate(qs.tolist()):
                out[k, columns] = self._interpolated(q)
            return
        kernels.read_quantiles(self.values, self.begins, self.ends, qs, columns, out)
        for rows, part in self._untangled():
            kernels.read_quantiles(part.values, part.begins, part.ends, qs, columns[rows], out)

    def picked(self, ranks: Int64Array) -> tuple[Array, Array, BoolArray]:
        """The value at each rank, the next one (itself if it is the last), and whether they are the same.

        For empty rows the values are anything at all; there must be some value in the buffer.
        """
        if self.values.dtype == object:
            coded, table = self._coded()
            low, high, same = coded.picked(ranks)
            # Of an empty row a rank may be anything, and none of its codes.
            last = len(table) - 1
            return table[np.clip(low, 0, last)], table[np.clip(high, 0, last)], same
        low, high = _at_ranks(self, ranks)
        rows = self._rows_of_several_runs()
        if self._picking_pays(1):
            self._picks += 1
            flip, words = kernels.flip_of(self.values), self.values.view(np.int64)
            runs = self.starts, self.first[rows], self.last[rows]
            low[rows], high[rows] = kernels.select(words, *runs, ranks[rows], flip)
        else:
            for rows, part in self._untangled():
                low[rows], high[rows] = _at_ranks(part, ranks[rows])
        return low.view(self.values.dtype), high.view(self.values.dtype), low == high

    def modes(self) -> Array:
        """The most frequent value of each row, the smallest if several are; anything at all where the row is empty."""
        if self.values.dtype == object:
            coded, table = self._coded()
            codes: Array = table[coded.modes()]
            return codes
        return self._each(_modes)

    def count_distinct(self) -> Int64Array:
        """How many different values each row has; NaN counts once."""
        return (self._coded()[0] if self.values.dtype == object else self)._each(_distinct)

    def _coded(self) -> tuple[RunPart, Array]:
        """Objects as numbers of the same order, with the table that leads back."""
        table, codes = np.unique(self.values, return_inverse=True)
        return RunPart(codes.reshape(-1).astype(np.int64), self.starts, self.first, self.last), table

    def _each(self, read: Callable[[RunPart], Array]) -> Array:
        """What ``read`` finds in rows of one run, for all rows."""
        out = read(self)
        for rows, part in self._untangled():
            out[rows] = read(part)
        return out

    def _interpolated(self, q: float) -> Float64Array:
        counts = self.counts()
        positions = np.maximum(counts - 1, 0) * q
        low, high, same = self.picked(positions.astype(np.int64))
        out = kernels.interpolate(low.astype(np.float64), high.astype(np.float64), same, positions)
        out[counts == 0] = np.nan
        return out

    def _rows_of_several_runs(self) -> Int64Array:
        if self._tangled is None:
            self._tangled = np.flatnonzero(self.last - self.first > 1)
            if len(self._tangled):
                filled = starts_of((np.diff(self.starts) > 0).astype(np.int64))
                self._tangled = np.flatnonzero(filled[self.last] - filled[self.first] > 1)
        return self._tangled

    def _picking_pays(self, pick_count: int) -> bool:
        """Whether the picks so far and these cost less than merging all tangles."""
        rows = self._rows_of_several_runs()
        if len(rows) == 0 or self._merged is not None:
            return False
        run_count = int((self.last[rows] - self.first[rows]).sum())
        return run_count * PICK_COST * (self._picks + pick_count) < int(self.counts()[rows].sum())

    def _untangled(self) -> Iterator[tuple[Int64Array, RunPart]]:
        """The tangled rows, each as one run: which rows, and a part of them. Equal ranges of runs are merged once."""
        rows = self._rows_of_several_runs()
        if len(rows) == 0:
            return
        if self._merged is None:
            ranges, place = np.unique(np.stack([self.first[rows], self.last[rows]]), axis=1, return_inverse=True)
            place = place.reshape(-1)
            distinct = RunPart(self.values, self.starts, *np.ascontiguousarray(ranges))
            if int(distinct.counts().sum()) > KEEP_VALUES:
                for wanted, part in _merged_blocks(distinct, place):
                    yield rows[wanted], part
                return
            self._merged = distinct.merged().rows(place)
        yield rows, self._merged


def _merged_blocks(distinct: RunPart, place: Int64Array) -> Iterator[tuple[Int64Array, RunPart]]:
    """Rows ``place`` of a part, merged some at a time: many long windows need not be in memory together."""
    block_of = np.cumsum(distinct.counts()) // BLOCK_VALUES
    for block in np.split(np.arange(len(distinct)), np.flatnonzero(np.diff(block_of)) + 1):
        wanted = np.flatnonzero((place >= block[0]) & (place <= block[-1]))
        yield wanted, distinct.rows(block).merged().rows(place[wanted] - block[0])


def _at_ranks(part: RunPart, ranks: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The word at each rank and the next one, in rows of one run."""
    words = part.values.view(np.int64)
    places = np.clip(part.begins + ranks, 0, len(words) - 1)
    return words[places], words[np.clip(part.ends - 1, 0, places + 1)]


def _modes(part: RunPart) -> Array:
    places = kernels.most_frequent(part.values.view(np.int64), part.begins, part.ends)
    return part.values[np.minimum(places, len(part.values) - 1)]


def _distinct(part: RunPart) -> Int64Array:
    return kernels.count_distinct(part.values.view(np.int64), part.begins, part.ends)
