"""``headwater bench deco``: count windows over many nodes, every scheme and baseline in one run, beside the figures of Deco.

Each leaf's rate is drawn anew once per window time, uniformly and by itself; eight leaves, windows of a million events and
changes of up to 1 % where nothing else is said. `points.py` asks whether every window is right, `network.py` about bytes,
`root.py` and `sweep.py` about processor time of nodes in one process, `throughput.py` about processes and real links,
`spark.py` about Spark.
"""

from __future__ import annotations

from pathlib import Path

from headwater.bench.common.plots import write
from headwater.bench.common.report import Report
from headwater.bench.deco import papers
from headwater.bench.deco.network import network
from headwater.bench.deco.points import correctness
from headwater.bench.deco.root import root_costs
from headwater.bench.deco.sweep import SweepBench
from headwater.bench.deco.throughput import LinkBench
from headwater.bench.engine import one_core


def run(report: Report, plots: Path | None = None) -> None:
    """Measure all figures into ``report``; draw those of the paper into ``plots`` if it is given."""
    links, sweep = LinkBench(report), SweepBench(report)
    links.run()
    with one_core():
        report.say("network: bytes, corrections, messages")
        runs = network(report)
        report.say("root: processor time per window")
        root_costs(report)
        report.say("sweep: changes and window sizes")
        sweep.run()
        if plots is not None:
            report.say("the rest of the paper's figures")
            sweep.more_leaves()
            write(report, papers.points(links, sweep, runs), papers.TITLES, plots, papers.LINEAR)
    report.say("correctness: sixty points")
    correctness(report)
    on_spark(report)


def on_spark(report: Report) -> None:
    """The figures with Spark; where it cannot start, a line says why."""
    try:
        from headwater.bench.deco.spark import spark_async_ratio, spark_vs_rownumber
        from headwater.spark.setup import SetupError
    except ImportError as error:
        report.say(f"Spark: left out, {error}")
        return
    try:
        report.ask([spark_async_ratio, spark_vs_rownumber], report)
    except SetupError as error:
        report.say(f"  left out: {error}")
