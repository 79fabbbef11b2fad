"""Kept events, the windows that they form, and the base class of what forms them.

Events are sorted by key and, within a key, in their order, so that a window is a range of them. A former answers with all windows
that they form, open ones too, and says from which time on each key's events are still needed.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.reorder import OrderedEvents, concat_stretches
from headwater.engine.windows.registered import Registered
from headwater.language.times import FOREVER, NEVER

LONG_AGO = -(2**62)  # no event is earlier; lets durations be taken off without leaving int64


@dataclass(slots=True)
class KeptEvents:
    """Kept events sorted by key, in order within a key. ``starts[k]:starts[k + 1]`` are those of key k.

    ``marks`` is the watermark of each event's own source just before it, None if that had passed none of them; ``markers``: which
    events match the window's conditions.
    """

    chunk: Chunk
    keys: Int32Array
    starts: Int64Array
    markers: list[BoolArray]
    marks: Int64Array | None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def key_count(self) -> int:
        return len(self.starts) - 1

    def range_of(self, key: int, start: int, end: int) -> tuple[int, int]:
        """The events of a key with start <= time < end; FOREVER is no end."""
        low, high = int(self.starts[key]), int(self.starts[key + 1])
        times = self.chunk.times[low:high]
        behind = high if end == FOREVER else low + int(np.searchsorted(times, end))
        return low + int(np.searchsorted(times, start)), behind


@dataclass(slots=True)
class Formed:
    """Windows as rows (key, start, end, lo, hi), sorted by (key, start).

    ``reach[i]``: the last time at which window i is active; ``closed[i]``: no event on time can change it; ``final[i]``: nor a
    late one. Events of key k before ``needed[k]`` are in no window that can still change.
    """

    windows: Int64Array
    reach: Int64Array
    closed: BoolArray
    final: BoolArray
    needed: Int64Array

    def take(self, rows: BoolArray | Int64Array) -> Formed:
        return Formed(self.windows[rows], self.reach[rows], self.closed[rows], self.final[rows], self.needed)


class Former(ABC):
    """Forms the windows of one query. Most depend on the kept events alone and have nothing to remember."""

    #: Whether windows are formed that hold nothing.
    fills = False

    def __init__(self, entry: Registered) -> None:
        self.entry = entry

    @abstractmethod
    def form(self, kept: KeptEvents, after: int, until: int, is_paced: bool = False) -> Formed:
        """The windows, but for those that were final at ``after``; not ``is_paced``: too many that hold nothing are refused."""

    def form_all(self, kept: KeptEvents) -> Formed:
        """Every window that holds a kept event, those that are out too; nothing changes by it."""
        return copy.deepcopy(self).form(kept, NEVER, NEVER)

    def reach(self, after: int, until: int, kept: KeptEvents) -> int:
        """How far the watermark may rise at once towards ``until``, so that not too many windows are formed that hold nothing."""
        return until

    def closes_nothing(self, after: int, until: int, held: int) -> bool:
        """Whether no window ends in (after, until] for sure; ``held``: how many events there are, which are not looked at."""
        return False

    def forget(self, kept: KeptEvents, needed: Int64Array) -> None:  # noqa: B027 (most have nothing to do)
        """The events of each key before ``needed`` go."""

    def state(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        assert state is None


class ReplayBuffer:
    """Kept events in stretches; each with the watermarks of its events' sources, None where no event is late."""

    def __init__(self) -> None:
        self.stretches: list[OrderedEvents] = []  # none only if there never were events
        self.marks: list[Int64Array | None] = []

    def __len__(self) -> int:
        return sum(map(len, self.stretches))

    def add(self, stretch: OrderedEvents, marks: Int64Array | None) -> None:
        self.stretches.append(stretch)
        self.marks.append(marks if marks is not None and (marks > stretch.chunk.times).any() else None)

    def sorted(self, key_count: int) -> KeptEvents:
        """All events by key. What is held stays in the order of time: there it needs no sorting the next time."""
        stretch, marks = concat_stretches(self.stretches), self._all_marks()
        order = stretch.chunk.in_order()
        if order is not None:
            stretch, marks = stretch.take(order), None if marks is None else marks[order]
        self.stretches, self.marks = [stretch], [marks]
        if key_count > 1:
            # Numbers of 16 bits are sorted by counting.
            by_key = np.argsort(stretch.keys.astype(np.uint16) if key_count < 1 << 16 else stretch.keys, kind="stable")
            stretch, marks = stretch.take(by_key), None if marks is None else marks[by_key]
        starts = np.searchsorted(stretch.keys, np.arange(key_count + 1)).astype(np.int64)
        return KeptEvents(stretch.chunk, stretch.keys, starts, stretch.markers, marks)

    def _all_marks(self) -> Int64Array | None:
        """The watermarks of all stretches, NEVER where no event is late; None if that is so everywhere."""
        if all(marks is None for marks in self.marks):
            return None
        filled = (
            np.full(len(stretch), NEVER) if marks is None else marks
            for stretch, marks in zip(self.stretches, self.marks, strict=True)
        )
        return np.concatenate(list(filled))

    def forget(self, needed: Int64Array) -> None:
        """Let go of the events of each key before ``needed``; they were sorted just before."""
        (stretch,), (marks,) = self.stretches, self.marks
        left = np.flatnonzero(stretch.chunk.times >= needed[stretch.keys])
        self.stretches, self.marks = [stretch.take(left)], [None if marks is None else marks[left]]
