"""Count windows in Spark SQL: the position of every event in the global order, without sorting all events.

Events are counted by bucket of time; running totals of the few buckets say at which position each begins. A bucket that no
window ends or begins in needs no order: all its events lie in the same windows. Only the others are sorted, each for itself.
After that a count window is a fixed window over the position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headwater.language.aggregations import Aggregation
from headwater.language.query import Query
from headwater.language.windows import CountWindow, Sliding
from headwater.spark.native.plan import EventFrame, condition_key
from headwater.spark.native.types import functions_of, quoted, window_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

#: Columns that are added to the events: the position, and the time in ticks.
POSITION: Final = "__position"
TIME: Final = "__time"
FIRST: Final = "__first"
LAST: Final = "__last"
#: Two to this power are the buckets of time: enough for cut ones to hold few of all events, few enough to be sent to every task.
BUCKET_BITS: Final = 16


def families(queries: Sequence[Query]) -> list[list[Query]]:
    """Queries that count the same events in the same way share positions."""
    found: dict[object, list[Query]] = {}
    for query in queries:
        found.setdefault((condition_key(query), _keys(query)), []).append(query)
    return list(found.values())


def _keys(query: Query) -> tuple[str, ...]:
    """Positions count the events of each of these keys for themselves."""
    assert isinstance(query.window, CountWindow)
    return query.keys if query.window.per == "key" else ()


def step_of(queries: Iterable[Query]) -> int:
    """The largest step of which the sizes and steps of all these count windows are multiples: all cuts lie at multiples of it."""
    return gcd(*(number for query in queries for number in sizes_of(query)))


def sizes_of(query: Query) -> tuple[int, int]:
    assert isinstance(query.window, CountWindow)
    return query.window.size, query.window.step


def over_positions(query: Query) -> Query:
    """A count window as a fixed window over positions; its first and last time are aggregates like any other."""
    window = query.window
    assert isinstance(window, CountWindow)
    times = ((FIRST, Aggregation("min", TIME)), (LAST, Aggregation("max", TIME)))
    fixed = Sliding(window.size, window.step)
    return replace(query, window=fixed, aggregates=(*query.aggregates, *times), where=None, lateness=0)


def positioned(
    events: EventFrame, ties: Sequence[str], family: Sequence[Query], columns: Sequence[str], exact: bool
) -> DataFrame:
    """The events that count, with their positions: all of them ``exact``, or as good as exact for the windows of the family.

    ``ties``: the columns that decide between events of one time.
    """
    keys = _keys(family[0])
    f = functions_of(events.frame)
    kept = events.filtered(family[0])
    cut = step_of(family)
    names = {name: f"c{i}" for i, name in enumerate(dict.fromkeys([*columns, *keys, *ties]))}
    timed = kept.selectExpr(f"{events.time} AS t", *(f"{quoted(name)} AS {short}" for name, short in names.items()))
    placed = _in_buckets(timed, [names[key] for key in keys], None if exact else cut)
    by_time = [f.col("t"), *(f.col(names[name]) for name in ties)]
    whole = placed.where("NOT is_cut").withColumn("p", f.col("base"))
    sorted_ = placed.where("is_cut").withColumn("p", _number(placed, by_time, [names[key] for key in keys]))
    together = whole.unionByName(sorted_)
    given = [f"{names[name]} AS {quoted(name)}" for name in dict.fromkeys([*columns, *keys])]
    return together.selectExpr(f"p AS {POSITION}", f"t AS {TIME}", *given)


def _number(placed: DataFrame, by_time: Sequence[Column], keys: Sequence[str]) -> Any:
    """The place of an event in its bucket, and with it its position."""
    f, window = functions_of(placed), window_of(placed)
    return f.col("base") + f.row_number().over(window.partitionBy(*keys, "b").orderBy(*by_time)) - 1


def _in_buckets(timed: DataFrame, keys: Sequence[str], cut: int | None) -> DataFrame:
    """The events with their bucket ``b``, the position ``base`` it begins at, and whether it ``is_cut``."""
    f = functions_of(timed)
    # Whole numbers only: Spark may work this out more than once, and must find the same each time. Halves come first, for
    # from the first time there is to the last the span would not fit 64 bits.
    bits = f"greatest(0, length(bin((max(t) >> 1) - (min(t) >> 1))) + 1 - {BUCKET_BITS})"
    width = timed.selectExpr(f"CAST({bits} AS INT) AS shift", "min(t) AS low").selectExpr(
        "shift", "low >> shift AS low"
    )
    shift, low = (width.select(name).scalar() for name in ("shift", "low"))
    bucketed = timed.withColumn("b", f.call_function("shiftright", f.col("t"), shift) - low)
    counted = bucketed.groupBy(*keys, "b").agg(f.count("*").alias("many"))
    # Without keys this is one task, but over the few buckets, not over events. (As text: Connect warns of it otherwise.)
    apart = f"PARTITION BY {', '.join(keys)} " if keys else ""
    before = f"sum(many) OVER ({apart}ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    began = counted.selectExpr("*", f"coalesce({before}, 0L) AS base")
    inside = "true" if cut is None else f"base div {cut}L != (base + many - 1L) div {cut}L"
    begins = began.selectExpr(*keys, "b", "base", f"{inside} AS is_cut")
    # With keys the number of buckets is unknown, so Spark chooses how to join.
    return _joined(bucketed, begins, [*keys, "b"]) if keys else _looked_up(bucketed, begins)


def _looked_up(events: DataFrame, buckets: DataFrame) -> DataFrame:
    """Events beside their buckets, which are few enough for one array: finding a place in it costs less than any join."""
    f = functions_of(events)
    numbers = events.sparkSession.range((1 << BUCKET_BITS) + 2)
    coded = buckets.selectExpr("b", "base << 1 | CAST(is_cut AS BIGINT) AS code")
    dense = numbers.join(coded, numbers["id"] == coded["b"], "left").selectExpr(
        "struct(id, coalesce(code, 0L) AS code) AS s"
    )
    table = dense.selectExpr("transform(array_sort(collect_list(s)), s -> s.code) AS codes").scalar()
    found = events.withColumn("code", f.get(table, f.col("b").cast("int")))
    return found.selectExpr(*events.columns, "code >> 1 AS base", "code & 1L = 1L AS is_cut")


def _joined(events: DataFrame, buckets: DataFrame, names: Sequence[str]) -> DataFrame:
    """Events beside their buckets. Null is a key like any other."""
    renamed = buckets.withColumnsRenamed({name: f"{name}_" for name in names})
    same = functions_of(events).expr(" AND ".join(f"{name} <=> {name}_" for name in names))
    return events.join(renamed, same).drop(*(f"{name}_" for name in names))


def full_windows(rows: DataFrame, family: Sequence[Query], wanted: StructType) -> DataFrame:
    """Result rows of windows over positions as those of count windows: only full ones, with their first and last time."""
    f = functions_of(rows)
    full = _spanned(rows, family).where("__members = window_end - window_start")
    times = {"first_time": "__since", "last_time": "__until"}
    picked = [
        (f.col(times.get(field.name, quoted(field.name))) if field.name in {*rows.columns, *times} else f.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in wanted.fields
    ]
    return full.select(*picked)


def _spanned(rows: DataFrame, family: Sequence[Query]) -> DataFrame:
    """The rows, each with the events and the times of its whole window, over all keys."""
    f, over = functions_of(rows), window_of(rows)
    if not any(query.keys for query in family):
        # A window is one row then.
        return rows.selectExpr("*", "event_count AS __members", f"{FIRST} AS __since", f"{LAST} AS __until")
    keys = _keys(family[0])
    window = over.partitionBy("query", "window_start", *(quoted(key) for key in keys))
    return rows.select(
        "*",
        f.sum("event_count").over(window).alias("__members"),
        f.min(FIRST).over(window).alias("__since"),
        f.max(LAST).over(window).alias("__until"),
    )


def schema_with_positions(schema: pa.Schema) -> pa.Schema:
    """The columns of events that have positions."""
    return schema.append(pa.field(POSITION, pa.int64())).append(pa.field(TIME, pa.int64()))
