"""A driver of its own, for `test_cluster.py`: jobs on the cluster whose address it is given, rows left as Arrow files.

What it says on stdout, line by line, is for the test that waits for it.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.feather

import headwater as hw
from headwater.spark import aggregate, read
from waiting import wait_until

SOURCES = 8
EVENTS = 300
QUERIES = [
    hw.query("mean", hw.sliding(200, 100), keys=["key"], mean=hw.avg("value"), n=hw.count()),
    hw.query("rests", hw.session(3), total=hw.sum("value"), mid=hw.median("value")),
    hw.query("hundreds", hw.count_tumbling(100), last=hw.last("value"), different=hw.count_distinct("value")),
]


@dataclass(frozen=True)
class Paced:
    """Events of one source; the second half of them waits until the file ``gate`` is there, if one is named."""

    number: int
    gate: str = ""

    def table(self) -> pa.Table:
        random = np.random.default_rng(self.number)
        times = np.sort(random.integers(0, 2_000, EVENTS))
        values = random.normal(size=EVENTS) * 10.0 ** random.integers(-8, 8, EVENTS)
        return pa.table({"time": times, "key": random.integers(0, 3, EVENTS), "value": values})

    def batches(self, batch_events: int) -> Iterator[pa.RecordBatch]:
        first, second = self.table().to_batches(max_chunksize=EVENTS // 2)
        yield first
        if self.gate:
            wait_until(Path(self.gate).exists, "the gate is open")
        yield second


def paced(gate: str = "") -> list[Paced]:
    """The last half of the sources wait."""
    return [Paced(number, gate if number >= SOURCES // 2 else "") for number in range(SOURCES)]


def session(master: str, folder: Path, **more: str):
    """A driver's Spark on a small cluster."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.cores.max": "2",
    }
    builder = SparkSession.builder.master(master).appName("headwater test")
    for name, value in (settings | more).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(master: str, folder: Path) -> None:
    # Both executors there before the first task.
    with session(master, folder, **{"spark.scheduler.minRegisteredResourcesRatio": "1.0"}) as spark:
        spark.sparkContext.setLogLevel("OFF")

        def save(name, frame) -> None:
            pa.feather.write_feather(frame.toArrow(), folder / f"{name}.arrow")
            print(f"saved {name}", flush=True)

        interrupted = Thread(
            target=save, args=("during", read(spark, paced(str(folder / "gate")), QUERIES, tasks=SOURCES))
        )
        interrupted.start()
        wait_until(lambda: has_come_to_the_gate(spark.sparkContext.statusTracker()), "half of the sources are read")
        print("at the gate", flush=True)
        interrupted.join()
        frame = spark.read.parquet(str(folder / "events"))
        save("after", aggregate(frame, QUERIES, order=["source", "offset"]))


def has_come_to_the_gate(tracker) -> bool:
    """Sources that need not wait are read, on either executor; both read others now."""
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return any(
        stage and stage.numTasks == SOURCES and stage.numCompletedTasks == SOURCES // 2 and stage.numActiveTasks == 2
        for stage in stages
    )


if __name__ == "__main__":
    # By its own name, under which the workers will look for `Paced`.
    from spark.cluster_job import main as run

    run(sys.argv[1], Path(sys.argv[2]))
