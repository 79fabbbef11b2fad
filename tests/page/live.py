"""A stream with its live page, without Spark: the real planner, leaves, root and observer in the loop of the streaming tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

import headwater as hw
from headwater.page import Page
from headwater.simulator.stream import TABLES, ListedInput, Loop
from headwater.spark.streaming.start.page_start import page_start
from headwater.spark.streaming.watch.observer import StreamObserver
from headwater.spark.streaming.watch.status import now_us

SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("house", pa.string()), ("load", pa.float64())])
SECOND = 1_000_000
#: The beginning of all events here, a whole hour.
BEGIN = 1_767_225_600 * SECOND
SETTINGS = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None, "ahead_max": None}
LOAD = hw.query("load", hw.tumbling("10 s"), keys=["house"], mean=hw.avg("load"), readings=hw.count())
ACTIVE = hw.query("active", hw.session("5 s"), n=hw.count())
#: Sources of different streams have different tables.
_numbers = count()


class LiveStream:
    """A stream over sources in memory. ``page`` is opened with each start; ``settings`` change those of the stream."""

    def __init__(
        self,
        place: Path,
        page: Page,
        queries: Sequence[hw.Query] = (LOAD, ACTIVE),
        sources: Iterable[str] = ("elm/1", "oak/2"),
        **settings: Any,
    ) -> None:
        self._names = {name: f"{name} {next(_numbers)}" for name in sources}
        for name in self._names.values():
            TABLES[name] = pa.RecordBatch.from_pylist([], SCHEMA)
        self._opened = ListedInput(SCHEMA, dict.fromkeys(self._names.values(), 0))
        self._page = page
        #: By how much the observer's clock is ahead.
        self.ahead_us = 0
        self._queries = list(queries)
        self.loop = Loop(place, self._opened, self._queries, {**SETTINGS, **settings}, 2, 1, seed=7)
        self._watch(1)

    def _watch(self, start: int) -> None:
        begun = page_start(self._page.listen(), self.loop.checkpoint, self._queries, start)
        self.observer = StreamObserver(
            "readings", "us", frozenset(), metrics_port=None, progress=False, page=begun, clock=self._clock
        )
        self.loop.runner.observer = self.observer
        assert self.observer.page is not None
        self.url = self.observer.page.url
        self._page = Page(begun.listening.port, self._page.host, self._page.token)

    def _clock(self) -> int:
        return now_us() + self.ahead_us

    def feed(self, source: str, *rows: tuple[float, str, float | None]) -> None:
        """More events of a source: seconds since the beginning, a house, and its load."""
        name = self._names.setdefault(source, f"{source} {next(_numbers)}")
        known = TABLES.get(name, pa.RecordBatch.from_pylist([], SCHEMA))
        times = [BEGIN + round(seconds * SECOND) for seconds, _, _ in rows]
        fresh = pa.record_batch(
            [
                pa.array(times, SCHEMA.field(0).type),
                [row[1] for row in rows],
                pa.array([row[2] for row in rows], pa.float64()),
            ],
            schema=SCHEMA,
        )
        TABLES[name] = pa.concat_batches([known, fresh])
        self._opened.ends[name] = len(TABLES[name])

    def run(self) -> None:
        """All batches that there are to run."""
        self.loop.now_ns += 10**9
        while self.loop.step():
            self.loop.now_ns += 10**8

    def stop(self) -> None:
        self.observer.close()

    def restart(self) -> None:
        """A new driver, and with it a new page at the same port."""
        self.loop.restart()
        self._watch(2)
