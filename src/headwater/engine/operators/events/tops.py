"""The best events of a row with some of their columns: the partial behind top, max_by, min_by and rows.

The best come first; of equal ones the earlier event. What is kept is a function of the events alone, so partials may be combined
in any grouping: of the best of several rows the best are those of all their events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, frozen
from headwater.base.jit import njit
from headwater.base.packing import Bytes, Reader, Writer, order_bits
from headwater.engine.intake.chunk import Chunk, comes_before
from headwater.engine.operators.events.places import EventPlaces
from headwater.engine.operators.operator import Best
from headwater.engine.operators.ragged import (
    expand,
    group_indices,
    read_starts,
    row_of_item,
    row_starts,
    starts_of,
    valid_rows,
)
from headwater.errors import FormatError

VERSION = 1


class Kept(NamedTuple):
    """One column of the events that are kept; ``valid`` is None where nothing is null."""

    data: np.ndarray[Any, Any]
    valid: BoolArray | None

    def take(self, indices: Int64Array) -> Kept:
        return Kept(self.data[indices], None if self.valid is None else self.valid[indices])


def _joined(parts: Sequence[Kept]) -> Kept:
    filled = [part.data for part in parts if len(part.data)]
    data = np.concatenate(filled) if filled else parts[0].data
    if all(part.valid is None for part in parts):
        return Kept(data, None)
    return Kept(data, np.concatenate([_valid(part) for part in parts]))


def _valid(part: Kept) -> BoolArray:
    return np.ones(len(part.data), np.bool_) if part.valid is None else part.valid


@dataclass(slots=True, eq=False)
class TopColumn:
    """Row i holds the events ``starts[i]`` to ``starts[i + 1]``, the best first; ``columns[0]`` is the one they are judged by.

    >>> prices = Kept(np.array([3, 9, 9, 5]), None)
    >>> places = EventPlaces(np.arange(4), *np.zeros((2, 4), np.int64), ["s"])
    >>> column = TopColumn(Best(2, False, True, ()), (prices,), places, np.array([0, 1, 2, 4]))
    >>> column.combine_ranges(np.array([0]), np.array([3])).columns[0].data
    array([9, 9])
    """

    best: Best
    columns: tuple[Kept, ...]
    places: EventPlaces
    starts: Int64Array
    #: Whether each row is known to be in its order, with no more events than it keeps: what a peer sent may be anything.
    is_settled: bool = field(default=True)

    @classmethod
    def lift(cls, column: str, best: Best, chunk: Chunk, rows: Int32Array, row_count: int) -> TopColumn:
        """The best events of each row; those without a value to be judged by are none."""
        values = chunk.columns[column]
        if best.k == 0:
            chosen, starts = group_indices(rows, row_count, chunk.in_order())
        else:
            rows = valid_rows(rows, values.valid)
            chosen, starts = _chosen(best, values.data, EventPlaces.of_chunk(chunk), rows, row_count)
        kept = (chunk.columns[name] for name in (column, *best.kept))
        columns = tuple(Kept(each.data, each.valid).take(chosen) for each in kept)
        return cls(best, columns, EventPlaces.of_chunk(chunk, chosen), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays."""
        return sum(column.data.nbytes for column in self.columns) + self.places.nbytes + self.starts.nbytes

    def counts(self) -> Int64Array:
        """How many events each row has."""
        return np.diff(self.starts)

    def take(self, indices: Int64Array) -> TopColumn:
        """These rows."""
        lo, hi = self.starts[indices], self.starts[indices + 1]
        return self._with(expand(lo, hi), starts_of(hi - lo))

    @classmethod
    def concat(cls, columns: Sequence[TopColumn]) -> TopColumn:
        """The rows of all columns, one after the other."""
        if len(columns) == 1:
            return columns[0]
        joined = tuple(_joined(parts) for parts in zip(*(column.columns for column in columns), strict=True))
        starts = starts_of(np.concatenate([column.counts() for column in columns]))
        places = EventPlaces.concat([column.places for column in columns])
        return cls(columns[0].best, joined, places, starts, all(column.is_settled for column in columns))

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> TopColumn:
        """Row i = the best events of rows ``lo[i]`` to ``hi[i]``."""
        begins, ends = self.starts[lo], self.starts[hi]
        gathered = self._with(expand(begins, ends), starts_of(ends - begins))
        return gathered if self.is_settled and (hi - lo <= 1).all() else gathered.settled()

    def settled(self) -> TopColumn:
        """Each row in its order, with as many events as it keeps."""
        if self.best.k == 0:
            if self.places.are_in_order(self.starts):
                return self._with(np.arange(len(self.places)), self.starts, is_settled=True)
            return self._with(self.places.order(self.starts), self.starts, is_settled=True)
        rows = row_of_item(self.starts).astype(np.int32)
        chosen, starts = _chosen(self.best, self.columns[0].data, self.places, rows, len(self))
        return self._with(chosen, starts, is_settled=True)

    def to_bytes(self) -> bytes:
        """The byte form; equal partials have equal bytes."""
        best, names_and_sources = self.best, self.places.packed()
        writer = Writer(VERSION).number(best.k).number(best.ties).number(best.largest).texts(best.kept)
        writer.objects(names_and_sources[0]).ints(self.counts())
        writer.ints(self.places.times).ints(names_and_sources[1]).ints(self.places.offsets)
        for column in self.columns:
            nulls = np.empty(0, np.int64) if column.valid is None else np.flatnonzero(~column.valid)
            # What lies where nothing is must not show.
            data = column.data.copy() if len(nulls) else column.data
            data[nulls] = None if data.dtype == object else 0
            writer.ints(nulls).array(data if len(data) else np.empty(0, np.int64))
        return writer.finish()

    @classmethod
    def from_bytes(cls, data: Bytes) -> TopColumn:
        """The column of which these are the bytes."""
        with Reader(data, "best events", VERSION) as reader:
            k, flags, kept = reader.number(), (reader.number(), reader.number()), reader.texts()
            names = [str(name) for name in reader.objects()]
            starts = read_starts(reader)
            places = EventPlaces(reader.ints(), reader.ints(), reader.ints(), names)
            columns = tuple(_read_kept(reader) for _ in range(1 + len(kept)))
        are_alike = len({len(places), int(starts[-1]), *(len(column.data) for column in columns)}) == 1
        are_judged = k == 0 or columns[0].valid is None
        if k >= 1 << 62 or max(flags) > 1 or not (are_alike and are_judged and places.are_places):
            raise FormatError("best events are damaged")
        return cls(Best(k, bool(flags[0]), bool(flags[1]), kept), columns, places, starts, is_settled=False)

    def _with(self, indices: Int64Array, starts: Int64Array, is_settled: bool | None = None) -> TopColumn:
        columns = tuple(column.take(indices) for column in self.columns)
        settled = self.is_settled if is_settled is None else is_settled
        return TopColumn(self.best, columns, self.places.take(indices), starts, settled)


