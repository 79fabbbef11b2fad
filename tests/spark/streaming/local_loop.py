"""Spark's loop over micro-batches without Spark: the same planner, leaves, root and sinks, and a crash wherever one is wanted.

A `Loop` is a stream with what outlives its drivers: the checkpoint, Spark's logs, the sinks. A `Driver` is one life.
"""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headwater.base.count_limits import CountLimits
from headwater.language.homes import Home
from headwater.protocols.actions import Noted
from headwater.protocols.count_windows import Counting
from headwater.reference.history import UNREAD
from headwater.spark.formats import Wanted
from headwater.spark.stream import begin
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.host import BatchOutput, RootHost
from headwater.spark.streaming.inputs import input as inputs
from headwater.spark.streaming.inputs.input import Extent, Watermark
from headwater.spark.streaming.leaf import LIMITS, LeafLimits
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.reducers import TABLES as TABLE_ROWS
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.source import StreamReader

inputs.KINDS["listed"] = "spark.streaming.local_loop:ListedInput"

#: The tables of all sources that tests have, by name: what is "read" lies here.
TABLES: dict[str, pa.RecordBatch] = {}
#: The watermarks that sources tell themselves: each with the count of events before it.
TOLD: dict[str, list[tuple[int, int]]] = {}
#: Events of one batch that an input reads.
READ_EVENTS = 7
STEPS = ("read", "compute", "rows", "aside", "state", "directive", "commit")
#: The moments between any two things that a driver does and others could see.
MOMENTS = ("planned", "logging", "logged", *STEPS[:5], "committing", *STEPS[5:])


class CrashError(Exception):
    """The driver dies here."""


class LogTakenError(Exception):
    """Spark's log has an offset of this batch already: CONCURRENT_STREAM_LOG_UPDATE."""


