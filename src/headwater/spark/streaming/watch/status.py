"""How a stream is doing, as values, and the board that collects them from finished batches, rows and Spark's own progress.

The live line, the metrics and a user's own code are told these values. Nothing that a result depends on is on the board: a
restart begins with an empty one, and any thread may ask it.

Every number has one place. Of each query's events `FATES` tell what became of them, and they add up: an event that is not in one
of them would be unexplained.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from headwater.language.notebooks.html import html_facts, html_table
from headwater.language.times import FOREVER, NEVER, TICK_NANOS
from headwater.spark.streaming.watch.standstill import ProgressWatch, Standstill

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
        """These latencies and more, in one go: a batch may have a million rows."""
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
    #: Files of which not all is read: `Stream.problems` names them.
    files_with_problems: int = 0
    queries: Mapping[str, QueryStatus] = field(default_factory=dict)
    #: Bytes since this process began, by link.
    link_bytes: Mapping[str, int] = field(default_factory=dict)
    spark: SparkProgress | None = None
    is_active: bool = True
    #: Whom the stream waits for, once its watermark has stood for ten seconds; None while there is progress.
    standstill: Standstill | None = None

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

    def _repr_html_(self) -> str:
        """The status for a notebook: the stream, and below it its queries."""
        lag, open_windows = self.watermark_lag_s, self.open_windows
        facts = [
            ("state", "running" if self.is_active else "stopped"),
            ("batch", "" if self.batch < 0 else f"{self.batch:,}, {self.batch_seconds:.2f} s"),
            ("events", f"{self.events:,}, {scaled(self.events_per_second)}/s"),
            ("rows", f"{self.rows:,}"),
            ("watermark lag", "" if lag is None else f"{lag:,.1f} s"),
            ("waits", "" if self.standstill is None else self.standstill.why),
            ("open windows", "" if open_windows is None else f"{open_windows:,}"),
            ("state size", f"{scaled(self.state_bytes)}B"),
            ("sources", f"{self.sources_active:,} active, {self.sources_idle:,} idle"),
        ]
        rows = [
            (name, f"{query.events_in:,}", *(f"{query.fates.get(fate, 0):,}" for fate in FATES), f"{query.rows:,}")
            for name, query in self.queries.items()
        ]
        queries = html_table(("query", "in", *FATES, "rows"), rows) if rows else ""
        return html_facts(f"stream {self.stream}", facts) + queries

    def seen_at(self, now_us: int) -> StreamStatus:
        """This status at a later time: the watermark's lag has grown.

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
    parts = [] if status.standstill is None else [status.standstill.line()]
    parts.append(f"{scaled(status.events_per_second)} events/s")
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


#: Seconds over which the rate of events is averaged.
RATE_SECONDS = 10.0


def now_us() -> int:
    """Microseconds of the wall clock, in which lag and latency are told."""
    return time.time_ns() // 1000


