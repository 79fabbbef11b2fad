"""Micro-batches as files of a folder: Spark reads one at each trigger, in the order in which they were put."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from waiting import SECONDS_MAX

LAST = pa.field("last", pa.bool_())


class Folder:
    """A folder that grows."""

    def __init__(self, place: Path, schema: pa.Schema) -> None:
        self.place = place / "in"
        self.place.mkdir(parents=True)
        self.schema = schema
        self.count = 0

    def put(self, *batches: Sequence[dict[str, Any]]) -> None:
        for rows in batches:
            path = self.place / f"{self.count:04d}.parquet"
            pq.write_table(pa.Table.from_pylist(list(rows), schema=self.schema), path)
            # Spark goes by the time of change.
            os.utime(path, (1_700_000_000 + self.count,) * 2)
            self.count += 1

    def stream(self, spark: Any) -> Any:
        from headwater.spark.types import spark_types

        reader = spark.readStream.schema(spark_types(self.schema)[1]).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.place))


def run(rows: Any, checkpoint: Path, mode: str = "append", **sink: Any) -> Any:
    """Let a stream take in all that is there."""
    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    if "each" in sink:
        writer = writer.foreachBatch(sink["each"])
    elif "name" in sink:
        writer = writer.format("memory").queryName(sink["name"])
    else:
        writer = writer.format("parquet").option("path", str(sink["path"]))
    query = writer.start()
    assert query.awaitTermination(SECONDS_MAX), "the stream does not end"
    return query
