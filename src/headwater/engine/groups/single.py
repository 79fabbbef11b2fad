"""A group of one query, which shares nothing: what is the same for all such groups, and the account of the query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.engine.groups.accounts import counters
from headwater.engine.intake.columns import Events
from headwater.engine.intake.keys import KeyTable
from headwater.engine.intake.predicates import mask as predicate_mask
from headwater.engine.windows.late import DROPPED, LATE, MEMBER, OUTSIDE, Dropped, standing, surely_members
from headwater.engine.windows.registered import Registered
from headwater.language.times import NEVER


@dataclass(slots=True)
class OwnAccounts:
    """The account of a query that is alone in its group: what each event is to it is known when the event comes."""

    seen: int = 0
    filtered: int = 0
    counts: Int64Array = field(default_factory=lambda: np.zeros(4, np.int64))

    def classify(self, entry: Registered, events: Events) -> tuple[Int64Array | None, list[Dropped]]:
        """What each event is to the query, None if all are members, and those that are too late."""
        if surely_members(entry, events.scan.low, events.watermarks):
            self.counts[MEMBER] += len(events)
            return None, []
        marks = events.marks
        what = standing(entry, events.chunk.times, marks)
        self.counts += np.bincount(what, minlength=4)
        lost = np.flatnonzero(what == DROPPED)
        return what, [Dropped(entry.number, events.chunk.take(lost), marks[lost])] if len(lost) else []

    def counters(self, moved: int = 0, moved_late: int = 0) -> dict[str, int]:
        """The account. ``moved``: events that were taken for members (``moved_late`` for late ones) and are in no window."""
        outside, late = int(self.counts[OUTSIDE]) + moved, int(self.counts[LATE]) - moved_late
        return counters(self.seen, self.filtered, outside, late, int(self.counts[DROPPED]))


class SingleGroup:
    """Base of groups of one query, which live as long as their query does."""

    def __init__(self, entry: Registered, keys: tuple[str, ...]) -> None:
        self.entry = entry
        self.key_names = keys
        self.keys = KeyTable(keys)
        self.watermark = NEVER
        self.accounts = OwnAccounts()
        self._is_gone = False

    def queries(self) -> list[Registered]:
        return [] if self._is_gone else [self.entry]

    def register(self, entries: Sequence[Registered]) -> None:
        """Nothing to do: the query came when the group was made."""

    def unregister(self, *numbers: int) -> None:
        self._is_gone = True

    def changed(self) -> None:
        """Nothing to do: the entry is read anew each time."""

    def is_due(self, until: int) -> bool:
        """Whether a watermark of ``until`` may close something."""
        return self.watermark < until

    def owes(self, until: int) -> bool:
        """Whether windows without events may still have to come, up to ``until``."""
        return False

    def reach(self, until: int) -> int:
        """How far the watermark may rise at once towards ``until``, so that not too much comes out."""
        return until

    def count(self, seen: int, filtered: int, early: int) -> None:
        """Events that another half of the engine has seen."""
        self.accounts.seen += seen
        self.accounts.filtered += filtered

    def passing(self, events: Events, names: Iterable[str]) -> Events:
        """The events that pass the condition, with the columns of these names; all of them are counted."""
        self.accounts.seen += len(events)
        if self.entry.query.where is None:
            return events
        rows = np.flatnonzero(predicate_mask(self.entry.query.where, events.arrays, len(events)))
        self.accounts.filtered += len(events) - len(rows)
        return events.take(rows, names)
