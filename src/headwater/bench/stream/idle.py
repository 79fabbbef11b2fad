"""The least that a stream on Spark can be: a source of a few partitions with hardly a row, and a function that collects them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from headwater.spark.streaming.start.prepare import cheap_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "headwater_bench_idle"


class IdleSource(DataSource):
    """A source that always has a next batch, with one row for each of ``partitions`` and nothing else."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "partition long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return IdleReader(int(self.options["partitions"]))


class IdleReader(DataSourceStreamReader):
    """The reader of the idle source; its offsets are the numbers of batches."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": -1}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        return {"batch": start["batch"] + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


def start_idle(spark: SparkSession, partitions: int, checkpoint: Path, is_cheap: bool) -> StreamingQuery:
    """Start a stream of empty batches, as fast as Spark goes; ``is_cheap``: with the settings that headwater's streams have."""
    spark.dataSource.register(IdleSource)
    frame = spark.readStream.format(NAME).option("partitions", partitions).load()
    writer = frame.writeStream.foreachBatch(_collect).option("checkpointLocation", str(checkpoint))
    with cheap_batches(spark) if is_cheap else nullcontext():
        return writer.start()


def _collect(frame: DataFrame, batch: int) -> None:
    frame.collect()