def _read_kept(reader: Reader) -> Kept:
    nulls, data = reader.ints(), reader.array()
    if not len(nulls):
        return Kept(data, None)
    if not 0 <= int(nulls.min()) <= int(nulls.max()) < len(data):
        raise FormatError("best events are damaged")
    valid = np.ones(len(data), np.bool_)
    valid[nulls] = False
    return Kept(data, valid)


def _chosen(
    best: Best, values: np.ndarray[Any, Any], places: EventPlaces, rows: Int32Array, row_count: int
) -> tuple[Int64Array, Int64Array]:
    """The best events of each row, in their order, and where each row begins among them; row -1 is no row."""
    bits, rows = _bits(values, best.largest, rows >= 0), frozen(rows, np.int32)
    lengths = np.diff(row_starts(rows, row_count))
    slots = starts_of(np.minimum(lengths, best.k))
    at = frozen(places.times, np.int64), frozen(places.sources, np.int64), frozen(places.offsets, np.int64)
    chosen, judged = np.empty(int(slots[-1]), np.int64), np.empty(int(slots[-1]), np.int64)
    _keep_best(bits, rows, slots, *at, best.ties, chosen, judged)
    if not best.ties:
        return chosen, slots
    # The worst of each row is known now: with it come all that are as good.
    worst = np.full(row_count, np.iinfo(np.int64).max)
    filled = np.flatnonzero(np.diff(slots))
    worst[filled] = judged[slots[filled + 1] - 1]
    everyone = np.flatnonzero(rows >= 0)
    tied = everyone[bits[everyone] >= worst[rows[everyone]]]
    order = np.lexsort((at[2][tied], at[1][tied], at[0][tied], ~bits[tied], rows[tied]))
    return tied[order], starts_of(np.bincount(rows[tied], minlength=row_count))


