"""Schemes over real links: leaves and a root in processes that ZeroMQ links on loopback, with events from a segment log.

The log is written and decoded before anything is timed. All leaves share one process and the root has another: two processors
are all there is here, and leaves that share one stay about equally far, as sensors do. Every scheme has the same settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa

from headwater.bench.deco_schemes import APPROX, plain_query, root_settings
from headwater.bench.deco_truth import TrueWindows, Truth, right_sums
from headwater.bench.deco_workload import PLAIN, CountWorkload
from headwater.bench.load import LoadError
from headwater.edge.cluster import Cluster
from headwater.edge.outcome import Outcome
from headwater.edge.pace import Pace
from headwater.edge.plan import ROOT, Leaf, Plan
from headwater.edge.sources import LogSource
from headwater.logs import Log
from headwater.node import NodeSettings

#: A leaf gathers for a millisecond or two; nothing is lost on loopback, so nothing is sent twice however long a thin link takes.
LINGER_NS = 1_000_000
RESEND_NS = 120_000_000_000
EVENTS_MAX = 1 << 17
#: Every scheme once, so that all kernels are there, over so many windows.
WARM_WINDOWS = 6
LIMIT_S = 180.0


@dataclass(frozen=True)
class Logged:
    """A workload as a log with a partition for each leaf, and its true windows."""

    workload: CountWorkload
    path: Path
    truth: TrueWindows

    def plan(
        self,
        scheme: str,
        *,
        windows: int | None = None,
        pace: Pace | None = None,
        bits_per_s: float | None = None,
        linger_ns: int = LINGER_NS,
    ) -> Plan:
        """Run a scheme over the first so many windows of it, or all."""
        stops = self.workload.offsets[-1] if windows is None else self.truth.to_offsets[windows - 1]
        leaves = tuple(
            Leaf(name, (LogSource(name, self.path, number, int(stops[number]), in_memory=True, pace=pace),))
            for number, name in enumerate(self.workload.names)
        )
        # What a leaf may be asked for has to stay in memory, however far behind the slowest of the leaves is.
        held = 2 * int(stops.max())
        return Plan(
            (plain_query(self.workload.window),),
            leaves,
            root_settings=root_settings(scheme),
            leaf_settings=NodeSettings(linger_ns=linger_ns, resend_ns=RESEND_NS, held_max=held, is_recorded=False),
            bits_per_s=bits_per_s,
            leaves_per_process=len(leaves),
            events_max=EVENTS_MAX,
            limit_s=LIMIT_S,
        )


@contextmanager
def logged(workload: CountWorkload) -> Iterator[Logged]:
    """The events of a workload on disk, without members: those are for the truth alone."""
    with TemporaryDirectory(prefix="headwater-bench-") as folder:
        path = Path(folder, "log")
        log, truth = Log.create(path, partition_count=workload.leaves, time="time"), Truth(workload)
        with ExitStack() as stack:
            writers = [stack.enter_context(log.writer(leaf, fsync="never")) for leaf in range(workload.leaves)]
            for number in range(workload.slices):
                batches = [workload.batch(leaf, number) for leaf in range(workload.leaves)]
                truth.add(batches)
                for writer, batch in zip(writers, batches, strict=True):
                    writer.append(batch.select(list(PLAIN)), arrival=0)
        yield Logged(workload, path, truth.windows())


@contextmanager
def warm_cluster(events: Logged, schemes: Sequence[str]) -> Iterator[Cluster]:
    """Processes in which each scheme has run already."""
    with Cluster(events.plan(schemes[0])) as cluster:
        for scheme in schemes:
            cluster.run(events.plan(scheme, windows=min(WARM_WINDOWS, len(events.truth))))
        yield cluster


def take_turns(cluster: Cluster, plans: dict[str, Plan], truth: TrueWindows, repeats: int) -> dict[str, list[Outcome]]:
    """Run every plan several times, in turns: a slow minute of the machine hits all of them."""
    outcomes: dict[str, list[Outcome]] = {scheme: [] for scheme in plans}
    for _ in range(repeats):
        for scheme, plan in plans.items():
            outcome = cluster.run(plan)
            if scheme != APPROX:
                check_sums(outcome.rows, truth, scheme)
            outcomes[scheme].append(outcome)
    return outcomes


def check_sums(rows: pa.Table, truth: TrueWindows, scheme: str) -> None:
    """A fast answer to another question is not counted: the rows are those of the first windows."""
    right = right_sums(rows, truth)
    if not right.any() or int(right.sum()) != rows.num_rows or not right[: rows.num_rows].all():
        raise LoadError(f"with the scheme {scheme!r} {rows.num_rows - int(right.sum())} rows are of no true window")


@dataclass(frozen=True)
class LinkRate:
    """The fastest of several runs of a scheme, which others disturbed least, and the middle one."""

    scheme: str
    best: float
    middle: float
    #: Events per second if each of both processes had a processor for itself: that of the busier one.
    alone: float
    root_cpus: float
    total_bytes_per_event: float

    @classmethod
    def of(cls, scheme: str, outcomes: Sequence[Outcome]) -> LinkRate:
        rates = [outcome.events_per_s for outcome in outcomes]
        fastest = max(outcomes, key=lambda outcome: outcome.events_per_s)
        return cls(
            scheme,
            max(rates),
            median(rates),
            max(outcome.events / max(root_and_leaves(outcome)) for outcome in outcomes),
            fastest.root.cpu_s / fastest.wall_s,
            fastest.total_bytes / fastest.events,
        )

    def __str__(self) -> str:
        return (
            f"{self.scheme} {self.best / 1e6:.1f} M/s (middle {self.middle / 1e6:.1f}, by CPU {self.alone / 1e6:.1f})"
        )


def root_and_leaves(outcome: Outcome) -> tuple[float, float]:
    """Processor seconds of the process of the root, and of that of the leaves."""
    return outcome.root.cpu_s, sum(node.cpu_s for name, node in outcome.nodes.items() if name != ROOT)
