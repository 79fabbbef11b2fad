"""The engine for live use: push batches, advance watermarks, take results.

An engine holds any number of queries over any number of sources. It does no I/O and reads no clock: what comes out is a function
of the calls that went in, and a snapshot restored goes on as if nothing had happened. The work is done in `engine.core`; here
tables of any maker become batches, and tables of rows become results.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.arrow import arrow_schema
from headwater.engine.core import Core
from headwater.engine.intake.arrival_columns import with_arrivals, with_limits
from headwater.engine.results.shape import ResultShape
from headwater.engine.results.side_output import malformed_warning
from headwater.errors import DataError, QueryError
from headwater.language.arguments import check_ahead, check_now, check_queries
from headwater.language.homes import check_column, homed, refuse_homeless
from headwater.language.query import Query
from headwater.language.renames import Renaming
from headwater.language.schemas import check_unit_of
from headwater.language.time_columns import ARRIVAL, time_column
from headwater.local.results import Results
from headwater.local.tables import arrow_table, record_batches

__all__ = ["Engine", "run"]

#: Batches are cut to this many events: large enough to forget the cost of Python, small enough for the cache.
BATCH_EVENTS = 1 << 20
#: Why a scope over nodes is refused.
NAMELESS = (
    "events came from a source without a name, which is at home nowhere: push(..., source='plug-7') or node='north'"
)


class Engine(Core):
    """Window queries over live streams, in one process.

    >>> import pyarrow as pa, headwater as hw
    >>> engine = Engine([hw.query("load", hw.tumbling(10), total=hw.sum("load"))])
    >>> engine.push(pa.table({"time": [1, 5, 12], "load": [1.0, 2.0, 4.0]}))
    >>> engine.advance(10)
    >>> engine.results()["load"].select(["window_start", "window_end", "total"]).to_pylist()
    [{'window_start': 0, 'window_end': 10, 'total': 3.0}]

    ``schema`` says the columns of events beforehand (an Arrow schema, or a mapping of names to types): values that do not fit it
    are malformed. Without, types grow with the values that come (docs/semantics.md).
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
        schema: Any = None,
        rename: Mapping[str, str] | None = None,
    ) -> None:
        """``rename``: columns that the data calls otherwise, new names by old ones; queries and ``time`` say the new."""
        renaming = Renaming.of(rename)
        if schema is not None:
            schema = renaming.schema(arrow_schema(schema))
        super().__init__(queries, time=time, unit=unit, disorder=disorder, strict=strict, mode=mode, schema=schema)
        self._state.rename = dict(renaming.names)
        self._disorder = disorder
        self._is_checked = False
        self._is_warned = False

    def push(
        self,
        data: Any,
        source: str = "",
        offset: int | Int64Array | None = None,
        node: str = "",
        *,
        now: datetime | int | None = None,
        ahead_max: object = "auto",
    ) -> None:
        """Take in events of one source: an Arrow, pandas or Polars table, in any order.

        ``offset`` is that of the first event (default: one after the last), or one per event; events that were accepted
        before are passed over. ``node`` names the source's home when the source is first seen; by default it is its own.

        ``now``: when the events arrived, a datetime (without a zone: in UTC) or microseconds since 1970. With
        ``time=hw.arrival()`` that is their time. Else it is what times are judged by: an event more than ``ahead_max`` ahead of
        it is malformed; by default one day, without a bound for integers. Without ``now`` nothing is too far ahead.
        """
        self._check_home(source, node)
        batches = record_batches(self._table(data), BATCH_EVENTS)
        super().push(self._arrived(batches, now, ahead_max), source, offset, node)
        self._warn()

    def _arrived(
        self, batches: Iterable[pa.RecordBatch], now: datetime | int | None, ahead_max: object
    ) -> Iterator[pa.RecordBatch]:
        """The batches, with their arrivals where these are needed."""
        time, unit = self._state.time, self._state.unit
        arrived = None if now is None else check_now(now)
        for batch in batches:
            if arrived is not None:
                limit = check_ahead(ahead_max, time, batch.schema, unit)
                yield with_limits(with_arrivals(batch, arrived), limit, unit)
            elif time_column(time).reading == "arrival" and ARRIVAL not in batch.schema.names:
                raise DataError(f"time is {time}: say when the events arrived, push(..., now=...)")
            else:
                yield batch

    def push_all(self, data: Any) -> None:
        """Take in all events there will ever be, as one source: what no later event can change comes out on the way.

        The same rows as one `push` and `flush`, without holding all partials until the end.
        """
        self._check_home("", "")
        super().push_all(self._arrived(record_batches(self._table(data), BATCH_EVENTS), None, None))
        self._warn()

    def add_query(self, query: Query, at: int | None = None) -> int:
        """Add a query while the stream runs. It becomes active at the returned event time T, above every time seen so far.

        Its windows are those with start >= T; ``at`` asks for a later T.
        """
        if not all(source.home for source in self._state.watermarks.sources.values()):
            refuse_homeless([query], NAMELESS)
        return super().add_query(query, at)

    def _check_home(self, source: str, node: str) -> None:
        """Refuse a source that is at home nowhere, if queries ask for its home."""
        queries, known = self._state.registry, self._state.watermarks.sources.get(source)
        if None in queries.homes and not (source or node or (known is not None and known.home)):
            refuse_homeless((entry.query for entry in queries.by_name.values()), NAMELESS)

    def check(self, data: Any) -> None:
        """Refuse queries that do not fit the columns of ``data``, before anything is taken in."""
        self._state.registry.check(self._table(data).schema)

    def _table(self, data: Any) -> pa.Table:
        """The data as Arrow, its columns under their new names; the first has to have all, later ones may lack some."""
        renaming, table = Renaming(self._state.rename), arrow_table(data)
        if not self._is_checked:
            renaming.check(table.schema.names)
        renamed = table.rename_columns(renaming.renamed(table.schema.names)) if renaming else table
        if not self._is_checked:
            check_unit_of("disorder", self._disorder, renamed.schema, self._state.time)
        self._is_checked = True
        return renamed

    def results(self) -> Results:
        """The rows that came out since the last call, and what was set aside since, unless `side_output` has taken it."""
        return self._results(self._state.registry.shape)

    def _results(self, shape: ResultShape) -> Results:
        table, queries = self._take()
        return Results(shape.rows(table), queries, self.counters, shape.aside(self._state.side.show()))

    def side_output(self) -> pa.Table:
        """Events that were too late for a query or malformed, since the last call: query, reason, place of birth, event."""
        return self._state.registry.shape.aside(super().side_output())

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """An engine that goes on exactly where ``snapshot`` was taken. Users' own code is imported by its path."""
        engine = super().restore(data)
        engine._is_warned = engine._state.malformed > 0
        return engine

    def _warn(self) -> None:
        """Say once that events are malformed, for results alone do not show it."""
        if not self._state.malformed or self._is_warned:
            return
        if (found := malformed_warning(self._state.side.tables)) is not None:
            self._is_warned = True
            logging.getLogger("headwater").warning("%s", found)

    def _emit(self) -> None:
        before = self._state.overflows
        super()._emit()
        if count := self._state.overflows - before:
            logging.getLogger("headwater").warning(
                "%d sums or products beyond the type of their column became null", count
            )


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
    rename: Mapping[str, str] | None = None,
    home: str | None = None,
) -> Results:
    """All queries over a table (Arrow, pandas or Polars) in one pass.

    The table is one source and a row's number is its offset. Nothing is late unless ``disorder`` is given. ``rename``
    gives columns other names on the way in, of which queries and ``time`` speak: ``rename={"node": "device"}``. Queries with a
    scope over nodes need ``home``, the column that says at which node an event is at home.

    >>> import pyarrow as pa, headwater as hw
    >>> events = pa.table({"time": [1, 2, 11], "load": [3.0, 1.0, 5.0]})
    >>> hw.run(events, [hw.query("peak", hw.tumbling(10), top=hw.max("load"))])["peak"].column("top").to_pylist()
    [3.0, 5.0]
    """
    if time_column(time).reading == "arrival":
        raise QueryError(f"time is {time}: the rows of a table have no arrival; name the column that tells their times")
    column = check_column(home, "a table is one source")
    asked = homed(check_queries(queries), column)
    refuse_homeless(asked, "a table is one source, and nothing says its nodes: name the column that does, home='site'")
    engine = Engine(asked, time=time, unit=unit, disorder=disorder, strict=strict, mode=mode, rename=rename)
    table = arrow_table(data)  # once: a stream of batches can be read only once
    engine.check(table)
    if flush and disorder is None and not engine.shows_empty_windows:
        engine.push_all(table)
    else:
        engine.push(table)
        if flush:
            engine.flush()
    shape = engine._state.registry.shape
    # Without disorder nothing is late, and each row is the last of its window.
    return engine._results(replace(shape, has_replaces=shape.has_replaces and disorder is not None))
