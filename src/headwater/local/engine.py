"""The engine for live use: push batches, advance watermarks, take results.

An engine holds any number of queries over any number of sources. It does no I/O and reads no clock: what comes out is a function
of the calls that went in, and a snapshot restored goes on as if nothing had happened. The work is done in `engine.core`; here
tables of any maker become batches, and tables of rows become results.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.core import Core
from headwater.engine.results.shape import ResultShape
from headwater.engine.results.side_output import malformed_warning
from headwater.language.query import Query
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

    _is_warned = False

    def push(self, data: Any, source: str = "", offset: int | Int64Array | None = None, node: str = "") -> None:
        """Take in events of one source: an Arrow, pandas or Polars table, in any order.

        ``offset`` is that of the first event (default: one after the last), or one per event; events that were accepted
        before are passed over. ``node`` names the source's home when the source is first seen.
        """
        super().push(record_batches(data, BATCH_EVENTS), source, offset, node)
        self._warn()

    def push_all(self, data: Any) -> None:
        """Take in all events there will ever be, as one source: what no later event can change comes out on the way.

        The same rows as one `push` and `flush`, without holding all partials until the end.
        """
        super().push_all(record_batches(data, BATCH_EVENTS))
        self._warn()

    def check(self, data: Any) -> None:
        """Refuse queries that do not fit the columns of ``data``, before anything is taken in."""
        self._state.registry.check(arrow_table(data).schema)

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
    else:
        engine.push(table)
        if flush:
            engine.flush()
    shape = engine._state.registry.shape
    # Without disorder nothing is late, and each row is the last of its window.
    return engine._results(replace(shape, has_replaces=shape.has_replaces and disorder is not None))
