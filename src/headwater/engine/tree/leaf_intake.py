"""The way in to a leaf: events of its sources, read from where the root says, some of them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.core import Core
from headwater.engine.counting.leaf import CountLeafGroup
from headwater.engine.families import RAW_FAMILY, Family
from headwater.engine.groups.queries import Totals
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.intake.arrivals import Arrivals, read_columns, times_of
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import TimeScan, read_values, scan_times
from headwater.engine.intake.keys import NODE_KEY
from headwater.engine.intake.many_sources import SourceShares, shares
from headwater.engine.intake.watermarks import Source
from headwater.engine.tree.marker_cuts import CutLeafGroup
from headwater.engine.tree.raw import RawChoice, RawGroup
from headwater.engine.windows.late import Stragglers
from headwater.engine.wire.looks import Look
from headwater.engine.wire.parts import ALL_RAW, EventsPart
from headwater.engine.wire.query_set import QuerySet
from headwater.language.modes import LEAF, LEAF_COUNTING, LEAF_COUNTING_LARGE, LEAF_ONE_WAY
from headwater.language.times import FOREVER, NEVER


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a source goes on; events from ``hold`` on are read once more, for cuts only (see `SourceState`)."""

    name: str
    home: str
    offset: int
    watermark: int
    hold: int
    hold_watermark: int
    floors: Sequence[tuple[int, int]] = ()


