"""The sources of a leaf, each read from where the leaf asked, in turn, and no event before it is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.edge.pace import BatchSchedule, Pace
from headwater.edge.rates import FAR_NS, SECOND_NS
from headwater.edge.sources import Store
from headwater.protocols.events import BatchArrived, Event, SourceEnded

#: How soon to look again into a log that is still being written.
LOOK_NS = SECOND_NS // 1000


@dataclass(slots=True)
class SourceReader:
    """Reads one source, from where its leaf asks and no event before it is due.

    >>> from headwater.edge.sources import MemoryStore
    >>> reader = SourceReader("s", MemoryStore(pa.schema({"time": pa.int64()}), [pa.record_batch({"time": [5, 6, 7]})]))
    >>> reader.next_event(0, 2) is None  # the leaf has not asked for it
    True
    >>> reader.move(0)
    >>> [reader.next_event(0, 2).offset for _ in range(3)], reader.next_event(0, 2)
    ([0, 2, 3], None)
    """

    name: str
    store: Store
    pace: Pace | None = None
    #: The next offset; None until the leaf has said where to begin.
    position: int | None = None
    #: As far as it was ever read.
    furthest: int = 0
    has_ended: bool = False
    #: When there is more to hand over, in nanoseconds since the run began.
    next_ns: int = 0
    _start: int = 0
    _batch: pa.RecordBatch | None = None
    _schedule: BatchSchedule | None = None

    def move(self, offset: int) -> None:
        """Read on from ``offset``, back or forth."""
        if offset != self.position or self.has_ended:
            self.position, self.has_ended, self.next_ns = offset, False, 0

    def next_event(self, elapsed_ns: int, events_max: int) -> Event | None:
        """The next piece, if there is one by now; else `next_ns` says when to ask again."""
        position = self.position
        if position is None or self.has_ended:
            return None
        end = self.store.end
        if end is not None and position >= end:
            self.has_ended = True
            return SourceEnded(self.name, position)
        batch = self._batch
        if batch is None or not self._start <= position < self._start + len(batch):
            batch = self._load(position)
            if batch is None:
                self.next_ns = elapsed_ns + LOOK_NS
                return None
        first = position - self._start
        stop = min(first + events_max, len(batch))
        if self._schedule is not None:
            stop = min(stop, self._schedule.due(elapsed_ns))
            if stop <= first:
                self.next_ns = self._schedule.at_ns(first)
                return None
        self.position = self._start + stop
        self.furthest = max(self.furthest, self.position)
        return BatchArrived(self.name, position, batch.slice(first, stop - first))

    def _load(self, position: int) -> pa.RecordBatch | None:
        found = self.store.load(position)
        if found is None:
            return None
        self._start, self._batch = found
        self._schedule = None if self.pace is None else self.pace.schedule(self._batch)
        return self._batch


class Feed:
    """All sources of a leaf. Scheduled events are handed over every ``slot_ns``, not one by one."""

    def __init__(self, readers: Sequence[SourceReader], events_max: int, slot_ns: int) -> None:
        self.readers = {reader.name: reader for reader in readers}
        self.is_paused = False
        #: When the run began; None before.
        self.begin_ns: int | None = None
        self._turns = list(readers)
        self._events_max = events_max
        self._slot_ns = slot_ns

    @property
    def is_asked_for(self) -> bool:
        """Whether the leaf has said of every source where to begin."""
        return all(reader.position is not None for reader in self._turns)

    @property
    def events(self) -> int:
        """The number of events that were handed over, each counted once."""
        return sum(reader.furthest for reader in self._turns)

    def next_event(self, now_ns: int) -> Event | None:
        """The next piece of the source whose turn it is."""
        if self.is_paused or self.begin_ns is None or now_ns < self.begin_ns:
            return None
        elapsed_ns = (now_ns - self.begin_ns) // self._slot_ns * self._slot_ns
        turns = self._turns
        for number, reader in enumerate(turns):
            if reader.next_ns <= elapsed_ns and (event := reader.next_event(elapsed_ns, self._events_max)) is not None:
                self._turns = [*turns[number + 1 :], *turns[: number + 1]]
                return event
        return None

    def next_ns(self) -> int:
        """The moment at which there may be more; far away if that takes a message."""
        if self.is_paused or self.begin_ns is None:
            return FAR_NS
        open_ones = (r.next_ns for r in self._turns if r.position is not None and not r.has_ended)
        soonest = min(open_ones, default=None)
        if soonest is None:
            return FAR_NS
        return self.begin_ns + -(-soonest // self._slot_ns) * self._slot_ns
