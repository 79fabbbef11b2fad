"""One stream whose driver and executors are killed again and again, and what must be in its sinks in the end."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.bench.stream.cluster import executors
from headwater.cases import HOSTS
from headwater.cases.hosts import result_rows
from headwater.engine.wire.query_set import read_query_set
from headwater.logs import Log
from headwater.reference.history import Added, Arrived, Flushed, Joined, Step, StreamSettings
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from spark.answers import assert_same
from spark.clusters import Processes
from spark.streaming.kill_job import DISORDER, LATER, LIFE_SECONDS_MAX, QUERIES, Death, Job

SCHEMA = pa.schema([("time", pa.int64()), ("house", pa.string()), ("load", pa.float64()), ("note", pa.string())])
NAMED = {query.name: query for query in [*QUERIES, LATER]}


@dataclass(frozen=True)
class AtRandom:
    """Kill the driver so many seconds after its process began."""

    seconds: float


@dataclass(frozen=True)
class ExecutorKill:
    """Kill an executor when so many batches of this life are done, and the driver so many batches later, if at all."""

    batches: int
    driver: int | None = None


@dataclass(frozen=True)
class AfterBatches:
    """Kill the driver when so many batches of this life are done, or some seconds after that: anywhere in the next ones."""

    batches: int
    seconds: float = 0.0


@dataclass(frozen=True)
class Replacement:
    """Pause the driver when so many batches of this life are done, and let another take over; wake it so many batches later."""

    batches: int
    later: int


Kill = Death | AtRandom | ExecutorKill | AfterBatches | Replacement
#: What a driver says that finds another in its place.
REPLACED = "was replaced and stops: the stream is run by"
#: What Spark says to a driver that has met another one in its log.
MET_ANOTHER = "Multiple streaming queries are concurrently using"


def drawn_events(dice: random.Random, count: int) -> list[dict[str, Any]]:
    """Events of one source: some ticks apart, a little out of order, now and then far too late, now and then a marker."""
    events, clock = [], 0
    for _ in range(count):
        clock += dice.choice([0, 1, 1, 2, 3, 20 if dice.random() < 0.05 else 1])
        back = dice.randint(0, DISORDER) if dice.random() < 0.3 else 0
        back = 60 if dice.random() < 0.02 else back
        note = "go" if dice.random() < 0.1 else dice.choice("xyz")
        events.append({"time": clock - back, "house": dice.choice("abcd"), "load": dice.gauss(0, 1e3), "note": note})
    return events


class Feeder:
    """Lets a segment log or a folder grow, piece by piece."""

    def __init__(self, place: Path, kind: str, events: dict[str, list[dict[str, Any]]], pieces: int) -> None:
        self._place, self._kind, self._events, self._pieces = place, kind, events, pieces
        self._fed = 0
        if kind == "log":
            Log.create(place, partition_count=len(events), time="time")

    def feed(self) -> None:
        """The next piece of every source, if there is one."""
        if self._fed == self._pieces:
            return
        for number, (source, events) in enumerate(self._events.items()):
            size = -(-len(events) // self._pieces)
            rows = events[self._fed * size : (self._fed + 1) * size]
            if self._kind == "log":
                with Log.open(self._place).writer(number) as writer:
                    writer.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
            else:
                whole = self._place / source / f"{self._fed:04d}.parquet"
                whole.parent.mkdir(parents=True, exist_ok=True)
                hidden = whole.with_name(f".{whole.name}")
                pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), hidden)
                hidden.rename(whole)
        self._fed += 1


class Story:
    """A stream from its beginning to its end, over all lives of its driver."""

    def __init__(
        self,
        processes: Processes,
        folder: Path,
        seed: int,
        *,
        master: str = "local[2]",
        workers: Sequence[subprocess.Popen[str]] = (),
        source: str = "log",
        sink: str = "folder",
        root: str = "driver",
        events: int = 300,
        batch_events: int = 40,
        count_scheme: str = "async",
        every: Sequence[str | None] = (None,),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        dice = random.Random(seed)
        self._processes, self._folder, self._workers, self._dice = processes, folder, workers, dice
        names = ["00000", "00001"] if source == "log" else ["a", "b"]
        self._events = {name: drawn_events(dice, events) for name in names}
        self._feeder = Feeder(folder / "in", source, self._events, pieces=30)
        self._job = Job(master, str(folder), sink, root, events * len(names), batch_events, count_scheme)
        #: For how long folders gather rows, life after life.
        self._every = every
        self._lives = 0

    # --- its lives ---

    def run(self, kills: Sequence[Kill], tell: Callable[[str], object] = lambda line: None) -> None:
        """One life for each kill, and a last one in which nobody dies; then everything is compared."""
        self._feeder.feed()
        for kill in [*kills, None]:
            began = time.monotonic()
            ended = self._live(kill)
            tell(f"life {self._lives}: {kill} -> {ended} after {time.monotonic() - began:.1f} s, {self._state()}")
            if ended == "finished":
                break
        assert ended == "finished", self._processes.logs()
        self.check()

    def _live(self, kill: Kill | None) -> str:
        if isinstance(kill, Replacement):
            return self._live_beside(kill)
        _, driver = self._started(json.dumps(asdict(kill)) if isinstance(kill, Death) else "-")
        began, before = time.monotonic(), self._done()
        while driver.poll() is None:
            self._feeder.feed()
            time.sleep(0.1)
            age = time.monotonic() - began
            assert age < LIFE_SECONDS_MAX, f"the stream stands still: {self._processes.logs()}"
            kill = self._strike(kill, driver, age, self._done() - before)
        if driver.returncode == 0:
            return "finished"
        assert driver.returncode == -signal.SIGKILL, self._processes.logs()
        return "killed"

    def _started(self, death: str = "-") -> tuple[str, subprocess.Popen[str]]:
        """The next driver, and its name."""
        job = replace(self._job, every=self._every[self._lives % len(self._every)])
        self._lives += 1
        name = f"driver-{self._folder.name}-{self._lives}"
        command = [sys.executable, "-m", "spark.streaming.kill_job", job.to_text(), death]
        return name, self._processes.start(name, *command)

    def _live_beside(self, kill: Replacement) -> str:
        """The lives of a driver that sleeps for a while, and of the one that runs the stream by then."""
        sleeper, first = self._started()
        if self._ends_before(first, self._done() + kill.batches):
            return self._ended(sleeper, first)
        os.killpg(first.pid, signal.SIGSTOP)
        refused, process = self._started()
        assert self._ends_before(process), self._processes.logs()
        assert "this stream is being run by" in self._said(refused), self._processes.logs()
        # As where locks do not reach, on a file system that machines share: the owner number is all that is left.
        for lock in [*self._folder.glob("checkpoint/**/*lock"), *self._folder.glob("rows/**/*lock")]:
            lock.unlink()
        name, second = self._started()
        self._ends_before(second, self._done() + kill.later)
        os.killpg(first.pid, signal.SIGCONT)
        assert self._ends_before(first), self._processes.logs()
        # One that wakes when all is done finds nothing to do any more.
        assert first.returncode == 0 or REPLACED in self._said(sleeper), self._processes.logs()
        assert self._ends_before(second), self._processes.logs()
        return self._ended(name, second)

    def _ends_before(self, driver: subprocess.Popen[str], batches: float = float("inf")) -> bool:
        """Whether a driver ends before so many batches are done in all."""
        deadline = time.monotonic() + LIFE_SECONDS_MAX
        while driver.poll() is None and self._done() < batches:
            self._feeder.feed()
            time.sleep(0.1)
            assert time.monotonic() < deadline, f"the stream stands still: {self._processes.logs()}"
        return driver.poll() is not None

    def _ended(self, name: str, driver: subprocess.Popen[str]) -> str:
        """How a driver that nobody killed has ended: it may have met the other in Spark's log."""
        if driver.returncode == 0:
            return "finished"
        assert MET_ANOTHER in self._said(name) or REPLACED in self._said(name), self._processes.logs()
        return "replaced"

    def _said(self, name: str) -> str:
        return (self._processes.folder / f"{name}.log").read_text()

    def _strike(self, kill: Kill | None, driver: Any, age: float, batches: int) -> Kill | None:
        """Do what is due; what is left to do in this life."""
        if isinstance(kill, AfterBatches) and batches >= kill.batches:
            kill = AtRandom(age + kill.seconds)
        if isinstance(kill, AtRandom) and age >= kill.seconds:
            with suppress(ProcessLookupError):  # it may have finished by now
                os.killpg(driver.pid, signal.SIGKILL)
            return None
        if isinstance(kill, ExecutorKill) and batches >= kill.batches:
            victims = [pid for worker in self._workers for pid in executors(worker)]
            if victims:
                with suppress(ProcessLookupError):
                    os.kill(self._dice.choice(victims), signal.SIGKILL)
                return None if kill.driver is None else AfterBatches(batches + kill.driver)
        return kill

    def _done(self) -> int:
        """How many batches are done."""
        last = self._checkpoint.last_batch() if self._checkpoint.path.exists() else None
        return 0 if last is None else last + 1

    def _state(self) -> str:
        last = self._checkpoint.last_batch() if self._checkpoint.path.exists() else None
        directive = None if last is None else self._checkpoint.directive(last)
        events = directive["status"].get("events", 0) if directive else 0
        return f"batch {last}, {events} of {self._job.total} events"

    # --- what came out ---

    @property
    def _checkpoint(self) -> StreamCheckpoint:
        return StreamCheckpoint(self._folder / "checkpoint" / "headwater")

    def check(self) -> None:
        """The rows of the reference, none of them twice; the same of what was put aside; every event has one fate."""
        rows, aside = self._stored(), pq.read_table(self._folder / "aside")
        found = result_rows(rows, NAMED)
        identities = Counter((row.query, row.start, row.end, row.key, row.revision) for row in found)
        assert max(identities.values()) == 1, [each for each, count in identities.items() if count > 1]
        wanted = self._expected()
        assert_same([row for _, some in wanted.emitted for row in some], found)
        # The one that is added late may find that all has been there already.
        assert {query.name for query in QUERIES} <= {row.query for row in found}
        places = Counter(zip(*(aside[name].to_pylist() for name in ("query", "source", "offset"))))
        assert set(places) == wanted.dropped and set(places.values()) == {1}
        counters = json.loads((self._folder / "counters.json").read_text())
        assert all(fates["in"] == sum(fates.values()) - fates["in"] for fates in counters.values())
        # The added query has not seen what came before it; the reference has it from the start, with its windows.
        for seen in (counters[LATER.name], wanted.counters[LATER.name]):
            del seen["in"], seen["outside"]
        assert counters == wanted.counters

    def _stored(self) -> pa.Table:
        place = self._folder / "rows"
        if self._job.sink == "folder":
            return pa.concat_tables(
                [pq.read_table(p) for p in sorted(place.glob("*.parquet"))], promote_options="default"
            )
        return pa.Table.from_batches([stored.batch for stored in Log.open(place).reader(0).read()])

    def _expected(self) -> Any:
        """What the reference says. When the added query began was the root's decision: it is read where the root wrote it."""
        last = self._checkpoint.last_batch()
        assert last is not None
        directive = self._checkpoint.directive(last)
        assert directive is not None
        entries = read_query_set(self._checkpoint.queries(directive["queries"])).entries
        (begin,) = [entry.begin for entry in entries if entry.query.name == LATER.name]
        history: list[Step] = [Joined(name) for name in self._events]
        history.append(Added(LATER, begin))
        history += [Arrived(name, i, row) for name, rows in self._events.items() for i, row in enumerate(rows)]
        settings = StreamSettings(tuple(QUERIES), disorder=DISORDER)
        return HOSTS["reference"].play(settings, [*history, Flushed()])
