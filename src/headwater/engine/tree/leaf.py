"""The half of an engine that has the events: it cuts them and gives parts of deltas; nothing is ever closed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.count_limits import CountLimits
from headwater.engine.core import Delivery, Intake
from headwater.engine.counting.leaf import CountLeafGroup
from headwater.engine.counting.pieces import Zoning
from headwater.engine.halves import LeafGroup
from headwater.engine.intake.arrivals import Arrivals, read_columns, times_of
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import Events, Times, TimeScan, read_values
from headwater.engine.intake.many_sources import SourceShares, shares
from headwater.engine.state import EngineState
from headwater.engine.tree.leaf_sources import LeafSources, Moved, Standing
from headwater.engine.tree.marker_cuts import CutLeafGroup
from headwater.engine.tree.raw import EventsInstead, RawEvents
from headwater.engine.tree.roles import Role
from headwater.engine.windows.counts import count_table
from headwater.engine.wire.looks import Look
from headwater.engine.wire.merge import merge_pieces
from headwater.engine.wire.part_bytes import cuts_from_bytes
from headwater.engine.wire.parts import ALL_RAW, AccountsPart, AsidePart, Part
from headwater.engine.wire.query_set import QuerySet
from headwater.language.times import FOREVER, NEVER


class LeafHalf:
    """Cuts the events of a chain's sources by the queries of the root, and keeps those that travel as themselves.

    Sources are read from where the root says, some of their events again: these are only held, for the root's word.
    """

    def __init__(
        self, queries: QuerySet, chain: str, sources: list[Standing], latest: int, cut_time: int, limits: CountLimits
    ) -> None:
        role = Role(True, queries.round_trips, queries.counts, queries.large_only, limits)
        settings = queries.time, queries.unit, queries.disorder, queries.strict
        self._state: EngineState[LeafGroup] = EngineState(role.leaf_groups(), *settings)
        self._queries = self._state.registry
        self._queries.take_over(list(queries.entries), list(queries.names), queries.types)
        self._intake = Intake(self._state)
        self._families = self._queries.numbered_families()
        groups = {number: family.group for number, family in self._families.items()}
        self._cutting = {number: group for number, group in groups.items() if isinstance(group, CutLeafGroup)}
        self._counting = {number: group for number, group in groups.items() if isinstance(group, CountLeafGroup)}
        self._chain = chain
        self._raw = RawEvents(chain, [entry for entry in queries.entries if role.way(entry.query) == "raw"])
        self._instead = EventsInstead(chain, self._families)
        self.sources = LeafSources(self._state.watermarks, sources, latest)
        self.cut_time = cut_time  # up to where events were cut
        self._told_until = NEVER  # how far the watermark of all has come, as far as the root has said so
        self.has_lost = False  # whether the root asked for events that are not in memory any more

    # --- events of one source ---

    def take_in_stretches(
        self, source: str, offset: int, batch: pa.RecordBatch, ends: Sequence[int], times: Times
    ) -> Iterator[None]:
        """The next events of a source, without an explicit watermark; stops behind each of ``ends``, ascending, and behind all:
        what is taken then is of the events so far. ``times``: those of the events.

        Nothing else may be asked of the half in between. It does what `take_in` of each stretch does, mostly in one pass.
        """
        scan, origin = times[2], self.sources[source]
        is_plain = (
            scan is not None
            and scan.in_order
            and scan.low >= origin.watermark
            and origin.next_offset == offset
            and not self.sources.needs_care(source, offset)
            and not (self._raw or self._instead.is_wanted or self._cutting or self._counting)
        )
        arrived = self._intake.plain(batch, origin, offset, times) if ends and is_plain else None
        if arrived is None:
            for begin, end in zip([0, *ends], [*ends, len(batch)]):
                self.take_in(source, offset + begin, batch.slice(begin, end - begin), None, None if ends else times)
                yield
            return
        families = self._instead.collect(arrived)
        walks = [family.group.accept_in_stretches(arrived.events, ends) for family in families]
        for end in (*ends, len(batch)):
            for walk in walks:
                next(walk)
            high = int(arrived.events.chunk.times[end - 1])
            origin.next_offset = offset + end
            self.sources.latest = max(self.sources.latest, high)
            self._state.watermarks.saw(origin, arrived.events.scan.low, high)
            self.sources.moved(source)
            yield

    def take_in(
        self, source: str, offset: int, batch: pa.RecordBatch, watermark: int | None, times: Times | None = None
    ) -> None:
        """The next events of a source; those that were taken in before are passed over. ``times``: those of the events, if they
        were read before."""
        origin, end = self.sources[source], offset + len(batch)
        while origin.next_offset < end:
            start = origin.next_offset
            until = self.sources.next_stop(source, end)
            is_whole = start == offset and until == end
            self._take_stretch(source, start, batch.slice(start - offset, until - start), times if is_whole else None)
            self.sources.move_to(source, until)
        if watermark is not None and end >= origin.next_offset:
            self._state.watermarks.raise_source(source, watermark)
        self.sources.moved(source)

    def _take_stretch(self, source: str, start: int, batch: pa.RecordBatch, times: Times | None) -> None:
        """Events between which nothing is decided: all of them come for the first time, or none."""
        origin = self.sources[source]
        is_new = self.sources.is_past_reread(source)
        delivery = self._intake.read(batch, origin, start, times, is_new)
        if delivery is not None:
            (self._deal_out if is_new else self._hold_again)(delivery)
            self._state.watermarks.saw(origin, delivery.events.scan.low, delivery.events.scan.high)

    def _deal_out(self, delivery: Delivery) -> None:
        self.sources.latest = max(self.sources.latest, delivery.events.scan.high)
        self._intake.note_dropped(delivery, self._raw.collect(delivery))
        self._intake.deal_out(delivery, self._instead.collect(delivery))
        self._intake.note_dropped(delivery, self._instead.take_dropped())

    def _hold_again(self, delivery: Delivery) -> None:
        """Events that were accepted before: only groups that wait for the root's word need them."""
        for family in self._families.values():
            family.group.prepare(self._queries.types)
            family.group.reread(family.fitting(delivery.events, delivery.arrivals.misfits), self.cut_time)

    def pass_over(self, source: str, end: int, low: int | None, high: int | None) -> None:
        """No query wants the events of a source up to offset ``end``, for its condition or for the place of its window.

        Without times there are no events up to there.
        """
        origin = self.sources[source]
        fresh = end - self.sources.resume_offset(source)
        while origin.next_offset < end:
            self.sources.move_to(source, self.sources.next_stop(source, end))
        self.sources.moved(source)
        if low is None or high is None:
            return
        self._state.watermarks.saw(origin, low, high)
        if fresh > 0:
            self.sources.latest = max(self.sources.latest, high)
            self._raw.unread += fresh if self._raw else 0
            for family in self._families.values():
                family.group.pass_over(fresh)

    def end(self, source: str, watermark: int) -> None:
        """Nothing more will come of a source, or nothing before this watermark."""
        self._state.watermarks.raise_source(source, watermark)
        self.sources.moved(source)

    # --- events of many sources ---

    def take_in_mixed(
        self, sources: Sequence[str], which: Int64Array, offsets: Int64Array, batch: pa.RecordBatch
    ) -> dict[str, int]:
        """Events of many sources, event i of ``sources[which[i]]``; returns those of which earlier events are missing.

        What is ordinary is taken in as one batch; sources with something odd (an event that is late or malformed, or was read
        before) one by one.
        """
        marks = self._state.watermarks
        numbers = np.array([marks.numbers[name] for name in sources], np.int64)
        times, timeless, scan = times_of(batch, self._state.time, self._state.unit)
        arrays, misfits = read_columns(batch, self._queries.needed, self._queries.types)
        next_offsets = marks.offsets[numbers]
        found = shares(times, which, offsets, marks.disorder, next_offsets, marks.watermarks[numbers])
        found.odd |= np.array(list(map(self.sources.needs_care, sources, next_offsets.tolist())), np.bool_)
        found.odd[which[list({*timeless, *(row for rows in misfits.values() for row in rows)})]] = True
        plain = ~found.odd[which]
        events = Arrivals(batch, offsets, arrays, times, scan, {}, {})
        if not plain.all():
            events = events.take(np.flatnonzero(plain))
        if events.scan is not None:
            self._accept_plain(numbers, which[plain], events, events.scan)
        places = np.flatnonzero((found.counts > 0) & ~found.odd)
        marks.offsets[numbers[places]] += found.counts[places]
        marks.watermarks[numbers[places]] = found.watermarks[places]
        self.sources.moved(*[sources[place] for place in places.tolist()])
        return self._take_in_odd(sources, which, offsets, batch, found)

    def _accept_plain(self, numbers: Int64Array, which: Int64Array, events: Arrivals, scan: TimeScan) -> None:
        """Events of several sources of which none is late: one watermark below them all stands for each one's own."""
        marks = self._state.watermarks
        columns = {name: read_values(events.arrays[name]) for name in self._queries.value_columns}
        chunk = Chunk(events.times, events.offsets, numbers.astype(np.int32)[which], marks.names, columns)
        self._queries.add_nodes(events.arrays, lambda: self._homes(numbers, which))
        self._deal_out(Delivery(events, Events(chunk, events.arrays, scan, NEVER), ""))

    def _homes(self, numbers: Int64Array, which: Int64Array) -> pa.Array:
        """The home of each event's source."""
        marks = self._state.watermarks
        homes = pa.array([marks.sources[marks.names[number]].home for number in numbers.tolist()], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), homes)

    def _take_in_odd(
        self, sources: Sequence[str], which: Int64Array, offsets: Int64Array, batch: pa.RecordBatch, found: SourceShares
    ) -> dict[str, int]:
        missing = {}
        for place in np.flatnonzero((found.counts > 0) & found.odd).tolist():
            rows = np.flatnonzero(which == place)
            name, start = sources[place], int(offsets[rows[0]])
            if start > self.sources.next_offset(name):
                missing[name] = self.sources.next_offset(name)
            else:
                self.take_in(name, start, batch.take(pa.array(rows)), None)
        return missing

    # --- what waits ---

    @property
    def has_news(self) -> bool:
        return bool(self.sources.news) or (self._has_looks and self.sources.are_past_reread())

    @property
    def is_awaited(self) -> bool:
        """Whether what has come should leave soon; not if there are only count windows, of which no end is expected in it."""
        if self._raw or len(self._counting) < len(self._families) or self._has_looks:
            return True
        closed = self._closed
        return any(group.is_awaited(closed) for group in self._counting.values())

    @property
    def pending(self) -> int:
        """How many rows and events wait to be sent."""
        rows = sum(family.group.row_count() for family in self._families.values())
        return rows + sum(len(part.times) for part in [*self._raw.parts, *self._instead.parts])

    @property
    def pending_bytes(self) -> int:
        """About how much memory they take: no less than the bytes that they will travel in."""
        rows = sum(family.group.store.nbytes for family in self._families.values())
        parts = [*self._raw.parts, *self._instead.parts]
        return rows + sum(32 * len(part.times) + sum(int(c.nbytes) for c in part.columns.values()) for part in parts)

    def held(self, least: int) -> int:
        """How many events wait for cuts although nothing of this leaf can come before them; 0 if fewer than ``least`` wait."""
        lowest = self.sources.lowest_watermark
        waiting = sum(group.held_below(lowest) for group in self._counting.values())
        if waiting >= least:
            return waiting
        # Looking closer takes longer, and only what nothing can come before any more may hold reading up.
        if sum(group.held_count for group in self._cutting.values()) < least:
            return 0
        return sum(group.held_below(lowest) for group in self._cutting.values())

    # --- parts of deltas ---

    def weigh(self, number: int, nbytes: int) -> None:
        """The partials of a family took this many bytes: where events take fewer, these travel for a while."""
        self._instead.weigh(number, nbytes)

    def take(self, is_last: bool = False) -> tuple[Moved, list[Part]]:
        """What has come since the last time: how far the sources are, and the parts of a delta.

        ``is_last``: nothing is kept for another time, for this leaf ends.
        """
        parts: list[Part] = []
        for number, family in self._families.items():
            parts.extend(family.group.take(number, self._chain))
        parts.extend(self._take_pieces(is_last))
        parts.extend([*self._raw.take(), *self._instead.take()])
        if len(self._state.side):
            parts.append(AsidePart(self._state.side.take()))
        accounts = self._take_accounts()
        if accounts is not None:
            parts.append(accounts)
        return self.sources.take_moves(), parts

    def _take_accounts(self) -> AccountsPart | None:
        rows = []
        for number, family in self._families.items():
            totals = family.group.accounts.take()
            malformed, family.malformed = family.malformed, 0
            rows.append([number, totals.seen, totals.filtered, totals.early, malformed])
        unread, self._raw.unread = self._raw.unread, 0
        rows.append([ALL_RAW, unread, unread, 0, 0])
        timeless, malformed = self._queries.timeless, self._state.malformed
        self._queries.timeless = self._state.malformed = 0
        counted = [row for row in rows if any(row[1:])]
        if not counted and not timeless and not malformed:
            return None
        return AccountsPart(np.array(counted, np.int64).reshape(-1, 5), timeless, malformed)

    # --- windows that markers cut ---

    def cut(self, until: int, cuts: bytes, idle: Mapping[str, int]) -> list[Part]:
        """Cut what was held below ``until`` where the root says."""
        numbers = {self.sources[name].number: at for name, at in idle.items() if name in self.sources}
        parts: list[Part] = []
        for number, times in cuts_from_bytes(cuts).items():
            group = self._cutting.get(number)
            if group is not None:
                group.prepare(self._queries.types)
                parts.extend(group.cut(number, self.cut_time, until, times, numbers))
        self.cut_time = until
        return parts

    # --- count windows ---

    @property
    def _closed(self) -> int:
        """Before this time no event will come that counts; an idle source is not waited for longer than the root does."""
        return max(self.sources.lowest_watermark, self._told_until)

    @property
    def _has_looks(self) -> bool:
        return any(group.looks for group in self._counting.values())

    @property
    def is_waiting(self) -> bool:
        """Whether not all events for count windows are in pieces, or it was not said that they are."""
        return any(len(group.buffer) or group.covered < FOREVER for group in self._counting.values())

    @property
    def is_between(self) -> bool:
        """Whether events wait that have to be in pieces when they are accepted, while others are still read again.

        Accepted without, a leaf that takes over could not tell them from those that are in pieces.
        """
        return any(len(group.buffer) for group in self._counting.values()) and not self.sources.are_past_reread()

    def begin_counting(
        self, covered: Mapping[int, int], looks: Mapping[int, Sequence[Look]], kept_max: int, is_brief: bool
    ) -> None:
        """Before events come: which are in pieces already, and which of these are to be looked into."""
        for number, group in self._counting.items():
            asked = looks.get(number, ())
            group.take_over(covered.get(number, NEVER), self.sources.latest, kept_max, is_brief, asked)
        self.look(looks)

    def follow(self, plans: Mapping[int, Zoning], until: int, settled: int) -> None:
        """Go by plans of where cuts are expected. ``until``: the watermark of all; nothing before ``settled`` is asked for."""
        self._told_until = max(self._told_until, until)
        for number, group in self._counting.items():
            group.follow(plans.get(number), settled)
            # Events may leave now that had to wait.
            if group.may_leave(self._closed) > group.covered and self.sources.are_past_reread():
                self.sources.moved_all()

    def look(self, looks: Mapping[int, Sequence[Look]]) -> bool:
        """The root asks what lies in pieces; the answer is in what is taken next. Returns whether there is anything to answer."""
        for number, group in self._counting.items():
            group.look(looks.get(number, ()))
        return self._has_looks

    def cut_early(self) -> None:
        """Make pieces of what has come, before a window waits for them."""
        if self.sources.are_past_reread():
            is_alone, closed = len(self.sources) == 1, self._closed
            for number, group in self._counting.items():
                group.prepare(self._queries.types)
                group.cut_early(number, self._chain, closed, self.sources.latest, is_alone)

    def _take_pieces(self, is_last: bool) -> list[Part]:
        """For each family of count windows what is closed by now, cut into pieces, and what was found in those looked into."""
        parts: list[Part] = []
        is_past, is_alone = self.sources.are_past_reread(), len(self.sources) == 1
        until, latest = self._closed, self.sources.latest  # whatever an idle source brings is sliced anew
        for number, group in self._counting.items():
            group.prepare(self._queries.types)
            if not is_past:
                parts.append(group.nothing(number, self._chain, latest))
                continue
            # Answers first: what is taken now may push what they need out of memory.
            found = group.take_answers(number, self._chain)
            self.has_lost |= found is None
            last = group.take_pieces(number, self._chain, until, latest, is_last, is_alone)
            parts.extend(merge_pieces([*(found or []), *group.take_early(), last]))
        return parts

    def covered(self) -> dict[int, int]:
        """By family: up to which time events are in pieces."""
        return {number: group.covered for number, group in self._counting.items()}

    def count_windows(self, number: int) -> Int64Array | None:
        """Rows (size, step, origin) of the count windows over all events of a family; None if there are none."""
        group = self._counting.get(number)
        return None if group is None or group.counts_by_key else count_table(group.windows.count_walks)

    def take_rate(self, number: int) -> float | None:
        """How many events of a family came in a tick of time since the last time; None if time went no further."""
        group = self._counting.get(number)
        return None if group is None else group.take_rate()

    def count_report(self) -> dict[str, float]:
        """What count windows have cost here: raw events sent, and the most that were held."""
        groups = self._counting.values()
        return {"raw_events": sum(g.raw_count for g in groups), "held": max((g.held_most for g in groups), default=0)}
