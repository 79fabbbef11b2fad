"""The engine on record batches and plain numbers: push, advance watermarks, take tables.

It holds any number of queries over any number of sources. It does no I/O and reads no clock: what comes out is a function of the
calls that went in, and a snapshot restored goes on as if nothing had happened. What users give and take is converted around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Self

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.arrow import arrow_schema
from headwater.base.offsets import check_offsets
from headwater.base.source_book import Decision
from headwater.engine.families import AnyGroup, Family
from headwater.engine.intake.arrivals import Arrivals, each_offset, read_columns, times_of
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import Events, Times, read_values
from headwater.engine.intake.watermarks import Source
from headwater.engine.modes import group_maker
from headwater.engine.state import EngineState
from headwater.engine.windows.late import Dropped
from headwater.engine.wire.snapshot_bytes import from_bytes
from headwater.errors import DataError
from headwater.language.arguments import check_source, check_time
from headwater.language.query import Query
from headwater.language.times import FOREVER, NEVER

#: Within a long push, results are made as soon as they would fill about this many cells: while all is still in the cache, and
#: before arrays grow so large that the system hands out fresh memory for each.
CELLS_HELD = 1 << 23
#: Or when this many rows of results have come together.
RESULTS_HELD = 1 << 18
#: Or when this many rows of partials wait to be combined.
ROWS_HELD = 1 << 16
#: Columns of a result besides the aggregates.
BASE_COLUMNS = 8


@dataclass(slots=True)
class Delivery:
    """Events of a source that all have a time: as they came, and as families take them in."""

    arrivals: Arrivals
    events: Events
    source: str


class Intake(Generic[AnyGroup]):
    """The way in of events: batches are read, what no query can use is set aside, the rest is dealt out to families."""

    def __init__(self, state: EngineState[AnyGroup]) -> None:
        self._state = state

    def read(
        self,
        batch: pa.RecordBatch,
        origin: Source,
        offsets: Int64Array | int,
        known: Times | None = None,
        is_new: bool = True,
    ) -> Delivery | None:
        """The next events of a source, without those that have no usable time; None if no other is left.

        ``offsets``: that of the first event, or one per event; ``known``: its times, if they were read before. Of events that
        are not new, what cannot be used was set aside when they came first.
        """
        state, queries = self._state, self._state.registry
        if queries.learn(batch):
            state.refit()
        arrays, misfits = read_columns(batch, queries.needed, queries.types)
        times, timeless, scan = times_of(batch, state.time, state.unit) if known is None else known
        events = Arrivals(batch, offsets, arrays, times, scan, timeless, misfits)
        # Nothing has changed so far: a batch that is refused can be put right and pushed again.
        source = state.watermarks.names[origin.number]
        if is_new:
            self._set_aside(events, source)
        origin.next_offset = events.next_offset
        return self._placed(events.timed(), origin, source)

    def plain(self, batch: pa.RecordBatch, origin: Source, offset: int, times: Times) -> Delivery | None:
        """The next events of a source, if nothing is wrong with any; else None, and nothing has happened."""
        state, queries = self._state, self._state.registry
        if queries.learn(batch):
            state.refit()
        arrays, misfits = read_columns(batch, queries.needed, queries.types)
        known, timeless, scan = times
        if misfits or timeless:
            return None
        for family in queries.families.values():
            family.group.prepare(queries.types)
        return self._placed(
            Arrivals(batch, offset, arrays, known, scan, {}, {}), origin, state.watermarks.names[origin.number]
        )

    def _set_aside(self, events: Arrivals, source: str) -> None:
        """Count the events that some query cannot use, and keep them with their first reason for it."""
        bad = events.bad()
        if not bad:
            return
        rows, places = sorted(bad), each_offset(events.offsets, len(events))
        if self._state.strict:
            raise DataError(
                f"source {source!r}, offset {places[rows[0]]}: {bad[rows[0]]} (strict; {len(rows)} such events in this batch)"
            )
        self._state.registry.timeless += len(events.timeless)
        self._state.malformed += len(rows)
        for query, reasons in self._state.registry.concerned(events.timeless, events.misfits):
            which = sorted(reasons)
            why = [reasons[row] for row in which]
            self._state.side.malformed(events.batch, which, why, source, places[which], query)

    def _placed(self, arrivals: Arrivals, origin: Source, source: str) -> Delivery | None:
        """The events with their places of birth and values, and their source's watermark before each."""
        marks, queries, scan = self._state.watermarks, self._state.registry, arrivals.scan
        if scan is None:
            return None
        times, arrays = arrivals.times, arrivals.arrays
        before: Int64Array | int = origin.watermark
        # While times never step back, the watermark that they imply never passes the next one.
        if not (scan.in_order and scan.low >= origin.watermark):
            before = marks.before_each(origin, times)
        columns = {name: read_values(arrays[name]) for name in queries.value_columns if name in arrays}
        queries.add_nodes(arrays, lambda: repeated(origin.home, len(times)))
        chunk = Chunk(times, arrivals.offsets, origin.number, marks.names, columns)
        return Delivery(arrivals, Events(chunk, arrays, scan, before), source)

    def deal_out(self, delivery: Delivery, families: Iterable[Family[AnyGroup]]) -> None:
        """Give events to families."""
        for family in families:
            family.group.prepare(self._state.registry.types)
            self.note_dropped(delivery, family.accept(delivery.events, delivery.arrivals.misfits))

    def note_dropped(self, delivery: Delivery, dropped: Iterable[Dropped]) -> None:
        """Keep events that were too late for a query."""
        for one in dropped:
            name = self._state.registry.query_names[one.query]
            self._state.side.dropped(delivery.arrivals.batch, delivery.events.chunk.offsets, one, name, delivery.source)


