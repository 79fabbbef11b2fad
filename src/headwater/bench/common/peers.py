"""DuckDB and Polars on the same events and queries, each in a process of its own.

``one`` is the one-query case on one thread; ``many`` writes one group-by per query, as a user would, on all threads; and
``sliced`` is what an expert would write by hand: one group-by per second, then every window from those rows. Where a
peer has two natural ways to say a sliding window, it is given the one that is faster for that overlap.

A process of its own, because Polars fixes its number of threads when it is imported and because one engine's memory
must not slow the next. The child generates the events again: that is faster than handing them over.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from headwater.bench.common.children import in_child
from headwater.bench.common.queries import COMBINATIONS, FUNCTIONS, WindowSpec, many
from headwater.bench.common.timing import Timed, best_of
from headwater.bench.common.workload import SECOND, workload

#: From this many windows per event on, the other way to say a sliding window is the faster one (both peers).
OVERLAP_MANY = 20
#: How many queries the cases with many have.
QUERIES = 100


def measure(peer: str, case: str, events: int, threads: int, repeats: int = 1) -> Timed:
    """Run one case in a child process; the time is the best of ``repeats``, without generating the events."""
    measured: Any = in_child("common.peers", peer, case, events, threads, repeats, POLARS_MAX_THREADS=str(threads))
    return Timed(**measured)


class DuckDB:
    """The peer in SQL, reading the Arrow table in place (as fast as from its own storage, and nothing to load)."""

    def __init__(self, table: pa.Table, threads: int) -> None:
        import duckdb

        self._connection = duckdb.connect(config={"threads": threads})
        self._connection.register("events", table)

    def one(self) -> int:
        """Count, sum, avg, min and max by key, tumbling 1 s; like the others, returns the number of result rows."""
        aggregates = ", ".join(f"{function}(value)" for function in FUNCTIONS)
        return self._rows(f"SELECT time // {SECOND} * {SECOND} AS start, key, {aggregates} FROM events GROUP BY ALL")

    def many(self, specs: Sequence[WindowSpec]) -> int:
        """One group-by per query."""
        return sum(self._rows(self._group_by(spec)) for spec in specs)

    def sliced(self, specs: Sequence[WindowSpec]) -> int:
        """One group-by per second, and every query from its rows."""
        partials = ", ".join(f"{_sql(f, c)} AS {f}_{c}" for f, c in COMBINATIONS if f not in ("avg", "range"))
        slices = f"SELECT time // {SECOND} * {SECOND} AS time, key, {partials} FROM events GROUP BY ALL"
        self._connection.execute(f"CREATE OR REPLACE TABLE slices AS {slices}")
        return sum(self._rows(self._from_slices(spec)) for spec in specs)

    def _group_by(self, spec: WindowSpec) -> str:
        aggregate = _sql(spec.function, spec.column)
        # One slide added and taken away again: DuckDB's // rounds towards zero, a window's start must be rounded down.
        first = f"(time - {spec.offset} + {spec.slide}) // {spec.slide} * {spec.slide} + {spec.offset} - {spec.slide}"
        if spec.is_tumbling:
            return f"SELECT {first} AS start, key, {aggregate} FROM events GROUP BY ALL"
        if spec.size < OVERLAP_MANY * spec.slide:
            return self._join(spec, aggregate, "events")
        starts = f"unnest(range({first}, time - {spec.size}, -{spec.slide})) AS start"
        columns = ", ".join(dict.fromkeys(["key", "time", spec.column or "key"]))
        return f"SELECT start, key, {aggregate} FROM (SELECT {columns}, {starts} FROM events) GROUP BY ALL"

    def _from_slices(self, spec: WindowSpec) -> str:
        count, total = f"count_{spec.column}", f"sum_{spec.column}"
        combined = {"count": f"sum({count})", "avg": f"sum({total}) / sum({count})"}
        combined["range"] = f"max(max_{spec.column}) - min(min_{spec.column})"
        return self._join(spec, combined.get(spec.function, f"{spec.function}({spec.partial})"), "slices")

    def _join(self, spec: WindowSpec, aggregate: str, rows: str) -> str:
        starts = f"range({spec.offset - spec.size // spec.slide * spec.slide}, (SELECT max(time) + 1 FROM {rows}), {spec.slide})"
        return (
            f"WITH windows AS (SELECT unnest({starts}) AS start) SELECT start, key, {aggregate} "
            f"FROM {rows} JOIN windows ON time >= start AND time < start + {spec.size} GROUP BY ALL"
        )

    def _rows(self, query: str) -> int:
        return int(self._connection.sql(query).to_arrow_table().num_rows)


class Polars:
    """The peer in lazy frames, collected by the streaming engine."""

    def __init__(self, table: pa.Table, threads: int) -> None:
        import polars

        if polars.thread_pool_size() != threads:
            raise RuntimeError(
                f"Polars runs {polars.thread_pool_size()} threads, not {threads}: set POLARS_MAX_THREADS"
            )
        self._pl = polars
        self._events: Any = polars.DataFrame(polars.from_arrow(table)).lazy()

    def one(self) -> int:
        """Count, sum, avg, min and max by key, tumbling 1 s; like the others, returns the number of result rows."""
        start = self._pl.col("time") // SECOND * SECOND
        aggregates = [self._aggregate(function, "value").alias(function) for function in FUNCTIONS]
        return self._rows(self._events.group_by(start.alias("start"), "key").agg(aggregates))

    def many(self, specs: Sequence[WindowSpec]) -> int:
        """One group-by per query."""
        return sum(self._rows(self._group_by(spec)) for spec in specs)

    def sliced(self, specs: Sequence[WindowSpec]) -> int:
        """One group-by per second, and every query from its rows."""
        partials = [self._aggregate(f, c).alias(f"{f}_{c}") for f, c in COMBINATIONS if f not in ("avg", "range")]
        start = self._pl.col("time") // SECOND * SECOND
        slices = self._events.group_by(start.alias("time"), "key").agg(partials).collect(engine="streaming").lazy()
        return sum(self._rows(self._exploded(spec, slices, self._combined(spec))) for spec in specs)

    def _group_by(self, spec: WindowSpec) -> Any:
        # Under a name of its own: counting the key column must not give a second column "key".
        aggregate = self._aggregate(spec.function, spec.column).alias(spec.partial)
        time = self._pl.col("time")
        if spec.is_tumbling:
            start = (time - spec.offset) // spec.slide * spec.slide + spec.offset
            return self._events.group_by(start.alias("start"), "key").agg(aggregate)
        if spec.size < OVERLAP_MANY * spec.slide:
            return self._exploded(spec, self._events, aggregate)
        # The offset goes back far enough for the windows that are already under way at the first event.
        offset = spec.offset - (spec.size - 1) // spec.slide * spec.slide
        every, period, back = f"{spec.slide}i", f"{spec.size}i", f"{offset}i"
        grouped = self._events.group_by_dynamic(
            time.set_sorted(), every=every, period=period, offset=back, group_by="key"
        )
        return grouped.agg(aggregate)

    def _exploded(self, spec: WindowSpec, rows: Any, aggregate: Any) -> Any:
        """Each row once per window that it is in, then one group-by."""
        time = self._pl.col("time")
        first = ((time - spec.offset - spec.size) // spec.slide + 1) * spec.slide + spec.offset
        starts = self._pl.int_ranges(first, time + 1, spec.slide).alias("start")
        return rows.with_columns(starts).explode("start").group_by("start", "key").agg(aggregate)

    def _combined(self, spec: WindowSpec) -> Any:
        column = self._pl.col
        if spec.function == "avg":
            return column(f"sum_{spec.column}").sum() / column(f"count_{spec.column}").sum()
        if spec.function == "range":
            return column(f"max_{spec.column}").max() - column(f"min_{spec.column}").min()
        return self._aggregate("sum" if spec.function == "count" else spec.function, spec.partial)

    def _aggregate(self, function: str, column: str | None) -> Any:
        if column is None:
            return self._pl.len()
        if function == "range":
            return self._pl.col(column).max() - self._pl.col(column).min()
        return getattr(self._pl.col(column), "mean" if function == "avg" else function)()

    def _rows(self, query: Any) -> int:
        return int(query.collect(engine="streaming").height)


def _sql(function: str, column: str | None) -> str:
    """An aggregate as SQL says it."""
    if function == "range":
        return f"max({column}) - min({column})"
    return f"{function}({column or '*'})"


def _main(peer: str, case: str, events: str, threads: str, repeats: str) -> None:
    table = workload(int(events)).table("time", "key", "value")
    specs = [] if case == "one" else [many(QUERIES)]
    ask = getattr(PEERS[peer](table, int(threads)), case)
    print(json.dumps(asdict(best_of(lambda: ask(*specs), int(repeats)))))


PEERS = {"duckdb": DuckDB, "polars": Polars}
if __name__ == "__main__":
    _main(*sys.argv[1:])
