"""``headwater bench sharing``: what sharing brings, as the Desis paper shows it (section 6, figures 6b, 8, 9 and 10).

The same queries run in every mode of the engine, from nothing shared to everything shared, and three things are looked
at: events per second, slices per minute of event time, and the calculations that 10 million events take. The paper's
machines and ours differ, and so do the numbers; what carries over is how each mode's line bends.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

import headwater as hw
from headwater.bench.common.experiments import BATCH_EVENTS, EXPERIMENTS, Experiment
from headwater.bench.common.plots import Point, draw
from headwater.bench.common.report import Report, at_least
from headwater.bench.common.timing import StepLog
from headwater.bench.common.workload import EVENTS_PER_SECOND, endless
from headwater.engine.modes import MODES

EVENTS_MAX = 20_000_000
SECONDS_PER_CELL = 0.7
QUICK_PART = 5
#: The paper counts calculations over ten million events; slow modes see fewer, so the count is brought to that number.
CALCULATION_EVENTS = 10_000_000
UNITS = {
    "throughput": "events/s",
    "slices": "per minute",
    "calculations": "per 10 M events",
    "latency": "ms",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What one mode did with one set of queries; ``latency`` is the median time from a watermark to the results it brings."""

    throughput: float
    slices: float
    calculations: float
    latency: float
    rows: int


def run(report: Report, progress: StepLog, plots: Path | None = None) -> None:
    """Measure every experiment in every mode into ``report``; draw the lines into ``plots`` if it is given."""
    points: list[Point] = []
    cells = [(e, mode, x) for e in EXPERIMENTS for mode in MODES for x in e.xs[: 2 if report.quick else None]]
    seconds = SECONDS_PER_CELL / (QUICK_PART if report.quick else 1)
    for number, (experiment, mode, x) in enumerate(cells, 1):
        if x == experiment.xs[0]:
            # The first cell of a mode would pay for loading its kernels; nobody should measure that.
            measure(experiment.queries(2), mode, BATCH_EVENTS, seconds=0.0)
        measured = measure(experiment.queries(x), mode, experiment.events_min(x), seconds)
        found = f"{measured.throughput:,.0f} events/s, {measured.rows:,} rows"
        progress.say(f"{number}/{len(cells)} {experiment.name}, {mode}, {x:,} {experiment.axis}: {found}")
        points += [
            Point(experiment.name, metric, UNITS[metric], mode, x, getattr(measured, metric))
            for metric in experiment.metrics
        ]
    if report.as_json:
        for point in points:
            report.add(f"{point.experiment}_{point.metric}_{point.mode}_{point.x}", point.value, point.unit)
    else:
        _show(points, Console(file=report.out))
    _add_ratios(report, points)
    if plots is not None:
        written = draw(points, {e.name: e.title for e in EXPERIMENTS}, {e.name: e.axis for e in EXPERIMENTS}, plots)
        progress.say(f"{len(written)} plots in {plots}")


def measure(queries: Sequence[hw.Query], mode: str, events_min: int, seconds: float) -> Measured:
    """Push batches until the time is up, then flush: work that a mode puts off to the end of a window is counted too."""
    engine = hw.Engine(queries, time="time", unit="us", mode=mode)
    seen, rows, busy = 0, 0, 0.0
    latencies: list[float] = []
    for seen, batch in endless(max(EVENTS_MAX, events_min), BATCH_EVENTS):
        watermark = batch.column("time")[-1].as_py()
        start = time.perf_counter()
        engine.push(batch)
        pushed = time.perf_counter()
        engine.advance(watermark)
        results = engine.results()
        done = time.perf_counter()
        busy += done - start
        rows += results.num_rows
        # The last query has the longest windows: their results are the ones to wait for.
        if len(results[queries[-1].name]):
            latencies.append(done - pushed)
        if busy >= seconds and seen >= events_min:
            break
    start = time.perf_counter()
    engine.flush()
    rows += engine.results().num_rows
    flushed = time.perf_counter() - start
    busy += flushed
    done_work = engine.statistics
    return Measured(
        throughput=seen / busy,
        slices=done_work["slices"] / (seen / EVENTS_PER_SECOND / 60),
        calculations=done_work["calculations"] / seen * CALCULATION_EVENTS,
        latency=median(latencies or [flushed]) * 1e3,
        rows=rows,
    )


def _add_ratios(report: Report, points: Sequence[Point]) -> None:
    """How much faster everything shared is than nothing shared, for the most queries there were."""
    rates = {(p.experiment, p.mode, p.x): p.value for p in points if p.metric == "throughput"}
    for name in dict.fromkeys(p.experiment for p in points if "calculations" in _of(p.experiment).metrics):
        most = max(x for experiment, _, x in rates if experiment == name)
        ratio = rates[name, "desis", most] / rates[name, "debucket", most]
        bound = at_least(100) if (name, most) == ("quantiles", 1_000) else None
        report.add(f"{name}_{most}_desis_over_debucket", ratio, "ratio", bound, "events/s")


def _of(name: str) -> Experiment:
    return next(experiment for experiment in EXPERIMENTS if experiment.name == name)


def _show(points: Sequence[Point], console: Console) -> None:
    """A grid per experiment and metric: modes down, the experiment's axis across."""
    for name, metric in dict.fromkeys((point.experiment, point.metric) for point in points):
        chosen = {(p.mode, p.x): p.value for p in points if (p.experiment, p.metric) == (name, metric)}
        xs = sorted({x for _, x in chosen})
        table = Table(f"{metric} ({UNITS[metric]})", title=_of(name).title, title_justify="left")
        for x in xs:
            table.add_column(f"{x:,}", justify="right")
        for mode in MODES:
            table.add_row(mode, *(_readable(chosen[mode, x]) for x in xs))
        console.print(table)


def _readable(value: float) -> str:
    """Three digits, and no powers of ten.

    >>> _readable(18_287_519.3), _readable(2.4338)
    ('18,300,000', '2.43')
    """
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"
