"""What the partitions of a run hold: queries of every kind, and partitions that differ in all that nodes have to cope with."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa

from headwater.language.query import Query
from headwater.reference.history import Arrived, StreamSettings
from headwater.simulator.workloads.queries import SCHEMA, draw_query
from headwater.simulator.workloads.streams import SourceLog
from headwater.simulator.workloads.workload import SPAN_TICKS, TICK_NS, Style
from headwater.simulator.world.network import MS

#: What a partition can be like, and how often it is.
MANNERS = {
    "steady": 6,
    "fast": 2,
    "slow": 2,
    "is late to speak": 1,
    "ends early": 1,
    "falls silent": 2,
    "never speaks": 1,
}
#: How far event time may leap where there is a gap in it.
GAPS = (0, 0, 0, 400, 10**6)


@dataclass(frozen=True)
class HolonWorkload:
    """Queries, the log of each partition, how far events are out of order, the grid of steps, and after how long a partition is
    not waited for; ``is_tallied``: whether the rows are counted by stages of each partition; ``features``: what was drawn, in
    words."""

    queries: tuple[Query, ...]
    logs: dict[str, SourceLog]
    disorder: int
    every: int
    idle_ns: int | None
    is_tallied: bool
    features: frozenset[str]

    @property
    def last_ns(self) -> int:
        """When everything there will ever be can be read."""
        return max(log.last_ns for log in self.logs.values())

    @property
    def settings(self) -> StreamSettings:
        """As the reference takes them."""
        return StreamSettings(self.queries, disorder=self.disorder)

    def arrived(self, ends: dict[str, int] | None = None) -> dict[str, list[Arrived]]:
        """The events of each partition, up to where it ends, as the reference takes them."""
        return {
            name: [
                Arrived(name, offset, row, name)
                for offset, row in enumerate(log.rows[: None if ends is None else ends[name]])
            ]
            for name, log in self.logs.items()
        }


def draw_holon_workload(dice: Random, partitions: int) -> HolonWorkload:
    """A small stream over all partitions: 60 to 200 events in all."""
    style = Style(dice)
    disorder = style.disorder = dice.choice([0, 4, 15])
    idle_ns = dice.choice([None, 200 * MS, 300 * MS])
    names = [f"p{number}" for number in range(partitions)]
    share = dice.randint(60, 200) / partitions
    queries = tuple([draw_query(dice, f"q{number}") for number in range(dice.choice([1, 1, 2, 3]))])
    leap = dice.choice(GAPS)
    # Windows without events would be as many as the gap is long.
    leap = min(leap, 200) if any(query.emit_empty for query in queries) else leap
    gap = leap, dice.randint(SPAN_TICKS // 4, SPAN_TICKS)
    # Where nobody may be left out all wait for whoever is silent, and there is little to see.
    is_lively = idle_ns is None and dice.random() < 0.7
    some = {manner: weight for manner, weight in MANNERS.items() if not is_lively or " " not in manner}
    manners = {name: dice.choices(list(some), list(some.values()))[0] for name in names}
    logs = {name: _log(dice, style, name, manner, share, gap) for name, manner in manners.items()}
    features = {f"a partition that {manner}" for manner in manners.values() if " " in manner}
    features |= {"idle" if idle_ns else "no idle"} | ({"a gap in event time"} if gap[0] else set())
    features |= {f"window {type(query.window).__name__}" for query in queries}
    is_tallied = dice.random() < 0.25
    features |= {"stages of partitions"} if is_tallied else set()
    every = dice.choice([7, 10, 20, 20, 40])
    return HolonWorkload(queries, logs, disorder, every, idle_ns, is_tallied, frozenset(features))


def _log(dice: Random, style: Style, name: str, manner: str, share: float, gap: tuple[int, int]) -> SourceLog:
    """Everything that a partition will hold. ``gap``: how far event time leaps, and when."""
    rate = share / SPAN_TICKS * {"fast": 3, "slow": 0.3}.get(manner, 1)
    begin = SPAN_TICKS // 2 if manner == "is late to speak" else 0
    end = 0 if manner == "never speaks" else SPAN_TICKS // 2 if manner == "ends early" else SPAN_TICKS
    silent = range(dice.randint(20, 60), dice.randint(90, 130)) if manner == "falls silent" else range(0)
    burst = dice.choice([1, 4, 10])
    now, rows, moments = float(begin), [], []
    while (now := now + dice.expovariate(rate)) < end:
        if int(now) in silent:
            continue
        time = int(now) + (gap[0] if now > gap[1] else 0) - dice.randint(0, style.jitter)
        rows.append(style.row(time - dice.randint(1, 40) if dice.random() < style.late else time))
        moments.append(-int(-now // burst) * burst * TICK_NS)
    wrong = sorted({column for row in rows for column in row} - {*SCHEMA.names})
    schema = pa.schema([*SCHEMA, *((column, pa.string()) for column in wrong)])
    return SourceLog(name, name, pa.RecordBatch.from_pylist(rows, schema), np.array(moments, np.int64))
