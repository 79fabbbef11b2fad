"""Events as columns: the form in which every part of the engine sees them.

A chunk is a stretch of events in any order, each with its time and its place of birth (source, offset). Columns are NumPy
arrays, so kernels read them without a copy; what an operator does not need is never materialised.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, frozen
from headwater.base.arrow import plain_type
from headwater.base.jit import njit


@dataclass(slots=True)
class Values:
    """One column: ``data`` is int64, float64 or object; ``valid`` is None when nothing is null; ``type`` is the Arrow type.

    ``spread`` is a hint: exponents (low, high) of floats that were in the column before, so that exact sums of one batch are laid
    out like those of the last and can be joined as they are.
    """

    data: np.ndarray
    valid: BoolArray | None
    type: pa.DataType
    spread: tuple[int, int] | None = None

    def take(self, indices: Int64Array | slice) -> Values:
        return Values(self.data[indices], None if self.valid is None else self.valid[indices], self.type)


class Chunk:
    """Events of one or several sources. ``source_ids`` index ``source_names``; order is (time, source name, offset).

    Few queries read places of birth, so arrays of them are made on first use: till then the offset of the first event, or
    the number of the one source, stands for them.
    """

    __slots__ = ("_offsets", "_source_ids", "columns", "source_names", "times")

    def __init__(
        self,
        times: Int64Array,
        offsets: Int64Array | int,
        source_ids: Int32Array | int,
        source_names: list[str],
        columns: dict[str, Values] | None = None,
    ) -> None:
        self.times = times
        self._offsets = offsets
        self._source_ids = source_ids
        self.source_names = source_names
        self.columns: dict[str, Values] = {} if columns is None else columns

    @property
    def is_of_one_source(self) -> bool:
        """Whether it is known that all events are of one source."""
        return isinstance(self._source_ids, int)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def offsets(self) -> Int64Array:
        if isinstance(self._offsets, int):
            self._offsets = np.arange(self._offsets, self._offsets + len(self.times), dtype=np.int64)
        return self._offsets

    def refer(self, source_ids: Int32Array, source_names: list[str]) -> None:
        """The same sources, by other numbers."""
        self._source_ids, self.source_names = source_ids, source_names

    @property
    def source_ids(self) -> Int32Array:
        if isinstance(self._source_ids, int):
            self._source_ids = np.full(len(self.times), self._source_ids, np.int32)
        return self._source_ids

    def places(self, indices: Int64Array) -> Int64Array:
        """The times, numbers of sources and offsets of some events, as three rows."""
        sources = self._source_ids if isinstance(self._source_ids, int) else self._source_ids[indices]
        offsets = self._offsets + indices if isinstance(self._offsets, int) else self._offsets[indices]
        return np.stack((self.times[indices], np.broadcast_to(sources, indices.shape), offsets))

    def take(self, indices: Int64Array | slice) -> Chunk:
        columns = {name: values.take(indices) for name, values in self.columns.items()}
        sources = self._source_ids if isinstance(self._source_ids, int) else self._source_ids[indices]
        offsets: Int64Array | int
        if not isinstance(self._offsets, int):
            offsets = self._offsets[indices]
        elif isinstance(indices, slice):
            offsets = self._offsets + indices.indices(len(self))[0]
        else:
            offsets = self._offsets + indices
        return Chunk(self.times[indices], offsets, sources, self.source_names, columns)

    def select(self, names: Iterable[str]) -> Chunk:
        """The same events with some of their columns."""
        columns = {name: self.columns[name] for name in names if name in self.columns}
        return Chunk(self.times, self._offsets, self._source_ids, self.source_names, columns)

    def in_order(self) -> Int64Array | None:
        """The permutation that puts the events into their order, or None if they are in order already.

        >>> chunk = Chunk(np.array([5, 3]), np.array([0, 1]), np.zeros(2, np.int32), ["a"])
        >>> chunk.in_order()
        array([1, 0])
        """
        one_source, in_sequence = isinstance(self._source_ids, int), isinstance(self._offsets, int)
        if one_source and in_sequence and steps_back(frozen(self.times, np.int64)) == 0:
            return None
        ranks = source_ranks(self.source_names)[self.source_ids]
        everything = np.array([0, len(self)])
        if are_in_order(frozen(self.times, np.int64), ranks, self.offsets, everything):
            return None
        if are_in_order(ranks, self.offsets, self.offsets, everything):
            # They come source after source, by offset: the times alone decide, and sorting finds stretches that ascend.
            return np.argsort(self.times, kind="stable")
        return np.lexsort((self.offsets, ranks, self.times)).astype(np.int64)

    def birth(self) -> tuple[int, int]:
        """Where the first event was born: the rank of its source, and its offset."""
        _, source, offset = self.places(np.zeros(1, np.int64))[:, 0].tolist()
        return int(source_ranks(self.source_names)[source]), offset


@njit
def steps_back(times: Int64Array) -> int:
    """How often a time is smaller than the one before it."""
    count = 0
    for i in range(1, len(times)):
        count += times[i] < times[i - 1]
    return count


@njit
def comes_before(times: Int64Array, sources: Int64Array, offsets: Int64Array, a: int, b: int) -> bool:
    """Whether event a comes before event b."""
    if times[a] != times[b]:
        return bool(times[a] < times[b])
    if sources[a] != sources[b]:
        return bool(sources[a] < sources[b])
    return bool(offsets[a] < offsets[b])


@njit
def are_in_order(times: Int64Array, sources: Int64Array, offsets: Int64Array, starts: Int64Array) -> bool:
    """Whether the events of each row, from ``starts[row]`` to ``starts[row + 1]``, are in order."""
    for row in range(len(starts) - 1):
        for i in range(starts[row] + 1, starts[row + 1]):
            if comes_before(times, sources, offsets, i, i - 1):
                return False
    return True


def source_ranks(names: Sequence[str]) -> Int64Array:
    """The rank of each source: names compare as UTF-8 bytes.

    >>> source_ranks(["b", "a"])
    array([1, 0])
    """
    ranks = np.empty(len(names), np.int64)
    ranks[sorted(range(len(names)), key=lambda i: names[i].encode())] = np.arange(len(names))
    return ranks


def concat_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """All events of ``chunks``, one after the other. They share their columns and the engine's list of source names."""
    if len(chunks) == 1:
        return chunks[0]
    names = max((chunk.source_names for chunk in chunks), key=len)
    # Queries come and go: a column that some chunks do not have is one that no query reads any more.
    shared = [name for name in chunks[0].columns if all(name in chunk.columns for chunk in chunks)]
    columns = {name: concat_values([chunk.columns[name] for chunk in chunks]) for name in shared}
    return Chunk(
        np.concatenate([chunk.times for chunk in chunks]),
        np.concatenate([chunk.offsets for chunk in chunks]),
        np.concatenate([chunk.source_ids for chunk in chunks]),
        names,
        columns,
    )


def concat_values(parts: Sequence[Values]) -> Values:
    """One column after the other; a mask appears only if some part has one."""
    data = np.concatenate([part.data for part in parts])
    if all(part.valid is None for part in parts):
        return Values(data, None, parts[0].type)
    masks = [np.ones(len(part.data), bool) if part.valid is None else part.valid for part in parts]
    return Values(data, np.concatenate(masks), parts[0].type)


#: Types whose values are Python objects here.
_KEPT_AS_OBJECTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_decimal,
)


def blank(type_: pa.DataType, length: int) -> Values:
    """A column that holds nothing: for events that came before a query asked for the column."""
    type_ = plain_type(type_)
    if pa.types.is_floating(type_):
        data: np.ndarray = np.zeros(length, np.float64)
    elif any(test(type_) for test in _KEPT_AS_OBJECTS):
        data = np.full(length, None, object)
    else:
        data = np.zeros(length, np.int64)
    return Values(data, np.zeros(length, np.bool_), type_)
