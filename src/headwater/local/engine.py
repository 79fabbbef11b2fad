"""The engine for live use: push batches, advance watermarks, take results.

An engine holds any number of queries over any number of sources. It does no I/O and reads no clock: what comes out is a function
of the calls that went in, and a snapshot restored goes on as if nothing had happened. The work is done in `engine.core`; here
tables of any maker become batches, and tables of rows become results.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.core import Core
from headwater.engine.intake.arrival_columns import with_arrivals, with_limits
from headwater.errors import DataError, QueryError
from headwater.language.arguments import check_ahead, check_now
from headwater.language.query import Query
from headwater.language.time_columns import ARRIVAL, time_column
from headwater.local.results import Results
from headwater.local.tables import arrow_table, record_batches

__all__ = ["Engine", "run"]

#: Batches are cut to this many events: large enough to forget the cost of Python, small enough for the cache.
BATCH_EVENTS = 1 << 20


class Engine(Core):
    """Window queries over live streams, in one process.

    >>> import pyarrow as pa, headwater as hw
    >>> engine = Engine([hw.query("load", hw.tumbling(10), total=hw.sum("load"))])
    >>> engine.push(pa.table({"time": [1, 5, 12], "load": [1.0, 2.0, 4.0]}))
    >>> engine.advance(10)
    >>> engine.results()["load"].select(["window_start", "window_end", "total"]).to_pylist()
    [{'window_start': 0, 'window_end': 10, 'total': 3.0}]
    """

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
        before are passed over. ``node`` names the source's home when the source is first seen.

        ``now``: when the events arrived, a datetime (without a zone: in UTC) or microseconds since 1970. With
        ``time=hw.arrival()`` that is their time. Else it is what times are judged by: an event more than ``ahead_max`` ahead of
        it is malformed; by default one day, without a bound for integers. Without ``now`` nothing is too far ahead.
        """
        super().push(self._arrived(record_batches(data, BATCH_EVENTS), now, ahead_max), source, offset, node)

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
        super().push_all(self._arrived(record_batches(data, BATCH_EVENTS), None, None))

    def check(self, data: Any) -> None:
        """Refuse queries that do not fit the columns of ``data``, before anything is taken in."""
        self._state.registry.check(arrow_table(data).schema)

    def results(self) -> Results:
        """The rows that came out since the last call."""
        return Results(*self._take())

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
) -> Results:
    """All queries over a table (Arrow, pandas or Polars) in one pass.

    The table is one source and a row's number is its offset. Nothing is late unless ``disorder`` is given.

    >>> import pyarrow as pa, headwater as hw
    >>> events = pa.table({"time": [1, 2, 11], "load": [3.0, 1.0, 5.0]})
    >>> hw.run(events, [hw.query("peak", hw.tumbling(10), top=hw.max("load"))])["peak"].column("top").to_pylist()
    [3.0, 5.0]
    """
    if time_column(time).reading == "arrival":
        raise QueryError(f"time is {time}: the rows of a table have no arrival; name the column that tells their times")
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
