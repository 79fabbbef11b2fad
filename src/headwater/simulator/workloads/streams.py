"""The ground truth: what each source says, fixed before the run begins, and how a leaf reads it.

A log holds a source's events and explicit watermarks in their order, each with the moment at which it is there to be read.
It says the same however often it is read and however it is cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.protocols.events import BatchArrived, Event, SourceEnded


@dataclass(frozen=True)
class Told:
    """An explicit watermark behind the first ``position`` events, there from ``at_ns`` on."""

    position: int
    watermark: int
    at_ns: int


@dataclass(frozen=True)
class SourceLog:
    """Everything one source will ever say."""

    source: str
    home: str
    events: pa.RecordBatch
    #: When each event can be read; ascending.
    available_ns: Int64Array
    told: tuple[Told, ...] = ()
    #: When the source is known to its leaf, and when it ends; None: it just falls silent.
    opened_ns: int = 0
    ended_ns: int | None = None

    def __len__(self) -> int:
        return int(self.events.num_rows)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The events as the reference takes them."""
        rows: list[dict[str, Any]] = self.events.to_pylist()
        return rows

    @property
    def last_ns(self) -> int:
        """When the last of it can be read."""
        ends = [self.opened_ns, self.ended_ns or 0, *(told.at_ns for told in self.told[-1:])]
        return max(*ends, int(self.available_ns[-1]) if len(self) else 0)


@dataclass
class LogCursor:
    """How far one leaf has read one log.

    >>> log = SourceLog("a", "", pa.record_batch({"time": [1, 2, 3]}), np.array([5, 5, 9]), (Told(2, 3, 6),), 0, 10)
    >>> reader = LogCursor(log, position=0)
    >>> [reader.next_event(now, None) is None for now in (4, 7, 7)], reader.position
    ([True, False, True], 2)
    >>> reader.next_event(9, None).offset, reader.next_event(10, None)
    (2, SourceEnded(source='a', offset=3))
    """

    log: SourceLog
    #: The next offset to read; None until the leaf has said where to begin.
    position: int | None = None
    #: How many explicit watermarks are behind the reader.
    told_count: int = 0
    has_ended: bool = False
    batch_events_max: int = field(default=1 << 62)

    def move(self, offset: int) -> None:
        """Go on from here, back or forth; a watermark that stands exactly here is told again."""
        self.position = offset
        self.has_ended = False
        self.told_count = sum(told.position < offset for told in self.log.told)

    def next_event(self, now_ns: int, dice: Random | None) -> Event | None:
        """The next piece of the log, if there is one to be read now; dice cut it somewhere."""
        if self.position is None or self.has_ended:
            return None
        log, start = self.log, self.position
        end = int(np.searchsorted(log.available_ns, now_ns, side="right"))
        mark = log.told[self.told_count] if self.told_count < len(log.told) else None
        if mark is not None:
            end = min(end, mark.position)
        end = min(end, start + self.batch_events_max)
        if dice is not None and end - start > 1 and dice.random() < 0.5:
            end = start + dice.randint(1, end - start)
        watermark = None
        if mark is not None and mark.position == end and mark.at_ns <= now_ns:
            watermark = mark.watermark
            self.told_count += 1
        if end > start or watermark is not None:
            self.position = end
            return BatchArrived(log.source, start, log.events.slice(start, end - start), watermark)
        if start == len(log) and mark is None and log.ended_ns is not None and log.ended_ns <= now_ns:
            self.has_ended = True
            return SourceEnded(log.source, start)
        return None

    def next_ns(self) -> int | None:
        """When there will be more to read than there is now; None: never, or the leaf has to ask first."""
        if self.position is None or self.has_ended:
            return None
        log, start = self.log, self.position
        moments = [int(log.available_ns[start])] if start < len(log) else []
        if self.told_count < len(log.told):
            mark = log.told[self.told_count]
            if mark.position == start:
                return mark.at_ns
        elif start == len(log) and log.ended_ns is not None:
            moments.append(log.ended_ns)
        return min(moments, default=None)
