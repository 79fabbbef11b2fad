"""A group of one query whose overlapping windows share nothing: what the papers' baseline `debucket` does.

Each event is added, incrementally, to every window that holds it. Of overlapping windows every n-th does not overlap the next, so
the query becomes n queries of disjoint windows. Each of these is a query group of its own, in which a window is one slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.snapshots import parts, snapshot
from headwater.engine.groups.baselines.work import WorkCount
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.groups.single import SingleGroup
from headwater.engine.intake.columns import Events
from headwater.engine.intake.keys import KeyTable
from headwater.engine.intake.widening import Widening
from headwater.engine.windows.assembler import Closed
from headwater.engine.windows.late import Dropped
from headwater.engine.windows.registered import Registered
from headwater.language.query import Query
from headwater.language.times import NEVER
from headwater.language.windows import CountWindow, Sliding

#: A query with more windows than this open at once is not split: each of them would be a group.
BUCKETS_MAX = 1 << 12
#: Longer steps could take a time plus a step out of int64.
STEP_MAX = 1 << 61


def overlap(query: Query) -> int:
    """How many windows of a query can hold the same event.

    >>> from headwater.language.aggregations import count
    >>> from headwater.language.query import query
    >>> from headwater.language.windows import sliding, tumbling
    >>> overlap(query("q", sliding(10, 3), n=count())), overlap(query("q", tumbling(10), n=count()))
    (4, 1)
    """
    size, step = _size_and_step(query)
    return max(1, -(-size // step))


def can_split(query: Query) -> bool:
    """Whether a query can be taken apart into queries of disjoint windows.

    Not if it wants empty windows: from which one to which one they go is a matter of all its windows together.
    """
    count, (_, step) = overlap(query), _size_and_step(query)
    return not query.emit_empty and count <= BUCKETS_MAX and count * step <= STEP_MAX


def split(entry: Registered) -> list[Registered]:
    """Queries of disjoint windows, all of the same number, whose windows together are those of the query.

    >>> from headwater.language.aggregations import count
    >>> from headwater.language.query import query
    >>> from headwater.language.windows import sliding
    >>> [part.query.window for part in split(Registered(query("q", sliding(10, 5), n=count()), 0))]
    [Sliding(size=10, slide=10, offset=0), Sliding(size=10, slide=10, offset=5)]
    """
    window, count = entry.query.window, overlap(entry.query)
    made = []
    for i in range(count):
        own, origin = window, 0
        if isinstance(window, Sliding):
            own = Sliding(window.size, count * window.slide, window.offset + i * window.slide)
        elif isinstance(window, CountWindow):
            own, origin = CountWindow(window.size, count * window.step, window.per), i * window.step
        made.append(Registered(replace(entry.query, window=own), entry.number, entry.begin, entry.stop, origin))
    return made


def _size_and_step(query: Query) -> tuple[int, int]:
    window = query.window
    if isinstance(window, Sliding):
        return int(window.size), int(window.slide)
    return (window.size, window.step) if isinstance(window, CountWindow) else (1, 1)


class BucketGroup(SingleGroup):
    """One query of overlapping windows. ``begin``: events before it are in none of them.

    ``keys`` are those of the windows that closed last: each bucket numbers its keys for itself.
    """

    def __init__(self, entry: Registered, keys: tuple[str, ...], begin: int = NEVER) -> None:
        super().__init__(entry, keys)
        # Without the condition, which is applied before: each event is counted once, however many windows it is in.
        self._parts = split(entry)
        self._groups = [QueryGroup(keys, None, begin) for _ in self._parts]

    def register(self, entries: Sequence[Registered]) -> None:
        for part, group in zip(self._parts, self._groups):
            group.watermark = self.watermark
            group.register([part])

    def changed(self) -> None:
        """The query is running out: so are its parts."""
        for part, group in zip(self._parts, self._groups):
            part.stop = self.entry.stop
            group.changed()

    def prepare(self, types: Mapping[str, pa.DataType]) -> None:
        for group in self._groups:
            group.prepare(types)

    def retype(self, changes: Mapping[str, Widening], types: Mapping[str, pa.DataType]) -> None:
        """Columns have grown: so have those of each bucket."""
        for group in self._groups:
            group.retype(changes, types)

    # --- events and windows ---

    def accept(self, events: Events) -> list[Dropped]:
        """Add each event to every window that holds it; returns the events that are too late."""
        events = self.passing(events, self.key_names)
        if len(events) == 0:
            return []
        for part, group in zip(self._parts, self._groups):
            inside = _inside(part, events.chunk.times)
            own = events if inside is None else events.take(inside, self.key_names)
            if len(own):
                group.accept(own)
        # Each event counts once, by the window that is best for it.
        return self.accounts.classify(self.entry, events)[1]

    def expected_rows(self, until: int) -> int:
        """About how many result rows an advance of the watermark to ``until`` gives."""
        return sum(group.expected_rows(until) for group in self._groups)

    def close(self, until: int, is_paced: bool = False) -> list[Closed]:
        self.watermark = until
        self.keys = KeyTable(self.key_names)
        pieces = []
        for group in self._groups:
            closed = group.close(until, is_paced)
            if closed:
                numbers = self.keys.encode(group.keys.columns(), len(group.keys))
            for piece in closed:
                piece.key = numbers[piece.key]
            pieces += closed
        return pieces

    # --- accounts and snapshots ---

    @property
    def work(self) -> WorkCount:
        """The work of all buckets together."""
        done = [group.work for group in self._groups]
        return WorkCount(sum(work.slice_count for work in done), sum(work.calculation_count for work in done))

    def row_count(self) -> int:
        return sum(group.row_count() for group in self._groups)

    def counters(self, number: int) -> dict[str, int]:
        return self.accounts.counters()

    state, restore = snapshot(
        {
            "watermark": "watermark",
            "buckets": parts("_groups"),
            "counts": "accounts.counts",
            "numbers": ["accounts.seen", "accounts.filtered"],
        }
    )


def _inside(part: Registered, times: Int64Array) -> Int64Array | None:
    """Which events lie in a window of the part; None for all.

    Positions are known only when the order is: between the windows of a count query events go through its operators unused.
    """
    window = part.query.window
    if not isinstance(window, Sliding) or window.size == window.slide:
        return None
    return np.flatnonzero((times - window.offset % window.slide) % window.slide < window.size)
