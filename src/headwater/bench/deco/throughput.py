"""How many events a second each scheme takes over real links, with and without thin ones; then how late its results are."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.bench.common.report import Report, at_least, at_most
from headwater.bench.common.timing import StepLog
from headwater.bench.deco.latency import WindowLatency, latency_of
from headwater.bench.deco.links import (
    EVENTS_MAX,
    LINGER_NS,
    LinkRate,
    Logged,
    logged,
    take_turns,
    warm_cluster,
)
from headwater.bench.deco.workload import DecoWorkload
from headwater.edge.cluster.cluster import Cluster
from headwater.edge.cluster.plan import ClusterPlan

SCHEMES = ("async", "approx", "central", "auto", "sync", "monitor")
THIN = ("async", "central")
THIN_BITS = 100e6
THIN_WINDOWS = 56
REPEATS = 4
LATE = ("async", "central", "auto")
FULL = DecoWorkload(windows=56)
QUICK = DecoWorkload(window=100_000, windows=20)


@dataclass
class LinkBench:
    """What was measured over links."""

    report: Report
    progress: StepLog
    rates: dict[str, LinkRate] = field(default_factory=dict)
    thin: dict[str, LinkRate] = field(default_factory=dict)
    latencies: dict[str, WindowLatency] = field(default_factory=dict)

    def run(self, workload: DecoWorkload | None = None) -> None:
        """All of it over one log, in the same two processes."""
        workload = workload or (QUICK if self.report.quick else FULL)
        self.progress.say(f"links: writing {workload.events:,} events")
        with logged(workload) as events, warm_cluster(events, SCHEMES) as cluster:
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
            f"the root in another; {EVENTS_MAX:,} events read at once, linger {LINGER_NS / 1e6:g} ms"
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
        for scheme, outcomes in take_turns(cluster, plans, events.truth, repeats).items():
            found[scheme] = LinkRate.of(scheme, outcomes)
            self.progress.say(f"  links: {found[scheme]}")
        return found

    def _latency(self, cluster: Cluster, events: Logged) -> None:
        for scheme in LATE:
            self.latencies[scheme] = found = latency_of(cluster, events, scheme, self.rates[scheme].best)
            self.progress.say(f"  latency: {scheme} {found}")
            bound = at_most(5) if scheme == "async" else None
            self.report.add(f"latency_{scheme}_ms", found.median_ms, "ms", bound, str(found))
        self.report.add("latency_async_p99_ms", self.latencies["async"].p99_ms, "ms")
