"""How streams are timed: by the batches that Spark reports, or by how fast they work off what was written before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headwater as hw
from headwater.bench.common.report import Report
from headwater.bench.load.driver import LoadError
from headwater.bench.stream.data import StreamData
from headwater.bench.stream.sizes import Sizes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headwater.spark.streaming.start.handle import Stream

#: A stream that does nothing for this long has failed.
SILENCE_SECONDS = 180.0
LOOK_SECONDS = 0.02


@dataclass
class StreamBench:
    """One run: the session, what is written, and a folder for whatever streams leave."""

    report: Report
    spark: SparkSession
    folder: Path
    sizes: Sizes
    data: StreamData
    _places: Iterator[int] = field(default_factory=count)

    def place(self) -> Path:
        """A folder that nothing has used."""
        return self.folder / f"place-{next(self._places)}"

    def streaming(self, source: Any, queries: Any, **settings: Any) -> AbstractContextManager[Stream]:
        """A stream in a place of its own; rows are taken and forgotten unless a sink is given."""
        return streaming(self.spark, source, queries, **{"checkpoint": self.place(), "sink": forget, **settings})


@contextmanager
def streaming(spark: SparkSession, source: Any, queries: Any, **settings: Any) -> Iterator[Stream]:
    """A stream of headwater's, stopped at the end of the block."""
    stream = hw.stream(spark, source, queries, **settings)
    try:
        yield stream
    finally:
        stream.stop()


def events_done(stream: Stream) -> int:
    """The number of events that a stream has worked off."""
    return int(stream.progress.get("events", 0))


def forget(rows: Any, batch: int) -> None:
    """A sink that drops all rows."""


def drained(is_running: Callable[[], bool], done: Callable[[], int], events: int, warm_up: int) -> float:
    """Events per second from the first look at which ``warm_up`` were done until all ``events`` are."""
    began, seen, moved = None, 0, time.monotonic()
    while True:
        now_done, now = done(), time.perf_counter()
        if now_done > seen:
            seen, moved = now_done, time.monotonic()
        if began is None and now_done >= warm_up:
            began = now_done, now
        if began is not None and now_done >= events:
            if now_done == began[0]:
                raise LoadError(
                    f"all {events:,} events were done in the batches of the warm-up; there is nothing to time"
                )
            return (now_done - began[0]) / (now - began[1])
        if not is_running() and done() < events:
            raise LoadError(f"the stream stopped when {now_done:,} of {events:,} events were done")
        if time.monotonic() - moved > SILENCE_SECONDS:
            raise LoadError(f"nothing was done for {SILENCE_SECONDS:g} s; {now_done:,} of {events:,} events are")
        time.sleep(LOOK_SECONDS)


def batch_seconds(query: StreamingQuery, batches: int, warm_up: int) -> list[float]:
    """The times of ``batches`` batches behind the warm-up, from plan to commit, as Spark itself reports them."""
    times: dict[int, float] = {}
    moved = time.monotonic()
    while len(times) < batches:
        if not query.isActive:
            raise LoadError(f"the stream stopped after {len(times)} of {batches} batches: {query.exception()}")
        if time.monotonic() - moved > SILENCE_SECONDS:
            raise LoadError(f"no batch for {SILENCE_SECONDS:g} s; {len(times)} of {batches} are done")
        for report in query.recentProgress:
            number, spent = report["batchId"], report["durationMs"].get("triggerExecution")
            # Between batches Spark also reports that there was nothing to do.
            if number >= warm_up and number not in times and "addBatch" in report["durationMs"]:
                times[number], moved = spent / 1000, time.monotonic()
        time.sleep(0.1)
    return [times[number] for number in sorted(times)[:batches]]
