"""The ways to answer a question that the Spark benchmark compares: headwater's own, and those of Spark alone.

Every way is a DataFrame with a row per window, key and query, the events in it as ``event_count`` and its sum (or median) as
``answer``; so two ways are compared by their totals before they are timed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import headwater as hw
from headwater.bench.common.workload import SECOND
from headwater.bench.spark.data import EventFiles
from headwater.language.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT_WINDOW = 1_000_000
COUNT_WINDOWS_MIN = 4
SESSION_GAP = "50 ms"
#: A hundred different lengths from one to ten minutes, in whole seconds.
LENGTHS = [round(60 + number * 540 / 99) for number in range(100)]


@dataclass(frozen=True, slots=True)
class Way:
    """A name, and the DataFrame over some files; nothing is read before it is written somewhere."""

    name: str
    frame: Callable[[SparkSession, EventFiles], DataFrame]


def squares(values: NDArray[Any]) -> float:
    """The partial of the own aggregate: the sum of squares."""
    floats = values.astype(np.float64, copy=False)
    return float(np.dot(floats, floats))


#: An own aggregate as a user writes one: workers find it in this module.
ENERGY = hw.aggregate_of("energy", squares, operator.add, float, 0.0)


# headwater's own ways


def reading(queries: Callable[[EventFiles], list[hw.Query]]) -> Way:
    """`hw.read`: leaves inside the readers of the files."""
    return Way("hw.read", lambda spark, events: hw.read(spark, list(events.files), queries(events)))


def aggregating(queries: Callable[[EventFiles], list[hw.Query]], **settings: Any) -> Way:
    """`hw.aggregate` over the DataFrame that Spark itself reads."""

    def frame(spark: SparkSession, events: EventFiles) -> DataFrame:
        return hw.aggregate(files(spark, events), queries(events), **settings)

    return Way("hw.aggregate", frame)


def every(*queries: hw.Query) -> Callable[[EventFiles], list[hw.Query]]:
    """The same queries whatever the events."""
    return lambda events: list(queries)


def four(window: Window) -> hw.Query:
    """Count, sum, min and max by key."""
    aggregates: dict[str, Any] = {"low": hw.min("value"), "high": hw.max("value")}
    return hw.query("four", window, keys=["key"], events=hw.count(), answer=hw.sum("value"), **aggregates)


def two(window: Window, name: str = "two") -> hw.Query:
    """Count and sum by key."""
    return hw.query(name, window, keys=["key"], events=hw.count(), answer=hw.sum("value"))


def hundred(lengths: Sequence[int]) -> list[hw.Query]:
    """Count and sum by key, for each of the lengths."""
    return [two(hw.tumbling(f"{length} s"), f"length{length}") for length in lengths]


def counted(answer: Any) -> Callable[[EventFiles], list[hw.Query]]:
    """Count windows over all events."""
    return lambda events: [
        hw.query("counted", hw.count_tumbling(count_window(events)), events=hw.count(), answer=answer)
    ]


def count_window(events: EventFiles) -> int:
    """A million events per window, or fewer so that there are four windows at least.

    >>> count_window(EventFiles(40_000_000, ())), count_window(EventFiles(400_000, ()))
    (1000000, 100000)
    """
    return min(COUNT_WINDOW, events.count // COUNT_WINDOWS_MIN)


# Spark's ways


def files(spark: SparkSession, events: EventFiles) -> DataFrame:
    """Spark's own reader; it is told the columns, so that it need not look for them."""
    value = "double" if "float-" in events.files[0] else "bigint"
    return spark.read.schema(f"time bigint, key bigint, value {value}").parquet(*events.files)


def grouped(name: str, start: str, *aggregates: str) -> Way:
    """One `groupBy` by key and the start of the window; everything is in Spark's SQL."""
    return Way(name, lambda spark, events: by_start(files(spark, events), start, *aggregates))


def by_start(events: DataFrame, start: str, *aggregates: str) -> DataFrame:
    """The aggregates and the number of events by key and ``start``."""
    from pyspark.sql import functions as F

    chosen = map(F.expr, ("count(*) AS event_count", *aggregates))
    return events.groupBy(F.expr(start).alias("start"), "key").agg(*chosen)


def tumbling(*aggregates: str) -> list[Way]:
    """A second by key."""
    window = "window(timestamp_micros(time), '1 second')"
    return [grouped("window()", window, *aggregates), grouped("integer division", f"time div {SECOND}", *aggregates)]


def sliding(*aggregates: str) -> list[Way]:
    """Ten seconds every second, by key."""
    return [grouped("window()", "window(timestamp_micros(time), '10 seconds', '1 second')", *aggregates)]


def exploded_sliding(*aggregates: str) -> Way:
    """Sliding windows by hand: each event once for each of its windows, which a user has to think of."""
    starts = f"explode(sequence(time div {SECOND} - 9, time div {SECOND})) AS start"

    def frame(spark: SparkSession, events: EventFiles) -> DataFrame:
        return by_start(files(spark, events).selectExpr("key", "value", starts), "start", *aggregates)

    return Way("explode", frame)


def sessions() -> list[Way]:
    """Sessions by key."""
    start = "session_window(timestamp_micros(time), '50 milliseconds')"
    return [grouped("session_window", start, "sum(value) AS answer")]


def hundred_lengths(lengths: Sequence[int]) -> list[Way]:
    """A union of a group-by for each length."""

    def union(spark: SparkSession, events: EventFiles) -> DataFrame:
        from pyspark.sql import functions as F

        read = files(spark, events)
        aggregates = [F.expr("count(*) AS event_count"), F.expr("sum(value) AS answer")]
        each = [
            read.groupBy(F.lit(length).alias("query"), F.expr(f"time div {length * SECOND}").alias("start"), "key").agg(
                *aggregates
            )
            for length in lengths
        ]
        return reduce(lambda one, other: one.unionAll(other), each)

    return [Way("a union", union)]


def row_numbers(answer: str) -> list[Way]:
    """Count windows over all events, by the number of a row; ties of time in any order, which is the cheapest for Spark."""

    def frame(spark: SparkSession, events: EventFiles) -> DataFrame:
        from pyspark.sql import Window as Over
        from pyspark.sql import functions as F

        numbered = files(spark, events).withColumn("number", F.row_number().over(Over.orderBy("time")) - 1)
        windows = numbered.groupBy(F.expr(f"number div {count_window(events)}"))
        return windows.agg(F.count("*").alias("event_count"), F.expr(f"{answer} AS answer"))

    return [Way("row_number", frame)]


def floor() -> Way:
    """`mapInArrow` that reads every batch and yields one row per partition."""

    def frame(spark: SparkSession, events: EventFiles) -> DataFrame:
        return files(spark, events).mapInArrow(one_row, "event_count bigint")

    return Way("mapInArrow", frame)


def one_row(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows there were."""
    yield pa.record_batch({"event_count": pa.array([sum(batch.num_rows for batch in batches)], pa.int64())})
