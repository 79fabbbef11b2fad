"""Count windows over files on Spark, against the number of a row: what a user of Spark alone has to sort all events for."""

from __future__ import annotations

import headwater as hw
from headwater.bench.common.report import Report, at_least
from headwater.bench.common.timing import StepLog
from headwater.bench.spark import ways
from headwater.bench.spark.figures import begun
from headwater.bench.spark.timing import Rate, SparkBench

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
