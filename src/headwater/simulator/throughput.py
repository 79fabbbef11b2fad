"""How fast the simulator is: a large stream over many leaves, without faults, with large batches."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.language.aggregations import avg, count
from headwater.language.query import query
from headwater.language.windows import tumbling
from headwater.node import NodeSettings
from headwater.protocols.actions import Action, EmitRows
from headwater.protocols.events import Event
from headwater.simulator.runner import Run
from headwater.simulator.workloads.streams import SourceLog
from headwater.simulator.workloads.workload import Workload
from headwater.simulator.world.machine import Machine
from headwater.simulator.world.network import MS
from headwater.simulator.world.topology import tree

TICKS = 1_000_000
SECOND_NS = 1000 * MS


@dataclass(frozen=True, slots=True)
class Throughput:
    """How many events went from the leaves to the root's results, and how long that took in real time."""

    events: int
    seconds: float
    rows: int

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds


class _Tally:
    """Counts what the root emits: every event has to be in a window."""

    def __init__(self) -> None:
        self.rows = self.events = 0

    def after(self, time_ns: int, machine: Machine, event: Event | None, actions: list[Action], done: int) -> None:
        for action in actions:
            if isinstance(action, EmitRows):
                self.rows += action.rows.num_rows
                self.events += pa.compute.sum(action.rows.column("event_count")).as_py() or 0

    def happened(self, time_ns: int, machine: str, what: str) -> None:
        """Nothing does."""


def measure_throughput(leaf_count: int = 100, events_per_leaf: int = 100_000, height: int = 2) -> Throughput:
    """Averages by key in windows of a second; a second of each leaf's events is one batch.

    >>> measure_throughput(leaf_count=3, events_per_leaf=1000).events
    3000
    """
    workload = large_workload(leaf_count, events_per_leaf)
    settings = NodeSettings(linger_ns=100 * MS, resend_ns=10 * SECOND_NS, hello_ns=SECOND_NS)
    tally = _Tally()
    run = Run.plain(tree(leaf_count, height), workload, settings, [tally])
    start = time.perf_counter()
    run.begin()
    if not run.world.run(workload.last_ns + 100 * SECOND_NS, lambda: run.world.is_finished):
        raise RuntimeError("the stream never came to its end")
    seconds = time.perf_counter() - start
    total = leaf_count * events_per_leaf
    if tally.events != total:
        raise RuntimeError(f"{tally.events} of {total} events came out")
    return Throughput(total, seconds, tally.rows)


def large_workload(leaf_count: int, events_per_leaf: int, seconds: int = 5) -> Workload:
    """One source per leaf, in order, with ten keys."""
    dice = np.random.default_rng(7)
    times = np.arange(events_per_leaf) * (seconds * TICKS) // events_per_leaf
    arrival_ns = (times // TICKS + 1) * SECOND_NS
    logs: dict[str, tuple[SourceLog, ...]] = {}
    for leaf in tree(leaf_count, 1).leaves:
        keys = pa.array(dice.integers(0, 10, events_per_leaf))
        events = pa.record_batch({"time": times, "key": keys, "value": dice.random(events_per_leaf)})
        logs[leaf] = (SourceLog(leaf, leaf, events, arrival_ns, ended_ns=(seconds + 1) * SECOND_NS),)
    asked = query("load", tumbling(TICKS), keys=["key"], mean=avg("value"), events=count())
    return Workload((asked,), logs, disorder=0)
