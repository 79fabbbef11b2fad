"""``headwater bench sharing``: what sharing brings, as the Desis paper shows it (section 6, figures 6b, 8, 9 and 10).

The same queries run in every mode of the engine, from nothing shared to everything shared, and three things are looked
at: events per second, slices per minute of event time, and the calculations that 10 million events take. The paper's
machines and ours differ, and so do the numbers; what carries over is how each mode's line bends.

Ten keys, as in the paper, but 10,000 events a second instead of about a million: then modes that share nothing still see
whole windows with a thousand queries. Where the paper counts a million events, these count the events of a second.
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
from headwater.bench.common.plots import Point, write
from headwater.bench.common.report import Report, at_least
from headwater.bench.common.workload import EVENTS_PER_SECOND, START, endless
from headwater.engine.modes import MODES
from headwater.language.aggregations import Aggregation
from headwater.language.windows import Window

QUERY_COUNTS = (1, 10, 100, 1_000)
BATCH_EVENTS = 50_000
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


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper: what varies along its axis, the queries at each place, and what is looked at."""

    name: str
    title: str
    queries: Callable[[int], list[hw.Query]]
    xs: tuple[int, ...] = QUERY_COUNTS
    axis: str = "concurrent queries"
    #: However slow a mode is, it sees this many events: windows must close before anything has been measured.
    events_min: Callable[[int], int] = lambda _: BATCH_EVENTS
    metrics: tuple[str, ...] = ("throughput", "slices", "calculations")


@dataclass(frozen=True, slots=True)
class Measured:
    """What one mode did with one set of queries; ``latency`` is the median time from a watermark to the results it brings."""

    throughput: float
    slices: float
    calculations: float
    latency: float
    rows: int


def run(report: Report, plots: Path | None = None) -> None:
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
        report.say(f"{number}/{len(cells)} {experiment.name}, {mode}, {x:,} {experiment.axis}: {found}")
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
        write(report, points, {e.name: (e.title, e.axis) for e in EXPERIMENTS}, plots)


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


# --- the experiments ---


def _averages(window: Callable[[int], Window]) -> Callable[[int], list[hw.Query]]:
    """Average by key; query i over ``window(i)``."""
    return lambda count: [_keyed(i, window(i), avg=hw.avg("value")) for i in range(count)]


def _seconds(aggregates: Callable[[int], dict[str, Any]]) -> Callable[[int], list[hw.Query]]:
    """Tumbling windows of a second by key; query i has ``aggregates(i)``."""
    return lambda count: [_keyed(i, hw.tumbling("1 s"), **aggregates(i)) for i in range(count)]


def _keyed(i: int, window: Window, **aggregates: Any) -> hw.Query:
    return hw.query(f"q{i}", window, keys=["key"], **aggregates)


def _up_to_ten_seconds(i: int) -> Window:
    return hw.tumbling(f"{i % 10 + 1} s")


def _half_user_defined(i: int) -> Window:
    # The paper has one user-defined event a second; with ten keys the markers of one key come about as often.
    return hw.punctuated(hw.col("marker") == START) if i % 2 else _up_to_ten_seconds(i)


def _half_counted(i: int) -> Window:
    return hw.count_tumbling(EVENTS_PER_SECOND) if i % 2 else hw.tumbling("1 s")


def _quantile(i: int) -> Aggregation:
    return hw.quantile("value", (i % 1000 + 1) / 1001)


def _slice_and_window(slice_events: int, window_events: int) -> list[hw.Query]:
    sizes = {"slice": slice_events, "window": window_events}
    return [hw.query(name, hw.count_tumbling(size), avg=hw.avg("value")) for name, size in sizes.items()]


EXPERIMENTS = (
    # Windows of up to ten seconds: two batches hold ten seconds of events.
    Experiment(
        "tumbling",
        "Figures 6b, 8a, 8b: average over tumbling windows of 1 to 10 s",
        _averages(_up_to_ten_seconds),
        events_min=lambda _: 2 * BATCH_EVENTS,
    ),
    Experiment(
        "user_defined",
        "Figures 8c, 8d: half of the windows user-defined",
        _averages(_half_user_defined),
        events_min=lambda _: 2 * BATCH_EVENTS,
    ),
    Experiment(
        "avg_sum",
        "Figures 9a, 9b: average and sum",
        _seconds(lambda i: {"sum": hw.sum("value")} if i % 2 else {"avg": hw.avg("value")}),
    ),
    Experiment("quantiles", "Figures 9c, 9d: different quantiles", _seconds(lambda i: {"quantile": _quantile(i)})),
    Experiment(
        "avg_quantile",
        "Figures 9e, 9f: average and quantile in each window",
        _seconds(lambda i: {"avg": hw.avg("value"), "quantile": _quantile(i)}),
    ),
    Experiment(
        "quantile_max",
        "Figure 9g: quantile and max in each window",
        _seconds(lambda i: {"quantile": _quantile(i), "max": hw.max("value")}),
    ),
    Experiment("measures", "Figure 9h: time and count windows", _averages(_half_counted)),
    Experiment(
        "slices_per_window",
        "Figures 10a, 10b: slices of 10,000 events in a window",
        lambda slices: _slice_and_window(10_000, 10_000 * slices),
        (1, 10, 100, 500),
        "slices in a window",
        events_min=lambda slices: max(1_000_000, 2 * 10_000 * slices),
        metrics=("throughput", "latency"),
    ),
    Experiment(
        "slice_size",
        "Figures 10c, 10d: events in a slice, 1,000 slices in a window",
        lambda events: _slice_and_window(events, 1_000 * events),
        (10, 100, 1_000),
        "events in a slice",
        events_min=lambda events: max(1_000_000, 2 * 1_000 * events),
        metrics=("throughput", "latency"),
    ),
)
