"""Over rate changes, window sizes and numbers of leaves: which scheme is fastest where, and how near `auto` comes to it.

A scheme's throughput is that of its busiest node: events / its processor time, as if each node had a processor of its own, as on
the papers' clusters. First windows, in which all schemes still learn, are not timed. Where windows are small a leaf reads many at
once, as it would at such rates.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.bench.common.report import Report, at_least
from headwater.bench.deco.run import SchemeRun, run_together
from headwater.bench.deco.schemes import EXACT, SCHEMES, plain_query
from headwater.bench.deco.truth import TrueWindows, right_sums, shared_events, true_windows
from headwater.bench.deco.workload import PLAIN, DecoWorkload
from headwater.engine.counting.approx import split_evenly

CHANGES = (0.001, 0.01, 0.05, 0.1, 0.5, 1.0)
#: How many windows of each size are run, and how many of these are for warming up.
WINDOWS = {1_000: (1_000, 160), 10_000: (320, 60), 100_000: (60, 12), 1_000_000: (24, 6)}
QUICK_CHANGES = (0.01, 0.5)
QUICK_WINDOWS = {1_000: (600, 120), 100_000: (12, 4)}
LEAVES = (1, 2, 4, 8, 16, 32)
#: The least number of events that a leaf reads at a time.
BATCH_EVENTS = 1 << 14
REPEATS = 2


@dataclass(frozen=True)
class SweepPlace:
    """What schemes showed at one place."""

    workload: DecoWorkload
    rates: dict[str, float]
    runs: dict[str, SchemeRun]
    #: The part of windows that are right, of the exact scheme that has fewest: 1.
    exact_right: float
    #: As the paper measures: the part of all events that approx has in their true windows.
    approx_right: float

    @property
    def best(self) -> str:
        """The fastest of those that are right."""
        return max((scheme for scheme in self.rates if scheme in EXACT), key=lambda scheme: self.rates[scheme])

    @property
    def auto_share(self) -> float:
        return self.rates["auto"] / self.rates[self.best]

    def __str__(self) -> str:
        rates = ", ".join(f"{scheme} {rate / 1e6:.1f}" for scheme, rate in self.rates.items())
        place = f"{self.workload.change:.1%}, {self.workload.window:,} events, {self.workload.leaves} leaves"
        return f"{place}: M events/s {rates}; auto {self.auto_share:.2f}, approx has {self.approx_right:.4f}"


@dataclass
class SweepBench:
    """All cells; each is measured once, however often it is asked for."""

    report: Report
    cells: dict[tuple[float, int, int], SweepPlace] = field(default_factory=dict)

    def cell(self, change: float, window: int, leaves: int = 8) -> SweepPlace:
        """The cell of these settings."""
        place = change, window, leaves
        if place not in self.cells:
            count, warm = (QUICK_WINDOWS if self.report.quick else WINDOWS)[window]
            workload = DecoWorkload(leaves, window, count, change)
            self.cells[place] = measured(workload, warm, 1 if self.report.quick else REPEATS)
            self.report.say(f"  {self.cells[place]}")
        return self.cells[place]

    def run(self) -> None:
        """How near auto comes to the best at the worst place, and how often approx is right."""
        changes, windows = (QUICK_CHANGES, QUICK_WINDOWS) if self.report.quick else (CHANGES, WINDOWS)
        warm_up()
        cells = [self.cell(change, window) for window in windows for change in changes]
        for cell in cells:
            if cell.workload.window == max(windows):
                name = f"approx_correct_{cell.workload.change * 100:g}_percent"
                self.report.add(name, cell.approx_right, "ratio", None, "events that are in their true window")
        worst = min(cells, key=lambda cell: cell.auto_share)
        note = f"of {len(cells)} places, by the busiest node's processor time; the best there is {worst.best}; {worst}"
        self.report.add("auto_worst", worst.auto_share, "ratio", at_least(0.8), note)

    def more_leaves(self) -> None:
        """For the papers' figures."""
        window = max(QUICK_WINDOWS if self.report.quick else WINDOWS)
        for leaves in (1, 2) if self.report.quick else LEAVES:
            self.cell(0.01, window, leaves)


def slices_at_once(workload: DecoWorkload) -> int:
    """How many slices of time make a batch of a leaf.

    >>> slices_at_once(DecoWorkload(leaves=8, window=1_000)), slices_at_once(DecoWorkload(leaves=8))
    (132, 1)
    """
    per_slice = workload.window / workload.parts / workload.leaves
    return max(1, -int(-BATCH_EVENTS // per_slice))


def warm_up() -> None:
    """Kernels are compiled or loaded."""
    for window, count in ((1_000, 200), (50_000, 12)):
        measured(DecoWorkload(2, window, count, 0.1), 2, 1)


def measured(workload: DecoWorkload, warm: int, repeats: int) -> SweepPlace:
    """Every scheme over the same events, several times; the best rate of each."""
    query, at_once = plain_query(workload.window), slices_at_once(workload)
    repeated = [run_together(workload, query, SCHEMES, PLAIN, at_once, warm) for _ in range(repeats)]
    rates = {scheme: max(runs[scheme].rate for runs in repeated) for scheme in SCHEMES}
    runs, truth = repeated[0], true_windows(workload)
    exact = float(min(right_sums(runs[scheme].rows, truth).mean() for scheme in EXACT))
    return SweepPlace(workload, rates, runs, exact, approx_share(truth))


def approx_share(truth: TrueWindows) -> float:
    """The part of all events that is in its true window if every window has as many of each leaf as the first one.

    >>> [round(approx_share(true_windows(DecoWorkload(8, 1_000, 20, change))), 2) for change in (0.0, 0.5)]
    [1.0, 0.15]
    """
    first = truth.to_offsets[0] - truth.from_offsets[0]
    counts = split_evenly(first, truth.size)[None, :].repeat(len(truth), axis=0)
    return shared_events(counts, truth) / (truth.size * len(truth))
