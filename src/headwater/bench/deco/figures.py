"""``headwater bench deco``: count windows over many nodes, every scheme and baseline in one run, beside the figures of Deco.

Each leaf's rate is drawn anew once per window time, uniformly and by itself; eight leaves, windows of a million events and
changes of up to 1 % where nothing else is said. ``deco_points`` asks whether every window is right, ``deco_network`` about bytes,
``deco_root`` and ``deco_sweep`` about processor time of nodes in one process, ``deco_throughput`` about processes and real links,
``deco_spark`` and ``deco_rownumber`` about Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.bench.common.report import Report
from headwater.bench.common.timing import StepLog
from headwater.bench.deco import papers as deco_papers
from headwater.bench.deco.network import network
from headwater.bench.deco.points import correctness
from headwater.bench.deco.root import root_costs
from headwater.bench.deco.sweep import SweepBench
from headwater.bench.deco.throughput import LinkBench
from headwater.bench.engine import one_core


def run(report: Report, progress: StepLog, plots: Path | None = None) -> None:
    """Measure all figures into ``report``; draw those of the paper into ``plots`` if it is given."""
    links, sweep = LinkBench(report, progress), SweepBench(report, progress)
    links.run()
    with one_core():
        progress.say("network: bytes, corrections, messages")
        runs = network(report, progress)
        progress.say("root: processor time per window")
        root_costs(report, progress)
        progress.say("sweep: changes and window sizes")
        sweep.run()
        if plots is not None:
            progress.say("the rest of the paper's figures")
            sweep.more_leaves()
            written = deco_papers.write(deco_papers.points(links, sweep, runs), plots)
            progress.say(f"{len(written)} files in {plots}")
    progress.say("correctness: sixty points")
    correctness(report, progress)
    on_spark(report, progress)


def on_spark(report: Report, progress: StepLog) -> None:
    """The figures with Spark; where it cannot start, a line says why."""
    try:
        from headwater.bench.deco.spark import spark_async_ratio, spark_vs_rownumber
        from headwater.spark.setup import SetupError
    except ImportError as error:
        progress.say(f"Spark: left out, {error}")
        return
    figures: tuple[Callable[[Report, StepLog], None], ...] = (spark_async_ratio, spark_vs_rownumber)
    for figure in figures:
        progress.say(f"Spark: {figure.__name__.replace('_', ' ')}")
        try:
            figure(report, progress)
        except SetupError as error:
            progress.say(f"  left out: {error}")
