"""Where an engine stands: its queries, how far its sources have come, and the rows that have come out so far.

Everything but the way in of events, which is in `core`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import pyarrow as pa

from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.engine.intake.watermarks import Decision, Watermarks
from headwater.engine.registry import Registry
from headwater.engine.results.output import ResultColumns, empty_table, layout_table
from headwater.engine.results.side_output import SideOutput
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import DataError, QueryError
from headwater.language.arguments import check_disorder, check_queries, check_source, check_time, check_unit
from headwater.language.modes import check_mode
from headwater.language.query import Query
from headwater.language.times import NEVER


class Progress:
    """Queries come and go, watermarks rise, windows close; all of it can be written down and taken up again."""

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
        self._registry = Registry(time, self._unit, self._mode)
        self._malformed = 0
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
        if drain:
            self._registry.drain(name, max(self._watermarks.highest_time, self._watermarks.group - 1, NEVER) + 1)
        else:
            self._registry.remove(name)

    def _register(self, queries: list[tuple[Query, int]]) -> None:
        """Take queries in, each with the time at which it begins."""
        self._registry.add(queries, self._watermarks.group)

    @property
    def shows_empty_windows(self) -> bool:
        """Whether some query wants windows without events: for those it matters how far the watermark came before the end."""
        return any(entry.query.emit_empty for entry in self._registry.by_name.values())

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
        until, queries = self._watermarks.group, self._registry
        pieces: list[ResultColumns] = []
        for family in queries.families.values():
            if family.watermark < until:
                family.prepare(queries.types)
                pieces.extend(family.close(until, queries.layout, queries.types))
        self._put_out(pieces)

    def _put_out(self, pieces: list[ResultColumns]) -> None:
        """Make rows of what has closed."""
        queries = self._registry
        overflows = sum(piece.overflow_count for piece in pieces)
        if overflows:
            self._note_overflows(overflows)
        if pieces:
            self._tables.append(layout_table(pieces, queries.layout, queries.names))

    def _note_overflows(self, count: int) -> None:
        if self._strict:
            raise DataError(f"{count} sums or products are beyond the type of their column (strict)")
        self._overflows += count

    def _take(self) -> tuple[pa.Table, dict[str, Query]]:
        """The rows that came out since the last call, and the queries they may be of."""
        tables, self._tables = self._tables, []
        queries = self._registry
        if tables:
            return pa.concat_tables(tables, promote_options="permissive"), queries.take_queries()
        return empty_table(queries.layout, queries.names), queries.take_queries()

    def side_output(self) -> pa.Table:
        """Events that were too late for a query or malformed, since the last call: query, reason, place of birth, event."""
        return self._side.take()

    def counters(self) -> dict[str, dict[str, int]]:
        """Per query: in = filtered + outside + member + late + dropped + malformed."""
        return self._registry.counters()

    @property
    def statistics(self) -> dict[str, int]:
        """How much work was done: slices cut, calculations (events times operators), rows of partials held, bytes of them."""
        families = list(self._registry.families.values())
        return {
            "groups": len(families),
            "slices": sum(family.slice_count for family in families),
            "calculations": sum(family.calculation_count for family in families),
            "rows": sum(family.row_count for family in families),
            "malformed": self._malformed,
            "repeated": self._repeated,
            "overflows": self._overflows,
        }

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Everything the engine knows, as bytes; results not taken yet included."""
        return to_bytes(self._state())

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """An engine that goes on exactly where ``snapshot`` was taken. Users' own code is imported by its path."""
        state = from_bytes(data)
        time, unit, strict, mode = state["settings"]
        engine = cls(time=time, unit=unit, strict=strict, mode=mode)
        engine._restore(state)
        return engine

    def _state(self) -> dict[str, Any]:
        return {
            "settings": [self._time, self._unit, self._strict, self._mode],
            **self._registry.state(has_rows=bool(self._tables)),
            "watermarks": self._watermarks.state(),
            "numbers": [self._registry.timeless, self._malformed, self._repeated, self._overflows],
            "tables": [table_to_bytes(table) for table in self._tables],
            "side": [table_to_bytes(table) for table in self._side.tables],
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state; the settings are the same already, and there were no queries before."""
        self._watermarks = Watermarks.restored(state["watermarks"])
        self._registry.restore(state)
        self._registry.timeless, self._malformed, self._repeated, self._overflows = state["numbers"]
        self._tables = [table_from_bytes(table) for table in state["tables"]]
        self._side.tables = [table_from_bytes(table) for table in state["side"]]
