"""How many events a second each scheme takes over real links, with and without thin ones; then how late its results are.

A result's latency is the time from the moment at which an event is due that makes a window provable until its row is out. Events
come on a schedule that waits for no node, as their own times say. A window can be proven once every leaf has shown an event
behind its last one: the latest of these is what counts, and what a leaf gathers, links carry and the root computes is in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.base.arrays import Float64Array, Int64Array
from headwater.bench.common.report import Report, at_least, at_most
from headwater.bench.deco import links
from headwater.bench.deco.links import LinkRate, Logged
from headwater.bench.deco.workload import DecoWorkload
from headwater.edge.cluster.cluster import Cluster
from headwater.edge.cluster.outcome import ClusterOutcome
from headwater.edge.cluster.plan import ClusterPlan
from headwater.edge.pace import Pace
from headwater.edge.sources import LogSource

SCHEMES = ("async", "approx", "central", "auto", "sync", "monitor")
THIN = ("async", "central")
THIN_BITS = 100e6
THIN_WINDOWS = 56
REPEATS = 4
LATE = ("async", "central", "auto")
FULL = DecoWorkload(windows=56)
QUICK = DecoWorkload(window=100_000, windows=20)
LOAD = 0.75
LATENCY_LINGER_NS = 500_000
#: A rate that is not sustained is lowered by this factor, for a number of trials.
SLOWER = 0.8
TRIALS = 6
#: Sustained: the last windows are no later than this behind the first, or than half the time that a window takes.
DRIFT_MS = 20.0
#: Forecasts need some windows to begin with.
SKIPPED = 8


@dataclass
class LinkBench:
    """What was measured over links."""

    report: Report
    rates: dict[str, LinkRate] = field(default_factory=dict)
    thin: dict[str, LinkRate] = field(default_factory=dict)
    latencies: dict[str, WindowLatency] = field(default_factory=dict)

    def run(self, workload: DecoWorkload | None = None) -> None:
        """All of it over one log, in the same two processes."""
        workload = workload or (QUICK if self.report.quick else FULL)
        self.report.say(f"links: writing {workload.events:,} events")
        with links.logged(workload) as events, links.warm_cluster(events, SCHEMES) as cluster:
            self._throughput(cluster, events)
            self._thin_links(cluster, events)
            self._latency(cluster, events)

    def _throughput(self, cluster: Cluster, events: Logged) -> None:
        plans = {scheme: events.plan(scheme) for scheme in SCHEMES}
        self.rates = self._measured(cluster, events, plans, 1 if self.report.quick else REPEATS)
        report, rates = self.report, self.rates
        for scheme, rate in rates.items():
            report.add(f"link_rate_{scheme}", rate.best, "events/s", None, str(rate))
        where = (
            f"{len(events.truth)} windows, learning included; {events.workload.leaves} leaves in one process, "
            f"the root in another; {links.EVENTS_MAX:,} events read at once, linger {links.LINGER_NS / 1e6:g} ms"
        )
        for name, scheme, bound in (("async_vs_approx", "approx", 0.9), ("async_vs_central", "central", 3)):
            by_cpu = rates["async"].by_cpu / rates[scheme].by_cpu
            note = f"{rates['async']}, {rates[scheme]}; by CPU {by_cpu:.2f}; {where}"
            report.add(name, rates["async"].best / rates[scheme].best, "ratio", at_least(bound), note)

    def _thin_links(self, cluster: Cluster, events: Logged) -> None:
        windows = min(THIN_WINDOWS, len(events.truth))
        plans = {scheme: events.plan(scheme, windows=windows, bits_per_s=THIN_BITS) for scheme in THIN}
        self.thin = self._measured(cluster, events, plans, 1 if self.report.quick else REPEATS)
        ours, central = (self.thin[scheme] for scheme in THIN)
        note = f"{ours}, {central}; central sends {central.total_bytes_per_event:.0f} bytes an event, {windows} windows"
        self.report.add("async_vs_central_100mbit", ours.best / central.best, "ratio", at_least(10), note)

    def _measured(
        self, cluster: Cluster, events: Logged, plans: dict[str, ClusterPlan], repeats: int
    ) -> dict[str, LinkRate]:
        found = {}
        for scheme, outcomes in links.take_turns(cluster, plans, events.truth, repeats).items():
            found[scheme] = LinkRate.of(scheme, outcomes)
            self.report.say(f"  links: {found[scheme]}")
        return found

    def _latency(self, cluster: Cluster, events: Logged) -> None:
        for scheme in LATE:
            self.latencies[scheme] = found = latency_of(cluster, events, scheme, self.rates[scheme].best)
            bound = at_most(5) if scheme == "async" else None
            self.report.add(f"latency_{scheme}_ms", found.median_ms, "ms", bound, str(found))
        self.report.add("latency_async_p99_ms", self.latencies["async"].p99_ms, "ms")


# --- latency ---


@dataclass(frozen=True)
class WindowLatency:
    """How late the windows of one run were, in milliseconds."""

    median_ms: float
    p99_ms: float
    windows: int
    rate: float
    sustained: float

    def __str__(self) -> str:
        return (
            f"median {self.median_ms:.1f} ms, p99 {self.p99_ms:.1f} ms of {self.windows} windows at "
            f"{self.rate / 1e6:.1f} M events/s, {self.rate / self.sustained:.0%} of what is sustained"
        )


def latency_of(cluster: Cluster, events: Logged, scheme: str, rate: float) -> WindowLatency:
    """At 75 % of the rate that a scheme sustains; ``rate``: the one to try first."""
    behind = provable_times(events)
    for _ in range(TRIALS):
        if is_steady(latencies_ms(paced(cluster, events, scheme, rate), behind, rate), events.workload.window / rate):
            break
        rate *= SLOWER
    found = latencies_ms(paced(cluster, events, scheme, LOAD * rate), behind, LOAD * rate)
    middle, late = np.quantile(found, (0.5, 0.99))
    return WindowLatency(float(middle), float(late), len(found), LOAD * rate, rate)


def paced(cluster: Cluster, events: Logged, scheme: str, rate: float) -> ClusterOutcome:
    """Run a scheme at a rate: all leaves together have an event per unit of their time on average, so units are events."""
    return cluster.run(events.plan(scheme, pace=Pace(0, rate), linger_ns=LATENCY_LINGER_NS))


def provable_times(events: Logged) -> Int64Array:
    """For each window the time of the event that lets it be proven: behind its last, the first of each leaf; of these the latest.

    The last windows, behind which some leaf has no event, are left out.
    """
    firsts = []
    for number, name in enumerate(events.workload.names):
        times = times_of(LogSource(name, events.path, number))
        place = np.searchsorted(times, events.truth.last_times, side="right")
        firsts.append(np.append(times, np.iinfo(np.int64).max)[place])
    latest = np.max(firsts, axis=0)
    return np.asarray(latest[latest < np.iinfo(np.int64).max])


def times_of(source: LogSource) -> Int64Array:
    """The times of all events of a source."""
    store, times, offset = source.open(), [], 0
    while (found := store.load(offset)) is not None:
        times.append(found[1]["time"].to_numpy())
        offset = found[0] + len(found[1])
    return np.concatenate(times)


def latencies_ms(outcome: ClusterOutcome, behind: Int64Array, rate: float) -> Float64Array:
    """How late each window's row was, but those of the first."""
    places = np.searchsorted(outcome.rows["window_start"].to_numpy(), np.arange(len(behind)) * links.window_of(outcome))
    due_ns = outcome.begin_ns + Pace(0, rate).moments_ns(behind)
    late: Float64Array = (outcome.row_emitted_ns[places] - due_ns) / 1e6
    return late[min(SKIPPED, len(late) // 2) :]


def is_steady(late_ms: Float64Array, window_s: float) -> bool:
    """Whether the rows of the last windows are not much later than those of the first.

    >>> is_steady(np.array([3.0, 4, 3, 4, 3, 4, 3, 4]), 0.1), is_steady(np.arange(8) * 50.0, 0.1)
    (True, False)
    """
    quarter = max(1, len(late_ms) // 4)
    drift = float(np.median(late_ms[-quarter:]) - np.median(late_ms[:quarter]))
    return drift <= max(DRIFT_MS, 500 * window_s)
