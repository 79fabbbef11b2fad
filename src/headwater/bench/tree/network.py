"""What travels: the bytes of all links above the leaves, up and down, the start included, against sending all events on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headwater.bench.common.report import Report, at_most
from headwater.bench.tree.cells import Cell, average, measure, medians
from headwater.bench.tree.stream import Shape

KEY_COUNTS = (1, 10, 100)
QUERY_COUNTS = (1, 10, 100, 1_000)
KEYS_MOST = 100_000
#: How much event time is compared. What is sent to begin is part of it, so a quick run must not be shorter here.
SECONDS = 10
SECONDS_QUERIES = 30


@dataclass
class NetworkBench:
    """One run of the figures about bytes; what was measured is kept by (experiment, mode, x) for the plots."""

    report: Report
    cells: dict[tuple[str, str, int], Cell] = field(default_factory=dict)

    def cell(self, experiment: str, mode: str, x: int, queries: list[Any], **shape: Any) -> Cell:
        """Measure one place of an experiment's axis."""
        cell = measure(Shape(**shape), queries)
        levels = " + ".join(f"{size:,}" for size in cell.level_bytes)
        found = f"{levels} bytes by level, {sum(cell.begin_bytes):,} to begin, central {cell.central_bytes:,} a level"
        self.report.say(f"  {experiment}, {mode}, {x:,}: {found}; {cell.ratio:.5f}")
        self.cells[experiment, mode, x] = cell
        return cell

    def seconds(self, full: int) -> int:
        """How much event time a run covers."""
        return max(3, full // 4) if self.report.quick else full


def decomposable(bench: NetworkBench) -> None:
    """Averages by few keys, with one source and with thousands."""
    worst = 0.0
    sensors = "sensors with a beat, each time about a millisecond off it"
    for sources, leaves in ((1, 2), (100, 2), (10_000, 1)):
        for keys in KEY_COUNTS:
            shape = {"leaves": leaves, "sources": sources, "keys": keys, "seconds": SECONDS}
            cell = bench.cell(f"sources_{sources}", "avg", keys, average(), **shape)
            note = f"all links / central; {cell.steady_ratio:.3g} without the start"
            bench.report.add(f"network_{sources}_sources_{keys}_keys", cell.ratio, "ratio", None, note)
            worst = max(worst, cell.ratio)
    bench.report.add("network_decomposable", worst, "ratio", at_most(0.01), f"the worst of these; {sensors}")
    # Nothing about such sources can be foretold: it takes more bytes to say how far each one is.
    shape = {"leaves": 1, "sources": 10_000, "keys": 100, "seconds": SECONDS, "is_steady": False}
    cell = bench.cell("random_sources", "avg", 100, average(), **shape)
    note = f"{cell.steady_ratio:.3g} without the start; each event of a random source at a random time"
    bench.report.add("network_10000_random_sources", cell.ratio, "ratio", None, note)


def heights(bench: NetworkBench) -> None:
    """Further levels of relays above the leaves, as in Disco's figure 28: height 2 has none."""
    leaves, widths = (4, (2, 1, 1)) if bench.report.quick else (16, (4, 2, 1))
    worst, before = 0.0, None
    for height in range(2, 6):
        relays = widths[: height - 2]
        shape = {"leaves": leaves, "relays": relays, "keys": 100, "seconds": bench.seconds(5)}
        cell = bench.cell("height", "avg", height, average(), **shape)
        if before is not None:
            worst = max(worst, (cell.total_bytes - before.total_bytes) / cell.central_bytes)
        before = cell
    note = f"{leaves} leaves, 100 keys; the level that adds most"
    bench.report.add("network_height_growth", worst, "ratio", at_most(0.001), note)


def concurrent_windows(bench: NetworkBench) -> None:
    """Windows of 1, 2, ... seconds over the same keys: their slices are the same."""
    for count in QUERY_COUNTS:
        bench.cell("windows", "avg", count, average(count), keys=100, seconds=SECONDS_QUERIES)
    one = bench.cells["windows", "avg", 1]
    many = [bench.cells["windows", "avg", count] for count in QUERY_COUNTS[1:]]
    with_begin = max(cell.total_bytes / one.total_bytes for cell in many)
    steady = max(sum(cell.level_bytes) / sum(one.level_bytes) for cell in many)
    note = f"{one.shape.seconds} s and the distribution of the queries; {steady:.3f} without it"
    bench.report.add("network_queries_growth", with_begin, "ratio", at_most(1.5), note)


def holistic(bench: NetworkBench) -> None:
    """Medians: sorted values travel, once."""
    cell = bench.cell("median", "median", 10, medians(), leaves=4, relays=(2,), keys=10, seconds=bench.seconds(5))
    bench.report.add("network_median", cell.worst_level, "ratio", at_most(0.6), "the level that saves least")


def many_keys(bench: NetworkBench) -> None:
    """About as many keys as events in a second."""
    cell = bench.cell("keys", "avg", KEYS_MOST, average(), keys=KEYS_MOST, seconds=bench.seconds(5))
    note = f"{KEYS_MOST:,} keys; the level that saves least"
    bench.report.add("network_keys_worst", cell.worst_level, "ratio", at_most(1.0), note)


QUESTIONS = (decomposable, heights, concurrent_windows, holistic, many_keys)
