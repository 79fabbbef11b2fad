"""Count windows: the position of every event in the order, without sorting all of them.

Events are counted by bucket of time; running totals of the few buckets say at which position each begins. A bucket that no
window ends or begins in needs no order: all its events lie in the same windows. Only the others are cut finer, and what then
still holds a cut is sorted. After that a count window is a fixed window over the position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headwater.aggregations import Aggregation
from headwater.query import Query
from headwater.spark.native import Events
from headwater.spark.native_types import functions_of, quoted, window_of
from headwater.windows import CountWindow, Sliding

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

#: Columns that are added to the events: the position, and the time in ticks.
POSITION: Final = "__position"
TIME: Final = "__time"
FIRST: Final = "__first"
LAST: Final = "__last"
#: Buckets of time: enough for cut ones to hold few of all events, few enough to be sent to every task.
BUCKETS: Final = 4096
#: Buckets with a cut are divided once more, into so many in all: one event that lies far off makes the first buckets long.
FINER: Final = 65536


@dataclass(frozen=True, slots=True)
class Ordered:
    """Events and the columns that decide between those of one time."""

    events: Events
    ties: Sequence[str]


def families(queries: Sequence[Query]) -> list[list[Query]]:
    """Queries that count the same events in the same way share positions."""
    found: dict[object, list[Query]] = {}
    for query in queries:
        where = None if query.where is None else query.where.key()
        found.setdefault((where, _keys(query)), []).append(query)
    return list(found.values())


def _keys(query: Query) -> tuple[str, ...]:
    """Positions count the events of each of these keys for themselves."""
    assert isinstance(query.window, CountWindow)
    return query.keys if query.window.per == "key" else ()


def over_positions(query: Query) -> Query:
    """The same windows over the column of positions; the times of each are values like any other."""
    window = query.window
    assert isinstance(window, CountWindow)
    times = ((FIRST, Aggregation("min", TIME)), (LAST, Aggregation("max", TIME)))
    fixed = Sliding(window.size, window.step)
    return replace(query, window=fixed, aggregates=(*query.aggregates, *times), where=None, lateness=0)


def positioned(ordered: Ordered, family: Sequence[Query], columns: Sequence[str], exact: bool) -> DataFrame:
    """The events that count, with their positions: all of them ``exact``, or as good as exact for the windows of the family."""
    events, keys = ordered.events, _keys(family[0])
    f = functions_of(events.frame)
    kept = events.filtered(family[0])
    cut = gcd(*(number for query in family for number in _cuts(query)))
    names = {name: f"c{i}" for i, name in enumerate(dict.fromkeys([*columns, *keys, *ordered.ties]))}
    timed = kept.selectExpr(f"{events.time} AS t", *(f"{quoted(name)} AS {short}" for name, short in names.items()))
    placed = _in_buckets(timed, [names[key] for key in keys], None if exact else cut)
    by_time = [f.col("t"), *(f.col(names[name]) for name in ordered.ties)]
    whole = placed.where("NOT is_cut").withColumn("p", f.col("base"))
    sorted_ = placed.where("is_cut").withColumn("p", _number(placed, by_time, [names[key] for key in keys]))
    together = whole.unionByName(sorted_)
    given = [f"{names[name]} AS {quoted(name)}" for name in dict.fromkeys([*columns, *keys])]
    return together.selectExpr(f"p AS {POSITION}", f"t AS {TIME}", *given)


def _cuts(query: Query) -> tuple[int, int]:
    assert isinstance(query.window, CountWindow)
    return query.window.size, query.window.step


def _number(placed: DataFrame, by_time: Sequence[Column], keys: Sequence[str]) -> Any:
    """The place of an event in its bucket, and with it its position."""
    f, window = functions_of(placed), window_of(placed)
    over = window.partitionBy(*keys, "b", "f").orderBy(*by_time)
    return f.col("base") + f.row_number().over(over) - 1


def _in_buckets(timed: DataFrame, keys: Sequence[str], cut: int | None) -> DataFrame:
    """The events with their bucket ``b``, its finer part ``f``, the position ``base`` it begins at, and whether it ``is_cut``."""
    f = functions_of(timed)
    # Quotients before the difference: from the first time there is to the last it would not fit 64 bits.
    span = timed.agg(f.expr(f"max(t) div {BUCKETS}L - min(t) div {BUCKETS}L + 2L AS width"))
    bucketed = timed.crossJoin(f.broadcast(span)).selectExpr("*", "(t - pmod(t, width)) div width AS b")
    counted = bucketed.groupBy(*keys, "b").agg(f.count("*").alias("many"), f.lit(0).alias("since"))
    if keys:
        # Nobody knows how many buckets there are, so Spark looks for itself how to join; and keys share the work anyway.
        first = _begins(counted, keys, [], "b", cut)
        return _joined(bucketed, first, [*keys, "b"]).selectExpr("*", "0L AS f")
    first = _begins(counted, [], [], "b", cut)
    parts = f"width div greatest(1L, {FINER}L div greatest(1L, count_if(is_cut) OVER ())) + 1L AS part"
    first = first.crossJoin(f.broadcast(span)).selectExpr("b", "base", "is_cut", parts)
    coarse = _joined(bucketed, f.broadcast(first), ["b"]).selectExpr("*", "pmod(t, width) div part AS f")
    recounted = coarse.where("is_cut").groupBy("b", "f").agg(f.count("*").alias("many"), f.first("base").alias("since"))
    second = _begins(recounted, [], ["b"], "f", cut).selectExpr("b", "f", "base AS fine_base", "is_cut AS fine_cut")
    both = coarse.join(f.broadcast(second), ["b", "f"], "left")
    kept = [name for name in coarse.columns if name not in ("base", "is_cut")]
    return both.selectExpr(*kept, "coalesce(fine_base, base) AS base", "coalesce(fine_cut, is_cut) AS is_cut")


def _begins(counted: DataFrame, keys: Sequence[str], within: Sequence[str], bucket: str, cut: int | None) -> DataFrame:
    """Where each bucket begins, ``since`` on, and whether a window begins or ends inside it."""
    f, window = functions_of(counted), window_of(counted)
    # Without keys this is one task, but over the few buckets, not over events.
    over = window.partitionBy(*keys, *within).orderBy(bucket).rowsBetween(window.unboundedPreceding, -1)
    base = f.col("since") + f.coalesce(f.sum("many").over(over), f.lit(0))
    began = counted.select(*keys, *within, bucket, "many", base.alias("base"))
    inside = "true" if cut is None else f"base div {cut}L != (base + many - 1L) div {cut}L"
    return began.selectExpr(*keys, *within, bucket, "base", f"{inside} AS is_cut")


def _joined(events: DataFrame, buckets: DataFrame, names: Sequence[str]) -> DataFrame:
    """Events beside their buckets. Null is a key like any other."""
    renamed = buckets.withColumnsRenamed({name: f"{name}_" for name in names})
    same = functions_of(events).expr(" AND ".join(f"{name} <=> {name}_" for name in names))
    return events.join(renamed, same).drop(*(f"{name}_" for name in names))


def full_windows(rows: DataFrame, family: Sequence[Query], wanted: StructType) -> DataFrame:
    """Result rows of windows over positions as those of count windows: only full ones, with their first and last time."""
    f, over = functions_of(rows), window_of(rows)
    keys = _keys(family[0])
    window = over.partitionBy("query", "window_start", *(quoted(key) for key in keys))
    spanned = rows.select(
        "*",
        f.sum("event_count").over(window).alias("__members"),
        f.min(FIRST).over(window).alias("__since"),
        f.max(LAST).over(window).alias("__until"),
    )
    full = spanned.where("__members = window_end - window_start")
    times = {"first_time": "__since", "last_time": "__until"}
    picked = [
        (f.col(times.get(field.name, quoted(field.name))) if field.name in {*rows.columns, *times} else f.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in wanted.fields
    ]
    return full.select(*picked)


def schema_with_positions(schema: pa.Schema) -> pa.Schema:
    """The columns of events that have positions."""
    return schema.append(pa.field(POSITION, pa.int64())).append(pa.field(TIME, pa.int64()))
