"""Our numbers in the axes of Deco's figures 7 to 11. The paper's machines and ours differ; what carries over is how lines bend.

Figure 7 is over real links between processes, figure 11, which is the paper's Raspberry Pis, over links of 100 Mbit/s. The others
are of nodes in one process: a tree's throughput is that of its busiest node, as if each had a processor of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.bench.common.plots import Point
from headwater.bench.deco.run import SchemeRun
from headwater.bench.deco.schemes import APPROX, EXACT
from headwater.bench.deco.sweep import SweepBench, SweepPlace
from headwater.bench.deco.throughput import LinkBench

TITLES = {
    "deco_7": ("Deco, figure 7: throughput and latency over ZeroMQ, 8 leaves", "scheme"),
    "deco_8": ("Deco, figure 8: bytes on all links", "leaves"),
    "deco_9": ("Deco, figure 9: more leaves", "leaves"),
    "deco_10_change": ("Deco, figures 10a to 10d: rates that change", "change of rates (%)"),
    "deco_10_window": ("Deco, figure 10e: window sizes", "events in a window"),
    "deco_10_unstable": ("Deco, figure 10f: window sizes with changes of 50 %", "events in a window"),
    "deco_11": ("Deco, figure 11: links of 100 Mbit/s", "scheme"),
    "costs": ("What schemes send and hold, 8 leaves", "scheme"),
}
#: Metrics that may be nothing, or are parts of a whole.
LINEAR = ("corrections", "correct", "messages up", "messages down", "latency")
CHANGE, UNSTABLE = 0.01, 0.5


def points(links: LinkBench, sweep: SweepBench, runs: dict[str, SchemeRun]) -> list[Point]:
    """Every line and bar of every figure."""
    made = [*_links(links), *_costs(runs)]
    largest = max(window for _, window, _ in sweep.cells)
    for (change, window, leaves), cell in sorted(sweep.cells.items()):
        if (change, window) == (CHANGE, largest):
            made += [*_bytes("deco_8", leaves, cell), *_rates("deco_9", leaves, cell)]
            made += [
                Point("deco_9", "root", "ms per window", scheme, leaves, run.root_ms_per_window)
                for scheme, run in cell.runs.items()
            ]
        if (window, leaves) == (largest, 8):
            place = 100 * change
            made += [*_rates("deco_10_change", place, cell), *_bytes("deco_10_change", place, cell)]
            made += [*_corrections("deco_10_change", place, cell), *_correct("deco_10_change", place, cell)]
        if (change, leaves) == (CHANGE, 8):
            made += _rates("deco_10_window", window, cell)
        if (change, leaves) == (UNSTABLE, 8):
            made += _correct("deco_10_unstable", window, cell)
    order = list(TITLES)
    return sorted(made, key=lambda point: order.index(point.experiment))


def _links(links: LinkBench) -> Iterator[Point]:
    for scheme, rate in links.rates.items():
        yield Point("deco_7", "throughput", "events/s", scheme, 1, rate.best)
    for scheme, latency in links.latencies.items():
        yield Point("deco_7", "latency", "ms", scheme, 1, latency.median_ms)
    for scheme, rate in links.thin.items():
        yield Point("deco_11", "throughput", "events/s", scheme, 1, rate.best)
        yield Point("deco_11", "network", "bytes/s", scheme, 1, rate.best * rate.total_bytes_per_event)


def _costs(runs: dict[str, SchemeRun]) -> Iterator[Point]:
    for scheme, run in runs.items():
        leaves = run.workload.leaves
        yield Point("costs", "network", "bytes per event", scheme, 1, run.total_bytes / run.workload.events)
        yield Point("costs", "messages up", "per window and leaf", scheme, 1, run.per_window("up_flows") / leaves)
        yield Point("costs", "messages down", "per window and leaf", scheme, 1, run.per_window("down_flows") / leaves)
        yield Point("costs", "held", "events of a leaf", scheme, 1, run.report.get("leaf_held", 0))


def _rates(figure: str, x: float, cell: SweepPlace) -> Iterator[Point]:
    for scheme, rate in cell.rates.items():
        yield Point(figure, "throughput", "events/s", scheme, x, rate)


def _bytes(figure: str, x: float, cell: SweepPlace) -> Iterator[Point]:
    for scheme, run in cell.runs.items():
        yield Point(figure, "network", "bytes per event", scheme, x, run.total_bytes / run.workload.events)


def _corrections(figure: str, x: float, cell: SweepPlace) -> Iterator[Point]:
    for scheme, run in cell.runs.items():
        if scheme in EXACT:
            yield Point(figure, "corrections", "per 100 windows", scheme, x, 100 * run.per_window("corrections"))


def _correct(figure: str, x: float, cell: SweepPlace) -> Iterator[Point]:
    """Those that are exact were compared with the truth."""
    for scheme in cell.rates:
        share = cell.approx_right if scheme == APPROX else cell.exact_right
        yield Point(figure, "correct", "share of events", scheme, x, share)
