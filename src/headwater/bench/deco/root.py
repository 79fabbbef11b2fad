"""What a window costs the root, with few leaves and with a thousand: each sends once per window, straight or through relays."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.bench.common.report import Report, at_most
from headwater.bench.deco.run import ROOT, CountTree
from headwater.bench.deco.schemes import UNRECORDED, plain_query, root_settings
from headwater.bench.deco.workload import PLAIN, DecoWorkload, recent_batches
from headwater.node import RootNode
from headwater.protocols.events import Event

LEAVES = (8, 64, 1_000)
WINDOW = 1_000_000
WINDOW_COUNT, WARM = 16, 8
#: The number of leaves below a relay.
BELOW_RELAY = 250
SCHEME = "auto"
REPLAYS = 3


@dataclass(frozen=True)
class RootCost:
    """Processor milliseconds for a window: of the root without relays, and behind some; with those also of the busiest relay."""

    leaves: int
    direct_ms: float
    relays: int = 0
    relayed_ms: float = math.inf
    relay_ms: float = 0.0

    @property
    def best_ms(self) -> float:
        return min(self.direct_ms, self.relayed_ms)

    def __str__(self) -> str:
        shown = f"{self.leaves:,} leaves: {self.direct_ms:.1f} ms straight"
        if self.relays:
            shown += f", {self.relayed_ms:.1f} ms behind {self.relays} relays (a relay {self.relay_ms:.1f} ms)"
        return shown


def root_costs(report: Report) -> list[RootCost]:
    """The cost at the root for a window of a million events, and how it grows with leaves."""
    leaves = (8, 64) if report.quick else LEAVES
    costs = []
    for count in leaves:
        costs.append(root_cost(DecoWorkload(count, WINDOW, WINDOW_COUNT // 2 if report.quick else WINDOW_COUNT)))
        bound = at_most(20) if count == 1_000 else None
        report.add(f"root_cpu_ms_{count}", costs[-1].best_ms, "ms", bound, str(costs[-1]))
    add_growth(report, costs)
    return costs


def add_growth(report: Report, costs: Sequence[RootCost]) -> None:
    """The worst step from one number of leaves to the next, all without relays: the ends alone would hide it."""
    steps = [(many.direct_ms / few.direct_ms) / (many.leaves / few.leaves) for few, many in pairwise(costs)]
    shown = ", ".join(f"{cost.leaves:,}: {cost.direct_ms:.1f} ms" for cost in costs)
    report.add("root_cpu_growth", max(steps), "ratio", at_most(1.0), f"the worst step, 1 is linear; straight, {shown}")


def root_cost(workload: DecoWorkload) -> RootCost:
    """The cost of a workload at the root."""
    relays = -(-workload.leaves // BELOW_RELAY)
    direct_ms, _ = _steady(workload, 0)
    return RootCost(workload.leaves, direct_ms, *((relays, *_steady(workload, relays)) if relays > 1 else ()))


def _steady(workload: DecoWorkload, relays: int) -> tuple[float, float]:
    """Without the first windows and the end; a leaf reads all its events of a window time at once.

    The root is timed alone: another one hears the same again, for in a process with a thousand leaves it finds nothing in the
    processor's caches. Of several times the quickest, which others have disturbed least.
    """
    gc.collect()
    query, batches = plain_query(workload.window), recent_batches(workload, 4 * workload.parts)
    tree = CountTree(workload, batches, SCHEME, query, PLAIN, workload.parts, relays)
    warm = min(WARM, workload.windows // 2) * workload.parts
    tree.read_until(warm)
    begin, before = len(tree.heard), dict(tree.work)
    tree.read_until(workload.slices)
    windows = int((workload.offsets[-1] - workload.offsets[warm]).sum()) / workload.window
    works = [work - before.get(name, 0) for name, work in tree.work.items() if name.startswith("relay")]
    heard = tree.heard
    # Nor do leaves, or what is loaded, count where garbage is looked for; as in a process of a cluster.
    del tree
    gc.collect()
    gc.freeze()
    roots = (RootNode(ROOT, [query], settings=UNRECORDED, **root_settings(SCHEME)) for _ in range(REPLAYS))
    root_s = min(_alone_s(root, heard, begin) for root in roots)
    gc.unfreeze()
    return 1e3 * root_s / windows, 1e3 * max(works, default=0.0) / windows


def _alone_s(root: RootNode, heard: Sequence[tuple[Event, int]], begin: int) -> float:
    """Processor seconds of a root for what it hears from a place on."""
    for event, now_ns in heard[:begin]:
        root.handle(event, now_ns)
    start = time.process_time()
    for event, now_ns in heard[begin:]:
        root.handle(event, now_ns)
    return time.process_time() - start
