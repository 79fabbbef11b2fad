"""What a window costs the root, with few leaves and with a thousand: each sends once per window, straight or through relays."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.bench.deco_run import ROOT, Run, run_together
from headwater.bench.deco_schemes import UNRECORDED, plain_query, root_settings
from headwater.bench.deco_workload import PLAIN, CountWorkload
from headwater.bench.report import Report, at_most
from headwater.bench.timing import Progress

LEAVES = (8, 64, 1_000)
WINDOW = 1_000_000
WINDOW_COUNT, WARM = 16, 8
#: A relay for so many leaves.
BELOW_RELAY = 32
SCHEME = "auto"


@dataclass(frozen=True)
class RootCost:
    """Processor milliseconds of the root for a window, without relays and with; None if there are none."""

    leaves: int
    direct: Run
    relayed: Run | None

    @property
    def best_ms(self) -> float:
        return min(run.root_ms_per_window for run in (self.direct, self.relayed) if run is not None)

    def __str__(self) -> str:
        shown = f"{self.leaves:,} leaves: {self.direct.root_ms_per_window:.1f} ms straight"
        if self.relayed is not None:
            relays = [work for name, work in self.relayed.work.items() if name.startswith("relay")]
            busiest = 1e3 * max(relays) * self.relayed.workload.window / max(1, self.relayed.events)
            shown += (
                f", {self.relayed.root_ms_per_window:.1f} ms behind {len(relays)} relays (a relay {busiest:.1f} ms)"
            )
        return shown


def root_costs(report: Report, progress: Progress) -> list[RootCost]:
    """The cost at the root for a window of a million events, and how it grows with leaves."""
    leaves = (8, 64) if report.quick else LEAVES
    costs = []
    for count in leaves:
        costs.append(root_cost(CountWorkload(count, WINDOW, WINDOW_COUNT // 2 if report.quick else WINDOW_COUNT)))
        progress.say(f"  {costs[-1]}")
        report.add(
            f"root_cpu_ms_{count}", costs[-1].best_ms, "ms", at_most(20) if count == 1_000 else None, str(costs[-1])
        )
    add_growth(report, costs)
    return costs


def add_growth(report: Report, costs: Sequence[RootCost]) -> None:
    """The worst step from one number of leaves to the next, all without relays: the ends alone would hide it."""
    steps = [
        (many.direct.root_ms_per_window / few.direct.root_ms_per_window) / (many.leaves / few.leaves)
        for few, many in pairwise(costs)
    ]
    shown = ", ".join(f"{cost.leaves:,}: {cost.direct.root_ms_per_window:.1f} ms" for cost in costs)
    report.add("root_cpu_growth", max(steps), "ratio", at_most(1.0), f"the worst step, 1 is linear; straight, {shown}")


def root_cost(workload: CountWorkload, scheme: str = SCHEME) -> RootCost:
    """Of a number of leaves."""
    relays = -(-workload.leaves // BELOW_RELAY)
    direct = _steady(workload, scheme, 0)
    return RootCost(workload.leaves, direct, _steady(workload, scheme, relays) if relays > 1 else None)


def _steady(workload: CountWorkload, scheme: str, relays: int) -> Run:
    """Without the first windows; a leaf reads all its events of a window time at once."""
    gc.collect()
    settings = {**root_settings(scheme), "settings": UNRECORDED, "relays": relays}
    warm = min(WARM, workload.windows // 2)
    runs, _ = run_together(
        workload, plain_query(workload.window), {scheme: settings}, PLAIN, at_once=workload.parts, warm_windows=warm
    )
    assert ROOT in runs[scheme].work
    return runs[scheme]
