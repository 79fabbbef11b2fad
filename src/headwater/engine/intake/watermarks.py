"""How far each source has come, and so how far all have.

A source's watermark is a function of its own sequence alone: the largest explicit one, its largest time minus its disorder
bound, or the group's watermark at the moment it joined or returned, whichever is highest. The group's watermark is the minimum
over the active sources. Who is active is a decision, taken once and logged, so that a replay takes it again.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.language.times import FOREVER, NEVER, TIME_MAX


@dataclass(frozen=True, slots=True)
class Decision:
    """A logged decision: ``what`` is joined, idle or returned; ``offset`` = accepted so far; ``time`` = group watermark."""

    what: str
    source: str
    offset: int
    time: int


@dataclass(slots=True)
class Source:
    """One source: its number, the next offset expected of it, its watermark, and whether the group waits for it."""

    number: int
    node: str
    watermark: int
    largest_time: int = NEVER
    next_offset: int = 0
    active: bool = True
    awaited: bool = False  # whether an entry of it stands among those that hold the group back


class Watermarks:
    """The watermarks of all sources of an engine.

    >>> marks = Watermarks(disorder=None)
    >>> a, b = marks.source("a"), marks.source("b")
    >>> marks.raise_source("a", 10); marks.group
    -9223372036854775808
    >>> marks.raise_source("b", 7); marks.group
    7
    """

    def __init__(self, disorder: int | None) -> None:
        self.disorder = disorder
        self.names: list[str] = []
        self.sources: dict[str, Source] = {}
        self.decisions: list[Decision] = []
        self.group = NEVER
        self.highest_time = NEVER
        # A heap of (watermark, number), one for each active source: the watermark it had when last looked at, so never too high.
        self._awaited: list[tuple[int, int]] = []

    def source(self, name: str, node: str = "") -> Source:
        """The source of this name. One that was never seen joins now: it goes on from the group's watermark."""
        known = self.sources.get(name)
        if known is not None:
            return known
        joined = Source(len(self.names), node, self.group)
        self.names.append(name)
        self.sources[name] = joined
        self._await(joined)
        self.decisions.append(Decision("joined", name, 0, self.group))
        return joined

    def before_each(self, source: Source, times: Int64Array) -> Int64Array | int:
        """The source's watermark just before each of its next events; one number while it cannot change among them."""
        if self.disorder is None or len(times) == 0:
            return source.watermark
        bounds = np.maximum.accumulate(times) - self.disorder
        marks = np.empty(len(times), np.int64)
        marks[0] = source.watermark
        np.maximum(bounds[:-1], source.watermark, out=marks[1:])
        return marks

    def saw(self, source: Source, low: int, high: int) -> None:
        """The source delivered events with times up to ``high``."""
        source.largest_time = max(source.largest_time, high)
        self.highest_time = max(self.highest_time, high)
        if self.disorder is not None:
            source.watermark = max(source.watermark, _meaningful(high - self.disorder))
        self._settle()

    def raise_source(self, name: str, watermark: int) -> None:
        """An explicit watermark of one source; a lower one than before changes nothing."""
        source = self.source(name)
        source.watermark = max(source.watermark, _meaningful(watermark))
        self._settle()

    def raise_all(self, watermark: int) -> None:
        watermark = _meaningful(watermark)
        for source in self.sources.values():
            source.watermark = max(source.watermark, watermark)
        if not self.sources:
            self.group = max(self.group, watermark)
        self._await_all()
        self._settle()

    def flush(self) -> None:
        self.raise_all(FOREVER)
        self.group = FOREVER

    def idle(self, name: str) -> None:
        """The group no longer waits for this source."""
        source = self.source(name)
        if source.active:
            source.active = False
            self.decisions.append(Decision("idle", name, source.next_offset, self.group))
            self._settle()

    def resume(self, name: str) -> None:
        """The source is back: it goes on with a watermark of at least the group's."""
        source = self.source(name)
        if not source.active:
            source.active = True
            source.watermark = max(source.watermark, self.group)
            self._await(source)
            self.decisions.append(Decision("returned", name, source.next_offset, self.group))
            self._settle()

    def _await(self, source: Source) -> None:
        if not source.awaited:
            source.awaited = True
            heapq.heappush(self._awaited, (source.watermark, source.number))

    def _await_all(self) -> None:
        """The same for all sources at once, from nothing."""
        for source in self.sources.values():
            source.awaited = source.active
        self._awaited = [(source.watermark, source.number) for source in self.sources.values() if source.active]
        heapq.heapify(self._awaited)

    def _settle(self) -> None:
        """The group follows the lowest active source. Watermarks only rise, so only the lowest entries need a new look."""
        awaited = self._awaited
        while awaited:
            mark, number = awaited[0]
            source = self.sources[self.names[number]]
            if not source.active:
                heapq.heappop(awaited)
                source.awaited = False
            elif source.watermark > mark:
                heapq.heapreplace(awaited, (source.watermark, number))
            else:
                self.group = max(self.group, mark)
                return

    def state(self) -> dict[str, Any]:
        sources = [
            [name, s.node, s.watermark, s.largest_time, s.next_offset, s.active] for name, s in self.sources.items()
        ]
        decisions = [[d.what, d.source, d.offset, d.time] for d in self.decisions]
        return {
            "disorder": self.disorder,
            "sources": sources,
            "decisions": decisions,
            "group": self.group,
            "highest": self.highest_time,
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Watermarks:
        marks = cls(state["disorder"])
        for name, *values in state["sources"]:
            marks.sources[name] = Source(len(marks.names), *values)
            marks.names.append(name)
        marks._await_all()
        marks.decisions = [Decision(*values) for values in state["decisions"]]
        marks.group, marks.highest_time = state["group"], state["highest"]
        return marks


def _meaningful(watermark: int) -> int:
    """No event is as early as that: such a watermark says nothing, and durations can be taken off all others within int64."""
    return NEVER if watermark <= -TIME_MAX else watermark
