"""``headwater bench sharing``: what sharing brings, as the Desis paper shows it (section 6, figures 6b, 8, 9 and 10).

The same queries run in every mode of the engine, from nothing shared to everything shared, and three things are looked
at: events per second, slices per minute of event time, and the calculations that 10 million events take. The paper's
machines and ours differ, and so do the numbers; what carries over is how each mode's line bends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

import headwater as hw
from headwater.aggregations import Aggregation
from headwater.bench.plots import Point, draw
from headwater.bench.report import Report, at_least
from headwater.bench.timing import Progress
from headwater.bench.workload import EVENTS_PER_SECOND, START, endless
from headwater.modes import MODES
from headwater.windows import Window

UNSHARED = ("cebuffer", "debucket")
QUERY_COUNTS = (1, 10, 100, 1_000)
BATCH_EVENTS = 50_000
#: One second of events: enough for modes that need seconds for it, too little to keep the others from waiting for Python.
BATCH_EVENTS_SLOW = EVENTS_PER_SECOND
EVENTS_MAX = 20_000_000
SECONDS_PER_CELL = 1.0
#: The paper counts calculations over ten million events; slow modes see fewer, so the count is brought to that number.
CALCULATION_EVENTS = 10_000_000


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper: what varies along its axis, and the queries at each place."""

    name: str
    title: str
    queries: Callable[[int], list[hw.Query]]
    xs: tuple[int, ...] = QUERY_COUNTS
    axis: str = "concurrent queries"
    #: However slow a mode is, it sees so many events: a window must close before anything has been measured.
    events_min: int = EVENTS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Measured:
    """What one mode did with one set of queries."""

    events_per_second: float
    slices_per_minute: float
    calculations: float
    latency_ms: float
    rows: int


def run(report: Report, progress: Progress, plots: Path | None = None) -> None:
    """Measure every experiment in every mode into ``report``; draw the lines into ``plots`` if it is given."""
    points: list[Point] = []
    for experiment in EXPERIMENTS:
        progress.say(experiment.title)
        for mode in MODES:
            # The first cell of a mode pays for loading its kernels; nobody should measure that.
            measure(experiment.queries(2), mode, BATCH_EVENTS, seconds=0.0)
            for x in experiment.xs[: 2 if report.quick else None]:
                seconds = SECONDS_PER_CELL / (5 if report.quick else 1)
                slow = mode in UNSHARED and x >= 100
                measured = measure(experiment.queries(x), mode, experiment.events_min, seconds, slow)
                progress.say(f"  {mode}, {x:,}: {measured.events_per_second:,.0f} events/s, {measured.rows:,} rows")
                points.extend(_points(experiment, mode, x, measured))
    _add(report, points)
    if not report.as_json:
        _show(points, Console(file=report.out))
    if plots is not None:
        titles = {experiment.name: experiment.title for experiment in EXPERIMENTS}
        axes = {experiment.name: experiment.axis for experiment in EXPERIMENTS}
        written = draw(points, titles, axes, plots)
        progress.say(f"{len(written)} plots in {plots}")


def measure(queries: Sequence[hw.Query], mode: str, events_min: int, seconds: float, slow: bool = False) -> Measured:
    """Push batches until the time is up, then flush: work that a mode puts off to the end of a window is counted too."""
    engine = hw.Engine(queries, time="time", unit="us", mode=mode)
    seen, rows, busy = 0, 0, 0.0
    closings: list[float] = []
    for seen, batch in endless(EVENTS_MAX, BATCH_EVENTS_SLOW if slow else BATCH_EVENTS):
        watermark = batch.column("time")[-1].as_py()
        start = time.perf_counter()
        engine.push(batch)
        pushed = time.perf_counter()
        engine.advance(watermark)
        rows += engine.results().num_rows
        done = time.perf_counter()
        closings.append(done - pushed)
        busy += done - start
        if busy >= seconds and seen >= events_min:
            break
    start = time.perf_counter()
    engine.flush()
    rows += engine.results().num_rows
    busy += time.perf_counter() - start
    statistics = engine.statistics
    return Measured(
        events_per_second=seen / busy,
        slices_per_minute=statistics["slices"] / (seen / EVENTS_PER_SECOND / 60),
        calculations=statistics["calculations"] / seen * CALCULATION_EVENTS,
        latency_ms=median(closings) * 1e3,
        rows=rows,
    )


def _tumbling(count: int) -> list[hw.Query]:
    return [_keyed(i, hw.tumbling(f"{i % 10 + 1} s"), avg=hw.avg("value")) for i in range(count)]


def _half_user_defined(count: int) -> list[hw.Query]:
    # The paper has one user-defined event a second; with ten keys the markers of one key come about as often.
    marked = hw.punctuated(hw.col("marker") == START)
    windows = [marked if i % 2 else hw.tumbling(f"{i % 10 + 1} s") for i in range(count)]
    return [_keyed(i, window, avg=hw.avg("value")) for i, window in enumerate(windows)]


