"""Where a leaf's events come from: partitions of a log, or batches in memory. Small descriptions, which travel to its process.

A store is what a description opens: the same events at the same offsets, however often they are asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from headwater.edge.errors import EdgeError
from headwater.edge.pace import Pace
from headwater.logs import Log, Stored


class Store(Protocol):
    """The events of one source by offset."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def end(self) -> int | None:
        """The number of events in all; None while that is not known."""

    def load(self, offset: int) -> tuple[int, pa.RecordBatch] | None:
        """The batch that holds the event at ``offset``, and the offset of its first; None if it is not there now."""


@dataclass(frozen=True)
class LogSource:
    """A partition of a segment log, up to the offset ``stop``; without it, what is there when it is opened.

    With a ``stop`` that the log has not reached, the log is followed while it is written. ``in_memory``: everything is
    read and decoded before the run begins.
    """

    name: str
    path: Path | str
    partition: int = 0
    stop: int | None = None
    in_memory: bool = False
    pace: Pace | None = None

    def open(self) -> Store:
        store = LogStore(self)
        if not self.in_memory:
            return store
        return MemoryStore(store.schema, [stored.batch for stored in store.read(0)])

    def head(self, events: int) -> LogSource:
        """The first events of it, as fast as they come."""
        reader = Log.open(self.path).reader(self.partition)
        there = reader.refresh() if self.stop is None else self.stop
        return replace(self, stop=min(events, there), pace=None)


@dataclass(frozen=True)
class MadeSource:
    """Batches in memory that a function makes in the leaf's process: ``make(*arguments)``. It can be imported there."""

    name: str
    make: Callable[..., Sequence[pa.RecordBatch]]
    arguments: tuple[Any, ...] = ()
    stop: int | None = None
    pace: Pace | None = None

    def open(self) -> Store:
        batches = list(self.make(*self.arguments))
        if not batches:
            raise EdgeError(f"source {self.name!r}: no batch was made; make one at least, empty if need be")
        return MemoryStore(batches[0].schema, first_of(batches, self.stop))

    def head(self, events: int) -> MadeSource:
        """The first events of it, as fast as they come."""
        return replace(self, stop=events if self.stop is None else min(events, self.stop), pace=None)


Source = LogSource | MadeSource


def first_of(batches: Sequence[pa.RecordBatch], count: int | None) -> list[pa.RecordBatch]:
    """The first ``count`` events.

    >>> batch = pa.record_batch({"time": [1, 2, 3]})
    >>> [len(part) for part in first_of([batch, batch, batch], 4)]
    [3, 1]
    """
    if count is None:
        return list(batches)
    starts = accumulate((len(batch) for batch in batches), initial=0)
    return [batch.slice(0, count - start) for start, batch in zip(starts, batches) if start < count]


class MemoryStore:
    """Batches in memory.

    >>> store = MemoryStore(pa.schema({"time": pa.int64()}), [pa.record_batch({"time": [1, 2]}), pa.record_batch({"time": [3]})])
    >>> store.end, store.load(1)[0], store.load(2)[0], store.load(3)
    (3, 0, 2, None)
    """

    def __init__(self, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
        self.schema = schema
        self._batches = [batch for batch in batches if len(batch)]
        *self._starts, self.end = accumulate((len(batch) for batch in self._batches), initial=0)

    def load(self, offset: int) -> tuple[int, pa.RecordBatch] | None:
        if offset >= self.end:
            return None
        number = bisect_right(self._starts, offset) - 1
        return self._starts[number], self._batches[number]


class LogStore:
    """A partition of a log, read record by record."""

    def __init__(self, source: LogSource) -> None:
        self._reader = Log.open(source.path).reader(source.partition)
        there = self._reader.refresh()
        self.end = there if source.stop is None else source.stop
        first = next(self.read(0), None)
        if first is None:
            raise EdgeError(
                f"source {source.name!r}: {self._reader.directory} has no rows yet, so its columns are not known"
            )
        self.schema = first.batch.schema
        self._rows: Iterator[Stored] = iter(())
        self._next = -1

    def read(self, offset: int) -> Iterator[Stored]:
        """The records from ``offset`` on that are there now."""
        return self._reader.read(min(offset, self._reader.refresh()), self.end)

    def load(self, offset: int) -> tuple[int, pa.RecordBatch] | None:
        if offset >= self.end:
            return None
        found = next(self._rows, None) if offset == self._next else None
        if found is None:
            self._rows = self.read(offset)
            found = next(self._rows, None)
            if found is None:
                return None
        self._next = found.offset + len(found.batch)
        return found.offset, found.batch
