"""A process of its own, for `test_table_kills.py`: a stream into a table of Delta on a real Spark, whose driver dies.

Delta has to be there when Spark starts, so it is not the Spark of the other tests. It is fetched by its Maven coordinates; where
that cannot be done, or no release fits this Spark, the process ends with UNAVAILABLE and says why.
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
#: What is fetched for a Spark.
JARS = {"4.2": "io.delta:delta-spark_4.2_2.13:4.4.0"}
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Its tables here are small, and Hadoop's other way to write local files starts a program for each.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.jars.ivy": str(KEPT),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
}


def session(folder: Path) -> Any:
    """A Spark with Delta, or the end of this process."""
    import pyspark
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    jars = JARS.get(".".join(pyspark.__version__.split(".")[:2]))
    if jars is None:
        unavailable(f"no release of Delta is known that fits Spark {pyspark.__version__}")
    settings = {**SETTINGS, "spark.jars.packages": jars, "spark.sql.warehouse.dir": str(folder / "warehouse")}
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


class SessionSink(TableSink):
    """A table sink in a loop, which has no Spark: it is given one. Its table is created when it is first opened."""

    def __init__(self, spark: Any, name: str, mode: Any) -> None:
        super().__init__(name, mode)
        self._spark = spark

    def open(self, stream: Claimant) -> None:
        if not self._spark.catalog.tableExists(self.name):
            columns = stream.columns(stream.only)
            kept = pa.schema([field for field in columns if not (self._is_upsert and field.name == "replaces")])
            _, struct = spark_types(kept)
            self._spark.createDataFrame([], struct).writeTo(self.name).using("delta").create()
        super().open(replace(stream, session=lambda: self._spark))


def sinks(spark: Any, mode: str):
    def new_sink(loop: Loop, name: str) -> Sink:
        return SessionSink(spark, "windows", mode) if name == "rows" else SessionSink(spark, "aside", "append")

    return new_sink


def given_rows(tables: Any, *but: str) -> list[dict[str, Any]]:
    """Rows as Spark has them."""
    fitted = (table.cast(spark_types(table.schema)[0]) for table in tables if len(table))
    return [{name: row[name] for name in row if name not in but} for table in fitted for row in table.to_pylist()]


def check(spark: Any, mode: str, run: KilledRun) -> None:
    found = spark.table("windows").toArrow().to_pylist()
    if mode == "append":
        assert texts(found) == texts(given_rows(run.loop.sink.batches.values()))
    else:
        assert sorted((row["query"], row["event_count"], row["revision"]) for row in found) == run.held
        given = set(texts(given_rows(run.loop.sink.batches.values(), "replaces")))
        assert Counter(texts(found)).most_common(1)[0][1] == 1 and given.issuperset(texts(found))
    aside = spark.table("aside").toArrow().to_pylist()
    assert texts(aside) == texts(given_rows(run.loop.aside.batches.values()))


def main(mode: str, seed: int, kills: int) -> None:
    with tempfile.TemporaryDirectory(prefix="headwater-tables-") as place:
        folder = Path(place)
        os.chdir(folder)
        spark = session(folder)
        spark.sparkContext.setLogLevel("OFF")
        try:
            run = played(folder / "checkpoint", sinks(spark, mode), seed, kills)
            check(spark, mode, run)
            print(f"{mode}, seed {seed}: as the reference says after {run.died.total()} kills")
        finally:
            spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
