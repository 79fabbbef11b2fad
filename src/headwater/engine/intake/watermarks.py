"""Watermarks: how far each source of an engine has come, and so how far all have.

A source's watermark is a function of its own sequence alone: the largest explicit one, its largest time minus its disorder
bound, or the group's watermark at the moment it joined or returned, whichever is highest. The group's watermark is the minimum
over the active sources. Who is active is a decision, taken once and logged, so that a replay takes it again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.source_book import SourceBook
from headwater.language.times import FOREVER, NEVER, TIME_MAX


class Source:
    """One source: its line in the book, where it is at home, and the largest time seen of it."""

    __slots__ = ("_book", "largest_time", "node", "number")

    def __init__(self, book: SourceBook, number: int, node: str, largest_time: int = NEVER) -> None:
        self._book = book
        self.number = number
        self.node = node
        self.largest_time = largest_time

    @property
    def home(self) -> str:
        """The node it belongs to: the one that was named, else the source itself."""
        return self.node or self._book.names[self.number]

    @property
    def next_offset(self) -> int:
        """The offset of the event that is expected next: how many were accepted."""
        return self._book.offsets.item(self.number)

    @next_offset.setter
    def next_offset(self, offset: int) -> None:
        self._book.offsets[self.number] = offset

    @property
    def watermark(self) -> int:
        return self._book.watermarks.item(self.number)

    @watermark.setter
    def watermark(self, watermark: int) -> None:
        self._book.watermarks[self.number] = watermark

    @property
    def active(self) -> bool:
        """Whether the group waits for it."""
        return self._book.active.item(self.number)


class Watermarks(SourceBook):
    """The watermarks of all sources of an engine.

    >>> marks = Watermarks(disorder=None)
    >>> a, b = marks.source("a"), marks.source("b")
    >>> marks.raise_source("a", 10); marks.group
    -9223372036854775808
    >>> marks.raise_source("b", 7); marks.group
    7
    """

    def __init__(self, disorder: int | None) -> None:
        super().__init__()
        self.disorder = disorder
        self.sources: dict[str, Source] = {}
        self.highest_time = NEVER

    def source(self, name: str, node: str = "") -> Source:
        """The source of this name. One that was never seen joins now."""
        known = self.sources.get(name)
        if known is None:
            known = self.sources[name] = Source(self, len(self.names), node)
            self.set_joined([name])
        return known

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
        self.raise_to(source.number, NEVER if self.disorder is None else _meaningful(high - self.disorder))

    def raise_source(self, name: str, watermark: int) -> None:
        """An explicit watermark of one source; a lower one than before changes nothing."""
        self.raise_to(self.source(name).number, _meaningful(watermark))

    def raise_all(self, watermark: int) -> None:
        watermark = _meaningful(watermark)
        np.maximum(self.watermarks, watermark, out=self.watermarks)
        if not self.sources:
            self.group = max(self.group, watermark)
        self.follow()

    def flush(self) -> None:
        self.raise_all(FOREVER)
        self.group = FOREVER

    def idle(self, name: str) -> None:
        """The group no longer waits for this source."""
        source = self.source(name)
        if source.active:
            self.set_idle([source.number])

    def resume(self, name: str) -> None:
        """The source is back."""
        source = self.source(name)
        if not source.active:
            self.set_returned([source.number])

    def state(self) -> dict[str, Any]:
        columns = (column.tolist() for column in (self.watermarks, self.offsets, self.active))
        return {
            "disorder": self.disorder,
            "sources": [
                [name, source.node, watermark, source.largest_time, offset, active]
                for (name, source), watermark, offset, active in zip(self.sources.items(), *columns, strict=True)
            ],
            "decisions": self.decision_rows(),
            "group": self.group,
            "highest": self.highest_time,
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Watermarks:
        marks = cls(state["disorder"])
        names, nodes, watermarks, largest, offsets, active = list(zip(*state["sources"])) or [()] * 6
        marks.restore_book(names, state["decisions"], offsets, watermarks, active)
        marks.sources = {
            n: Source(marks, i, node, time) for i, (n, node, time) in enumerate(zip(names, nodes, largest))
        }
        marks.group, marks.highest_time = state["group"], state["highest"]
        return marks


def _meaningful(watermark: int) -> int:
    """The watermark, or NEVER if it lies before all possible times; so durations can be subtracted within int64."""
    return NEVER if watermark <= -TIME_MAX else watermark