def _bits(values: np.ndarray[Any, Any], largest: bool, known: BoolArray) -> Int64Array:
    """Numbers in the order of the values, the best the largest."""
    if values.dtype == object:
        bits = np.zeros(len(values), np.int64)
        bits[known] = np.unique(values[known], return_inverse=True)[1].reshape(-1)
    else:
        bits = order_bits(values) if values.dtype.kind == "f" else values
    return frozen(bits if largest else ~bits, np.int64)


@njit
def _is_worse(
    bits: Int64Array, times: Int64Array, sources: Int64Array, offsets: Int64Array, ties: bool, a: int, b: int
) -> bool:
    if bits[a] != bits[b] or ties:
        return bool(bits[a] < bits[b])
    return comes_before(times, sources, offsets, b, a)


@njit
def _sink(
    bits: Int64Array, times: Int64Array, sources: Int64Array, offsets: Int64Array, ties: bool,
    heap: Int64Array, low: int, high: int, event: int,
) -> None:  # fmt: skip
    """Put an event at the top of a heap, the worst of which is at the top, and let it sink to its place."""
    place = 0
    while True:
        child = 2 * place + 1
        if low + child >= high:
            break
        if low + child + 1 < high and _is_worse(
            bits, times, sources, offsets, ties, heap[low + child + 1], heap[low + child]
        ):
            child += 1
        if not _is_worse(bits, times, sources, offsets, ties, heap[low + child], event):
            break
        heap[low + place] = heap[low + child]
        place = child
    heap[low + place] = event


@njit
def _keep_best(
    bits: Int64Array, rows: Int32Array, slots: Int64Array,
    times: Int64Array, sources: Int64Array, offsets: Int64Array, ties: bool,
    heap: Int64Array, judged: Int64Array,
) -> None:  # fmt: skip
    """For each row r its best events at ``heap[slots[r]:slots[r + 1]]``, the best first, and in ``judged`` their numbers."""
    row_count = len(slots) - 1
    counts = np.zeros(row_count, np.int64)
    # The number of each row's worst event: most events are no better, and nothing else is looked at.
    worst = np.full(row_count, np.iinfo(np.int64).max)
    for i in range(len(rows)):
        r = rows[i]
        if r < 0:
            continue
        low, high, count = slots[r], slots[r + 1], counts[r]
        if count < high - low:
            place = count
            while place > 0:
                above = (place - 1) // 2
                if not _is_worse(bits, times, sources, offsets, ties, i, heap[low + above]):
                    break
                heap[low + place] = heap[low + above]
                place = above
            heap[low + place] = i
            counts[r] = count + 1
            if count + 1 == high - low:
                worst[r] = bits[heap[low]]
        elif bits[i] >= worst[r] and _is_worse(bits, times, sources, offsets, ties, heap[low], i):
            _sink(bits, times, sources, offsets, ties, heap, low, high, i)
            worst[r] = bits[heap[low]]
    for r in range(row_count):
        low = slots[r]
        for high in range(slots[r + 1] - 1, low, -1):
            worse, last = heap[low], heap[high]
            _sink(bits, times, sources, offsets, ties, heap, low, high, last)
            heap[high] = worse
        for place in range(low, slots[r + 1]):
            judged[place] = bits[heap[place]]
