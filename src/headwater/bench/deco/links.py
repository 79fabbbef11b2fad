"""Schemes over real links: leaves and a root in processes that ZeroMQ links on loopback, with events from a segment log.

The log is written and decoded before anything is timed. All leaves share one process and the root has another: two processors
are all there is here, and leaves that share one stay about equally far, as sensors do. Every scheme has the same settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa

from headwater.bench.common.timing import in_turns
from headwater.bench.deco.schemes import APPROX, plain_query, root_settings
from headwater.bench.deco.truth import TrueWindows, WindowTruth, right_sums
from headwater.bench.deco.workload import PLAIN, DecoWorkload
from headwater.bench.load.driver import LoadError
from headwater.edge.cluster.cluster import Cluster
from headwater.edge.cluster.outcome import ClusterOutcome, NodeOutcome
from headwater.edge.cluster.plan import ROOT, ClusterPlan, Leaf
from headwater.edge.pace import Pace
from headwater.edge.sources import LogSource
from headwater.logs import Log
from headwater.node import NodeSettings

#: A leaf gathers for a millisecond or two; nothing is lost on loopback, so nothing is sent twice however long a thin link takes.
LINGER_NS = 1_000_000
RESEND_NS = 120_000_000_000
#: On links that carry a frame at once, a node that waits this long has missed something.
RESEND_FAST_NS = 5_000_000_000
#: The events that a leaf is given at once, and the deltas it may have under way: it is about four windows ahead at most.
EVENTS_MAX = 1 << 17
STEPS_MAX = 8
#: Before anything is timed every scheme has run over this many windows, so that all kernels are there.
WARM_WINDOWS = 8
LIMIT_S = 180.0


@dataclass(frozen=True)
class Logged:
    """A workload as a log with a partition for each leaf, and its true windows."""

    workload: DecoWorkload
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
    ) -> ClusterPlan:
        """Run a scheme over its first ``windows``, or all."""
        stops = self.workload.offsets[-1] if windows is None else self.truth.to_offsets[windows - 1]
        leaves = tuple(
            Leaf(name, (LogSource(name, self.path, number, int(stops[number]), in_memory=True, pace=pace),))
            for number, name in enumerate(self.workload.names)
        )
        # What a leaf may be asked for has to stay in memory, however far behind the slowest of the leaves is.
        held = 2 * int(stops.max())
        return ClusterPlan(
            (plain_query(self.workload.window),),
            leaves,
            root_settings=root_settings(scheme),
            leaf_settings=NodeSettings(
                linger_ns=linger_ns,
                resend_ns=RESEND_FAST_NS if bits_per_s is None else RESEND_NS,
                steps_max=STEPS_MAX,
                held_max=held,
                is_recorded=False,
            ),
            bits_per_s=bits_per_s,
            leaves_per_process=len(leaves),
            events_max=EVENTS_MAX,
            limit_s=LIMIT_S,
        )


@contextmanager
def logged(workload: DecoWorkload) -> Iterator[Logged]:
    """The events of a workload on disk, without members: those are for the truth alone."""
    with TemporaryDirectory(prefix="headwater-bench-") as folder:
        path = Path(folder, "log")
        # As many events in a record as a leaf is given at once.
        yield Logged(workload, path, write_log(workload, path, PLAIN, EVENTS_MAX))


def write_log(workload: DecoWorkload, path: Path, columns: Sequence[str], record_events: int = 0) -> TrueWindows:
    """Write a workload as a log, a partition for each leaf; returns the true windows.

    A record has one slice of time, or several while they have no more than ``record_events``.
    """
    log, truth = Log.create(path, partition_count=workload.leaves, time="time"), WindowTruth(workload)
    waiting: list[list[pa.RecordBatch]] = [[] for _ in range(workload.leaves)]
    with ExitStack() as stack:
        writers = [stack.enter_context(log.writer(leaf, fsync="never")) for leaf in range(workload.leaves)]
        for number in range(workload.slices):
            batches = [workload.batch(leaf, number) for leaf in range(workload.leaves)]
            truth.add(batches)
            is_last = number == workload.slices - 1
            for writer, gathered, batch in zip(writers, waiting, batches, strict=True):
                gathered.append(batch.select(list(columns)))
                # One more of these would be too many.
                if is_last or sum(map(len, gathered)) + len(batch) > record_events:
                    writer.append(pa.concat_batches(gathered), arrival_ns=0)
                    gathered.clear()
    return truth.windows()


@contextmanager
def warm_cluster(events: Logged, schemes: Sequence[str]) -> Iterator[Cluster]:
    """A cluster in whose processes each scheme has run already."""
    with Cluster(events.plan(schemes[0])) as cluster:
        for scheme in schemes:
            cluster.run(events.plan(scheme, windows=min(WARM_WINDOWS, len(events.truth))))
        yield cluster


def take_turns(
    cluster: Cluster, plans: dict[str, ClusterPlan], truth: TrueWindows, repeats: int
) -> dict[str, list[ClusterOutcome]]:
    """Run every plan several times, in turns."""

    def checked(scheme: str, plan: ClusterPlan) -> ClusterOutcome:
        outcome = cluster.run(plan)
        if scheme != APPROX:
            check_sums(outcome.rows, truth, scheme)
        return outcome

    return dict(zip(plans, in_turns([partial(checked, scheme, plan) for scheme, plan in plans.items()], repeats)))


def check_sums(rows: pa.Table, truth: TrueWindows, scheme: str) -> None:
    """Refuse rows that are not those of the first windows: a fast answer to another question does not count."""
    right = right_sums(rows, truth)
    if not right.any() or int(right.sum()) != rows.num_rows or not right[: rows.num_rows].all():
        raise LoadError(f"with the scheme {scheme!r} {rows.num_rows - int(right.sum())} rows are of no true window")


def window_of(outcome: ClusterOutcome) -> int:
    """The size of the windows of a run."""
    rows = outcome.rows
    return int(rows["window_end"][0].as_py() - rows["window_start"][0].as_py())


def busier_s(outcome: ClusterOutcome, seconds: Callable[[NodeOutcome], float]) -> float:
    """Seconds of the root or of all leaves together, whichever took more."""
    root, leaves = seconds(outcome.root), (seconds(node) for name, node in outcome.nodes.items() if name != ROOT)
    return max(root, sum(leaves))


def check_rate(outcome: ClusterOutcome, scheme: str) -> None:
    """Refuse a run whose thread worked longer than the clock ran: it is not timed rightly."""
    busiest_s = busier_s(outcome, lambda node: node.work_s)
    if outcome.wall_s < 0.95 * busiest_s:
        raise LoadError(f"{scheme!r}: {busiest_s:.2f} s of work in a run of {outcome.wall_s:.2f} s")


@dataclass(frozen=True)
class LinkRate:
    """The rates of a scheme over several runs: the fastest, which others disturbed least, and the median.

    A run is timed as a whole, from the begin of reading to the end of the stream. Not from the row of a later window on: by then
    leaves have read ahead, and what they have read would count as done in no time.
    """

    scheme: str
    best: float
    middle: float
    #: Events per second if each of both processes had a processor for itself: that of the busier one. No run can be faster.
    by_cpu: float
    total_bytes_per_event: float

    @classmethod
    def of(cls, scheme: str, outcomes: Sequence[ClusterOutcome]) -> LinkRate:
        """The rates of some runs."""
        for outcome in outcomes:
            check_rate(outcome, scheme)
        rates = [outcome.events_per_s for outcome in outcomes]
        by_cpu = max(outcome.events / busier_s(outcome, lambda node: node.cpu_s) for outcome in outcomes)
        least = min(outcome.total_bytes / outcome.events for outcome in outcomes)
        return cls(scheme, max(rates), median(rates), by_cpu, least)

    def __str__(self) -> str:
        return (
            f"{self.scheme} {self.best / 1e6:.1f} M/s (middle {self.middle / 1e6:.1f}, by CPU {self.by_cpu / 1e6:.1f})"
        )
