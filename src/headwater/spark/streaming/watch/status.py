"""How a stream is doing, as values: what the live line, the metrics and a user's own code are told. No clock, no Spark.

Every number has one place. Of each query's events `FATES` tell what became of them, and they add up: an event that is not in one
of them would be an event that nobody can explain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

#: What becomes of an event, once per query (docs/semantics.md): in = the sum of these.
FATES = ("filtered", "outside", "member", "late", "dropped", "malformed")
#: Upper bounds of the histogram of latencies, in seconds; more than the last is counted above all.
LATENCY_BOUNDS_S = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class Latencies:
    """How long after their window's end rows were seen: counts per bound, and the sum for a mean.

    >>> seen = Latencies().with_more([0.25, 0.02, 400.0])
    >>> seen.count, seen.quantile(0.5), seen.quantile(1.0), round(seen.sum_s, 2)
    (3, 0.3, inf, 400.27)
    """

    counts: tuple[int, ...] = (0,) * (len(LATENCY_BOUNDS_S) + 1)
    sum_s: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def with_more(self, seconds: ArrayLike) -> Latencies:
        """These and more, in one go: a batch may have a million rows."""
        # A row may be seen before its window's end: clocks differ, and a flush does not wait.
        values = np.maximum(np.asarray(seconds, np.float64), 0.0)
        places = np.searchsorted(LATENCY_BOUNDS_S, values, side="left")
        counts = np.bincount(places, minlength=len(self.counts)) + self.counts
        return Latencies(tuple(counts.tolist()), self.sum_s + float(values.sum()))

    def quantile(self, share: float) -> float:
        """The bound that at least this share is not above; 0 without any."""
        needed, passed = max(math.ceil(round(share * self.count, 9)), 1), 0
        for bound, count in zip((*LATENCY_BOUNDS_S, math.inf), self.counts):
            passed += count
            if passed >= needed:
                return bound
        return 0.0


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """One query: its events by fate, and its results."""

    events_in: int = 0
    #: Counts by the names of `FATES`.
    fates: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    latencies: Latencies = field(default_factory=Latencies)

    @classmethod
    def of_counters(cls, counters: Mapping[str, int]) -> QueryStatus:
        """From an engine's or a root's ``counters()`` of one query.

        >>> QueryStatus.of_counters({"in": 5, "member": 4, "late": 1}).unexplained
        0
        """
        return cls(counters.get("in", 0), {fate: counters.get(fate, 0) for fate in FATES})

    @property
    def unexplained(self) -> int:
        """Events whose fate is not known; always 0, or something is wrong.

        >>> QueryStatus(10, {"member": 7, "late": 2}).unexplained
        1
        """
        return self.events_in - sum(self.fates.values())


@dataclass(frozen=True, slots=True)
class SparkProgress:
    """What Spark says of its last batch."""

    batch: int
    input_rows: int
    #: Seconds by Spark's own names: triggerExecution, latestOffset, addBatch, walCommit, ...
    seconds: Mapping[str, float] = field(default_factory=dict)
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    state_bytes: int = 0
    state_rows: int = 0
    dropped_rows: int = 0
    #: Microseconds since 1970.
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """A stream after its last batch, looked at now. None: not known, or there is none."""

    stream: str = "stream"
    batch: int = -1
    #: Events taken in since the stream first began, restarts included.
    events: int = 0
    events_per_second: float = 0.0
    rows: int = 0
    watermark_us: int | None = None
    watermark_lag_s: float | None = None
    open_windows: int | None = None
    state_bytes: int = 0
    batch_seconds: float = 0.0
    sources_active: int = 0
    sources_idle: int = 0
    queries: Mapping[str, QueryStatus] = field(default_factory=dict)
    #: Bytes since this process began, by link.
    link_bytes: Mapping[str, int] = field(default_factory=dict)
    spark: SparkProgress | None = None
    is_active: bool = True

    def fate(self, name: str) -> int:
        """Events of one fate; an event that is late for three queries is late three times.

        >>> queries = {"a": QueryStatus(3, {"late": 1, "member": 2}), "b": QueryStatus(3, {"late": 3})}
        >>> StreamStatus(queries=queries).fate("late")
        4
        """
        return sum(query.fates.get(name, 0) for query in self.queries.values())

    @property
    def adds_up(self) -> bool:
        """Whether every event of every query is accounted for."""
        return not any(query.unexplained for query in self.queries.values())

    def seen_at(self, now_us: int) -> StreamStatus:
        """The same a while later: what waits for a watermark waits longer.

        >>> StreamStatus(watermark_us=4_000_000).seen_at(6_500_000).watermark_lag_s
        2.5
        """
        if self.watermark_us is None:
            return self
        return replace(self, watermark_lag_s=(now_us - self.watermark_us) / 1e6)


def line(status: StreamStatus) -> str:
    """One line for a terminal, the most important first: a narrow one cuts off the end.

    >>> late = {"load": QueryStatus(9, {"member": 6, "late": 2, "malformed": 1})}
    >>> line(StreamStatus("s", 42, 9, 1_240_000.0, 1, 0, 0.38, 17, 4_200_000, 0.21, queries=late))
    'batch 42: 1.2 M events/s, 0.4 s behind, 2 late, 1 malformed, 17 open, 4.2 MB state, 0.21 s/batch'
    >>> line(StreamStatus())
    'waiting for the first batch'
    """
    if status.batch < 0:
        return "waiting for the first batch"
    parts = [f"{scaled(status.events_per_second)} events/s"]
    if status.watermark_lag_s is not None:
        parts.append(f"{status.watermark_lag_s:.1f} s behind")
    parts.append(f"{status.fate('late')} late")
    # Zero is the rule, and no news.
    parts += [f"{count} {fate}" for fate in ("dropped", "malformed") if (count := status.fate(fate))]
    if status.open_windows is not None:
        parts.append(f"{status.open_windows} open")
    parts += [f"{scaled(status.state_bytes)}B state", f"{status.batch_seconds:.2f} s/batch"]
    if status.sources_idle:
        parts.append(f"{status.sources_idle} of {status.sources_active + status.sources_idle} sources idle")
    return f"batch {status.batch}: " + ", ".join(parts)


def scaled(number: float) -> str:
    """A number of three or four digits with its prefix.

    >>> [scaled(n) for n in (0, 999, 12_345, 4_200_000, 7.1e9)]
    ['0 ', '999 ', '12.3 k', '4.2 M', '7.1 G']
    """
    for limit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.1f} {prefix}"
    return f"{number:.0f} "
