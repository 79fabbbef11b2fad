"""Events of a leaf that travel as themselves: where queries need them so, and where partials would be larger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int64Array
from headwater.base.arrow import plain_array
from headwater.engine.core import Delivery
from headwater.engine.families import Family
from headwater.engine.halves import LeafGroup
from headwater.engine.intake.columns import Events
from headwater.engine.intake.predicates import mask as predicate_mask
from headwater.engine.windows.late import DROPPED, Dropped, standing
from headwater.engine.windows.registered import Registered
from headwater.engine.wire.parts import ALL_RAW, EventsPart

#: Events travel for this many deltas, before partials are tried again.
DELTAS_RAW = 15
#: A place of birth: time and offset.
PLACE_BYTES = 16


class RawEvents:
    """The events of queries that need them as they are: they go to the root once for all these queries.

    Too late for a query is a matter of the event, its watermark and the query alone, so that is said here, where the event is
    still whole.
    """

    def __init__(self, chain: str, entries: Iterable[Registered]) -> None:
        self.parts: list[EventsPart] = []
        self._chain = chain
        self._entries = list(entries)
        self._columns = sorted({name for entry in self._entries for name in entry.query.columns()})
        self.unread = 0  # events that no query wants: they do not travel, and are counted

    def __bool__(self) -> bool:
        """Whether some query needs events."""
        return bool(self._entries)

    def collect(self, delivery: Delivery) -> list[Dropped]:
        """Keep events for the next delta; returns those that are too late, per query."""
        if not self._entries:
            return []
        events, misfits = delivery.events, _listed(delivery)
        dropped = too_late(self._entries, events, misfits)
        wanted = None if misfits else self._wanted(events)
        if wanted is not None:
            self.unread += len(events) - int(wanted.sum())
            events = events.take(np.flatnonzero(wanted), self._columns)
        if len(events):
            # Of several sources one watermark below them all may stand for each one's own, and the root knows higher ones of
            # some. An event in time is in time by its own as well.
            marks = events.marks if events.chunk.is_of_one_source else np.maximum(events.chunk.times, events.marks)
            self.parts.append(events_part(ALL_RAW, self._chain, events, marks, self._columns, misfits))
        return dropped

    def take(self) -> list[EventsPart]:
        """The events that came since the last time."""
        parts, self.parts = self.parts, []
        return joined_events(parts)

    def _wanted(self, events: Events) -> BoolArray | None:
        """Which events some query does not filter out; None for all."""
        wanted = np.zeros(len(events), np.bool_)
        for entry in self._entries:
            if entry.query.where is None:
                return None
            wanted |= predicate_mask(entry.query.where, events.arrays, len(events))
        return None if wanted.all() else wanted


def too_late(entries: Iterable[Registered], events: Events, misfits: Mapping[str, list[int]]) -> list[Dropped]:
    """The events that are too late, per query: of those that it takes and that have no misfit in a column that it reads."""
    found, chunk = [], events.chunk
    if events.are_on_time or not bool((chunk.times < events.watermarks).any()):
        return []
    marks = events.marks
    for entry in entries:
        what = standing(entry, chunk.times, marks) == DROPPED
        if entry.query.where is not None:
            what &= predicate_mask(entry.query.where, events.arrays, len(events))
        for name in entry.query.columns() & misfits.keys():
            what[misfits[name]] = False
        rows = np.flatnonzero(what)
        if len(rows):
            found.append(Dropped(entry.number, chunk.take(rows), marks[rows]))
    return found


def _listed(delivery: Delivery) -> dict[str, list[int]]:
    return {name: sorted(rows) for name, rows in delivery.arrivals.misfits.items()}


@dataclass(slots=True)
class RawChoice:
    """The choice for one family of queries: for this many deltas more, events travel.

    ``nbytes``: what its events take that came since the last delta; ``bytes_before``: what those of that delta took.
    """

    deltas_left: int = 0
    nbytes: int = 0
    bytes_before: int = 0


class EventsInstead:
    """Sends events instead of partials: for a while, for families whose partials are larger; and batches with values of a wrong
    type, for families of which only some queries go without these events. The root tells their queries apart.
    """

    def __init__(self, chain: str, families: Mapping[int, Family[LeafGroup]]) -> None:
        self._chain = chain
        self._families = families
        self._choices = {number: RawChoice() for number, f in families.items() if not f.group.holds_events}
        self._parts: dict[int, list[EventsPart]] = {}
        self.dropped: list[Dropped] = []  # too late for a query, of the events that travel

    @property
    def parts(self) -> list[EventsPart]:
        return [part for parts in self._parts.values() for part in parts]

    @property
    def is_wanted(self) -> bool:
        """Whether events of some family travel for now."""
        return any(choice.deltas_left for choice in self._choices.values())

    def collect(self, delivery: Delivery) -> Iterable[Family[LeafGroup]]:
        """Keep events for the families for which they travel; returns the others. Late or odd events are sorted out here."""
        if not self._choices:
            return self._families.values()
        events, misfits = delivery.events, _listed(delivery)
        is_plain = not misfits and (events.are_on_time or not bool((events.chunk.times < events.watermarks).any()))
        others = []
        for number, family in self._families.items():
            choice = self._choices.get(number)
            if choice is not None:
                choice.nbytes += PLACE_BYTES * len(events) + sum(events.arrays[name].nbytes for name in family.columns)
            if choice is not None and choice.deltas_left and is_plain:
                part = events_part(number, self._chain, events, events.chunk.times, sorted(family.columns), {})
                self._parts.setdefault(number, []).append(part)
            elif misfits and family.is_divided_by(misfits):
                self._parts.setdefault(number, []).append(self._odd(number, family, events, misfits))
            else:
                others.append(family)
        return others

    def _odd(self, number: int, family: Family[LeafGroup], events: Events, misfits: dict[str, list[int]]) -> EventsPart:
        columns = sorted(family.columns)
        wrong = {name: rows for name, rows in misfits.items() if name in family.columns}
        self.dropped += too_late(family.group.queries(), events, wrong)
        return events_part(number, self._chain, events, events.marks, columns, wrong)

    def take_dropped(self) -> list[Dropped]:
        """Events of the last delivery that travel and are too late for a query."""
        dropped, self.dropped = self.dropped, []
        return dropped

    def weigh(self, number: int, nbytes: int) -> None:
        """The partials of a family took this many bytes: where events take fewer, these travel for a while."""
        if number in self._choices and nbytes > self._choices[number].bytes_before:
            self._choices[number].deltas_left = DELTAS_RAW

    def take(self) -> list[EventsPart]:
        """The events that came since the last time."""
        kept, self._parts = self._parts, {}
        for choice in self._choices.values():
            choice.deltas_left = max(choice.deltas_left - 1, 0)
            choice.bytes_before, choice.nbytes = choice.nbytes, 0
        return [part for parts in kept.values() for part in joined_events(parts)]


def events_part(
    number: int, chain: str, events: Events, marks: Int64Array, names: Iterable[str], misfits: dict[str, list[int]]
) -> EventsPart:
    """Events with the columns of these names and the watermark before each."""
    chunk, columns = events.chunk, {name: events.arrays[name] for name in names}
    sources = chunk.source_ids.astype(np.int64)
    return EventsPart(number, chain, chunk.times, chunk.offsets, sources, marks, columns, misfits)


def joined_events(parts: Sequence[EventsPart]) -> list[EventsPart]:
    """Neighbouring batches as one part, so that Arrow's headers are paid once."""
    clean = [part for part in parts if not part.misfits]
    joined = [part for part in parts if part.misfits]
    if clean:
        first = clean[0]
        columns = {n: pa.concat_arrays([plain_array(part.columns[n]) for part in clean]) for n in first.columns}
        each = ((part.times, part.offsets, part.sources, part.watermarks) for part in clean)
        times, offsets, sources, watermarks = map(np.concatenate, zip(*each, strict=True))
        joined.append(EventsPart(first.family, first.chain, times, offsets, sources, watermarks, columns))
    return joined
