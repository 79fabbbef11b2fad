"""Events of a leaf that travel as themselves: where queries need them so, and where partials would be larger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int64Array
from headwater.engine.core import Delivery
from headwater.engine.families import Family
from headwater.engine.halves import LeafGroup
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.predicates import mask as predicate_mask
from headwater.engine.windows.late import DROPPED, Dropped, standing
from headwater.engine.windows.registered import Registered
from headwater.engine.wire.parts import ALL_RAW, EventsPart

#: For so many deltas events travel before partials are tried again.
DELTAS_RAW = 15
#: A place of birth: time and offset.
PLACE_BYTES = 16


class RawEvents:
    """The events of queries that need them as they are: they go on to the root once, whoever asks for them.

    Too late for a query is a matter of the event, its watermark and the query alone, so that is said here, where the event is
    still whole.
    """

    def __init__(self, chain: str, entries: Iterable[Registered]) -> None:
        self.parts: list[EventsPart] = []
        self._chain = chain
        self._entries = list(entries)
        self._columns = sorted({name for entry in self._entries for name in entry.query.columns()})
        self._unread = 0  # events that no query wants

    def __bool__(self) -> bool:
        """Whether some query needs events."""
        return bool(self._entries)

    def collect(self, delivery: Delivery) -> list[Dropped]:
        """Keep events for the next delta; returns those that are too late, per query."""
        if not self._entries:
            return []
        chunk, arrays, before = delivery.chunk, delivery.events.arrays, delivery.before
        marks = np.full(len(chunk), before) if isinstance(before, int) else before
        dropped = self._too_late(chunk, arrays, marks) if bool((chunk.times < marks).any()) else []
        misfits = {name: sorted(rows) for name, rows in delivery.events.misfits.items()}
        part = events_part(ALL_RAW, self._chain, chunk, marks, {name: arrays[name] for name in self._columns})
        part.misfits = misfits
        wanted = self._wanted(arrays, len(chunk))
        if wanted is not None and not misfits:
            self._unread += len(chunk) - int(wanted.sum())
            part = _chosen(part, np.flatnonzero(wanted))
        if len(part.times):
            self.parts.append(part)
        return dropped

    def pass_over(self, count: int) -> None:
        """So many events are wanted by no query."""
        self._unread += count if self._entries else 0

    def take(self) -> list[EventsPart]:
        """The events that came since the last time."""
        parts, self.parts = self.parts, []
        return joined_events(parts)

    def take_unread(self) -> int:
        """How many events came since the last time that do not travel."""
        unread, self._unread = self._unread, 0
        return unread

    def _wanted(self, arrays: Mapping[str, pa.Array], length: int) -> BoolArray | None:
        """Which events some query does not filter out; None for all."""
        wanted = np.zeros(length, np.bool_)
        for entry in self._entries:
            if entry.query.where is None:
                return None
            wanted |= predicate_mask(entry.query.where, arrays, length)
        return None if wanted.all() else wanted

    def _too_late(self, chunk: Chunk, arrays: Mapping[str, pa.Array], watermarks: Int64Array) -> list[Dropped]:
        found = []
        for entry in self._entries:
            what = standing(entry, chunk.times, watermarks) == DROPPED
            if entry.query.where is not None:
                what &= predicate_mask(entry.query.where, arrays, len(chunk))
            rows = np.flatnonzero(what)
            if len(rows):
                found.append(Dropped(entry.number, chunk.take(rows), watermarks[rows]))
        return found


@dataclass(slots=True)
class RawChoice:
    """The choice for one family of queries, made anew with each delta.

    >>> choice = RawChoice()
    >>> choice.saw(100, 1600); choice.taken(); choice.weigh(5000); choice.is_raw
    True
    """

    _left: int = 0
    _bytes: int = 0
    _before: int = 0

    @property
    def is_raw(self) -> bool:
        return self._left > 0

    def saw(self, count: int, column_bytes: int) -> None:
        """Events came whose columns take so many bytes."""
        self._bytes += PLACE_BYTES * count + column_bytes

    def taken(self) -> None:
        """What has come together was taken for a delta."""
        self._before, self._bytes = self._bytes, 0
        self._left = max(self._left - 1, 0)

    def weigh(self, partial_bytes: int) -> None:
        """The partials of that delta took so many bytes."""
        if partial_bytes > self._before:
            self._left = DELTAS_RAW


class EventsInstead:
    """The events of families whose partials are larger than they: for a while they travel instead."""

    def __init__(self, chain: str, families: Mapping[int, Family[LeafGroup]]) -> None:
        self._chain = chain
        self._families = families
        self._choices = {number: RawChoice() for number, f in families.items() if not f.group.holds_events}
        self._parts: dict[int, list[EventsPart]] = {}

    @property
    def parts(self) -> list[EventsPart]:
        return [part for parts in self._parts.values() for part in parts]

    def collect(self, delivery: Delivery) -> Iterable[Family[LeafGroup]]:
        """Keep events for the families for which they travel; returns the others. Late or odd events are sorted out here."""
        if not self._choices:
            return self._families.values()
        chunk, events = delivery.chunk, delivery.events
        is_plain = not events.misfits and not bool((chunk.times < delivery.before).any())
        others = []
        for number, family in self._families.items():
            choice = self._choices.get(number)
            if choice is not None:
                choice.saw(len(events), sum(events.arrays[name].nbytes for name in family.columns))
            if choice is not None and choice.is_raw and is_plain:
                columns = {name: events.arrays[name] for name in sorted(family.columns)}
                part = events_part(number, self._chain, chunk, chunk.times, columns)
                self._parts.setdefault(number, []).append(part)
            else:
                others.append(family)
        return others

    def weigh(self, number: int, nbytes: int) -> None:
        """The partials of a family took this many bytes: where events take fewer, these travel for a while."""
        if number in self._choices:
            self._choices[number].weigh(nbytes)

    def take(self) -> list[EventsPart]:
        """The events that came since the last time."""
        kept, self._parts = self._parts, {}
        for choice in self._choices.values():
            choice.taken()
        return [part for parts in kept.values() for part in joined_events(parts)]


def events_part(
    number: int, chain: str, chunk: Chunk, watermarks: Int64Array, columns: dict[str, pa.Array]
) -> EventsPart:
    sources = chunk.source_ids.astype(np.int64)
    return EventsPart(number, chain, chunk.times, chunk.offsets, sources, watermarks, columns)


def _chosen(part: EventsPart, rows: Int64Array) -> EventsPart:
    columns = {name: array.take(pa.array(rows)) for name, array in part.columns.items()}
    arrays = part.times[rows], part.offsets[rows], part.sources[rows], part.watermarks[rows]
    return EventsPart(part.family, part.chain, *arrays, columns)


def joined_events(parts: Sequence[EventsPart]) -> list[EventsPart]:
    """Neighbouring batches as one part, so that Arrow's headers are paid once."""
    clean = [part for part in parts if not part.misfits]
    joined = [part for part in parts if part.misfits]
    if clean:
        first = clean[0]
        columns = {name: _concat([part.columns[name] for part in clean]) for name in first.columns}
        each = ((part.times, part.offsets, part.sources, part.watermarks) for part in clean)
        times, offsets, sources, watermarks = map(np.concatenate, zip(*each, strict=True))
        joined.append(EventsPart(first.family, first.chain, times, offsets, sources, watermarks, columns))
    return joined


def _concat(arrays: list[pa.Array]) -> pa.Array:
    plain = [a.dictionary_decode() if pa.types.is_dictionary(a.type) else a for a in arrays]
    return pa.concat_arrays(plain)