class ListedInput:
    """Sources in memory that show more of themselves when a test says so."""

    kind = "listed"

    def __init__(self, schema: pa.Schema, ends: dict[str, int] | None = None, homes: dict[str, str] | None = None):
        self.schema = schema
        self.ends = {} if ends is None else ends
        self.homes = {} if homes is None else homes
        self.done: set[str] = set()
        self.forgotten: set[str] = set()

    def to_data(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> ListedInput:
        raise AssertionError("the loop puts the input in place itself")

    @staticmethod
    def forgets_sources(data: Mapping[str, Any]) -> bool:
        return True

    def forget(self, sources: Sequence[str]) -> None:
        assert self.done.issuperset(sources)
        self.forgotten.update(sources)

    def extents(self) -> dict[str, Extent]:
        ends = {name: end for name, end in self.ends.items() if name not in self.forgotten}
        return {name: Extent(end, self.homes.get(name, ""), name in self.done) for name, end in ends.items()}

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        middle = (start + end) // 2
        parts = [(start, middle), (middle, end)]
        return [{"source": source, "start": a, "end": b} for a, b in parts if a < b]

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Any:
        table = TABLES[stretch["source"]]
        # Texts of values that could not be read stand beside their columns, as in all formats.
        texts = [UNREAD + name for name in wanted.columns if UNREAD + name in table.schema.names]
        table = table.select([*wanted.columns, *texts])
        at, end = stretch["start"], stretch["end"]
        told = {position: time for position, time in TOLD.get(stretch["source"], ()) if at <= position <= end}
        while at < end:
            # A watermark that stands where a stretch begins was told before; once more does no harm.
            if at in told:
                yield Watermark(told.pop(at))
            stop = min([end, at + READ_EVENTS, *told])
            yield table.slice(at, stop - at)
            at = stop
        if end in told:
            yield Watermark(told[end])


class FakeFrame:
    """The DataFrame of one batch, as far as it is used."""

    def __init__(self, make: Callable[[], pa.Table], parts: int = 1) -> None:
        self._make, self._parts = make, parts

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self._make()

    def repartition(self, count: int, *columns: str) -> FakeFrame:
        return FakeFrame(self._make)

    def repartitionById(self, count: int, column: str) -> FakeFrame:  # noqa: N802
        return FakeFrame(self._make, count)

    def mapInArrow(self, function: Any, schema: Any) -> FakeFrame:  # noqa: N802
        def mapped() -> pa.Table:
            table = self._make()
            if self._parts == 1:
                return pa.Table.from_batches(function(table.to_batches()))
            shares = [table.filter(pc.equal(table["bucket"], number)) for number in range(self._parts)]
            return pa.Table.from_batches([b for share in shares for b in function(share.to_batches())], TABLE_ROWS)

        return FakeFrame(mapped)


class DurableSink:
    """Keeps what it was given over crashes of everything else, and insists that a batch comes again as it was."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}

    def write(self, batch: int, rows: pa.Table) -> None:
        known = self.batches.setdefault(batch, rows)
        assert known is rows or known.equals(rows), f"batch {batch} came again with other rows"

    def close(self) -> None: ...


#: Of each thread: the driver that it is.
_watching = threading.local()
_watched: list[Driver] = []
_PLAIN = RootHost.run, RootHost.save_state


def _run(host: RootHost, batch: int, frames: Any) -> Any:
    found = _PLAIN[0](host, batch, frames)
    _watching.driver.ran(host, batch, found[1])
    return found


def _save_state(host: RootHost, batch: int) -> None:
    _PLAIN[1](host, batch)
    _watching.driver.reached("state")


@contextmanager
def watched(driver: Driver) -> Iterator[None]:
    """A driver is told of everything that the roots of its thread compute and save."""
    _watching.driver = driver
    _watched.append(driver)
    RootHost.run, RootHost.save_state = _run, _save_state
    try:
        yield
    finally:
        _watched.remove(driver)
        if not _watched:
            RootHost.run, RootHost.save_state = _PLAIN


class FreeLock:
    """Drivers of a loop may run side by side: it is the fence that is tried."""

    def release(self) -> None: ...


class Driver:
    """One life of a stream's driver. It takes its turn before it looks into Spark's log, as `hw.stream` does."""

    def __init__(self, loop: Loop, owner: Ownership | None = None) -> None:
        self.loop, checkpoint = loop, loop.checkpoint
        if owner is None:
            owner = Ownership.taken(checkpoint.path, "a test")
            checkpoint.go_on(checkpoint.begun())
        self.owner = owner
        self.reader = StreamReader(str(checkpoint.path), None, loop.leaf_limits, owner.number)
        self.reader.clock = lambda: loop.now_ns + loop.ahead_ns
        self.reader.steady_clock = lambda: loop.now_ns
        self.reader.__dict__["_input"] = loop.opened
        self.runner = BatchRunner(checkpoint, *loop.new_sinks(self), owner=owner, lock=FreeLock())
        inner = self.runner._checkpoint.commit

        def commit(directive: Any) -> bool:
            self.reached("committing")
            done = inner(directive)
            self.reached("directive")
            return done

        self.runner._checkpoint = StreamCheckpoint(checkpoint.path)
        self.runner._checkpoint.commit = commit
        #: The offset of the batch that it is at, and the last before it; None until it has looked into Spark's log.
        self._last: dict[str, Any] | None = None
        self._end: dict[str, Any] | None = None
        self._batch = 0

    def reached(self, moment: str) -> None:
        self.loop.reached(moment)

    def ran(self, host: RootHost, batch: int, outcome: BatchOutput) -> None:
        self.loop.ran(host, batch, outcome)
        self.reached("compute")

    def step(self) -> bool:
        """Run the next batch, or the one that was planned and not committed; False if there is none."""
        loop = self.loop
        if self._last is None:
            loop.drop_replaced_offset()
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
        with watched(self):
            self.runner(FakeFrame(lambda: self._frames(start, end)), self._batch)
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
            batches += list(self.reader.read(pickle.loads(pickle.dumps(partition))))
        self.reached("read")
        table = pa.Table.from_batches(batches)
        order = np.random.default_rng(self.loop.dice.randrange(1 << 30)).permutation(len(table))
        return table.take(pa.array(order))


class Loop:
    """One stream, from its beginning to its end, over any number of lives of its driver."""

    def __init__(
        self, place: Path, opened: ListedInput, queries: Any, settings: Any, chains: int, roots: int, seed: int,
        counting: Counting | None = None, limits: CountLimits | None = None, leaf_limits: LeafLimits = LIMITS,
        home: Home = None,
    ):  # fmt: skip
        self.checkpoint = StreamCheckpoint(place)
        self.opened = opened
        owner = None
        if self.checkpoint.about() is None:
            told = {"counting": counting, "limits": limits, "home": home, "who": "a test"}
            owner = begin(self.checkpoint, opened, queries, settings, chains, roots, **told)
        self.leaf_limits = leaf_limits
        self.dice = random.Random(seed)
        #: What the planner's steady clock says, and by how much the wall clock is ahead of it.
        self.now_ns = 10**18
        self.ahead_ns = 0
        self.sink, self.aside = DurableSink(), DurableSink()
        #: Both by batch and the hash of its offset: nobody has seen anything of a batch before its offset is fixed.
        self.notes: dict[tuple[int, str], list[Noted]] = {}
        #: What each root gave in each batch, one table after the other.
        self.given: dict[tuple[int, str], dict[int, list[pa.Table]]] = {}
        #: Spark's logs: the offsets of batches, and how many of them are committed.
        self.planned: list[dict[str, Any]] = []
        self.committed = 0
        self.crash_at: str | None = None
        self.events_max: int | None = None
        self.driver = Driver(self, owner)

    @property
    def reader(self) -> StreamReader:
        return self.driver.reader

    @property
    def runner(self) -> BatchRunner:
        return self.driver.runner

    def restart(self) -> None:
        """A new driver: nothing but the checkpoint and Spark's own logs is left."""
        self.driver = Driver(self)

    def new_sinks(self, driver: Driver) -> tuple[Any, Any]:
        """Where rows and events set aside go in one life of the driver."""
        return _Stepped(driver, "rows"), _Stepped(driver, "aside")

    def ran(self, host: RootHost, batch: int, outcome: BatchOutput) -> None:
        """A root has computed a batch; of several the first speaks for all."""
        key = batch, outcome.offset.hash
        self.given.setdefault(key, {})[host.number] = outcome.rows
        if host.number == 0:
            notes = [note for note in outcome.notes if "record" in note.detail]
            known = self.notes.setdefault(key, notes)
            assert known == notes, f"batch {batch} was decided in another way when it was run again"

    def reached(self, moment: str) -> None:
        if self.crash_at == moment:
            self.crash_at = None
            raise CrashError(moment)

    def drop_replaced_offset(self) -> None:
        """What a start does to Spark's log: an offset that is not the one that its batch was begun with goes."""
        batch = self.checkpoint.last_done() + 1
        fixed = self.checkpoint.fixed(batch)
        if fixed is not None and self.planned[batch:] and self.planned[batch] != fixed:
            del self.planned[batch:]

    # --- the loop ---

    def step(self) -> bool:
        """Run the next batch, or the one that was planned and not committed; False if there is none."""
        return self.driver.step()

    def safely(self) -> bool:
        """The same; whoever dies is started again."""
        try:
            return self.step()
        except CrashError:
            self.restart()
            return True

    def directive(self) -> dict[str, Any]:
        found = self.checkpoint.directive(self.committed - 1)
        assert found is not None
        return found


class _Stepped:
    """A sink behind which somebody may die."""

    def __init__(self, driver: Driver, name: str) -> None:
        self._driver, self._name = driver, name

    def write(self, batch: int, rows: pa.Table) -> None:
        loop = self._driver.loop
        sink = loop.sink if self._name == "rows" else loop.aside
        sink.write(batch, rows)
        self._driver.reached(self._name)

    def close(self) -> None: ...
