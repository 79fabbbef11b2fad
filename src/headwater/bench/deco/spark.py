"""Count windows on Spark: how fast `headwater.stream` works a log off, against time windows of the same size on the same log.

Time windows are the least there is: their edges are known ahead, and nothing is ever asked. All windows of every run are compared
with the true ones before a rate counts.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headwater as hw
from headwater.bench.common.report import Rate, Report
from headwater.bench.common.timing import in_turns
from headwater.bench.deco.links import Logged, write_log
from headwater.bench.deco.schemes import checked_query
from headwater.bench.deco.truth import right_windows
from headwater.bench.deco.workload import SCHEMA, DecoWorkload
from headwater.bench.load.driver import LoadError
from headwater.bench.spark import ways
from headwater.bench.spark.figures import begun
from headwater.bench.spark.timing import local_spark
from headwater.bench.stream.timing import LOOK_SECONDS, events_done, streaming
from headwater.language.windows import CountWindow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Both sides take turns, and the best of each counts.
ROUNDS = 3
#: The number of batches in which a log is worked off; the first is for warming up.
BATCHES = 5
REPEATS = 2
FULL = DecoWorkload(leaves=8, window=1_000_000, windows=40)
QUICK = DecoWorkload(leaves=8, window=100_000, windows=40)


def spark_vs_rownumber(report: Report) -> None:
    """A million events of all keys and files per window, by `hw.read` and by `row_number`.

    `row_number` runs on a tenth of the events, on which it is faster.
    """
    ours = ways.reading(ways.counted(hw.sum("value")))
    (peer,) = ways.row_numbers("sum(value)")
    with begun(report, ("float",)) as bench:
        # On so many events that ours goes the same way as on all of them.
        bench.check([peer, ours], "float", "part")
        many, some = bench.data.events("float", "all"), bench.data.events("float", "part")
        works = [partial(bench.materialize, ours, many), partial(bench.materialize, peer, some)]
        read, numbered = map(min, in_turns(works, ROUNDS))
    rates = Rate(ours.name, many.count / read), Rate(peer.name, some.count / numbered)
    note = f"{rates[0]} on {many.count:,} events, {rates[1]} on {some.count:,}"
    report.add_ratio("spark_vs_rownumber", 10, *rates, note)


def spark_async_ratio(report: Report) -> None:
    """Count windows against tumbling windows that last as long."""
    workload = QUICK if report.quick else FULL
    counted = checked_query(workload.window)
    timed = replace(counted, name="timed", window=hw.tumbling(f"{workload.window} us"))
    with local_spark(report) as (spark, folder):
        report.say(f"writing {workload.events:,} events")
        log = Logged(workload, folder / "log", write_log(workload, folder / "log", SCHEMA.names))

        def rate(query: hw.Query) -> float:
            found = drain_rate(spark, log, query, folder / f"{query.name}-{time.monotonic_ns()}")
            report.say(f"  {query.name}: {found / 1e6:.3g} M/s")
            return found

        # The first turn only warms Spark up.
        turns = in_turns([partial(rate, timed), partial(rate, counted)], REPEATS + 1)
    theirs, ours = (max(found[1:]) for found in turns)
    ours_by = Rate(f"count windows of {workload.window:,}", ours)
    report.add_ratio("spark_async_ratio", 0.5, ours_by, Rate("time windows", theirs))


def drain_rate(spark: SparkSession, log: Logged, query: hw.Query, checkpoint: Path) -> float:
    """Events per second from the end of the first batch until the stream was flushed and the last window is out."""
    events = log.workload.events
    settings: dict[str, Any] = {"max_events_per_trigger": -(-events // BATCHES), "root": "driver", "sink": "memory"}
    with streaming(spark, log.path, query, checkpoint=checkpoint, **settings) as stream:
        while not (first := events_done(stream)):
            if not stream.is_active:
                raise LoadError("the stream stopped before its first batch was done")
            time.sleep(LOOK_SECONDS)
        began = time.perf_counter()
        while events_done(stream) < events and stream.is_active:
            time.sleep(LOOK_SECONDS)
        stream.flush()
        seconds = time.perf_counter() - began
        if isinstance(query.window, CountWindow) and not right_windows(stream.sink.table(), log.truth).all():
            raise LoadError("some windows are not the true ones")
    return (events - first) / seconds
