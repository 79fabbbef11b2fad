"""The engine for live use: push batches, advance watermarks, take results.

An engine holds any number of queries over any number of sources. It does no I/O and reads no clock: what comes out is a function
of the calls that went in, and a snapshot restored goes on as if nothing had happened.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.arguments import check_disorder, check_offset, check_queries, check_source, check_time, check_unit
from headwater.engine.arrays import Int64Array
from headwater.engine.chunk import Chunk
from headwater.engine.family import Family, family_of
from headwater.engine.intake import (
    Times,
    TimeScan,
    columns_of,
    conform,
    plan_type,
    read_times,
    read_values,
    scan_times,
    without,
)
from headwater.engine.keys import NODE_KEY
from headwater.engine.output import Layout, empty_table, layout_table
from headwater.engine.registered import Registered, one_of_each
from headwater.engine.state_bytes import from_bytes, table_from_bytes, table_to_bytes, to_bytes
from headwater.engine.watermarks import Decision, Source, Watermarks
from headwater.errors import DataError, QueryError
from headwater.modes import check_mode
from headwater.query import Query
from headwater.query_io import from_json, to_json
from headwater.results import Results
from headwater.schemas import check_schemas
from headwater.side_output import SideOutput
from headwater.tables import arrow_table, record_batches
from headwater.times import FOREVER, NEVER
from headwater.windows import Custom

__all__ = ["Engine", "run"]

#: Batches are cut to this many events: large enough to forget the cost of Python, small enough for the cache.
BATCH_EVENTS = 1 << 20
#: Within a long push, results are made as soon as they would fill about this many cells: while all is still in the cache, and
#: before arrays grow so large that the system hands out fresh memory for each.
CELLS_HELD = 1 << 23
#: Or when this many rows of results have come together.
RESULTS_HELD = 1 << 18
#: Or when this many rows of partials wait to be combined.
ROWS_HELD = 1 << 16
#: Columns of a result besides the aggregates.
BASE_COLUMNS = 8


class Engine:
    """Window queries over live streams, in one process.

    >>> import pyarrow as pa, headwater as hw
    >>> engine = Engine([hw.query("load", hw.tumbling(10), total=hw.sum("load"))])
    >>> engine.push(pa.table({"time": [1, 5, 12], "load": [1.0, 2.0, 4.0]}))
    >>> engine.advance(10)
    >>> engine.results()["load"].select(["window_start", "window_end", "total"]).to_pylist()
    [{'window_start': 0, 'window_end': 10, 'total': 3.0}]
    """

    def __init__(
        self,
        queries: Iterable[Query] = (),
        *,
        time: str = "time",
        unit: str = "us",
        disorder: object = None,
        strict: bool = False,
        mode: str = "desis",
    ) -> None:
        self._time = time
        self._unit = check_unit(unit)
        self._strict = strict
        self._mode = check_mode(mode)
        self._watermarks = Watermarks(check_disorder(disorder, unit))
        self._entries: dict[int, Registered] = {}
        self._query_names: list[str] = []  # of every number ever given
        self._leaving: dict[str, Query] = {}  # removed, with rows that were not taken yet
        self._by_name: dict[str, Registered] = {}
        self._families: dict[tuple[Any, ...], Family] = {}
        self._family_of: dict[int, tuple[Any, ...]] = {}
        self._types: dict[str, pa.DataType] = {}
        self._needed: tuple[str, ...] = ()
        self._value_columns: tuple[str, ...] = ()
        self._layout = Layout({}, {}, False, False)
        self._by_node = False
        self._names = pa.array([], pa.string())
        self._unchecked: list[Registered] = []
        self._malformed = 0
        self._malformed_before: dict[int, int] = {}
        self._malformed_total = 0
        self._repeated = 0
        self._overflows = 0
        self._tables: list[pa.Table] = []
        self._side = SideOutput()
        self._register([(query, NEVER) for query in check_queries(queries)])

    # --- queries ---

    def add_query(self, query: Query, at: int | None = None) -> int:
        """Add a query while the stream runs. It becomes active at the returned event time T, above every time seen so far.

        Its windows are those with start >= T; ``at`` asks for a later T.
        """
        (query,) = check_queries([query])
        now = self._watermarks
        lowest = NEVER if now.highest_time == NEVER else now.highest_time + 1
        if at is not None and check_time("at", at) < lowest:
            raise QueryError(f"query {query.name!r}: at is {at}: give a time above all seen so far, {lowest} or later")
        begin = max(lowest, now.group) if at is None else at
        self._register([(query, begin)])
        return begin

    def remove_query(self, name: str, drain: bool = False) -> None:
        """End a query at once, or (``drain``) after the windows that are open now have closed."""
        entry = self._by_name.get(name)
        if entry is None:
            raise QueryError(f"there is no query {name!r} to remove; there is {', '.join(self._by_name) or 'none'}")
        family = self._families[self._family_of[entry.number]]
        if drain:
            entry.stop = min(entry.stop, max(self._watermarks.highest_time, self._watermarks.group - 1, NEVER) + 1)
            family.changed()
        else:
            family.unregister(entry.number)
            if not family.group.queries():
                del self._families[self._family_of[entry.number]]
            del self._by_name[name], self._entries[entry.number], self._family_of[entry.number]
            self._leaving[name] = entry.query
            self._refresh()

    def _register(self, queries: list[tuple[Query, int]]) -> None:
        """Take queries in, all or none: whatever is wrong is found before anything changes."""
        entries: list[Registered] = []
        names = set(self._by_name)
        for query, begin in queries:
            if query.name in names:
                raise QueryError(f"query {query.name!r} is there already; give each query a name of its own")
            names.add(query.name)
            entries.append(Registered(query.resolved(self._unit), len(self._query_names) + len(entries), begin))
        Layout.of(one_of_each([*self._by_name.values(), *entries]), self._types)
        added: dict[tuple[Any, ...], list[Registered]] = {}
        for entry in entries:
            family = family_of(entry, self._mode)
            self._entries[entry.number] = entry
            self._query_names.append(entry.query.name)
            self._by_name[entry.query.name] = entry
            self._malformed_before[entry.number] = self._malformed
            self._family_of[entry.number] = family
            added.setdefault(family, []).append(entry)
        for name, members in added.items():
            if name not in self._families:
                self._families[name] = Family.create(members[0], self._mode, self._watermarks.group)
            self._families[name].register(members)
            self._unchecked.extend(members)
        self._refresh()

    def _refresh(self) -> None:
        """Work out which columns are read, after queries came or went."""
        needed: dict[str, None] = {}
        values: dict[str, None] = {}
        kinds = one_of_each(self._by_name.values())
        for entry in kinds:
            query = entry.query
            needed.update(dict.fromkeys(sorted(query.columns())))
            values.update((a.column, None) for _, a in query.aggregates if a.column is not None)
            if query.distinct is not None:
                values[query.distinct] = None
            if isinstance(query.window, Custom):
                values.update(dict.fromkeys(sorted(query.columns())))
        self._needed, self._value_columns = tuple(needed), tuple(values)
        self._names = pa.array(self._query_names, pa.string())
        self._layout = Layout.of(kinds, self._types)
        self._by_node = any(entry.query.scope != "global" for entry in kinds)

    # --- events ---

    def push(self, data: Any, source: str = "", offset: int | Int64Array | None = None, node: str = "") -> None:
        """Take in events of one source: an Arrow, pandas or Polars table, in any order.

        ``offset`` is that of the first event (default: one after the last), or one per event; events that were accepted
        before are passed over. ``node`` names the source's home when the source is first seen.
        """
        offset = check_offset(offset)
        origin = self._watermarks.source(check_source(source), node)
        origin.node = origin.node or node
        self._watermarks.resume(source)
        for batch in record_batches(data, BATCH_EVENTS):
            first = origin.next_offset if offset is None else offset
            if not isinstance(first, int) and len(first) < len(batch):
                raise DataError(
                    f"source {source!r}: there are fewer offsets than events; give one for each, or the first one"
                )
            self._push_batch(batch, origin, source, first if isinstance(first, int) else first[: len(batch)])
            if offset is not None:
                offset = offset + len(batch) if isinstance(offset, int) else offset[len(batch) :]
            if self._holds_much():
                self._emit()
        self._emit()

    def push_all(self, data: Any) -> None:
        """Take in all events there will ever be, as one source: what no later event can change comes out on the way.

        The same rows as one `push` and `flush`, without holding all partials until the end.
        """
        batches = list(record_batches(data, BATCH_EVENTS))
        times = [self._times_of(batch) for batch in batches]
        # For each batch the earliest time behind it; unknown if something is wrong with a time.
        lows = [FOREVER if scan is None else scan.low for _, _, scan in times]
        behind = [*reversed([NEVER, *itertools.accumulate(reversed(lows[1:]), min)])]
        known_times = all(scan is not None for _, _, scan in times)
        origin = self._watermarks.source("")
        for batch, known, low in zip(batches, times, behind, strict=False):
            self._push_batch(batch, origin, "", origin.next_offset, known)
            if known_times:
                self._watermarks.raise_source("", low)
            if self._holds_much():
                self._emit()
        self.flush()

    def _times_of(self, batch: pa.RecordBatch) -> Times:
        """The times of a batch, what is wrong with them, and their scan if nothing is."""
        if self._time in batch.schema.names:
            return read_times(batch.column(self._time), self._unit)
        missing = f"time column {self._time!r} is missing"
        return np.zeros(len(batch), np.int64), dict.fromkeys(range(len(batch)), missing), None

    def _push_batch(
        self,
        batch: pa.RecordBatch,
        origin: Source,
        source: str,
        offsets: Int64Array | int,
        known: Times | None = None,
    ) -> None:
        """``offsets``: that of the first event, or one per event; ``known``: its times, if they were read before."""
        if len(batch) and (offsets if isinstance(offsets, int) else offsets[0]) < origin.next_offset:
            offsets = _each(offsets, len(batch))
            fresh = offsets >= origin.next_offset
            self._repeated += len(batch) - int(fresh.sum())
            batch, offsets = batch.filter(pa.array(fresh)), offsets[fresh]
        if len(batch) == 0:
            return
        self._check(batch.schema)
        arrays, misfits = self._read(batch)
        times, timeless, scan = self._times_of(batch) if known is None else known
        # Nothing has changed so far: a batch that is refused can be put right and pushed again.
        self._set_aside(batch, timeless, misfits, source, offsets)
        origin.next_offset = offsets + len(batch) if isinstance(offsets, int) else int(offsets[-1]) + 1
        if timeless:
            kept = without(timeless, len(batch))
            times, offsets, batch = times[kept], _each(offsets, len(times))[kept], batch.take(pa.array(kept))
            arrays = {name: array.take(pa.array(kept)) for name, array in arrays.items()}
            place = {int(row): i for i, row in enumerate(kept)}
            misfits = {
                name: {place[row]: why for row, why in rows.items() if row in place} for name, rows in misfits.items()
            }
            scan = scan_times(times) if len(times) else None
        if scan is not None:
            self._accept(batch, arrays, times, offsets, scan, origin, source, misfits)

    def check(self, data: Any) -> None:
        """Refuse queries that do not fit the columns of ``data``, before anything is taken in."""
        self._check(arrow_table(data).schema)

    def _check(self, schema: pa.Schema) -> None:
        """Before the first events of a query: does it fit the columns?"""
        if not self._unchecked:
            return
        entries = [entry for entry in self._unchecked if self._by_name.get(entry.query.name) is entry]
        check_schemas([entry.query for entry in one_of_each(entries)], schema, self._time)
        keys = {name for entry in one_of_each(self._by_name.values()) for name in entry.query.keys}
        new = [name for name in self._needed if name not in self._types]
        types = {name: plan_type(schema.field(name).type, name in keys) for name in new}
        Layout.of(one_of_each(self._by_name.values()), self._types | types)
        self._types |= types
        self._unchecked = []
        self._refresh()

    def _read(self, batch: pa.RecordBatch) -> tuple[dict[str, pa.Array], dict[str, dict[int, str]]]:
        """The columns that queries read, in the types they had from the start, and per column which events do not fit."""
        there = columns_of(batch)
        arrays: dict[str, pa.Array] = {}
        misfits: dict[str, dict[int, str]] = {}
        for name in self._needed:
            if name in there:
                arrays[name], wrong = conform(there[name], self._types[name], name)
            else:
                arrays[name] = pa.nulls(len(batch), self._types[name])
                wrong = dict.fromkeys(range(len(batch)), f"column {name!r} is missing")
            if wrong:
                misfits[name] = wrong
        return arrays, misfits

    def _set_aside(
        self,
        batch: pa.RecordBatch,
        timeless: dict[int, str],
        misfits: dict[str, dict[int, str]],
        source: str,
        offsets: Int64Array | int,
    ) -> None:
        """Count and keep the events that some query cannot use, each once with its first reason."""
        bad = dict(timeless)
        for wrong in misfits.values():
            bad = wrong | bad
        if not bad:
            return
        rows, places = sorted(bad), _each(offsets, len(batch))
        if self._strict:
            raise DataError(
                f"source {source!r}, offset {places[rows[0]]}: {bad[rows[0]]} (strict; {len(rows)} such events in this batch)"
            )
        self._malformed += len(timeless)
        self._malformed_total += len(rows)
        self._side.malformed(batch, rows, [bad[row] for row in rows], source, places[rows])

    def _accept(
        self,
        batch: pa.RecordBatch,
        arrays: dict[str, pa.Array],
        times: Int64Array,
        offsets: Int64Array | int,
        scan: TimeScan,
        origin: Source,
        source: str,
        misfits: Mapping[str, Iterable[int]],
    ) -> None:
        marks = self._watermarks
        before: Int64Array | int = origin.watermark
        # While times never step back, the watermark that they imply never passes the next one.
        if not (scan.in_order and scan.low >= origin.watermark):
            before = marks.before_each(origin, times)
        columns = {name: read_values(arrays[name]) for name in self._value_columns if name in arrays}
        chunk = Chunk(times, offsets, origin.number, marks.names, columns)
        if self._by_node:
            arrays[NODE_KEY] = pa.DictionaryArray.from_arrays(np.zeros(len(times), np.int32), [origin.node])
        for family in self._families.values():
            family.prepare(self._types)
            for dropped in family.accept(chunk, arrays, scan, before, misfits):
                self._side.dropped(batch, chunk.offsets, dropped, self._query_names[dropped.query], source)
        marks.saw(origin, scan.low, scan.high)

    # --- watermarks ---

    def advance(self, watermark: int, source: str | None = None) -> None:
        """No event of the source (of all sources) with a smaller time will come."""
        check_time("watermark", watermark)
        if source is None:
            self._watermarks.raise_all(watermark)
        else:
            self._watermarks.raise_source(check_source(source), watermark)
        self._emit()

    def join(self, source: str, node: str = "") -> None:
        """Wait for a source from now on, before its first event."""
        self._watermarks.source(source, node)

    def idle(self, source: str) -> None:
        """Do not wait for a source any more, until it resumes."""
        self._watermarks.idle(source)
        self._emit()

    def resume(self, source: str) -> None:
        """Wait for an idle source again: its events below the watermark of now are late."""
        self._watermarks.resume(source)
        self._emit()

    def flush(self) -> None:
        """The end of the stream: everything complete comes out. Final."""
        self._watermarks.flush()
        self._emit()

    @property
    def watermark(self) -> int:
        return self._watermarks.group

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Which sources joined, fell idle and returned, with the offset and the watermark of that moment."""
        return tuple(self._watermarks.decisions)

    # --- results ---

    def _emit(self) -> None:
        """Close whatever the group's watermark has passed since the last time."""
        until = self._watermarks.group
        pieces = []
        for family in self._families.values():
            if family.watermark < until:
                family.prepare(self._types)
                pieces.extend(family.close(until, self._layout, self._types))
        overflows = sum(piece.overflow_count for piece in pieces)
        if overflows:
            self._note_overflows(overflows)
        if pieces:
            self._tables.append(layout_table(pieces, self._layout, self._names))

    def _note_overflows(self, count: int) -> None:
        if self._strict:
            raise DataError(f"{count} sums or products are beyond the type of their column (strict)")
        self._overflows += count
        logging.getLogger("headwater").warning("%d sums or products beyond the type of their column became null", count)

    def _holds_much(self) -> bool:
        """Whether it is time, within a long push, to make results of what has closed."""
        families = [family for family in self._families.values() if family.watermark < self._watermarks.group]
        rows = sum(family.expected_rows(self._watermarks.group) for family in families)
        cells = rows * (BASE_COLUMNS + len(self._layout.aggregates))
        return cells > CELLS_HELD or rows > RESULTS_HELD or sum(family.row_count for family in families) > ROWS_HELD

    def results(self) -> Results:
        """The rows that came out since the last call."""
        tables, self._tables = self._tables, []
        table = (
            pa.concat_tables(tables, promote_options="permissive") if tables else empty_table(self._layout, self._names)
        )
        queries = self._leaving | {name: entry.query for name, entry in self._by_name.items()}
        self._leaving = {}
        return Results(table, queries)

    def side_output(self) -> pa.Table:
        """Events that were too late for a query or malformed, since the last call: query, reason, place of birth, event."""
        return self._side.take()

    def counters(self) -> dict[str, dict[str, int]]:
        """Per query: in = filtered + outside + member + late + dropped + malformed."""
        found = {}
        for name, entry in self._by_name.items():
            counts = self._families[self._family_of[entry.number]].counters(entry.number)
            timeless = self._malformed - self._malformed_before[entry.number]
            counts["in"] += timeless
            counts["malformed"] += timeless
            found[name] = counts
        return found

    @property
    def statistics(self) -> dict[str, int]:
        """How much work was done: slices cut, calculations (events times operators), rows of partials held, bytes of them."""
        families = list(self._families.values())
        return {
            "groups": len(families),
            "slices": sum(family.slice_count for family in families),
            "calculations": sum(family.calculation_count for family in families),
            "rows": sum(family.row_count for family in families),
            "malformed": self._malformed_total,
            "repeated": self._repeated,
            "overflows": self._overflows,
        }

    @property
    def shows_empty_windows(self) -> bool:
        """Whether some query wants windows without events: for those it matters how far the watermark came before the end."""
        return any(entry.query.emit_empty for entry in self._by_name.values())

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Everything the engine knows, as bytes; results not taken yet included."""
        return to_bytes(
            {
                "settings": [self._time, self._unit, self._strict, self._mode],
                "queries": to_json([entry.query for entry in self._entries.values()]),
                "entries": [[entry.number, entry.begin, entry.stop] for entry in self._entries.values()],
                "leaving": [to_json([query]) for query in self._leaving.values()] if self._tables else [],
                "names": self._query_names,
                "watermarks": self._watermarks.state(),
                "types": self._types,
                "unchecked": [entry.number for entry in self._unchecked if entry.number in self._entries],
                "numbers": [self._malformed, self._malformed_total, self._repeated, self._overflows],
                "malformed_before": [[number, self._malformed_before[number]] for number in self._entries],
                "families": [
                    [[entry.number for entry in family.group.queries()], family.state()]
                    for family in self._families.values()
                ],
                "tables": [table_to_bytes(table) for table in self._tables],
                "side": [table_to_bytes(table) for table in self._side.tables],
            }
        )

    @classmethod
    def restore(cls, data: bytes) -> Engine:
        """An engine that goes on exactly where ``snapshot`` was taken. Users' own code is imported by its path."""
        state = from_bytes(data)
        time, unit, strict, mode = state["settings"]
        engine = cls(time=time, unit=unit, strict=strict, mode=mode)
        engine._watermarks = Watermarks.restored(state["watermarks"])
        for query, (number, begin, stop) in zip(from_json(state["queries"]), state["entries"], strict=True):
            engine._entries[number] = engine._by_name[query.name] = Registered(query, number, begin, stop)
        engine._leaving = {query.name: query for text in state["leaving"] for query in from_json(text)}
        engine._query_names = state["names"]
        engine._types = dict(state["types"])
        engine._unchecked = [engine._entries[number] for number in state["unchecked"]]
        engine._malformed, engine._malformed_total, engine._repeated, engine._overflows = state["numbers"]
        engine._malformed_before = dict(map(tuple, state["malformed_before"]))
        for numbers, kept in state["families"]:
            engine._restore_family([engine._entries[number] for number in numbers], kept)
        engine._refresh()
        engine._tables = [table_from_bytes(table) for table in state["tables"]]
        engine._side.tables = [table_from_bytes(table) for table in state["side"]]
        return engine

    def _restore_family(self, entries: list[Registered], state: dict[str, Any]) -> None:
        name = family_of(entries[0], self._mode)
        family = self._families[name] = Family.create(entries[0], self._mode, NEVER)
        family.register(entries)
        family.restore(state, self._types)
        for entry in entries:
            self._family_of[entry.number] = name


