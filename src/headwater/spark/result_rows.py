"""Result rows as users of Spark see them: times as timestamps, positions of count windows, and one query's own columns.

Parts of a plan pass rows on as they are inside, in ticks; the last projection of each door is made here, of Spark's own
expressions. What it does is what `engine.results.shape` does with tables of Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.engine.results.bounds import TICKS, bounds_type, shown_time
from headwater.engine.results.shape import BOUNDS, EVENT_TIMES, POSITIONS, ResultShape
from headwater.errors import QueryError
from headwater.language.arguments import check_queries
from headwater.language.query import Query
from headwater.language.times import FOREVER, TICK_NANOS
from headwater.spark.native.types import floor_div, functions_of, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def spark_shape(
    queries: Sequence[Query], schema: pa.Schema, time: str, unit: str, *, is_stream: bool, is_live: bool = False
) -> ResultShape:
    """The shape of rows on Spark, whose timestamps have microseconds; a window that needs finer bounds is refused."""
    times = shown_time(time, schema)
    if times != TICKS:
        times = pa.timestamp("us", times.tz)
        for query in queries:
            if bounds_type(times, [query], unit).unit == "ns":
                raise QueryError(
                    f"query {query.name!r}: window is {query.window!r}: Spark's timestamps have microseconds, so give lengths "
                    "that are whole microseconds, or times as integers"
                )
    shape = ResultShape.of(queries, times, unit, is_stream=is_stream or is_live)
    return shape if not is_live else ResultShape(shape.times, unit, shape.counted, True)


def shown_rows(rows: DataFrame, queries: Sequence[Query], shape: ResultShape) -> DataFrame:
    """Result rows as users see them; other columns stay as they are."""
    f = functions_of(rows)
    counted = _counted(queries, shape)
    picked = []
    for name in rows.columns:
        if name == "window_end":
            picked += [f.expr(sql).alias(shown) for shown, sql in _place(BOUNDS, counted, shape)]
        elif name in EVENT_TIMES:
            picked.append(f.expr(_time(name, shape)).alias(name))
        elif name == "replaces":
            if shape.has_replaces:
                picked.append(f.expr(_replaces(counted, shape)).alias(name))
        elif name != "window_start":
            picked.append(rows[quoted(name)])
    return rows.select(*picked)


def shown_aside(aside: DataFrame, shape: ResultShape) -> DataFrame:
    """The side output as users see it."""
    f = functions_of(aside)
    return aside.select(*(f.expr(_aside(name, name, shape)).alias(name) for name in aside.columns))


def shown_all(rows: DataFrame, queries: Sequence[Query], shape: ResultShape, names: Iterable[str]) -> DataFrame:
    """The rows of ``output="all"``: those of results, and in ``aside`` a row of the side output, whose columns are ``names``."""
    shown = shown_rows(rows, queries, shape)
    fields = ", ".join(f"'{name}', {_aside(name, f'aside.{name}', shape)}" for name in names)
    return shown.withColumn(
        "aside", functions_of(rows).expr(f"CASE WHEN aside IS NOT NULL THEN named_struct({fields}) END")
    )


def by_query(rows: DataFrame, queries: Query | Iterable[Query]) -> dict[str, DataFrame]:
    """The rows of each query with its own columns: ``hw.by_query(rows, queries)["load"]``.

    ``rows`` are what `hw.read` or `hw.aggregate` gave for these queries, or the same read back from where they were written.
    """
    f = functions_of(rows)
    found = {}
    for query in check_queries(queries):
        own = query.own_columns(may_revise="replaces" in rows.columns)
        missing = [name for name in own if name not in rows.columns]
        if missing:
            raise QueryError(f"query {query.name!r}: rows have no column {missing[0]!r}, so they are not of this query")
        found[query.name] = rows.where(f.col("query") == f.lit(query.name)).select(*map(quoted, own))
    return found


# --- expressions ---


def _counted(queries: Sequence[Query], shape: ResultShape) -> str:
    """The condition that bounds of a row are positions."""
    names = [query.name for query in queries]
    if not shape.counted or shape.counted.issuperset(names):
        return "true" if shape.counted else "false"
    return f"query IN ({', '.join(_literal(name) for name in names if name in shape.counted)})"


def _literal(text: str) -> str:
    # By its bytes: then no character of a name means anything to SQL.
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _place(bounds: Sequence[str], counted: str, shape: ResultShape) -> Iterator[tuple[str, str]]:
    """The columns that say which window a row is of; ``bounds``: its bounds as they are inside."""
    for name, bound in zip(BOUNDS, bounds, strict=True):
        yield name, _time(bound if counted == "false" else f"CASE WHEN NOT ({counted}) THEN {bound} END", shape)
    if shape.counted:
        for name, bound in zip(POSITIONS, bounds, strict=True):
            yield name, f"CASE WHEN {counted} THEN {bound} END"


def _replaces(counted: str, shape: ResultShape) -> str:
    place = _place([f"one.{name}" for name in BOUNDS], counted, shape)
    fields = ", ".join(f"'{name}', {sql}" for name, sql in (*place, ("revision", "one.revision")))
    return f"transform(replaces, one -> named_struct({fields}))"


def _aside(name: str, column: str, shape: ResultShape) -> str:
    if shape.times == TICKS or name not in ("time", "watermark"):
        return column
    return _time(column if name == "time" else f"nullif({column}, {FOREVER}L)", shape)


def _time(ticks: str, shape: ResultShape) -> str:
    """Ticks as a timestamp, in SQL."""
    if shape.times == TICKS:
        return ticks
    tick, micro = TICK_NANOS[shape.unit], TICK_NANOS["us"]
    micros = floor_div(f"({ticks})", micro // tick) if tick < micro else ticks
    if tick > micro:
        micros = f"({ticks}) * {tick // micro}L"
    if shape.times.tz is not None:
        return f"timestamp_micros({micros})"
    # Not by a cast of a timestamp, which would depend on the zone of the session.
    return f"TIMESTAMP_NTZ '1970-01-01 00:00:00' + INTERVAL '0.000001' SECOND * ({micros})"