def _avg_and_sum(count: int) -> list[hw.Query]:
    second = hw.tumbling("1 s")
    return [
        _keyed(i, second, sum=hw.sum("value")) if i % 2 else _keyed(i, second, avg=hw.avg("value"))
        for i in range(count)
    ]


def _quantile(i: int) -> Aggregation:
    return hw.quantile("value", (i % 1000 + 1) / 1001)


def _quantiles(count: int) -> list[hw.Query]:
    return [_keyed(i, hw.tumbling("1 s"), quantile=_quantile(i)) for i in range(count)]


def _avg_and_quantile(count: int) -> list[hw.Query]:
    return [_keyed(i, hw.tumbling("1 s"), avg=hw.avg("value"), quantile=_quantile(i)) for i in range(count)]


def _quantile_and_max(count: int) -> list[hw.Query]:
    return [_keyed(i, hw.tumbling("1 s"), quantile=_quantile(i), max=hw.max("value")) for i in range(count)]


def _measures(count: int) -> list[hw.Query]:
    # The paper's count windows hold a million events, about a second of its stream; these hold about a second of ours.
    windows = [hw.count_tumbling(EVENTS_PER_SECOND) if i % 2 else hw.tumbling("1 s") for i in range(count)]
    return [_keyed(i, window, avg=hw.avg("value")) for i, window in enumerate(windows)]


def _slices_per_window(slices: int) -> list[hw.Query]:
    return [_counted("slice", 10_000), _counted("window", 10_000 * slices)]


def _slice_size(events: int) -> list[hw.Query]:
    return [_counted("slice", events), _counted("window", 1_000 * events)]


def _keyed(i: int, window: Window, **aggregates: Any) -> hw.Query:
    return hw.query(f"q{i}", window, keys=["key"], **aggregates)


def _counted(name: str, events: int) -> hw.Query:
    return hw.query(name, hw.count_tumbling(events), avg=hw.avg("value"))


EXPERIMENTS = (
    Experiment("tumbling", "Figures 6b, 8a, 8b: tumbling windows of 1 to 10 s", _tumbling),
    Experiment("user_defined", "Figures 8c, 8d: half of the windows user-defined", _half_user_defined),
    Experiment("avg_sum", "Figures 9a, 9b: average and sum", _avg_and_sum),
    Experiment("quantiles", "Figures 9c, 9d: different quantiles", _quantiles),
    Experiment("avg_quantile", "Figures 9e, 9f: average and quantile in each window", _avg_and_quantile),
    Experiment("quantile_max", "Figure 9g: quantile and max in each window", _quantile_and_max),
    Experiment("measures", "Figure 9h: time and count windows", _measures),
    Experiment(
        "slices_per_window",
        "Figures 10a, 10b: slices of 10,000 events per window",
        _slices_per_window,
        (1, 10, 100),
        "slices per window",
        events_min=2_000_000,
    ),
    Experiment(
        "slice_size",
        "Figures 10c, 10d: events per slice, 1,000 slices per window",
        _slice_size,
        (10, 100, 1_000),
        "events per slice",
        events_min=2_000_000,
    ),
)


def _points(experiment: Experiment, mode: str, x: int, measured: Measured) -> list[Point]:
    return [
        Point(experiment.name, "throughput", "events/s", mode, x, measured.events_per_second),
        Point(experiment.name, "slices", "per minute", mode, x, measured.slices_per_minute),
        Point(experiment.name, "calculations", "per 10 M events", mode, x, measured.calculations),
        Point(experiment.name, "latency", "ms", mode, x, measured.latency_ms),
    ]


def _add(report: Report, points: Sequence[Point]) -> None:
    """Every point as a figure of its own for programs; for people only what has a bound (the rest is in the grids)."""
    if report.as_json:
        for point in points:
            report.add(f"{point.experiment}_{point.metric}_{point.mode}_{point.x}", point.value, point.unit)
    rates = {(p.mode, p.x): p.value for p in points if (p.experiment, p.metric) == ("quantiles", "throughput")}
    most = max(x for _, x in rates)
    ratio = rates["desis", most] / rates["debucket", most]
    report.add(
        f"quantiles_{most}_desis_over_debucket",
        ratio,
        "ratio",
        at_least(100),
        "throughput, everything shared / nothing",
    )


def _show(points: Sequence[Point], console: Console) -> None:
    for experiment in EXPERIMENTS:
        for metric in dict.fromkeys(point.metric for point in points):
            chosen = {(p.mode, p.x): p for p in points if (p.experiment, p.metric) == (experiment.name, metric)}
            xs = sorted({x for _, x in chosen})
            unit = next(iter(chosen.values())).unit
            table = Table(f"{metric} ({unit})", title=experiment.title, title_justify="left")
            for x in xs:
                table.add_column(f"{x:,}", justify="right")
            for mode in MODES:
                table.add_row(mode, *(f"{chosen[mode, x].value:,.4g}" for x in xs))
            console.print(table)
