"""What became of every event of a group: in = filtered + outside + member + late + dropped, for each query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headwater.base.arrays import Int64Array
from headwater.engine.windows.late import DROPPED, LATE, OUTSIDE


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
        """The totals since the last call, to be added up by the root of a tree; they begin at zero again here."""
        taken, self.totals = self.totals, Totals()
        return taken

    def counters(self, number: int, extra: Int64Array) -> dict[str, int]:
        """The account of a query. ``extra``: what is known of its events, besides the members that are in slices."""
        base = self.before[number]
        seen, filtered = self.totals.seen - base.seen, self.totals.filtered - base.filtered
        outside = int(extra[OUTSIDE]) + self.totals.early - base.early
        late, dropped = int(extra[LATE]), int(extra[DROPPED])
        return counters(seen, filtered, outside, late, dropped)


def counters(seen: int, filtered: int, outside: int, late: int, dropped: int) -> dict[str, int]:
    """An account as users see it: every event that is nothing else is a member.

    >>> counters(10, 3, 2, 1, 1)
    {'in': 10, 'filtered': 3, 'outside': 2, 'member': 3, 'late': 1, 'dropped': 1}
    """
    member = seen - filtered - outside - late - dropped
    return {
        "in": seen, "filtered": filtered, "outside": outside, "member": member, "late": late, "dropped": dropped,
    }  # fmt: skip
