"""How late results are: from the moment at which an event is due that makes a window provable until its row is out.

Events come on a schedule that waits for nobody, as their own times say. A window can be proven once every leaf has shown an event
behind its last one: the latest of these is what counts, and what a leaf gathers, links carry and the root computes is in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import Float64Array, Int64Array
from headwater.bench.deco.links import Logged, window_of
from headwater.edge.cluster.cluster import Cluster
from headwater.edge.cluster.outcome import ClusterOutcome
from headwater.edge.pace import Pace
from headwater.edge.sources import LogSource

LOAD = 0.75
LATENCY_LINGER_NS = 500_000
#: A rate that is not sustained is lowered by this, so many times at most.
SLOWER = 0.8
TRIALS = 6
#: Sustained: the last windows are no later than this behind the first, or than half the time that a window takes.
DRIFT_MS = 20.0
#: Forecasts need some windows to begin with.
SKIPPED = 8


@dataclass(frozen=True)
class WindowLatency:
    """Of the windows of one run, in milliseconds."""

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
    """All leaves together have an event for every unit of their time on average: so many units a second are as many events."""
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
    """Of all events of a source."""
    store, times, offset = source.open(), [], 0
    while (found := store.load(offset)) is not None:
        times.append(found[1]["time"].to_numpy())
        offset = found[0] + len(found[1])
    return np.concatenate(times)


def latencies_ms(outcome: ClusterOutcome, behind: Int64Array, rate: float) -> Float64Array:
    """How late each window's row was, but those of the first."""
    places = np.searchsorted(outcome.rows["window_start"].to_numpy(), np.arange(len(behind)) * window_of(outcome))
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
