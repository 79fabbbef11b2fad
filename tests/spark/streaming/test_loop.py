"""Streams in micro-batches against the reference: whatever arrives when, whoever joins, falls silent or dies."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.logs import files
from headwater.protocols.events import FlushAsked, QueryAdded, QueryRemoved
from headwater.query_io import to_json
from headwater.simulator.checkers import Checker
from headwater.simulator.counts import Counts
from headwater.simulator.queries import SCHEMA
from headwater.simulator.topology import tree
from headwater.simulator.truth import Truth
from headwater.simulator.workload import draw_workload
from headwater.spark.streaming import leaf
from headwater.spark.streaming.handle import Stream
from spark.streaming.local_loop import STEPS, TABLES, TOLD, ListedInput, Loop

SECOND = 10**9


@pytest.fixture(autouse=True, scope="module")
def no_sync():
    """Here drivers die, not machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "sync", lambda descriptor: None)
        patch.setattr(files, "sync_directory", lambda directory: None)
        yield


class Run:
    """A workload of the simulator, told batch by batch."""

    def __init__(self, place, seed: int, crashes: bool, roots: int = 1) -> None:
        self.dice = dice = random.Random(seed)
        drawn = draw_workload(dice, tree(dice.choice([1, 2, 3]), 1))
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
        self.opened = ListedInput(SCHEMA, dict.fromkeys(first, 0), homes)
        idle = dice.choice([None, None, 5 * SECOND])
        engine = {"time": "time", "unit": "us", "disorder": self.disorder, "strict": False, "idle_ns": idle}
        chains = dice.choice([1, 2, 5, 40])
        if chains == 40:
            # Behind a relay several sources end at one moment; one after the other the reference has empty windows in between.
            self.workload = workload = _without_empty(workload)
        self.loop = Loop(place, self.opened, workload.queries, engine, chains, roots, seed)
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
                for note in self.loop.notes[batch]:
                    self.truth.note(note.what, note.detail)
                self.checker._emitted(batch, self.loop.sink.batches[batch])
                self.checker._put_aside(batch, self.loop.aside.batches[batch])


def _without_empty(workload):
    queries = tuple(replace(query, emit_empty=False) for query in workload.queries)
    script = tuple(
        (at, replace(event, query=replace(event.query, emit_empty=False)) if isinstance(event, QueryAdded) else event)
        for at, event in workload.script
    )
    return replace(workload, queries=queries, script=script)


@pytest.mark.parametrize("crashes", [False, True])
@settings(max_examples=15, deadline=None)
@example(seed=26)  # count windows in scopes over nodes forgot how many windows of a new key were out
@example(seed=35)
@given(seed=st.integers(0, 2**32))
def test_batches_say_what_the_reference_says(tmp_path_factory, crashes, seed):
    Run(tmp_path_factory.mktemp("stream"), seed, crashes).play()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), held_max=st.integers(1, 10))
def test_leaves_that_hold_too_much_stop_reading_until_they_may_cut(tmp_path_factory, seed, held_max):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf, "SETTINGS", replace(leaf.SETTINGS, held_max=held_max))
        Run(tmp_path_factory.mktemp("stream"), seed, crashes=False).play()


@pytest.mark.parametrize("roots", [2, 3])
@settings(max_examples=5, deadline=None)
@example(seed=2**32 - 1)  # a query came for which events would have had to be shared in another way
@given(seed=st.integers(0, 2**32))
def test_so_do_roots_that_share_the_keys(tmp_path_factory, roots, seed):
    Run(tmp_path_factory.mktemp("stream"), seed, crashes=True, roots=roots).play()


def test_a_stream_that_is_over_is_flushed_already(tmp_path):
    run = Run(tmp_path, seed=1, crashes=False)
    run.play()
    spark_query = SimpleNamespace(isActive=True, stop=lambda: None)
    stream = Stream(spark_query, run.loop.checkpoint, run.opened, run.loop.runner)
    # It waited for a batch that nobody will ever plan.
    stream.flush(timeout=0)
    with pytest.raises(hw.HeadwaterError, match="was flushed and is over, so nobody can remove a query"):
        stream.remove_query("any")
