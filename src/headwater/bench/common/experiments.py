"""The experiments of the Desis paper (section 6: figures 6b, 8, 9 and 10) that show what sharing brings: their queries.

Ten keys, as in the paper, but 10,000 events a second instead of about a million: then modes that share nothing still see
whole windows with a thousand queries. Where the paper counts a million events, these count the events of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import headwater as hw
from headwater.bench.common.workload import EVENTS_PER_SECOND, START
from headwater.language.aggregations import Aggregation
from headwater.language.windows import Window

QUERY_COUNTS = (1, 10, 100, 1_000)
BATCH_EVENTS = 50_000


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
    # Windows of up to ten seconds: two batches hold ten seconds of events.
    Experiment(
        "tumbling",
        "Figures 6b, 8a, 8b: average over tumbling windows of 1 to 10 s",
        _tumbling,
        events_min=lambda _: 2 * BATCH_EVENTS,
    ),
    Experiment(
        "user_defined",
        "Figures 8c, 8d: half of the windows user-defined",
        _half_user_defined,
        events_min=lambda _: 2 * BATCH_EVENTS,
    ),
    Experiment("avg_sum", "Figures 9a, 9b: average and sum", _avg_and_sum),
    Experiment("quantiles", "Figures 9c, 9d: different quantiles", _quantiles),
    Experiment("avg_quantile", "Figures 9e, 9f: average and quantile in each window", _avg_and_quantile),
    Experiment("quantile_max", "Figure 9g: quantile and max in each window", _quantile_and_max),
    Experiment("measures", "Figure 9h: time and count windows", _measures),
    Experiment(
        "slices_per_window",
        "Figures 10a, 10b: slices of 10,000 events in a window",
        _slices_per_window,
        (1, 10, 100, 500),
        "slices in a window",
        events_min=lambda slices: max(1_000_000, 2 * 10_000 * slices),
        metrics=("throughput", "latency"),
    ),
    Experiment(
        "slice_size",
        "Figures 10c, 10d: events in a slice, 1,000 slices in a window",
        _slice_size,
        (10, 100, 1_000),
        "events in a slice",
        events_min=lambda events: max(1_000_000, 2 * 1_000 * events),
        metrics=("throughput", "latency"),
    ),
)
