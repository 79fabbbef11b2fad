"""Streams and queries whose right answer is known: drawn from the seed, fixed before the run begins.

A workload says what every source will say and when, which queries there are at the beginning, and what users will do while it
runs. Event times are ticks; a tick of the stream is ten milliseconds of the world's time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.language.query import Query
from headwater.protocols.events import Event, FlushAsked, QueryAdded, QueryRemoved
from headwater.reference.history import UNREAD
from headwater.simulator.workloads.queries import SCHEMA, draw_query
from headwater.simulator.workloads.streams import SourceLog, Told
from headwater.simulator.world.network import MS
from headwater.simulator.world.topology import Topology

TICK_NS = 10 * MS
#: How long sources speak.
SPAN_TICKS = 150


@dataclass(frozen=True)
class Workload:
    """What the run will be about: queries, the logs of every leaf, and what users do at the root (at a time, an event)."""

    queries: tuple[Query, ...]
    logs: dict[str, tuple[SourceLog, ...]]
    script: tuple[tuple[int, Event], ...] = ()
    disorder: int | None = None
    #: Whether the stream is ended by a user before its sources have said everything.
    ends_early: bool = False

    @property
    def all_logs(self) -> list[SourceLog]:
        return [log for logs in self.logs.values() for log in logs]

    @property
    def last_ns(self) -> int:
        """When everything there will ever be can be read."""
        return max(log.last_ns for log in self.all_logs)


def draw_workload(dice: Random, topology: Topology) -> Workload:
    """A small stream over all leaves: 60 to 300 events in all."""
    style = Style(dice)
    leaf_sources = {leaf: dice.choice([1, 1, 2, 3]) for leaf in topology.leaves}
    count = dice.randint(60, 300)
    share = max(2, count // sum(leaf_sources.values()))
    logs = {}
    for leaf, source_count in leaf_sources.items():
        # By birth a source belongs to its leaf, or to one of two regions that have nothing to do with the tree.
        names = [f"{leaf}/{chr(97 + number)}" for number in range(source_count)]
        home = leaf if len(leaf_sources) <= 4 else dice.choice(["north", "south", "west"])
        logs[leaf] = tuple(style.log(name, home, max(1, int(share * dice.choice([0.3, 1, 1, 1.7])))) for name in names)
    # A query that cannot be split sends raw events along and hides what the others do: mostly there is none.
    is_split = dice.random() < 0.7
    names = [f"q{number}" for number in range(dice.choice([1, 1, 2, 2, 3]))]
    queries = tuple(draw_query(dice, name, is_splittable=is_split) for name in names)
    script, ends_early = draw_script(dice, queries, lambda name: draw_query(dice, name, is_splittable=is_split))
    return Workload(queries, logs, script, style.disorder, ends_early)


class Style:
    """What the sources of one run have in common: how they tell their progress, how far they are out of order."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.disorder: int | None = dice.choice([None, None, 0, 4, 15])
        self.jitter = dice.choice([0, 0, 3, 12])
        self.late = dice.choice([0.0, 0.05, 0.15])
        self.silence = dice.choice([0.0, 0.0, 0.02, 0.05])
        self._malformed = dice.choice([0.0, 0.0, 0.03])
        self._nulls = dice.choice([0.0, 0.1])
        self._marks = dice.choice([0.05, 0.2])

    def log(self, source: str, home: str, count: int) -> SourceLog:
        """Everything that a source will say."""
        dice = self.dice
        begin = dice.choice([0, 0, 0, dice.randint(0, SPAN_TICKS // 2)])
        rate = count / (SPAN_TICKS - begin) * dice.choice([1, 1, 1, 3])  # a fast one ends early
        skew = dice.choice([0, 0, dice.randint(-10, 10)])
        burst = dice.choice([2, 6, 15])  # it speaks as soon as it knows, or of several ticks at once
        tells = self.disorder is None or dice.random() < 0.3
        now, high = float(begin), None
        rows, moments, told = [], [], []
        for number in range(count):
            now += dice.expovariate(rate) + (dice.randint(30, 80) if dice.random() < self.silence else 0)
            time = int(now) + skew - dice.randint(0, self.jitter)
            if dice.random() < self.late:
                time -= dice.randint(1, 40)
            row = self.row(time)
            rows.append(row)
            moments.append(-int(-now // burst) * burst * TICK_NS)
            if row["time"] is not None:
                high = time if high is None else max(high, time)
            if tells and high is not None and dice.random() < 0.3:
                mark = high - dice.choice([0, self.jitter, self.jitter + 1])
                told.append(Told(number + 1, mark, moments[-1] + 1))
        ended_ns = moments[-1] + dice.randint(0, 20) * TICK_NS + 2 if dice.random() < 0.5 else None
        wrong = sorted({name for row in rows for name in row} - {*SCHEMA.names})
        table = pa.RecordBatch.from_pylist(rows, pa.schema([*SCHEMA, *((name, pa.string()) for name in wrong)]))
        return SourceLog(source, home, table, np.array(moments), tuple(told), begin * TICK_NS, ended_ns)

    def row(self, time: int) -> dict[str, Any]:
        """One event."""
        dice = self.dice
        row = {
            "k": dice.choice(["u", "v", "é"]),
            "g": dice.randint(1, 2),
            "i": dice.choice([dice.randint(-3, 9), dice.randint(-3, 9), 2**62, 10**15 + 1]),
            "x": dice.choice([0.0, -0.0, 0.1, 0.2, 0.3, 1.5, -2.25, 1e16, -1e16, 1e200]),
            "d": Decimal(dice.randint(-(10**4), 10**4)).scaleb(-2),
            "s": dice.choice(["", "a", "b", "ab", "é"]),
            "id": dice.randint(1, 9),
            "mark": dice.choice(["start", "stop"]) if dice.random() < self._marks else "none",
        }
        if self._nulls:
            row = {name: None if dice.random() < self._nulls else value for name, value in row.items()}
        if self._malformed and dice.random() < self._malformed:
            # A value of a wrong type: only the queries that read its column may mind.
            name = dice.choice(sorted(row))
            row |= {name: None, UNREAD + name: "?"}
        return {"time": None if dice.random() < self._malformed else time} | row


def draw_script(
    dice: Random, queries: tuple[Query, ...], draw: Callable[[str], Query]
) -> tuple[tuple[tuple[int, Event], ...], bool]:
    """What users do while the stream runs: add queries, remove some, now and then end the stream; and whether they end it."""
    script: list[tuple[int, Event]] = []
    names = [query.name for query in queries]
    for number in range(dice.choice([0, 0, 1, 2])):
        added = draw(f"a{number}")
        script.append((dice.randrange(SPAN_TICKS) * TICK_NS, QueryAdded(added)))
    if len(names) > 1 and dice.random() < 0.3:
        script.append((dice.randrange(SPAN_TICKS) * TICK_NS, QueryRemoved(dice.choice(names), dice.random() < 0.6)))
    ends_early = dice.random() < 0.15
    if ends_early:
        script.append((dice.randint(SPAN_TICKS // 2, SPAN_TICKS) * TICK_NS, FlushAsked()))
    return tuple(sorted(script, key=lambda entry: entry[0])), ends_early
