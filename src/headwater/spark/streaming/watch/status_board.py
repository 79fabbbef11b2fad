"""Collects the status of a stream from finished batches, rows written and Spark's own progress; any thread may ask.

The board holds nothing that a result depends on: a restart begins with an empty one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.language.times import FOREVER, NEVER, TICK_NANOS
from headwater.spark.streaming.watch.status import Latencies, QueryStatus, SparkProgress, StreamStatus

#: The rate is that of so many seconds.
RATE_SECONDS = 10.0


def now_us() -> int:
    """Microseconds of the wall clock, in which lag and latency are told."""
    return time.time_ns() // 1000


class StatusBoard:
    """The status of one stream, put together from whoever knows a part.

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
        self._links: Counter[str] = Counter()
        self._moments: deque[tuple[int, int]] = deque()
        self._latencies: dict[str, Latencies] = {}
        self._rows: Counter[str] = Counter()

    def status(self) -> StreamStatus:
        """As of now."""
        with self._lock:
            return self._status.seen_at(self._clock())

    # --- headwater's own news ---

    def batch_done(self, news: Mapping[str, Any]) -> None:
        """A batch of ``hw.stream`` is done; ``news`` are the directive's ``status``.

        Known: batch, now_ns, events, rows, watermark, counters, sources, sources_idle, open_windows,
        state_bytes, link_bytes (of this batch), seconds ({"batch": ...}). What is missing is not known.
        """
        with self._lock:
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
        """None before the first event and after the end: nobody waits for anything."""
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
        counted = dict(_counts(names))
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


def _counts(names: pa.ChunkedArray) -> list[tuple[str, int]]:
    return [(entry["values"], entry["counts"]) for entry in pc.value_counts(names).to_pylist()]
