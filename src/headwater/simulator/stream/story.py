"""A drawn workload over Spark's loop: what arrives when, who joins, falls silent, is done; compared with the reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.base.count_limits import CountLimits
from headwater.language.files.queries import to_json
from headwater.language.homes import home_of_log
from headwater.language.times import NEVER
from headwater.logs import Log
from headwater.protocols.count_windows import Counting
from headwater.protocols.events import Event, FlushAsked, QueryAdded, QueryRemoved
from headwater.reference.history import UNREAD
from headwater.simulator.checks.checkers import Checker
from headwater.simulator.checks.counts import Counts
from headwater.simulator.checks.truth import Truth, ViolationError
from headwater.simulator.scenarios import EXACT_SCHEMES, Scenario, draw_count_windows
from headwater.simulator.stream.listed_input import TABLES, TOLD, ListedInput
from headwater.simulator.stream.loop import Loop
from headwater.simulator.workloads.count_limits import draw_limits
from headwater.simulator.workloads.count_workload import draw_count_workload
from headwater.simulator.workloads.streams import SourceLog
from headwater.simulator.workloads.workload import draw_workload
from headwater.simulator.world.topology import tree
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.inputs.input import LogInput
from headwater.spark.streaming.leaf import LIMITS, LeafLimits
from headwater.spark.streaming.runner import joined

SECOND = 10**9
#: A batch has fewer.
EMISSIONS_MAX = 10**6
Draw = Callable[[random.Random], Scenario]


def any_queries(dice: random.Random) -> Scenario:
    """Queries of every kind; those that count, under any exact scheme."""
    topology = tree(dice.choice([1, 2, 3]), 1)
    return Scenario(topology, draw_workload(dice, topology), Counting(dice.choice(EXACT_SCHEMES)), draw_limits(dice))


def count_windows(dice: random.Random) -> Scenario:
    """Queries that count, with rates that change and limits that small streams meet."""
    return draw_count_windows(dice, 4, 1)


def few_counted(dice: random.Random) -> Scenario:
    """The same with few events: every batch reads again what is not accepted."""
    topology = tree(dice.randint(1, 4), 1)
    workload, _ = draw_count_workload(dice, topology, dice.randint(60, 250))
    return Scenario(topology, workload, Counting(dice.choice(EXACT_SCHEMES)), draw_limits(dice))


class Story:
    """A workload of the simulator, told bit by bit, and what is to be said of it.

    Sources end only with the stream: ``tells`` says whether they tell their watermarks themselves.
    """

    def __init__(self, dice: random.Random, draw: Draw, tells: bool, log: Path | None = None) -> None:
        self.dice = dice
        self._log: Log | None = None
        scenario = draw(dice)
        self.counting, self.limits = scenario.counting, scenario.limits
        if self.limits != CountLimits():
            self.limits = replace(self.limits, brief_piece_max=8, brief_raw_max=6)
        drawn = scenario.workload
        disorder = dice.choice([0, 4, 15]) if drawn.disorder is None else drawn.disorder
        tells = tells and drawn.disorder is None
        changes: dict[str, Any] = {"ended_ns": None} | ({} if tells else {"told": ()})
        logs = {leaf: tuple(replace(log, **changes) for log in some) for leaf, some in drawn.logs.items()}
        if log is not None:
            logs = self._logged(logs, log)
        self.workload = workload = replace(drawn, logs=logs, disorder=None if tells else disorder)
        self.logs = {log.source: log for log in workload.all_logs}
        TABLES.update({name: log.events for name, log in self.logs.items()})
        TOLD.update({name: [(mark.position, mark.watermark) for mark in log.told] for name, log in self.logs.items()})
        homes = {name: log.home for name, log in self.logs.items()}
        first = dice.sample(sorted(self.logs), len(self.logs) if log is not None else dice.randint(0, len(self.logs)))
        self.opened = ListedInput(workload.all_logs[0].events.schema, dict.fromkeys(first, 0), homes)
        added = {event.query.name: event.query for _, event in workload.script if isinstance(event, QueryAdded)}
        self.truth = Truth(workload, added)
        self.named = {query.name: query for query in workload.queries} | added
        self.counts = Counts()
        self.checker = Checker(self.truth, self.named, self.counts, dice, share=0.0)
        self.commands = [event for _, event in workload.script if not isinstance(event, FlushAsked)]

    def _logged(self, logs: dict[str, tuple[SourceLog, ...]], path: Path) -> dict[str, tuple[SourceLog, ...]]:
        """The same as partitions of a segment log, of values that can be stored."""
        self._log = Log.create(path, partition_count=sum(map(len, logs.values())))
        names = (f"{number:05d}" for number in count())
        changed: dict[str, Any] = {"home": home_of_log(path), "told": ()}
        return {
            leaf: tuple(replace(log, source=next(names), events=_stored(log.events), **changed) for log in some)
            for leaf, some in logs.items()
        }

    def log_input(self) -> LogInput | None:
        """What a stream reads if the story is told by a segment log."""
        return None if self._log is None else LogInput(self._log.path, self.opened.schema)

    @property
    def ends(self) -> dict[str, int]:
        """Up to which event each source is there by now."""
        return self.opened.ends

    def begun(self, sources: Iterable[str]) -> None:
        """The stream has begun, with these sources."""
        for name in sources:
            self.truth.note("decided", {"what": "joined", "source": name, "offset": 0, "time": NEVER})

    def settings(self, idle_ns: int | None) -> dict[str, Any]:
        """Those of a stream that has not begun."""
        disorder = self.workload.disorder
        return {"time": "time", "unit": "us", "disorder": disorder, "strict": False, "idle_ns": idle_ns}

    def leaf_limits(self, held_max: int | None = None) -> LeafLimits:
        leaves = replace(LIMITS, node=replace(LIMITS.node, counts=self.limits))
        if self.limits != CountLimits():
            leaves = replace(leaves, send_events=20)
        if held_max is not None:
            leaves = replace(leaves, node=replace(leaves.node, held_max=held_max))
        return leaves

    @property
    def goes_on(self) -> bool:
        """Whether there is more to come."""
        ends = self.opened.ends
        return any(ends.get(name, 0) < len(log) for name, log in self.logs.items()) or bool(self.commands)

    def arrive(self) -> None:
        """Some events, of sources that are there and of some that come now."""
        dice, ends = self.dice, self.opened.ends
        for name, log in self.logs.items():
            if name in ends or dice.random() < 0.3:
                before = ends.get(name, 0)
                ends[name] = min(len(log), before + dice.choice([0, 1, 5, 40]))
                if self._log is not None and ends[name] > before:
                    with self._log.writer(int(name)) as writer:
                        writer.append(log.events.slice(before, ends[name] - before), before)
                if ends[name] == len(log) and dice.random() < 0.2:
                    self.opened.done.add(name)

    def ask(self, checkpoint: StreamCheckpoint) -> None:
        """The next command of a user, if there is one."""
        if self.commands:
            ask(checkpoint, self.commands.pop(0))

    def done(self, loop: Loop, batch: int) -> None:
        """A batch is done: what was decided in it and what came out is compared with the reference."""
        computed = loop.done(batch)
        for note in computed.notes or ():
            self.truth.note(note.what, note.detail)
        sunk = loop.sink.batches.get(batch)
        given = [joined([table]) for tables in computed.given.values() for table in tables]
        if sunk is None or sum(map(len, given)) != len(sunk) or batch not in loop.aside.batches:
            raise ViolationError(f"batch {batch} is done, but its rows were not written")
        # One after the other: a row may replace another of the same batch.
        for number, table in enumerate(given):
            self.checker._emitted(batch * EMISSIONS_MAX + number, table)
        self.checker._put_aside(batch, loop.aside.batches[batch])


def _stored(events: pa.RecordBatch) -> pa.RecordBatch:
    """Events without the texts of values that could not be read: a log has none."""
    return events.select([name for name in events.schema.names if not name.startswith(UNREAD)])


def ask(checkpoint: StreamCheckpoint, event: Event) -> None:
    """What a user asks for."""
    if isinstance(event, QueryAdded):
        checkpoint.ask({"what": "add", "queries": to_json([event.query])})
    elif isinstance(event, QueryRemoved):
        checkpoint.ask({"what": "remove", "name": event.name, "drain": event.drain})