class LeafIntake(Core):
    """Cuts the events of a chain's sources by the queries of the root, and keeps those that travel as themselves."""

    def __init__(
        self, queries: QuerySet, chain_name: str, sources: Sequence[Standing], latest: int, cut_time: int
    ) -> None:
        mode = LEAF if queries.round_trips else LEAF_ONE_WAY
        if queries.counts:
            mode = LEAF_COUNTING_LARGE if queries.large_only else LEAF_COUNTING
        super().__init__(
            time=queries.time, unit=queries.unit, disorder=queries.disorder, strict=queries.strict, mode=mode
        )
        self._registry.take_over(list(queries.entries), list(queries.names), queries.types)
        self._families = self._registry.numbered_families()
        self._chain = chain_name
        self._latest = latest
        self._cut_time = cut_time
        self._events: list[EventsPart] = []
        self._instead: dict[int, list[EventsPart]] = {}
        self._standing: dict[str, Standing] = {}
        self._told: dict[str, tuple[int, int]] = {}
        self._moved: dict[str, None] = {}
        self._told_latest = latest
        self._is_reread = False
        self._choices = {number: RawChoice() for number, f in self._families.items() if _is_sliced(f)}
        self._unread = 0  # events of raw queries that none of them wants
        self._told_until = NEVER  # how far the watermark of all has come, as far as the root has said so
        self._looks: dict[int, list[Look]] = {}
        self._looked: set[tuple[int, int]] = set()  # by family and number
        self.has_lost = False  # whether somebody asked for events that are not in memory any more
        raw = self._registry.families.get(RAW_FAMILY)
        self._raw = raw.group if raw is not None and isinstance(raw.group, RawGroup) else None
        for source in sources:
            self._add_source(source)

    def _add_source(self, standing: Standing) -> None:
        origin = self._watermarks.source(standing.name, standing.home)
        origin.next_offset, origin.watermark = standing.hold, standing.hold_watermark
        self._standing[standing.name] = standing
        self._told[standing.name] = standing.offset, standing.watermark
        self._pass_floors(origin, standing)

    def next_offset(self, source: str) -> int:
        """The offset of the event that this source has to give next."""
        return self._watermarks.sources[source].next_offset

    def has_source(self, source: str) -> bool:
        return source in self._standing

    def is_past_reread(self, source: str) -> bool:
        """Whether everything that was accepted before has been read again."""
        return self.next_offset(source) >= self._standing[source].offset

    def resume_offset(self, source: str) -> int:
        """The offset up to which events were taken in, at least those that were accepted."""
        return max(self.next_offset(source), self._standing[source].offset)

    def is_past_rereads(self) -> bool:
        return all(map(self.is_past_reread, self._standing))

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come of any source."""
        return bool((self._watermarks.watermarks == FOREVER).all())

    def take_in(self, source: str, offset: int, batch: pa.RecordBatch, watermark: int | None) -> None:
        """The next events of a source; those that were taken in before are passed over."""
        origin, standing = self._watermarks.sources[source], self._standing[source]
        end = offset + len(batch)
        while origin.next_offset < end:
            start = origin.next_offset
            until = min([end, *(stop for stop in self._stops(standing) if stop > start)])
            self._reread(origin.next_offset < standing.offset)
            self._push_batch(batch.slice(start - offset, until - start), origin, source, start)
            origin.next_offset = until
            self._pass_floors(origin, standing)
        if watermark is not None and end >= origin.next_offset:
            self._watermarks.raise_source(source, watermark)
        self._moved[source] = None

    def pass_over(self, source: str, end: int, low: int | None, high: int | None) -> None:
        """No query wants the events of a source up to offset ``end``, for its condition or for the place of its window.

        Without times there are no events up to there.
        """
        origin, standing = self._watermarks.sources[source], self._standing[source]
        fresh = end - max(origin.next_offset, standing.offset)
        for stop in sorted({end, *(stop for stop in self._stops(standing) if origin.next_offset < stop < end)}):
            origin.next_offset = max(origin.next_offset, stop)
            self._pass_floors(origin, standing)
        self._moved[source] = None
        if low is None or high is None:
            return
        self._watermarks.saw(origin, low, high)
        if fresh > 0:
            self._latest = max(self._latest, high)
            self._count_passed(fresh)

    def _count_passed(self, count: int) -> None:
        for family in self._families.values():
            if isinstance(family.group, QueryGroup):
                is_filtered = family.group.where is not None
                family.group.count(count, count if is_filtered else 0, 0 if is_filtered else count)
        if self._raw is not None:
            self._unread += count

    def take_in_mixed(
        self, sources: Sequence[str], which: Int64Array, offsets: Int64Array, batch: pa.RecordBatch
    ) -> dict[str, int]:
        """Events of many sources, event i of ``sources[which[i]]``; returns those of which earlier events are missing.

        What is ordinary is taken in as one batch; sources with something odd (an event that is late or malformed, or was read
        before) one by one.
        """
        marks = self._watermarks
        numbers = np.array([marks.numbers[name] for name in sources], np.int64)
        times, timeless, scan = times_of(batch, self._time, self._unit)
        arrays, misfits = read_columns(batch, self._registry.needed, self._registry.types)
        next_offsets = marks.offsets[numbers]
        found = shares(times, which, offsets, marks.disorder, next_offsets, marks.watermarks[numbers])
        found.odd |= np.array(list(map(self._needs_care, sources, next_offsets.tolist())), np.bool_)
        found.odd[which[list({*timeless, *(row for rows in misfits.values() for row in rows)})]] = True
        plain = ~found.odd[which]
        if scan is not None and plain.all():
            self._accept_plain(numbers, which, offsets, Arrivals(batch, offsets, arrays, times, scan, {}, {}), scan)
        elif plain.any():
            rows = np.flatnonzero(plain)
            events = Arrivals(
                batch.take(pa.array(rows)),
                offsets[rows],
                {name: array.take(pa.array(rows)) for name, array in arrays.items()},
                times[rows],
                None,
                {},
                {},
            )
            self._accept_plain(numbers, which[rows], offsets[rows], events, scan_times(events.times))
        places = np.flatnonzero((found.counts > 0) & ~found.odd)
        marks.offsets[numbers[places]] += found.counts[places]
        marks.watermarks[numbers[places]] = found.watermarks[places]
        self._moved.update(dict.fromkeys([sources[place] for place in places.tolist()]))
        return self._take_in_odd(sources, which, offsets, batch, found)

    def _needs_care(self, source: str, offset: int) -> bool:
        """Whether a source is still read again at ``offset``, or a watermark that was decided lies ahead."""
        standing = self._standing[source]
        return offset < standing.offset or any(at > offset for at, _ in standing.floors)

    def _accept_plain(
        self, numbers: Int64Array, which: Int64Array, offsets: Int64Array, events: Arrivals, scan: TimeScan
    ) -> None:
        """Events of several sources of which none is late: one watermark below them all stands for each one's own."""
        self._reread(False)
        columns = {name: read_values(events.arrays[name]) for name in self._registry.value_columns}
        chunk = Chunk(events.times, offsets, numbers.astype(np.int32)[which], self._watermarks.names, columns)
        if self._registry.by_node:
            names = [self._watermarks.names[number] for number in numbers.tolist()]
            homes = pa.array([self._watermarks.sources[name].node for name in names], pa.string())
            events.arrays[NODE_KEY] = pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), homes)
        self._deal_out(events, scan, chunk, NEVER, "")

    def _take_in_odd(
        self, sources: Sequence[str], which: Int64Array, offsets: Int64Array, batch: pa.RecordBatch, found: SourceShares
    ) -> dict[str, int]:
        missing = {}
        for place in np.flatnonzero((found.counts > 0) & found.odd).tolist():
            rows = np.flatnonzero(which == place)
            name, start = sources[place], int(offsets[rows[0]])
            if start > self.next_offset(name):
                missing[name] = self.next_offset(name)
            else:
                self.take_in(name, start, batch.take(pa.array(rows)), None)
        return missing

    def _stops(self, standing: Standing) -> list[int]:
        """Offsets at which something changes."""
        return [standing.offset, *(at for at, _ in standing.floors)]

    def _pass_floors(self, origin: Source, standing: Standing) -> None:
        """Watermarks that the root has decided on begin at their offset."""
        for at, time in standing.floors:
            if at == origin.next_offset:
                origin.watermark = max(origin.watermark, time)
        if origin.next_offset == standing.offset:
            origin.watermark = max(origin.watermark, standing.watermark)

    def end(self, source: str, watermark: int) -> None:
        """Nothing more will come of a source, or nothing before this watermark."""
        self._watermarks.raise_source(source, watermark)
        self._moved[source] = None

    def _reread(self, again: bool) -> None:
        """Whether the events that come now were accepted before, and are only held for cuts."""
        self._is_reread = again
        for family in self._families.values():
            if isinstance(family.group, CutLeafGroup | CountLeafGroup):
                family.group.known_already = again

    def _set_aside(self, events: Arrivals, source: str) -> None:
        if not self._is_reread:
            super()._set_aside(events, source)

    def _deal_out(self, events: Arrivals, scan: TimeScan, chunk: Chunk, before: Int64Array | int, source: str) -> None:
        if self._is_reread:
            self._hold_again(events, scan, chunk, before)
            return
        self._latest = max(self._latest, scan.high)
        if self._raw is not None:
            self._collect(self._raw, events, chunk, before, source)
        super()._deal_out(events, scan, chunk, before, source)

    def _takers(self, events: Arrivals, chunk: Chunk, before: Int64Array | int) -> Iterable[Family]:
        """All families but those whose events travel instead of partials; late or odd events are sorted out here."""
        if not self._choices:
            return self._families.values()
        plain = not events.misfits and not bool((chunk.times < before).any())
        takers = []
        for number, family in self._families.items():
            choice = self._choices.get(number)
            if choice is not None:
                choice.saw(len(events), sum(events.arrays[name].nbytes for name in family.columns))
            if choice is not None and choice.is_raw and plain:
                self._send_instead(number, family, chunk, events.arrays)
            else:
                takers.append(family)
        return takers

    def _send_instead(self, number: int, family: Family, chunk: Chunk, arrays: Mapping[str, pa.Array]) -> None:
        """Let events travel for a family whose partials are larger than they; none of them is late."""
        columns = {name: arrays[name] for name in sorted(family.columns)}
        sources = chunk.source_ids.astype(np.int64)
        part = EventsPart(number, self._chain, chunk.times, chunk.offsets, sources, chunk.times, columns)
        self._instead.setdefault(number, []).append(part)

    def weigh(self, number: int, nbytes: int) -> None:
        """The partials of a family took this many bytes: where events take fewer, these travel for a while."""
        if number in self._choices:
            self._choices[number].weigh(nbytes)

    def _hold_again(self, events: Arrivals, scan: TimeScan, chunk: Chunk, before: Int64Array | int) -> None:
        for family in self._families.values():
            if isinstance(family.group, CutLeafGroup | CountLeafGroup):
                family.prepare(self._registry.types)
                totals, stragglers, malformed = family.group.totals, family.group.stragglers, family.malformed
                family.group.totals, family.group.stragglers = Totals(), Stragglers()
                family.accept(chunk, events.arrays, scan, before, events.misfits)
                family.group.totals, family.group.stragglers, family.malformed = totals, stragglers, malformed
                if isinstance(family.group, CutLeafGroup):
                    family.group.forget_before(self._cut_time)

    def _collect(self, raw: RawGroup, events: Arrivals, chunk: Chunk, before: Int64Array | int, source: str) -> None:
        """Events that travel as themselves."""
        marks = np.full(len(chunk), before) if isinstance(before, int) else before
        if bool((chunk.times < marks).any()):
            for dropped in raw.too_late(chunk, events.arrays, marks):
                name = self._registry.query_names[dropped.query]
                self._side.dropped(events.batch, chunk.offsets, dropped, name, source)
        misfits = {name: sorted(rows) for name, rows in events.misfits.items()}
        wanted = raw.wanted(events.arrays, len(chunk))
        columns = {name: events.arrays[name] for name in raw.columns()}
        sources = chunk.source_ids.astype(np.int64)
        part = EventsPart(ALL_RAW, self._chain, chunk.times, chunk.offsets, sources, marks, columns, misfits)
        if wanted is not None and not misfits:
            self._unread += len(chunk) - int(wanted.sum())
            part = _chosen(part, np.flatnonzero(wanted))
        if len(part.times):
            self._events.append(part)


def _is_sliced(family: Family) -> bool:
    return isinstance(family.group, QueryGroup) and not isinstance(family.group, CutLeafGroup | CountLeafGroup)


def _chosen(part: EventsPart, rows: Int64Array) -> EventsPart:
    columns = {name: array.take(pa.array(rows)) for name, array in part.columns.items()}
    arrays = part.times[rows], part.offsets[rows], part.sources[rows], part.watermarks[rows]
    return EventsPart(part.family, part.chain, *arrays, columns)
