"""The half of an engine that has the events: it cuts them and gives parts of deltas; nothing is ever closed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.arrow import plain_array
from headwater.engine.counting.leaf import CountLeafGroup
from headwater.engine.counting.pieces import Zoning
from headwater.engine.families import Family
from headwater.engine.groups.queries import Totals
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.tree.leaf_intake import LeafIntake
from headwater.engine.tree.leaf_parts import late_part, take_rows
from headwater.engine.tree.marker_cuts import CutLeafGroup
from headwater.engine.windows.counts import count_table
from headwater.engine.wire.looks import Look
from headwater.engine.wire.merge import merge_pieces
from headwater.engine.wire.part_bytes import cuts_from_bytes
from headwater.engine.wire.parts import ALL_RAW, AccountsPart, AsidePart, EventsPart, Part
from headwater.language.times import FOREVER, NEVER


@dataclass(slots=True)
class Moved:
    """How far sources went on since the last time, by number."""

    sources: list[int]
    counts: list[int]
    rises: list[int]
    latest: int


class LeafHalf(LeafIntake):
    """Slices the events of a chain's sources by the queries of the root."""

    @property
    def cut_time(self) -> int:
        """Up to where events were cut."""
        return self._cut_time

    def told(self) -> tuple[dict[str, tuple[int, int]], int]:
        """Up to where parts were taken: the offset and the watermark of each source, and the latest time."""
        return dict(self._told), self._told_latest

    @property
    def has_news(self) -> bool:
        return bool(self._moved) or (bool(self._looks) and self.is_past_rereads())

    @property
    def is_awaited(self) -> bool:
        """Whether what has come should leave soon; not if there are only count windows, of which no end is expected in it."""
        counting = self._counting()
        if len(counting) < len(self._families) or self._looks:
            return True
        closed = self._closed
        return any(group.is_awaited(closed) for group in counting.values())

    @property
    def _closed(self) -> int:
        """Nothing that counts comes before; an idle source is waited for no longer than the root does."""
        return max(self.lowest_watermark, self._told_until)

    def cut_early(self) -> None:
        """Do now what can be done before anybody waits for it."""
        if self.is_past_rereads():
            is_alone, closed = len(self._standing) == 1, self._closed
            for number, group in self._counting().items():
                self._families[number].prepare(self._registry.types)
                group.cut_early(number, self._chain, closed, self._latest, is_alone)

    @property
    def is_waiting(self) -> bool:
        """Whether not all events for count windows are in pieces, or it was not said that they are."""
        return any(len(group.buffer) or group.covered < FOREVER for group in self._counting().values())

    @property
    def is_between(self) -> bool:
        """Whether events wait that have to be in pieces when they are accepted, while others are still read again.

        Accepted without, a leaf that takes over could not tell them from those that are in pieces.
        """
        return any(len(group.buffer) for group in self._counting().values()) and not self.is_past_rereads()

    @property
    def pending(self) -> int:
        """How many rows and events wait to be sent."""
        rows = sum(family.row_count for family in self._families.values())
        return rows + sum(len(part.times) for part in [*self._events, *chain(*self._instead.values())])

    @property
    def pending_bytes(self) -> int:
        """About how much memory they take: no less than the bytes that they will travel in."""
        groups = [family.group for family in self._families.values()]
        rows = sum(group.store.nbytes for group in groups if isinstance(group, QueryGroup))
        parts = [*self._events, *chain(*self._instead.values())]
        return rows + sum(32 * len(part.times) + sum(int(c.nbytes) for c in part.columns.values()) for part in parts)

    def held(self, least: int) -> int:
        """How many events wait for cuts although nothing of this leaf can come before them; 0 for fewer than ``least``."""
        lowest = self.lowest_watermark
        waiting = sum(group.closed_below(lowest) for group in self._counting().values())
        groups = [family.group for family in self._families.values() if isinstance(family.group, CutLeafGroup)]
        if not groups or waiting >= least:
            return waiting if waiting >= least else 0
        # Looking closer takes longer, and only what nothing can come before any more may hold reading up.
        if sum(group.held_count for group in groups) < least:
            return 0
        return sum(group.held_below(lowest) for group in groups)

    @property
    def lowest_watermark(self) -> int:
        """Nothing that comes has an earlier time."""
        return min((source.watermark for source in self._watermarks.sources.values()), default=NEVER)

    def watermark_of(self, source: str) -> int:
        """Nothing of this source that counts has an earlier time."""
        return self._watermarks.sources[source].watermark

    def take(self, is_last: bool = False) -> tuple[Moved, list[Part]]:
        """What has come since the last time: how far the sources are, and the parts of a delta.

        ``is_last``: nothing is kept for another time, for this leaf ends.
        """
        parts: list[Part] = []
        for number, family in self._families.items():
            group = family.group
            if isinstance(group, CutLeafGroup):
                markers = group.take_markers(number, self._chain)
                parts.extend([markers] if markers is not None else [])
            if isinstance(group, QueryGroup):
                if len(group.stragglers):
                    parts.append(late_part(number, self._chain, group))
                parts.extend(take_rows(number, group))
        parts.extend(self._take_pieces(is_last))
        parts.extend(joined_events(self._events))
        for instead in self._instead.values():
            parts.extend(joined_events(instead))
        self._events, self._instead = [], {}
        for choice in self._choices.values():
            choice.taken()
        if len(self._side):
            parts.append(AsidePart(self._side.take()))
        accounts = self._take_accounts()
        if accounts is not None:
            parts.append(accounts)
        return self._take_moves(), parts

    def _take_moves(self) -> Moved:
        moved = Moved([], [], [], self._latest - self._told_latest)
        self._told_latest = self._latest
        for name in sorted(self._moved, key=lambda name: self._watermarks.sources[name].number):
            source = self._watermarks.sources[name]
            offset, watermark = self._told[name]
            if source.next_offset < self._standing[name].offset:
                continue  # still reading again what was accepted
            if (source.next_offset, source.watermark) != (offset, watermark):
                moved.sources.append(source.number)
                moved.counts.append(source.next_offset - offset)
                moved.rises.append(source.watermark - watermark)
                self._told[name] = source.next_offset, source.watermark
        self._moved = {}
        return moved

    def _take_accounts(self) -> AccountsPart | None:
        rows = []
        for number, family in self._families.items():
            if isinstance(family.group, QueryGroup):
                totals, family.group.totals = family.group.totals, Totals()
                malformed, family.malformed = family.malformed, 0
                rows.append([number, totals.seen, totals.filtered, totals.early, malformed])
        if self._unread:
            rows.append([ALL_RAW, self._unread, self._unread, 0, 0])
        timeless, malformed = self._registry.timeless, self._malformed
        self._registry.timeless = self._malformed = self._unread = 0
        counted = [row for row in rows if any(row[1:])]
        if not counted and not timeless and not malformed:
            return None
        return AccountsPart(np.array(counted, np.int64).reshape(-1, 5), timeless, malformed)

    def cut(self, until: int, cuts: bytes, idle: Mapping[str, int]) -> list[Part]:
        """Cut what was held below ``until`` where the root says."""
        numbers = {self._watermarks.sources[n].number: at for n, at in idle.items() if n in self._watermarks.sources}
        parts: list[Part] = []
        for number, times in cuts_from_bytes(cuts).items():
            family: Family | None = self._families.get(number)
            if family is not None and isinstance(family.group, CutLeafGroup):
                family.prepare(self._registry.types)
                part = family.group.cut(number, self._cut_time, until, times, numbers)
                parts.extend([part] if part is not None else [])
        self._cut_time = until
        return parts

    # --- count windows ---

    def _counting(self) -> dict[int, CountLeafGroup]:
        return {n: f.group for n, f in self._families.items() if isinstance(f.group, CountLeafGroup)}

    def _take_pieces(self, is_last: bool) -> list[Part]:
        """For each family of count windows what is closed by now, cut into pieces, and what was found in those looked into."""
        parts: list[Part] = []
        is_past = self.is_past_rereads()
        until = self._closed  # whatever an idle source brings is sliced anew
        for number, group in self._counting().items():
            self._families[number].prepare(self._registry.types)
            if not is_past:
                parts.append(group.nothing(number, self._chain, self._latest))
                continue
            # Answers first: what is taken now may push what they need out of memory.
            looks = self._looks.pop(number, [])
            found = group.answer(number, self._chain, looks)
            if found is None:
                self.has_lost = True
                self._looked.difference_update((number, look.number) for look in looks)
            is_alone = len(self._standing) == 1
            last = group.take_pieces(number, self._chain, until, self._latest, is_last, is_alone)
            parts.extend(merge_pieces([*(found or []), *group.take_early(), last]))
        return parts

    def covered(self) -> dict[int, int]:
        """By family: up to which time events are in pieces."""
        return {number: group.covered for number, group in self._counting().items()}

    def begin_counting(
        self, covered: Mapping[int, int], looks: Mapping[int, Sequence[Look]], kept_max: int, is_brief: bool = False
    ) -> None:
        """Before events come: which are in pieces already, and which of these are to be looked into."""
        for number, group in self._counting().items():
            group.covered = covered.get(number, NEVER)
            group.reached = min(self._latest, group.covered - (group.covered > NEVER))
            group.kept.events_max, group.is_brief = 0 if is_brief else kept_max, is_brief
            group.expect(looks.get(number, ()))
        self.look(looks)

    def look(self, looks: Mapping[int, Sequence[Look]]) -> bool:
        """Somebody looks into pieces; the answer is in what is taken next. Whether there is anything new to answer."""
        for number in self._counting():
            fresh = [look for look in looks.get(number, ()) if (number, look.number) not in self._looked]
            self._looked.update((number, look.number) for look in fresh)
            if fresh:
                self._looks.setdefault(number, []).extend(fresh)
        return bool(self._looks)

    def follow(self, plans: Mapping[int, Zoning], until: int, settled: int) -> None:
        """Where cuts are expected; the watermark of all; and before which time nobody looks into pieces any more."""
        self._told_until = max(self._told_until, until)
        for number, group in self._counting().items():
            group.plan = plans.get(number)
            group.kept.forget(settled)
            self._moved.update(dict.fromkeys(self._standing) if self._is_released(group) else {})

    def _is_released(self, group: CountLeafGroup) -> bool:
        """Whether events may leave now that had to wait."""
        until = group.may_leave(self._closed)
        return until > group.covered and self.is_past_rereads()

    def count_windows(self, number: int) -> Int64Array | None:
        """Rows (size, step, origin) of the count windows over all events of a family; None if there are none."""
        group = self._counting().get(number)
        if group is None or group.counts_by_key:
            return None
        return count_table(group.count_walks)

    def take_rate(self, number: int) -> float | None:
        """How many events of a family came in a tick of time since the last time; None if time went no further."""
        group = self._counting().get(number)
        return None if group is None else group.take_rate()

    def count_report(self) -> dict[str, float]:
        """What count windows have cost here: raw events sent, and the most that were held."""
        groups = self._counting().values()
        return {"raw_events": sum(g.raw_count for g in groups), "held": max((g.held_most for g in groups), default=0)}

    def _emit(self) -> None:
        """Windows close at the root."""


def joined_events(parts: Sequence[EventsPart]) -> list[EventsPart]:
    """Neighbouring batches as one part, so that Arrow's headers are paid once."""
    clean = [part for part in parts if not part.misfits]
    joined = [part for part in parts if part.misfits]
    if clean:
        first = clean[0]
        columns = {name: _concat([part.columns[name] for part in clean]) for name in first.columns}
        joined.append(
            EventsPart(
                first.family,
                first.chain,
                np.concatenate([part.times for part in clean]),
                np.concatenate([part.offsets for part in clean]),
                np.concatenate([part.sources for part in clean]),
                np.concatenate([part.watermarks for part in clean]),
                columns,
            )
        )
    return joined


def _concat(arrays: list[pa.Array]) -> pa.Array:
    return pa.concat_arrays([plain_array(array) for array in arrays])
