"""Count windows on Spark: how fast `headwater.stream` works a log off, against time windows of the same size on the same log.

Time windows are the least there is: their edges are known ahead, and nothing is ever asked. All windows of every run are compared
with the true ones before a rate counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import headwater as hw
from headwater.bench.common.report import Report, at_least
from headwater.bench.common.timing import StepLog
from headwater.bench.deco.schemes import checked_query
from headwater.bench.deco.truth import TrueWindows, WindowTruth, right_windows
from headwater.bench.deco.workload import DecoWorkload
from headwater.bench.load.driver import LoadError
from headwater.bench.spark import ways
from headwater.bench.spark.figures import begun
from headwater.bench.spark.timing import Rate, SparkBench
from headwater.bench.stream.timing import LOOK_SECONDS
from headwater.language.windows import CountWindow
from headwater.logs import Log
from headwater.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Both sides take turns, and the best of each counts: a slow minute of the machine hits both.
ROUNDS = 3


def spark_vs_rownumber(report: Report, progress: StepLog) -> None:
    """Measure the figure of the same name: events per second of `hw.read` / those of `row_number`."""
    with begun(report, progress, ("float",)) as bench:
        compare(bench)


def compare(bench: SparkBench) -> None:
    """A million events of all keys and files per window; `row_number` runs on a tenth of the events, on which it is faster."""
    ours = ways.reading(ways.counted(hw.sum("value")))
    (peer,) = ways.row_numbers("sum(value)")
    # On so many events that ours goes the same way as on all of them.
    bench.check([peer, ours], "float", "part")
    many, some = bench.data.events("float", "all"), bench.data.events("float", "part")
    turns = [(bench.materialize(ours, many), bench.materialize(peer, some)) for _ in range(ROUNDS)]
    read, numbered = (min(times) for times in zip(*turns))
    rates = Rate(ours.name, many.count / read), Rate(peer.name, some.count / numbered)
    note = f"{rates[0]} on {many.count:,} events, {rates[1]} on {some.count:,}"
    bench.progress.say(f"  spark_vs_rownumber: {note}")
    ratio = rates[0].events_per_second / rates[1].events_per_second
    bench.report.add("spark_vs_rownumber", ratio, "ratio", at_least(10), note)


CORES = 2
DRIVER_MEMORY = "4g"
#: In so many batches a log is worked off; the first is for warming up.
BATCHES = 5
REPEATS = 2
FULL = DecoWorkload(leaves=8, window=1_000_000, windows=40)
QUICK = DecoWorkload(leaves=8, window=100_000, windows=40)


@dataclass(frozen=True)
class CountBench:
    """One run: the session, the log, what is in it, and a folder for whatever streams leave."""

    spark: SparkSession
    folder: Path
    workload: DecoWorkload
    log: Path
    truth: TrueWindows
    #: Of `headwater.stream`, for all streams.
    more: Mapping[str, Any] = field(default_factory=dict)

    def rate(self, name: str, query: hw.Query, scheme: str = "auto") -> float:
        """Events per second from the end of the first batch until the stream was flushed and the last window is out."""
        events = self.workload.events
        settings: dict[str, Any] = {"max_events_per_trigger": -(-events // BATCHES), "root": "driver"}
        settings |= {"count_scheme": scheme, "checkpoint": self.folder / name, "sink": "memory"}
        stream = hw.stream(self.spark, self.log, query, **{**settings, **self.more})
        try:
            while not (first := int(stream.progress.get("events", 0))):
                if not stream.is_active:
                    raise LoadError("the stream stopped before its first batch was done")
                time.sleep(LOOK_SECONDS)
            began = time.perf_counter()
            while int(stream.progress.get("events", 0)) < events and stream.is_active:
                time.sleep(LOOK_SECONDS)
            stream.flush()
            seconds = time.perf_counter() - began
            if isinstance(query.window, CountWindow) and not right_windows(stream.sink.table(), self.truth).all():
                raise LoadError(f"with count_scheme={scheme!r} some windows are not the true ones")
        finally:
            stream.stop()
        return (events - first) / seconds


def spark_async_ratio(
    report: Report,
    progress: StepLog,
    workload: DecoWorkload | None = None,
    scheme: str = "auto",
    repeats: int = REPEATS,
) -> None:
    """Add the figure: count windows against tumbling windows that last as long."""
    workload = workload or (QUICK if report.quick else FULL)
    counted = checked_query(workload.window)
    timed = replace(counted, name="timed", window=hw.tumbling(f"{workload.window} us"))
    with count_bench(workload, progress) as bench:
        rates: dict[str, list[float]] = {"timed": [], "counted": []}
        # In turns, so that a slow minute hits both; the first turn only warms Spark up.
        for turn in range(repeats + 1):
            for name, query in {"timed": timed, "counted": counted}.items():
                rate = bench.rate(f"{name}-{turn}", query, scheme)
                progress.say(f"  {name}: {rate / 1e6:.3g} M/s{'' if turn else ' (not counted)'}")
                rates[name] += [rate] if turn else []
    ours = Rate(f"count windows of {workload.window:,}", max(rates["counted"]))
    theirs = Rate("time windows", max(rates["timed"]))
    note = f"{ours}, {theirs}"
    report.add("spark_async_ratio", ours.events_per_second / theirs.events_per_second, "ratio", at_least(0.5), note)


@contextmanager
def count_bench(workload: DecoWorkload, progress: StepLog) -> Iterator[CountBench]:
    """Spark on this machine, and a log with a partition for each leaf."""
    with TemporaryDirectory(prefix="headwater-bench-") as name:
        folder = Path(name)
        progress.say(f"writing {workload.events:,} events")
        truth = written(workload, folder / "log")
        progress.say("starting Spark")
        settings = {"spark.driver.memory": DRIVER_MEMORY, "spark.local.dir": str(folder / "spark")}
        with local_session("headwater bench", master=f"local[{CORES}]", **settings) as spark:
            yield CountBench(spark, folder, workload, folder / "log", truth)


def written(workload: DecoWorkload, place: Path) -> TrueWindows:
    """The workload as a segment log; its true windows are found on the way."""
    log, truth = Log.create(place, partition_count=workload.leaves, time="time"), WindowTruth(workload)
    with ExitStack() as stack:
        writers = [stack.enter_context(log.writer(leaf, fsync="never")) for leaf in range(workload.leaves)]
        for number in range(workload.slices):
            batches = [workload.batch(leaf, number) for leaf in range(workload.leaves)]
            truth.add(batches)
            for writer, batch in zip(writers, batches, strict=True):
                writer.append(batch, arrival=0)
    return truth.windows()
