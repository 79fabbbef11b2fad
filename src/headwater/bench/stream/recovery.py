"""How long a stream is silent when one of the two executors of a cluster is killed: seconds until the next result row.

The row counts only if its window ends after the kill: what was on its way then says nothing about recovering. Run as a program,
this is the driver of that stream; it says on stdout which window's row has come.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import headwater as hw
from headwater.bench.common.report import at_most
from headwater.bench.common.workload import SECOND
from headwater.bench.load.driver import now_us, start_load
from headwater.bench.load.schedule import SCHEMA, Schedule
from headwater.bench.spark.ways import two
from headwater.bench.stream.cluster import SparkCluster, started, wait_for
from headwater.bench.stream.data import SOURCES
from headwater.bench.stream.timing import StreamBench
from headwater.logs import Log

WORKERS = 2
RATE = 10_000
WINDOW = "100 ms"
#: Longer than any run needs it.
LOAD_SECONDS = 600.0
#: Before a kill this many rows in a row come at most so many seconds after the end of their window: less than it takes to
#: give a task to another executor, so all executors do their share, also a successor whose Python had to start first.
STEADY_ROWS = 20
STEADY_SECONDS = 0.6


def recovery(bench: StreamBench) -> None:
    """Kill an executor, wait for the next row and for the executor's successor, and again."""
    with TemporaryDirectory(prefix="headwater-bench-") as name, started(Path(name, "cluster"), WORKERS) as cluster:
        place = Path(name)
        log = Log.create(place / "log", partition_count=SOURCES, time="time")
        driver = cluster.start("driver", sys.executable, "-m", __name__, cluster.address, str(place), is_heard=True)
        assert driver.stdout is not None
        rows = SeenRows(driver.stdout)
        with start_load(Schedule(RATE, LOAD_SECONDS), log.path):
            wait_for(lambda: rows.count > 0, "the first row")
            seconds = [killed(cluster, rows, number % WORKERS) for number in range(bench.sizes.kills)]
    listed = ", ".join(f"{each:.2f}" for each in seconds)
    note = f"the longest of {len(seconds)}: {listed} s, rows of windows that end after the kill"
    bench.report.add("recovery_s", max(seconds), "s", at_most(5), note)
    bench.report.add("recovery_median_s", statistics.median(seconds), "s")


class SeenRows:
    """Which windows' rows have come, as the driver says."""

    def __init__(self, lines: IO[str]) -> None:
        self.count = 0
        self.end_us = 0
        #: The number of rows in a row that were in time.
        self.steady = 0
        threading.Thread(target=self._read, args=(lines,), name="headwater rows", daemon=True).start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self.end_us = int(line)
            self.count += 1
            self.steady = self.steady + 1 if now_us() - self.end_us < STEADY_SECONDS * SECOND else 0


def killed(cluster: SparkCluster, rows: SeenRows, worker: int) -> float:
    """Seconds from the kill of an executor until there is a row of a window that ends later."""
    wait_for(lambda: len(cluster.executors()) == WORKERS, "an executor on each worker")
    rows.steady = 0
    wait_for(lambda: rows.steady >= STEADY_ROWS, "a steady stream of rows")
    victim = cluster.executors()[worker]
    at_us, began = now_us(), time.perf_counter()
    cluster.kill(victim)
    wait_for(lambda: rows.end_us > at_us, "a row after the kill")
    seconds = time.perf_counter() - began
    wait_for(lambda: victim not in cluster.executors(), "the end of the executor")
    return seconds


def main(master: str, place: Path) -> None:
    """The driver: one stream over the log, until this process is ended."""
    from headwater.spark.session import local_session

    settings = {
        "spark.executor.memory": "512m",
        "spark.cores.max": str(WORKERS),
        # Both executors there before the first task.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        # A successor is there soon, but its Python takes a while: the other executor need not wait for the task it was given.
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "2",
        "spark.speculation.minTaskRuntime": "500ms",
    }

    def say(rows: Any, batch: int) -> None:
        if len(rows):
            print(max(rows["window_end"].to_pylist()), flush=True)

    with local_session("headwater bench", master=master, **settings) as spark:
        query = two(hw.tumbling(WINDOW))
        options = {"checkpoint": place / "checkpoint", "sink": say, "schema": SCHEMA, "root": "driver"}
        hw.stream(spark, place / "log", query, **options).await_end()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