class Core:
    """Window queries over live streams of record batches, in one process.

    >>> import headwater as hw
    >>> core = Core([hw.query("load", hw.tumbling(10), total=hw.sum("load"))])
    >>> core.push([pa.record_batch({"time": [1, 5, 12], "load": [1.0, 2.0, 4.0]})])
    >>> core.advance(10)
    >>> core._take()[0].select(["window_start", "window_end", "total"]).to_pylist()
    [{'window_start': 0, 'window_end': 10, 'total': 3.0}]
    """

    #: Whether a flood of windows without events may come bit by bit, with every rise of the watermark.
    _is_paced = False

    def __init__(
        self,
        queries: Iterable[Query] = (),
        *,
        time: str = "time",
        unit: str = "us",
        disorder: object = None,
        strict: bool = False,
        mode: str = "desis",
        schema: Any = None,
    ) -> None:
        self._state = EngineState(group_maker(mode), time=time, unit=unit, disorder=disorder, strict=strict)
        self._intake = Intake(self._state)
        self._state.register(queries)
        if schema is not None:
            self._state.registry.fix(arrow_schema(schema))

    # --- queries ---

    def add_query(self, query: Query, at: int | None = None) -> int:
        """Add a query while the stream runs. It becomes active at the returned event time T, above every time seen so far.

        Its windows are those with start >= T; ``at`` asks for a later T.
        """
        return self._state.add_query(query, at)

    def remove_query(self, name: str, drain: bool = False) -> None:
        """End a query at once, or (``drain``) after the windows that are open now have closed."""
        self._state.remove_query(name, drain)

    @property
    def shows_empty_windows(self) -> bool:
        """Whether some query wants windows without events: for those it matters how far the watermark came before the end."""
        return any(entry.query.emit_empty for entry in self._state.registry.by_name.values())

    # --- events ---

    def push(
        self,
        batches: Iterable[pa.RecordBatch],
        source: str = "",
        offset: int | Int64Array | None = None,
        node: str = "",
    ) -> None:
        """Take in events of one source, in any order.

        ``offset`` is that of the first event (default: one after the last), or one per event; events that were accepted
        before are passed over. ``node`` names the source's home when the source is first seen; by default it is its own.
        """
        batches = list(batches)
        known = self._state.watermarks.sources.get(check_source(source))
        first = (0 if known is None else known.next_offset) if offset is None else offset
        offsets = check_offsets(source, first, sum(map(len, batches)))
        origin = self._state.watermarks.source(source, node)
        origin.node = origin.node or node
        self._state.watermarks.resume(source)
        done = 0
        for batch in batches:
            own = offsets + done if isinstance(offsets, int) else offsets[done : done + len(batch)]
            self._push_batch(batch, origin, own)
            done += len(batch)
            if self._holds_much():
                self._emit()
        self._emit()

    def push_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take in all events there will ever be, as one source: what no later event can change comes out on the way.

        The same rows as one `push` and `flush`, without holding all partials until the end.
        """
        batches = list(batches)
        times = [times_of(batch, self._state.time, self._state.unit) for batch in batches]
        # For each batch the earliest time behind it; unknown if something is wrong with a time.
        lows = [FOREVER if scan is None else scan.low for _, _, scan in times]
        behind = [*reversed([NEVER, *itertools.accumulate(reversed(lows[1:]), min)])]
        known_times = all(scan is not None for _, _, scan in times)
        origin = self._state.watermarks.source("")
        for batch, known, low in zip(batches, times, behind, strict=False):
            self._push_batch(batch, origin, origin.next_offset, known)
            if known_times:
                self._state.watermarks.raise_source("", low)
            if self._holds_much():
                self._emit()
        self.flush()

    def _push_batch(
        self, batch: pa.RecordBatch, origin: Source, offsets: Int64Array | int, known: Times | None = None
    ) -> None:
        """Take in one batch. ``offsets``: that of the first event, or one per event; ``known``: its times, if read before."""
        if len(batch) and (offsets if isinstance(offsets, int) else offsets[0]) < origin.next_offset:
            offsets = each_offset(offsets, len(batch))
            fresh = offsets >= origin.next_offset
            self._state.repeated += len(batch) - int(fresh.sum())
            batch, offsets = batch.filter(pa.array(fresh)), offsets[fresh]
        delivery = self._intake.read(batch, origin, offsets, known) if len(batch) else None
        if delivery is not None:
            if delivery.arrivals.misfits:
                self._state.registry.divide(delivery.arrivals.misfits)
            self._intake.deal_out(delivery, self._state.registry.families.values())
            self._state.watermarks.saw(origin, delivery.events.scan.low, delivery.events.scan.high)

    def _holds_much(self) -> bool:
        """Whether it is time, within a long push, to make results of what has closed."""
        until = self._state.watermarks.group
        queries = self._state.registry
        groups = [family.group for family in queries.families.values() if family.group.is_due(until)]
        rows = sum(group.expected_rows(until) for group in groups)
        cells = rows * (BASE_COLUMNS + len(queries.layout.aggregates))
        return cells > CELLS_HELD or rows > RESULTS_HELD or sum(group.row_count() for group in groups) > ROWS_HELD

    # --- watermarks ---

    def advance(self, watermark: int, source: str | None = None) -> None:
        """No event of the source (of all sources) with a smaller time will come."""
        check_time("watermark", watermark)
        if source is None:
            self._state.watermarks.raise_all(watermark)
        else:
            self._state.watermarks.raise_source(check_source(source), watermark)
        self._emit()

    def join(self, source: str, node: str = "") -> None:
        """Wait for a source from now on, before its first event."""
        self._state.watermarks.source(source, node)

    def idle(self, source: str) -> None:
        """Do not wait for a source any more, until it resumes."""
        self._state.watermarks.idle(source)
        self._emit()

    def resume(self, source: str) -> None:
        """Wait for an idle source again: its events below the watermark of now are late."""
        self._state.watermarks.resume(source)
        self._emit()

    def flush(self) -> None:
        """The end of the stream: everything complete comes out. Final."""
        self._state.watermarks.flush()
        self._emit()

    @property
    def watermark(self) -> int:
        return self._state.watermarks.group

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Which sources joined, fell idle and returned, with the offset and the watermark of that moment."""
        return tuple(self._state.watermarks.decisions)

    # --- results ---

    def _emit(self) -> None:
        """Close whatever the watermark of all has passed since the last time."""
        until, families = self._state.watermarks.group, self._state.registry.families.values()
        self._state.close((family for family in families if family.group.is_due(until)), until, self._is_paced)

    def _take(self) -> tuple[pa.Table, dict[str, Query]]:
        """The rows that came out since the last call, and the queries they may be of."""
        return self._state.take()

    def side_output(self) -> pa.Table:
        """Events that were too late for a query or malformed, since the last call: query, reason, place of birth, event."""
        return self._state.side.take()

    def counters(self) -> dict[str, dict[str, int]]:
        """Per query: in = filtered + outside + member + late + dropped + malformed."""
        return self._state.registry.counters()

    @property
    def statistics(self) -> dict[str, int]:
        """How much work was done: groups, slices cut, calculations (events times operators), rows of partials that are held."""
        groups = [family.group for family in self._state.registry.families.values()]
        return {
            "groups": len(groups),
            "slices": sum(group.work.slice_count for group in groups),
            "calculations": sum(group.work.calculation_count for group in groups),
            "rows": sum(group.row_count() for group in groups),
            "malformed": self._state.malformed,
            "repeated": self._state.repeated,
            "overflows": self._state.overflows,
        }

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Everything the engine knows, as bytes; results not taken yet included."""
        return self._state.snapshot()

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """An engine that goes on exactly where ``snapshot`` was taken. Users' own code is imported by its path."""
        state = from_bytes(data)
        time, unit, strict, mode, *rename = state["settings"]
        engine = cls(time=time, unit=unit, strict=strict, mode=mode)
        engine._state.rename = dict(*rename)
        engine._state.restore(state)
        return engine


def repeated(text: str, count: int) -> pa.DictionaryArray:
    """A column that has one text in every row."""
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [text])