def run(
    data: Any,
    queries: Iterable[Query],
    *,
    time: str = "time",
    unit: str = "us",
    disorder: object = None,
    flush: bool = True,
    strict: bool = False,
    mode: str = "desis",
) -> Results:
    """All queries over a table (Arrow, pandas or Polars) in one pass.

    The table is one source and a row's number is its offset. Nothing is late unless ``disorder`` is given.

    >>> import pyarrow as pa, headwater as hw
    >>> events = pa.table({"time": [1, 2, 11], "load": [3.0, 1.0, 5.0]})
    >>> hw.run(events, [hw.query("peak", hw.tumbling(10), top=hw.max("load"))])["peak"].column("top").to_pylist()
    [3.0, 5.0]
    """
    engine = Engine(queries, time=time, unit=unit, disorder=disorder, strict=strict, mode=mode)
    table = arrow_table(data)  # once: a stream of batches can be read only once
    engine.check(table)
    if flush and disorder is None and not engine.shows_empty_windows:
        engine.push_all(table)
        return engine.results()
    engine.push(table)
    if flush:
        engine.flush()
    return engine.results()


def _each(offsets: Int64Array | int, length: int) -> Int64Array:
    return np.arange(offsets, offsets + length, dtype=np.int64) if isinstance(offsets, int) else offsets
