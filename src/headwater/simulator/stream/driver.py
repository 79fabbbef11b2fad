"""One life of a stream's driver, and the moments at which it can be paused, or die."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headwater.simulator.stream.frames import LocalFrame
from headwater.spark.stream import open_sinks
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.host import BatchOutput, RootHost
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.source import StreamReader

if TYPE_CHECKING:
    from headwater.simulator.stream.loop import Loop

STEPS = ("read", "compute", "rows", "aside", "state", "directive", "commit")
#: The moments between any two things that a driver does and others could see.
MOMENTS = ("planned", "logging", "logged", *STEPS[:5], "committing", *STEPS[5:])
#: What drivers say of themselves where a process would say its number.
WHO = "a driver of the loop"


class LogTakenError(Exception):
    """Spark's log has an offset of this batch already: CONCURRENT_STREAM_LOG_UPDATE."""


class FreeLock:
    """Drivers of a loop may run side by side: it is the fence that is tried."""

    def release(self) -> None: ...


class Driver:
    """It takes its turn before it looks into Spark's log, as `hw.stream` does. ``reached`` is told of each moment."""

    def __init__(self, loop: Loop, reached: Callable[[str], None] | None = None) -> None:
        self.loop, checkpoint = loop, loop.checkpoint
        self.reached = loop.reached if reached is None else reached
        about = checkpoint.about()
        if about is None:
            self.owner = loop.begin()
        else:
            self.owner = Ownership.taken(checkpoint.path, WHO)
            checkpoint.go_on(about)
            loop.drop_replaced_offset()
        self.reader = StreamReader(str(checkpoint.path), None, loop.leaf_limits, self.owner.number)
        self.reader.clock = lambda: loop.now_ns + loop.ahead_ns
        self.reader.steady_clock = lambda: loop.now_ns
        self.reader.__dict__["_input"] = loop.opened
        lock: Any = FreeLock()
        self.runner = BatchRunner(checkpoint, *loop.new_sinks(self), owner=self.owner, lock=lock)
        self.runner._checkpoint = self._watched_checkpoint()
        sinks = {"sink": self.runner.sink, "aside": self.runner.aside}
        if any(hasattr(sink, "open") for sink in sinks.values()):
            with self.owner.comes_first():
                open_sinks(checkpoint, self.owner, sinks, self.runner.queries)
        #: The offset of the batch that it is at, and the last before it; None until it has looked into Spark's log.
        self._last: dict[str, Any] | None = None
        self._end: dict[str, Any] | None = None
        self._batch = 0

    def _watched_checkpoint(self) -> StreamCheckpoint:
        inner = self.runner._checkpoint.commit

        def commit(directive: Any) -> bool:
            self.reached("committing")
            done = inner(directive)
            self.reached("directive")
            return done

        checkpoint = StreamCheckpoint(self.loop.checkpoint.path)
        checkpoint.commit = commit  # type: ignore[method-assign]
        return checkpoint

    def ran(self, host: RootHost, batch: int, outcome: BatchOutput) -> None:
        self.loop.ran(host, batch, outcome)
        self.reached("compute")

    def step(self) -> bool:
        """Run the next batch, or the one that was planned and not committed; False if there is none."""
        loop = self.loop
        if self._last is None:
            self._batch = loop.committed
            self._last = loop.planned[self._batch - 1] if self._batch else self.reader.initialOffset()
            self._end = loop.planned[self._batch] if self._batch < len(loop.planned) else None
        if self._end is None:
            limit = ReadAllAvailable() if loop.events_max is None else ReadMaxRows(loop.events_max)
            end = self.reader.latestOffset(self._last, limit)
            if end == self._last:
                return False
            self.reached("planned")
            self._log(end)
            self._end = end
        start, end = self._last, self._end
        frame: Any = LocalFrame(lambda: self._frames(start, end), loop.task)
        with watched(self):
            self.runner(frame, self._batch)
        self.reached("commit")
        loop.committed = max(loop.committed, self._batch + 1)
        self._last, self._end, self._batch = end, None, self._batch + 1
        return True

    def _log(self, end: dict[str, Any]) -> None:
        """As Spark does it: it looks whether the file is there, and then renames."""
        planned = self.loop.planned
        if len(planned) > self._batch:
            raise LogTakenError(self._batch)
        self.reached("logging")
        planned[self._batch : self._batch + 1] = [end]
        self.reached("logged")

    def _frames(self, start: dict[str, Any], end: dict[str, Any]) -> pa.Table:
        batches = []
        for partition in self.reader.partitions(start, end):
            batches += self.loop.task(lambda: self.reader.read(pickle.loads(pickle.dumps(partition))))  # noqa: B023
        self.reached("read")
        table = pa.Table.from_batches(batches)
        order = np.random.default_rng(self.loop.dice.randrange(1 << 30)).permutation(len(table))
        return table.take(pa.array(order))


# --- who computes ---

#: Of each thread: the driver that it is.
_here = threading.local()
_watched: list[Driver] = []


@contextmanager
def watched(driver: Driver) -> Iterator[None]:
    """A driver is told of everything that the roots of its thread compute and save."""
    _here.driver = driver
    if not _watched:
        _watching.start()
    _watched.append(driver)
    try:
        yield
    finally:
        _watched.remove(driver)
        if not _watched:
            _watching.stop()


class _Watching:
    """All roots of this process tell the driver of their thread what they do, from `start` to `stop`."""

    def start(self) -> None:
        run, save_state = RootHost.run, RootHost.save_state

        def watched_run(host: RootHost, batch: int, frames: Any) -> Any:
            found = run(host, batch, frames)
            _here.driver.ran(host, batch, found[1])
            return found

        def watched_save(host: RootHost, batch: int) -> None:
            save_state(host, batch)
            _here.driver.reached("state")

        self._patch = mock.patch.multiple(RootHost, run=watched_run, save_state=watched_save)
        self._patch.start()

    def stop(self) -> None:
        self._patch.stop()


_watching = _Watching()
