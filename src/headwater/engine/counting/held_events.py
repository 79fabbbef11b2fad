"""Events of count windows that are in pieces already: kept at the leaf, for the root may ask what lies in a piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.engine.intake.reorder import OrderedEvents, concat_stretches
from headwater.engine.wire.looks import Look
from headwater.language.times import NEVER


def _nothing_asked() -> tuple[Int64Array, Int64Array]:
    return np.empty(0, np.int64), np.array([NEVER])


@dataclass(slots=True)
class HeldEvents:
    """Events that are in pieces already and that the root may still ask for; the oldest go when there are too many.

    An answer may only be given of a stretch of which all events are here: others of the same time would be taken for them. Of
    what is read again, that is what was asked for when the reading began; of what came since, all but the oldest.
    """

    events_max: int
    stretches: list[OrderedEvents] = field(default_factory=list)
    count: int = 0
    #: Nothing that was in pieces when the reading began is later.
    reached: int = NEVER
    #: What was asked for by then: begins in order; before each, the last end so far.
    _asked: tuple[Int64Array, Int64Array] = field(default_factory=_nothing_asked)
    #: Up to here the oldest have gone.
    _gone: int = NEVER

    def begin(self, reached: int, looks: Sequence[Look]) -> None:
        """What is in pieces is read again, events up to ``reached``: keep those for which these looks ask."""
        self.reached = reached
        begins = np.array([look.first[0] for look in looks], np.int64)
        order = np.argsort(begins, kind="stable")
        ends = np.maximum.accumulate(np.array([look.last[0] for look in looks], np.int64)[order])
        self._asked = begins[order], np.concatenate(([NEVER], ends))

    def add_again(self, stretch: OrderedEvents) -> None:
        """Events that are read again: of them only what is asked for is kept."""
        times = stretch.chunk.times
        is_asked = times <= self._asked_until(times)
        if is_asked.any():
            kept = stretch.take(np.flatnonzero(is_asked)).in_order()
            self.stretches.append(kept)
            self.count += len(kept)

    def _asked_until(self, times: Int64Array) -> Int64Array:
        """Of what was asked for from each of these times on or earlier, the end."""
        ends: Int64Array = self._asked[1][np.searchsorted(self._asked[0], times, side="right")]
        return ends

    def add(self, stretch: OrderedEvents) -> None:
        self.stretches.append(stretch)
        self.count += len(stretch)
        while self.count > self.events_max and len(self.stretches) > 1:
            oldest = self.stretches.pop(0)
            self.count -= len(oldest)
            self._gone = max(self._gone, int(oldest.chunk.times[-1]))

    def has_all(self, look: Look) -> bool:
        """Whether all events are here that were put into the piece that is looked into."""
        first, last = int(look.first[0]), int(look.last[0])
        was_asked = last <= int(self._asked_until(np.array([first]))[0])
        return first > self._gone and (first > self.reached or was_asked)

    def between(self, low: int, high: int) -> OrderedEvents | None:
        """All events between two times, in order, and perhaps some around them; None if there are none."""
        near = [s for s in self.stretches if s.chunk.times[-1] >= low and s.chunk.times[0] <= high]
        return concat_stretches(near).in_order() if near else None

    def forget(self, time: int) -> None:
        """Let go of events before ``time``: the root will not ask for them."""
        self.stretches = [stretch for stretch in self.stretches if stretch.chunk.times[-1] >= time]
        self.count = sum(map(len, self.stretches))