class StatusBoard:
    """Collects the status of one stream from finished batches, rows in the sink, and Spark's progress.

    ``unit``: of event times and watermarks. ``untimed``: queries whose bounds are no times (count windows): they have no latency.

    >>> board = StatusBoard("readings", clock=lambda: 9_000_000)
    >>> counters = {"load": {"in": 10, "member": 9, "late": 1}}
    >>> board.batch_done({"batch": 3, "now_ns": 1, "events": 10, "watermark": 8_500_000, "counters": counters})
    >>> status = board.status()
    >>> status.batch, status.watermark_lag_s, status.adds_up
    (3, 0.5, True)
    """

    def __init__(
        self,
        stream: str = "stream",
        *,
        unit: str = "us",
        untimed: frozenset[str] = frozenset(),
        clock: Callable[[], int] = now_us,
    ) -> None:
        self._lock = threading.Lock()
        self._status = StreamStatus(stream)
        self._tick_ns = TICK_NANOS[unit]
        self._untimed = untimed
        self._clock = clock
        self._progress = ProgressWatch()
        self._links: Counter[str] = Counter()
        self._moments: deque[tuple[int, int]] = deque()
        self._latencies: dict[str, Latencies] = {}
        self._rows: Counter[str] = Counter()

    def status(self) -> StreamStatus:
        """The status as of now."""
        with self._lock:
            now_us = self._clock()
            standstill = self._progress.standstill(now_us) if self._status.is_active else None
            return replace(self._status.seen_at(now_us), standstill=standstill)

    def standstill_to_log(self) -> Standstill | None:
        """A standstill of which the log has not been told, or not for long: the caller tells it."""
        with self._lock:
            return self._progress.to_log(self._clock()) if self._status.is_active else None

    # --- headwater's own news ---

    def batch_done(self, news: Mapping[str, Any]) -> None:
        """A batch of ``hw.stream`` is done; ``news`` are the directive's ``status``.

        Known: batch, now_ns, events, rows, watermark, counters, sources, sources_idle, holding_up, idle_ns, open_windows,
        state_bytes, link_bytes (of this batch), seconds ({"batch": ...}). What is missing is not known.
        """
        with self._lock:
            self._progress.see(news, self._clock())
            self._links.update(news.get("link_bytes", {}))
            idle = news.get("sources_idle", 0)
            self._status = replace(
                self._status,
                batch=news["batch"],
                events=news.get("events", 0),
                events_per_second=self._rate(news.get("now_ns", 0), news.get("events", 0)),
                rows=self._status.rows + news.get("rows", 0),
                watermark_us=self._in_us(news.get("watermark")),
                open_windows=news.get("open_windows"),
                state_bytes=news.get("state_bytes", 0),
                batch_seconds=news.get("seconds", {}).get("batch", 0.0),
                sources_active=news.get("sources", 0) - idle,
                sources_idle=idle,
                link_bytes=dict(self._links),
                queries={name: self._query(name, counts) for name, counts in news.get("counters", {}).items()},
            )

    def _query(self, name: str, counters: Mapping[str, int]) -> QueryStatus:
        known = QueryStatus.of_counters(counters)
        return replace(known, rows=self._rows[name], latencies=self._latencies.get(name, Latencies()))

    def _rate(self, now_ns: int, events: int) -> float:
        """Events per second over the last batches: at least two, and as many as the last seconds have."""
        self._moments.append((now_ns, events))
        while len(self._moments) > 2 and now_ns - self._moments[1][0] > RATE_SECONDS * 1e9:
            self._moments.popleft()
        (then_ns, before), passed = self._moments[0], now_ns - self._moments[0][0]
        return (events - before) * 1e9 / passed if passed > 0 and then_ns else 0.0

    def _in_us(self, watermark: int | None) -> int | None:
        """Microseconds; None before the first event and after the end, where there is no lag."""
        if watermark is None or watermark in (NEVER, FOREVER):
            return None
        return watermark * self._tick_ns // 1000

    def rows_out(self, rows: pa.Table, seen_us: int | None = None) -> None:
        """Rows have reached the sink: their latency is from the window's end. Shown with the next batch that is done.

        Only a window's first row has a latency: a revision comes when a late event does.
        """
        if not rows.num_rows:
            return
        seen = self._clock() if seen_us is None else seen_us
        names = rows.column("query").cast(pa.string())
        counted = {entry["values"]: entry["counts"] for entry in pc.value_counts(names).to_pylist()}
        fresh = rows.filter(pc.equal(rows.column("revision"), 0)) if "revision" in rows.schema.names else rows
        with self._lock:
            self._rows.update(counted)
            for name in counted.keys() - self._untimed:
                mine = fresh.filter(pc.equal(fresh.column("query").cast(pa.string()), name))
                self._latencies[name] = self._more(self._latencies.get(name, Latencies()), mine, seen)

    def _more(self, known: Latencies, rows: pa.Table, seen_us: int) -> Latencies:
        ends = rows.column("window_end").drop_null()
        if pa.types.is_timestamp(ends.type):
            ends_us = np.asarray(ends.cast(pa.timestamp("us", ends.type.tz), safe=False).cast(pa.int64()), np.int64)
        else:
            ends_us = np.asarray(ends, np.int64) * self._tick_ns // 1000
        return known.with_more((seen_us - ends_us) / 1e6)

    # --- Spark's news ---

    def spark_progressed(self, progress: SparkProgress, *, counts_events: bool = False) -> None:
        """Spark is done with a batch. ``counts_events``: its rows are the events; in `hw.stream` they are frames."""
        with self._lock:
            status = replace(self._status, spark=progress)
            if counts_events:
                status = replace(
                    status,
                    batch=progress.batch,
                    events=status.events + progress.input_rows,
                    events_per_second=progress.processed_rows_per_second,
                    watermark_us=progress.watermark_us,
                    state_bytes=progress.state_bytes,
                    batch_seconds=progress.seconds.get("triggerExecution", 0.0),
                )
            self._status = status

    def ended(self) -> None:
        """The stream has stopped."""
        with self._lock:
            self._status = replace(self._status, is_active=False)
