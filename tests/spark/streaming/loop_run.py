"""A drawn workload over Spark's loop: what arrives when, who joins, falls silent or dies, compared with the reference."""

import random
from dataclasses import replace

from headwater.base.count_limits import CountLimits
from headwater.language.files.queries import to_json
from headwater.protocols.count_windows import Counting
from headwater.protocols.events import FlushAsked, QueryAdded, QueryRemoved
from headwater.simulator.checks.checkers import Checker
from headwater.simulator.checks.counts import Counts
from headwater.simulator.checks.truth import Truth
from headwater.simulator.scenarios import EXACT_SCHEMES, Scenario, draw_count_windows
from headwater.simulator.workloads.count_limits import draw_limits
from headwater.simulator.workloads.workload import draw_workload
from headwater.simulator.world.topology import tree
from headwater.spark.streaming.leaf import LIMITS
from headwater.spark.streaming.runner import joined
from spark.streaming.local_loop import STEPS, TABLES, TOLD, ListedInput, Loop

SECOND = 10**9
#: A batch has fewer.
EMISSIONS_MAX = 10**6


def any_queries(dice: random.Random) -> Scenario:
    """Queries of every kind; those that count, under any exact scheme."""
    topology = tree(dice.choice([1, 2, 3]), 1)
    return Scenario(topology, draw_workload(dice, topology), Counting(dice.choice(EXACT_SCHEMES)), draw_limits(dice))


def count_windows(dice: random.Random) -> Scenario:
    """Queries that count, with rates that change and limits that small streams meet."""
    return draw_count_windows(dice, 4, 1)


class Run:
    """A workload of the simulator, told batch by batch."""

    loop_class = Loop

    def __init__(
        self, place, seed: int, crashes: bool, roots: int = 1, draw=any_queries, held_max: int | None = None
    ) -> None:
        self.dice = dice = random.Random(seed)
        self.scenario = draw(dice)
        self.limits = limits = self.scenario.limits
        if limits != CountLimits():
            self.limits = replace(limits, brief_piece_max=8, brief_raw_max=6)
        drawn = self.scenario.workload
        self.disorder = dice.choice([0, 4, 15]) if drawn.disorder is None else drawn.disorder
        # Sources tell their watermarks themselves in one of three.
        tells = drawn.disorder is None and seed % 3 == 0
        if tells:
            self.disorder = None
        changes = {"ended_ns": None} | ({} if tells else {"told": ()})
        logs = {leaf: tuple(replace(log, **changes) for log in some) for leaf, some in drawn.logs.items()}
        self.workload = workload = replace(drawn, logs=logs, disorder=self.disorder)
        self.logs = {log.source: log for log in workload.all_logs}
        TABLES.update({name: log.events for name, log in self.logs.items()})
        TOLD.update({name: [(mark.position, mark.watermark) for mark in log.told] for name, log in self.logs.items()})
        homes = {name: log.home for name, log in self.logs.items()}
        first = dice.sample(sorted(self.logs), dice.randint(0, len(self.logs)))
        self.opened = ListedInput(workload.all_logs[0].events.schema, dict.fromkeys(first, 0), homes)
        idle = dice.choice([None, None, 5 * SECOND])
        engine = {"time": "time", "unit": "us", "disorder": self.disorder, "strict": False, "idle_ns": idle}
        chains = dice.choice([1, 2, 5, 40])
        counting = self.scenario.counting
        leaves = replace(LIMITS, node=replace(LIMITS.node, counts=self.limits))
        if self.limits != CountLimits():
            leaves = replace(leaves, send_events=20)
        if held_max is not None:
            leaves = replace(leaves, node=replace(leaves.node, held_max=held_max))
        told = counting, self.limits, leaves
        self.roots = roots
        self.loop = self.loop_class(place, self.opened, workload.queries, engine, chains, roots, seed, *told)
        added = {event.query.name: event.query for _, event in workload.script if isinstance(event, QueryAdded)}
        self.truth = Truth(workload, added)
        self.named = {query.name: query for query in workload.queries} | added
        self.checker = Checker(self.truth, self.named, Counts(), dice, share=0.0)
        self.commands = [event for _, event in self.workload.script if not isinstance(event, FlushAsked)]
        self.crashes = crashes
        self._tell_joins()

    def _tell_joins(self) -> None:
        for name in self.opened.ends:
            self.truth.note("decided", {"what": "joined", "source": name, "offset": 0, "time": -(2**63)})

    def play(self) -> None:
        """From the first event to the end."""
        while any(self.opened.ends.get(name, 0) < len(log) for name, log in self.logs.items()) or self.commands:
            self._something_happens()
            self._batches(self.dice.randint(0, 2))
        self._batches(1000)
        self.loop.checkpoint.ask({"what": "flush"})
        self.truth.may_end = True
        self._batches(1000)
        assert self.loop.directive()["is_finished"]
        self.checker.check_end(self.loop.directive()["status"]["counters"])

    def _something_happens(self) -> None:
        dice, ends = self.dice, self.opened.ends
        self.loop.now_ns += dice.choice([0, SECOND, 3 * SECOND])
        self.loop.events_max = dice.choice([None, 3, 20])
        for name, log in self.logs.items():
            if name in ends or dice.random() < 0.3:
                ends[name] = min(len(log), ends.get(name, 0) + dice.choice([0, 1, 5, 40]))
                if ends[name] == len(log) and dice.random() < 0.2:
                    self.opened.done.add(name)
        if self.commands and dice.random() < 0.3:
            self._ask(self.commands.pop(0))
        if self.crashes and dice.random() < 0.4:
            self.loop.crash_at = dice.choice(STEPS)

    def _ask(self, event) -> None:
        if isinstance(event, QueryAdded):
            self.loop.checkpoint.ask({"what": "add", "queries": to_json([event.query])})
        elif isinstance(event, QueryRemoved):
            self.loop.checkpoint.ask({"what": "remove", "name": event.name, "drain": event.drain})

    def _batches(self, count: int) -> None:
        for _ in range(count):
            done = self.loop.committed
            if not self.loop.safely():
                break
            for batch in range(done, self.loop.committed):
                for note in self.loop.notes[batch, self.loop.checkpoint.said(batch).offset]:
                    self.truth.note(note.what, note.detail)
                self._emitted(batch)
                self.checker._put_aside(batch, self.loop.aside.batches[batch])

    def _emitted(self, batch: int) -> None:
        """A row may replace another of the same batch."""
        sunk = self.loop.sink.batches[batch]
        key = batch, self.loop.checkpoint.said(batch).offset
        given = [joined([table]) for tables in self.loop.given.get(key, {}).values() for table in tables]
        assert sum(map(len, given)) == len(sunk)
        for number, table in enumerate(given):
            self.checker._emitted(batch * EMISSIONS_MAX + number, table)
