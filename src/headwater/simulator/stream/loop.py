"""One stream, from its beginning to its end, over any number of lives of its driver."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.base.count_limits import CountLimits
from headwater.language.homes import Home
from headwater.protocols.actions import Noted
from headwater.protocols.count_windows import Counting
from headwater.simulator.stream.driver import WHO, Driver
from headwater.simulator.stream.frames import Task, run_task
from headwater.simulator.world.file_faults import CrashError
from headwater.spark.stream import begin
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.host import BatchOutput, RootHost
from headwater.spark.streaming.leaf import LIMITS, LeafLimits
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.source import StreamReader


class DurableSink:
    """Keeps what it was given over crashes of everything else, and insists that a batch comes again as it was."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}

    def write(self, batch: int, rows: pa.Table) -> None:
        known = self.batches.setdefault(batch, rows)
        assert known is rows or known.equals(rows), f"batch {batch} came again with other rows"

    def close(self) -> None: ...


@dataclass
class Computed:
    """What came of a batch with one offset: notes of its first root, and the tables of rows of each root."""

    notes: list[Noted] | None = None
    given: dict[int, list[pa.Table]] = field(default_factory=dict)


class Loop:
    """What outlives drivers: the checkpoint, Spark's logs, the sinks; and a driver, which can be told where to die.

    ``starts``: whether there is a driver from the beginning. ``remembers``: whether all that was planned and computed is kept, to
    be looked at; else a loop can go on for ever.
    """

    def __init__(
        self, place: Path, opened: Any, queries: Any, settings: Any, chains: int, roots: int, seed: int,
        counting: Counting | None = None, limits: CountLimits | None = None, leaf_limits: LeafLimits = LIMITS,
        home: Home = None, *, starts: bool = True, remembers: bool = True,
    ) -> None:  # fmt: skip
        self.checkpoint = StreamCheckpoint(place)
        self.opened = opened
        self._beginning: tuple[Any, ...] = (opened, queries, settings, chains, roots)
        self._told: dict[str, Any] = {"counting": counting, "limits": limits, "home": home, "who": WHO}
        self.leaf_limits = leaf_limits
        self._remembers = remembers
        self.dice = random.Random(seed)
        #: What the planner's steady clock says, and by how much the wall clock is ahead of it.
        self.now_ns = 10**18
        self.ahead_ns = 0
        self.sink: Any = DurableSink()
        self.aside: Any = DurableSink()
        #: What was computed, by batch and the hash of its offset: the notes of the first root, and of each the tables it gave.
        self.computed: dict[tuple[int, str], Computed] = {}
        #: Spark's logs: the offsets of batches, and how many of them are committed.
        self.planned: list[dict[str, Any]] = []
        self.committed = 0
        self.crash_at: str | None = None
        self.events_max: int | None = None
        #: Where rows and events set aside go in one life of a driver; and how a task is run: Spark starts one that failed again.
        self.new_sinks: Callable[[Driver], tuple[Any, Any]] = watched_sinks
        self.task: Task = run_task
        if starts:
            self.driver = Driver(self)

    def begin(self) -> Ownership:
        """The stream begins; who runs it."""
        return begin(self.checkpoint, *self._beginning, **self._told)

    @property
    def reader(self) -> StreamReader:
        return self.driver.reader

    @property
    def runner(self) -> BatchRunner:
        return self.driver.runner

    def restart(self) -> None:
        """A new driver: nothing but the checkpoint and Spark's own logs is left."""
        self.driver = Driver(self)

    def ran(self, host: RootHost, batch: int, outcome: BatchOutput) -> None:
        """A root has computed a batch; of several the first speaks for all."""
        if not self._remembers:
            # Spark, too, keeps some of the newest only.
            self.planned[: batch - 1] = [{}] * (batch - 1)
            return
        found = self.computed.setdefault((batch, outcome.offset.hash), Computed())
        found.given[host.number] = outcome.rows
        if host.number == 0:
            notes = [note for note in outcome.notes if "record" in note.detail]
            assert found.notes in (None, notes), f"batch {batch} was decided in another way when it was run again"
            found.notes = notes

    def done(self, batch: int) -> Computed:
        """What a batch that is done came to."""
        return self.computed[batch, self.checkpoint.said(batch).offset]

    def drop_replaced_offset(self) -> None:
        """As `hw.stream` does it to Spark's log: an offset goes that is not the one with which its batch was begun."""
        batch = self.checkpoint.last_done() + 1
        fixed = self.checkpoint.fixed(batch)
        if fixed is not None and json.loads(json.dumps(self.planned[batch : batch + 1])) != [fixed]:
            del self.planned[batch:]

    def reached(self, moment: str) -> None:
        if self.crash_at == moment:
            self.crash_at = None
            raise CrashError(moment)

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
        """What the root said after the last batch."""
        found = self.checkpoint.directive(self.committed - 1)
        assert found is not None
        return found


def watched_sinks(driver: Driver) -> tuple[WatchedSink, WatchedSink]:
    """Sinks that keep all they were given."""
    return WatchedSink(driver, "rows"), WatchedSink(driver, "aside")


class WatchedSink:
    """A sink behind which somebody may die."""

    def __init__(self, driver: Driver, name: str) -> None:
        self._driver, self._name = driver, name

    def write(self, batch: int, rows: pa.Table) -> None:
        loop = self._driver.loop
        sink = loop.sink if self._name == "rows" else loop.aside
        sink.write(batch, rows)
        self._driver.reached(self._name)

    def close(self) -> None: ...
