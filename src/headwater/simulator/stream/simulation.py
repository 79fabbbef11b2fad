"""One seed of the stream scenario: the loop of `hw.stream` without Spark, with everything that can go wrong around it.

First faults: drivers die and sleep, disks lose, fail and lie, clocks are set, sources and sinks stumble. Then everything heals,
the stream is flushed, and the end has to be complete: the rows in its sinks are those of the reference, each once, counters add
up, and what is left in the checkpoint is bounded by what is open.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from headwater.errors import HeadwaterError
from headwater.simulator.checks.counts import Counts, chosen_faults
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.runner import Options, RunVerdict
from headwater.simulator.stream import listed_input
from headwater.simulator.stream.crew import Crew
from headwater.simulator.stream.driver import Driver
from headwater.simulator.stream.faults import StreamFaults
from headwater.simulator.stream.loop import Loop
from headwater.simulator.stream.sinks import KINDS, WAITS, SinkPlace, WitnessedSink
from headwater.simulator.stream.story import SECOND, Story, any_queries, few_counted
from headwater.simulator.stream.turns import IDLE
from headwater.simulator.world.file_faults import tampered
from headwater.simulator.world.folder_disk import FolderDisk
from headwater.simulator.world.world import WorldObserver
from headwater.spark.streaming import checkpoint as checkpoints
from headwater.spark.streaming import host

#: Turns without an end after the last fault that are taken for never.
PATIENCE_TURNS = 3_000
#: What a stream keeps is forgotten soon, for a run is short: after how many batches, and with how many sources that are done.
KEPT, SNAPSHOT_EVERY, FORGET_MIN = 2, 3, 1
#: Events that a leaf gets at once.
READ_EVENTS = 50
START_NS = 10**18


def simulate_stream(options: Options, observers: Sequence[WorldObserver] = ()) -> RunVerdict:
    """One run; observers are told of what happens."""
    with TemporaryDirectory(prefix="headwater-") as folder, _small_bounds(options.seed):
        run = StreamSimulation(Path(folder), options, observers)
        failure = None
        try:
            run.play()
        except (ViolationError, HeadwaterError, AssertionError, KeyError, ValueError, OSError) as error:
            failure = f"after {run.loop.committed} batches: {type(error).__name__}: {error}"
        finally:
            run.close()
    crew = run.crew
    return RunVerdict(options, failure, run.counts, crew.steps, run.story.checker.row_count, run.loop.now_ns - START_NS)


@contextmanager
def _small_bounds(seed: int) -> Iterator[None]:
    """Things are forgotten soon, and names that nobody else has follow from the seed."""
    dice = random.Random(seed)

    def name() -> uuid.UUID:
        return uuid.UUID(int=dice.getrandbits(128))

    with (
        mock.patch.object(checkpoints, "KEPT", KEPT),
        mock.patch.object(host, "SNAPSHOT_EVERY", SNAPSHOT_EVERY),
        mock.patch.object(host, "FORGET_MIN", FORGET_MIN),
        mock.patch.object(listed_input, "READ_EVENTS", READ_EVENTS),
        mock.patch.object(logging.getLogger("headwater"), "disabled", True),
        mock.patch.object(logging.getLogger("headwater.logs"), "disabled", True),
        mock.patch.object(uuid, "uuid4", new=name),
    ):
        yield


class StreamSimulation:
    """A stream, its drivers, its disk, its story and its faults, all from one seed."""

    def __init__(self, place: Path, options: Options, observers: Sequence[WorldObserver] = ()) -> None:
        from headwater.simulator.plants.tree import planted

        self._observers = observers
        dice = random.Random(options.seed)
        self.root = place / "disk"
        self.root.mkdir()
        self.counts = Counts()
        self.disk = FolderDisk(self.root, random.Random(dice.getrandbits(64)))
        self._open = ExitStack()
        self._open.enter_context(planted(options.plant, "stream"))
        self._tell_story(random.Random(dice.getrandbits(64)))
        self.crew = Crew(self.loop, random.Random(dice.getrandbits(64)), self.counts, self.tell)
        chosen = chosen_faults(options.faults, "stream")
        self.faults = StreamFaults(self, chosen, random.Random(dice.getrandbits(64)), place / "aside")
        self.loop.task = self.faults.task
        self._open.enter_context(tampered(self.disk, self.crew.meddle, lambda: self.faults.boots))
        self._dice = random.Random(dice.getrandbits(64))
        self._told = 0
        self._said: dict[int, bytes] = {}
        #: How far sources went when the end was asked for.
        self._there: dict[str, int] | None = None

    def _tell_story(self, dice: random.Random) -> None:
        draw = few_counted if dice.random() < 0.3 else any_queries
        is_log = dice.random() < 0.25
        tells = not is_log and dice.random() < 0.3
        self.story = story = Story(dice, draw, tells, self.root / "source" / "log" if is_log else None)
        self.disk.look()
        self.idle_ns = dice.choice([None, 5 * SECOND])
        self.roots = dice.choice([1, 1, 1, 2])
        opened = story.log_input() or story.opened
        shape = dice.choice([1, 2, 5]), self.roots, dice.getrandbits(32)
        told = story.counting, story.limits, story.leaf_limits()
        settings = story.settings(self.idle_ns)
        self.loop = Loop(
            self.root / "checkpoint" / "headwater",
            opened,
            story.workload.queries,
            settings,
            *shape,
            *told,
            starts=False,
        )
        self.sinks = {name: self._sink(dice, name) for name in ("rows", "aside")}
        self.loop.sink, self.loop.aside = self.sinks["rows"].witness, self.sinks["aside"].witness
        self.loop.new_sinks = self._new_sinks
        for what in (
            f"sink {self.sinks['rows'].kind}",
            "input log" if is_log else "input listed",
            "roots in tasks" if self.roots > 1 else "root on the driver",
            "count windows" if draw is few_counted else "windows of every kind",
            "idle" if self.idle_ns else "no idle",
        ):
            self.counts[f"drawn: {what}"] += 1

    def _sink(self, dice: random.Random, name: str) -> SinkPlace:
        kind = dice.choice(KINDS)
        folder = "log" if kind == "log" else "files"
        return SinkPlace(kind, self.root / "sinks" / folder / name, dice.choice(WAITS))

    def _new_sinks(self, driver: Driver) -> tuple[Any, Any]:
        rows, aside = (WitnessedSink(place, driver, name, self.faults.trouble) for name, place in self.sinks.items())
        return rows, aside

    def tell(self, who: str, what: str) -> None:
        for observer in self._observers:
            observer.happened(self.loop.now_ns - START_NS, who, what)

    # --- the run ---

    def play(self) -> None:
        """From the first event to the end, which a user may ask for while sources still speak and things still go wrong."""
        ends_early = self._dice.random() < 0.4
        while self.story.goes_on and not (ends_early and self._told > self._dice.randint(3, 30)):
            self._something_happens()
            self.faults.strike()
            self._turns(self._dice.randint(0, 3))
        if ends_early and self.has_begun:
            self._ask_for_the_end()
            for _ in range(self._dice.randint(1, 5)):
                self.faults.strike()
                self._turns(1)
            self.counts["drawn: an end that is asked for early"] += 1
        self.faults.heal()
        self._turns(PATIENCE_TURNS, until_idle=True)
        if self._there is None:
            self._ask_for_the_end()
        self._end()
        self._check()

    def _something_happens(self) -> None:
        dice = self._dice
        self.loop.now_ns += dice.choice([0, SECOND, 3 * SECOND])
        self.loop.events_max = dice.choice([None, 3, 20])
        self.story.arrive()
        if self.story.commands and dice.random() < 0.3 and self.has_begun:
            self.story.ask(self.loop.checkpoint)
        if self.loop.events_max is not None:
            self.counts["path: limit of events"] += 1
        if dice.random() < 0.05 and self.crew.stop():
            self.counts["path: driver stopped and started again"] += 1

    @property
    def has_begun(self) -> bool:
        return (self.loop.checkpoint.path / "about.json").exists()

    def _turns(self, count: int, until_idle: bool = False) -> None:
        for _ in range(count):
            moment = self.crew.turn()
            self.faults.after_turn()
            self._hear()
            if moment == IDLE or self.crew.is_ended:
                return
        if until_idle:
            raise ViolationError(f"{count} turns after the last fault the stream still has something to do")

    def _hear(self) -> None:
        """What was done since is compared with the reference."""
        if not self._told and self.loop.committed:
            self.story.begun(self.loop.checkpoint.said(-1).chain_of())
        for batch in range(self._told, self.loop.committed):
            self.story.done(self.loop, batch)
            self._count(batch)
            self.tell("stream", self._batch_text(batch))
            self._told = batch + 1
        self._check_said()

    def _check_said(self) -> None:
        """Check that what the root has said after a batch stays what it is, whoever wakes."""
        if self.faults.is_damaged:
            return
        for batch in range(max(0, self._told - 3 * KEPT), self._told):
            place = self.loop.checkpoint.path / "directives" / f"{batch}.json"
            if place.exists() and self._said.setdefault(batch, data := place.read_bytes()) != data:
                raise ViolationError(f"what the root said after batch {batch} was changed when that was done")

    def _count(self, batch: int) -> None:
        """The paths that a batch took."""
        for note in self.loop.done(batch).notes or ():
            self.counts[f"path: root {'decided ' + note.detail['what'] if note.what == 'decided' else note.what}"] += 1
        self.counts["path: source forgotten"] += len(self.loop.checkpoint.said(batch).forgotten)

    def _batch_text(self, batch: int) -> str:
        directive = self.loop.checkpoint.said(batch)
        rows = len(self.loop.sink.batches[batch])
        accepted = sum(self.story.truth.accepted.values())
        end = ", the last" if directive.is_finished else ""
        return f"batch {batch} is done by owner {directive.owner}: {accepted} events accepted, {rows} rows{end}"

    def _ask_for_the_end(self) -> None:
        self.story.truth.may_end = True
        self.faults.show_everything()
        self._there = dict(self.story.ends)
        self.loop.checkpoint.ask({"what": "flush"})
        self.tell("user", "asks for the end")

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended, though nobody may have heard of it yet."""
        checkpoint = self.loop.checkpoint
        return self._there is not None and checkpoint.said(checkpoint.last_done()).is_finished

    @property
    def _is_finished(self) -> bool:
        return self._told > 0 and self.loop.checkpoint.said(self._told - 1).is_finished

    def _end(self) -> None:
        """The stream ends, and everything that was there when that was asked for was read before."""
        for _ in range(PATIENCE_TURNS):
            if self._is_finished:
                break
            self.crew.turn()
            self._hear()
        else:
            raise ViolationError("the stream was flushed, and does not end")
        there = self._there or {}
        missed = {name: end for name, end in there.items() if self.story.truth.accepted[name] < end}
        if missed:
            raise ViolationError(f"not read before the end: {missed}, of {self.story.truth.accepted}")
        if self._dice.random() < 0.5:
            self.crew.stop()
        self.crew.kill()

    def _check(self) -> None:
        directive = self.loop.checkpoint.said(self._told - 1)
        self.story.checker.check_end(directive.status["counters"])
        for place in self.sinks.values():
            place.check(self._told)
        self.faults.check_left(self._told)

    def close(self) -> None:
        """Nobody is left."""
        with suppress(ViolationError, HeadwaterError):
            self.crew.kill()
        self._open.close()
