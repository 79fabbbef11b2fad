"""What Spark's own streaming can say: `window` in a `groupBy` with a watermark, in append mode.

In the form in which it was fastest on two cores: as many shuffle partitions as cores, no sink to speak of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.bench.stream.timing import StreamBench, drained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: Settings of the two state stores.
STORES: dict[str, dict[str, str]] = {
    "HDFS-backed store": {},
    "RocksDB": {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    },
}
COLUMNS = "time timestamp, key bigint, value double"
AGGREGATES = ("count(*) AS event_count", "sum(value) AS answer")


def session(spark: SparkSession, store: str, tasks: int) -> SparkSession:
    """A session of its own: what is set in it does not touch headwater's."""
    own = spark.newSession()
    settings = {"spark.sql.shuffle.partitions": str(tasks), "spark.sql.session.timeZone": "UTC", **STORES[store]}
    for name, value in settings.items():
        own.conf.set(name, value)
    return own


def files(spark: SparkSession, folder: Path, files_per_batch: int) -> DataFrame:
    """The files of both sources in the order of their numbers, ``files_per_batch`` at a time."""
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", files_per_batch)
    return reader.parquet(f"{folder}/*/").withWatermark("time", "0 seconds")


def windowed(events: DataFrame, size: str, slide: str | None = None) -> DataFrame:
    """Count and sum by window and key."""
    from pyspark.sql import functions as F

    return events.groupBy(F.window("time", size, slide), "key").agg(*map(F.expr, AGGREGATES))


def union(events: DataFrame, lengths: Sequence[int]) -> DataFrame:
    """The windows of all lengths as one query."""
    each = [windowed(events, f"{length} seconds") for length in lengths]
    return reduce(lambda one, other: one.unionAll(other), each)


@contextmanager
def started(frames: Sequence[DataFrame], bench: StreamBench) -> Iterator[list[StreamingQuery]]:
    """Queries that run, each in append mode to nowhere; stopped at the end."""
    queries: list[StreamingQuery] = []
    try:
        for frame in frames:
            writer = frame.writeStream.format("noop").outputMode("append")
            queries.append(writer.option("checkpointLocation", str(bench.place())).start())
        yield queries
    finally:
        for query in queries:
            query.stop()


class WorkedOff:
    """Counts the events that a query has worked off, by the batches of files that Spark says are done."""

    def __init__(self, query: StreamingQuery, batch_events: int) -> None:
        self._query = query
        self._batch_events = batch_events

    def __call__(self) -> int:
        report: Any = self._query.lastProgress
        if report is None or report["sources"][0]["endOffset"] is None:
            return 0
        # Rows are counted once for each part of a union that reads them, batches of files are not.
        end = json.loads(report["sources"][0]["endOffset"])
        return (int(end["logOffset"]) + 1) * self._batch_events


def rate(bench: StreamBench, frames: Sequence[DataFrame], events: int, batch_events: int) -> float:
    """Events per second that all of these queries, run together, work off behind their first batch."""
    with started(frames, bench) as queries:
        done = [WorkedOff(query, batch_events) for query in queries]

        def is_running() -> bool:
            return all(query.isActive for query in queries)

        return drained(is_running, lambda: min(each() for each in done), events, batch_events)


def rows(bench: StreamBench, frame: DataFrame) -> list[Any]:
    """All rows that a query gives for the files that are there."""
    found: list[Any] = []
    writer = frame.writeStream.foreachBatch(lambda batch, number: found.extend(batch.collect()))
    writer = writer.outputMode("append").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(bench.place())).start()
    query.awaitTermination()
    return found
