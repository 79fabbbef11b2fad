"""A process of its own, for `test_table_kills.py`: a stream into a table of Delta or Iceberg on a real Spark, whose driver dies.

The formats have to be there when Spark starts, so it is not the Spark of the other tests. They are fetched by their Maven
coordinates; where that cannot be done, or no release of a format fits this Spark, the process ends with UNAVAILABLE and says why.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from headwater.simulator.stream import Loop
from headwater.spark.streaming.sinks.sink import Sink
from headwater.spark.streaming.sinks.table import TableSink
from headwater.spark.streaming.sinks.timeline import Claimant
from headwater.spark.types import spark_types
from spark.streaming.killed_run import KilledRun, played, texts

UNAVAILABLE = 3
KEPT = Path(__file__).parents[4] / ".cache" / "ivy"
#: By format and Spark: what is fetched. Of Iceberg the newest is for Spark 4.1, and does not load on 4.2.
JARS = {("delta", "4.2"): "io.delta:delta-spark_4.2_2.13:4.4.0"}
SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Its tables here are small, and Hadoop's other way to write local files starts a program for each.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}


def session(format: str, folder: Path) -> Any:
    """A Spark with a format, or the end of this process."""
    import pyspark
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    jars = JARS.get((format, ".".join(pyspark.__version__.split(".")[:2])))
    if jars is None:
        unavailable(f"no release of {format} is known that fits Spark {pyspark.__version__}")
    settings = {
        **SETTINGS[format],
        "spark.jars.packages": jars,
        "spark.jars.ivy": str(KEPT),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
    }
    if format == "iceberg":
        settings["spark.sql.catalog.lake.warehouse"] = str(folder / "lake")
    builder = SparkSession.builder.master("local[1]").appName("headwater tables")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        unavailable(f"Spark does not start with {jars}, which Maven's registry may not have given: {error}")


def unavailable(why: str) -> NoReturn:
    print(f"not here: {why}")
    sys.exit(UNAVAILABLE)


def table_name(format: str, name: str) -> str:
    return f"lake.db.{name}" if format == "iceberg" else name


class SessionSink(TableSink):
    """A table sink in a loop, which has no Spark: it is given one. Its table is created when it is first opened."""

    def __init__(self, spark: Any, format: str, name: str, mode: Any) -> None:
        super().__init__(name, mode)
        self._spark, self._kind = spark, format

    def open(self, stream: Claimant) -> None:
        if not self._spark.catalog.tableExists(self.name):
            columns = stream.columns(stream.only)
            kept = pa.schema([field for field in columns if not (self._is_upsert and field.name == "replaces")])
            create(self._spark, self._kind, self.name, kept)
        super().open(replace(stream, session=lambda: self._spark))


def create(spark: Any, format: str, name: str, columns: pa.Schema) -> None:
    _, struct = spark_types(columns)
    spark.createDataFrame([], struct).writeTo(name).using(format).create()


def sinks(spark: Any, format: str, table: str, mode: str):
    def new_sink(loop: Loop, name: str) -> Sink:
        own = table_name(format, table if name == "rows" else f"{table}_aside")
        return SessionSink(spark, format, own, mode if name == "rows" else "append")

    return new_sink


def given_rows(tables: Any, *but: str) -> list[dict[str, Any]]:
    """Rows as Spark has them."""
    fitted = (table.cast(spark_types(table.schema)[0]) for table in tables if len(table))
    return [{name: row[name] for name in row if name not in but} for table in fitted for row in table.to_pylist()]


def check(spark: Any, format: str, table: str, mode: str, run: KilledRun) -> None:
    found = spark.table(table_name(format, table)).toArrow().to_pylist()
    if mode == "append":
        assert texts(found) == texts(given_rows(run.loop.sink.batches.values()))
    else:
        assert sorted((row["query"], row["event_count"], row["revision"]) for row in found) == run.held
        given = set(texts(given_rows(run.loop.sink.batches.values(), "replaces")))
        assert Counter(texts(found)).most_common(1)[0][1] == 1 and given.issuperset(texts(found))
    aside = spark.table(table_name(format, f"{table}_aside")).toArrow().to_pylist()
    assert texts(aside) == texts(given_rows(run.loop.aside.batches.values()))


def main(format: str, mode: str, seed: int, kills: int) -> None:
    with tempfile.TemporaryDirectory(prefix="headwater-tables-") as place:
        folder = Path(place)
        os.chdir(folder)
        spark = session(format, folder)
        spark.sparkContext.setLogLevel("OFF")
        try:
            run = played(folder / "checkpoint", sinks(spark, format, "windows", mode), seed, kills)
            check(spark, format, "windows", mode, run)
            print(f"{format}, {mode}, seed {seed}: as the reference says after {run.died.total()} kills")
        finally:
            spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
