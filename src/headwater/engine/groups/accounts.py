"""What became of every event of a group: in = filtered + outside + member + late + dropped, for each query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.engine.intake.chunk import Chunk
from headwater.engine.windows.late import DROPPED, LATE, MEMBER, OUTSIDE, Dropped, standing, surely_members
from headwater.engine.windows.registered import Registered


@dataclass(slots=True)
class Totals:
    """What a group has seen, or had seen when a query came: ``clean`` events went into slices."""

    seen: int = 0
    filtered: int = 0
    clean: int = 0
    early: int = 0  # before the group's begin


class Accounts:
    """Totals over all queries of a group; each query counts from those that it found when it came."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.before: dict[int, Totals] = {}

    def open(self, numbers: Iterable[int]) -> None:
        """Queries come: what was seen before is not their own."""
        self.before |= dict.fromkeys(numbers, replace(self.totals))

    def count(self, seen: int, filtered: int, early: int) -> None:
        """Events that were seen elsewhere."""
        self.totals.seen += seen
        self.totals.filtered += filtered
        self.totals.early += early

    def take(self) -> Totals:
        """The totals, for somebody else who keeps them; they begin anew here."""
        taken, self.totals = self.totals, Totals()
        return taken

    def counters(self, number: int, extra: Int64Array) -> dict[str, int]:
        """The account of a query. ``extra``: what is known of its events, besides the members that are in slices."""
        base = self.before[number]
        seen, filtered = self.totals.seen - base.seen, self.totals.filtered - base.filtered
        outside = int(extra[OUTSIDE]) + self.totals.early - base.early
        late, dropped = int(extra[LATE]), int(extra[DROPPED])
        return counters(seen, filtered, outside, late, dropped)


@dataclass(slots=True)
class OwnAccounts:
    """The account of a query that is alone in its group: what each event is to it is known when the event comes."""

    seen: int = 0
    filtered: int = 0
    counts: Int64Array = field(default_factory=lambda: np.zeros(4, np.int64))

    def classify(
        self, entry: Registered, chunk: Chunk, low: int, watermarks: Int64Array | int
    ) -> tuple[Int64Array | None, list[Dropped]]:
        """What each event is to the query, None if all are members, and those that are too late. No time is below ``low``."""
        if surely_members(entry, low, watermarks):
            self.counts[MEMBER] += len(chunk)
            return None, []
        marks = np.full(len(chunk), watermarks) if isinstance(watermarks, int) else watermarks
        what = standing(entry, chunk.times, marks)
        self.counts += np.bincount(what, minlength=4)
        lost = np.flatnonzero(what == DROPPED)
        return what, [Dropped(entry.number, chunk.take(lost), marks[lost])] if len(lost) else []

    def counters(self, moved: int = 0, moved_late: int = 0) -> dict[str, int]:
        """The account; so many events that counted as members, ``moved_late`` of them as late ones, turned out to be outside."""
        outside, late = int(self.counts[OUTSIDE]) + moved, int(self.counts[LATE]) - moved_late
        return counters(self.seen, self.filtered, outside, late, int(self.counts[DROPPED]))


def counters(seen: int, filtered: int, outside: int, late: int, dropped: int) -> dict[str, int]:
    """An account as it is shown: whatever is nothing else is a member.

    >>> counters(10, 3, 2, 1, 1)
    {'in': 10, 'filtered': 3, 'outside': 2, 'member': 3, 'late': 1, 'dropped': 1}
    """
    member = seen - filtered - outside - late - dropped
    return {
        "in": seen, "filtered": filtered, "outside": outside, "member": member, "late": late, "dropped": dropped,
    }  # fmt: skip
