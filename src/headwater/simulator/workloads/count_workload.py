"""Streams for count windows: rates that change, sources that say nothing, times that many sources share."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa

from headwater.protocols.events import QueryAdded
from headwater.simulator.workloads.count_queries import COUNT_SCHEMA, MEMBER, MEMBER_BITS, CountQueries, features
from headwater.simulator.workloads.streams import SourceLog, Told
from headwater.simulator.workloads.workload import SPAN_TICKS, TICK_NS, Style, Workload, draw_script
from headwater.simulator.world.topology import Topology


def draw_count_workload(dice: Random, topology: Topology, event_count: int) -> tuple[Workload, set[str]]:
    """About ``event_count`` events over all leaves, some of which may have none; and what is special about it, in words."""
    style = CountStyle(dice)
    leaves = topology.leaves
    weights = [dice.choice([0, 0.3, 1, 1, 1, 3]) for _ in leaves]
    weights[dice.randrange(len(leaves))] = 1.0  # somebody has something to say
    logs = {}
    for leaf, weight in zip(leaves, weights, strict=True):
        names = [f"{leaf}/{chr(97 + number)}" for number in range(dice.choice([1, 1, 2, 3]))]
        share = event_count * weight / sum(weights) / len(names)
        logs[leaf] = tuple(style.log(name, leaf, int(share * dice.choice([0.5, 1, 1, 1.5]))) for name in names)
    drawing = CountQueries(dice, len(leaves), event_count)
    queries = tuple(drawing.draw(f"q{number}") for number in range(dice.choice([1, 1, 2, 3])))
    script, ends_early = draw_script(dice, queries, drawing.draw)
    if dice.random() < 0.5:
        script, ends_early = (), False  # most runs are long enough to forecast anything
    asked = [*queries, *(event.query for _, event in script if isinstance(event, QueryAdded))]
    found = features(asked, len(leaves), event_count) | style.features
    found |= {"a leaf without events"} if any(not sum(map(len, some)) for some in logs.values()) else set()
    found |= {"several sources of a leaf"} if any(len(some) > 1 for some in logs.values()) else set()
    return Workload(queries, logs, script, style.disorder, ends_early), found


class CountStyle:
    """What the sources of one run have in common."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._style = Style(dice)
        self.disorder = self._style.disorder
        #: Times are multiples of it: with a large one many sources share them.
        self._grain = dice.choice([1, 1, 5, 20])
        #: How many times of the stream there are for each of the world's: with many, two events rarely share one.
        self._fineness = dice.choice([1, 1, 100])
        self._is_steady = dice.random() < 0.4
        self.features = {"times that sources share"} if self._fineness == 1 else set[str]()
        self.features |= {"disorder within a source"} if self._style.jitter or self._style.late else set()
        self.features |= {"rates that change"} if not self._is_steady else set()

    def log(self, source: str, home: str, count: int) -> SourceLog:
        """Everything that a source will say, perhaps nothing."""
        dice = self._dice
        begin = dice.choice([0, 0, 0, dice.randint(0, SPAN_TICKS // 2)])
        self.features |= {"a source that joins late"} if begin else set()
        moments = self._moments(count, begin)
        burst = dice.choice([1, 4, 15])  # it speaks as soon as it knows, or of several ticks at once
        tells = self.disorder is None or dice.random() < 0.3
        rows, available, told, high = [], [], [], None
        for number, now in enumerate(moments):
            row = self._style.row(self._time(now)) | {MEMBER: dice.getrandbits(MEMBER_BITS)}
            rows.append(row)
            available.append(-int(-now // burst) * burst * TICK_NS)
            if row["time"] is not None:
                high = row["time"] if high is None else max(high, row["time"])
            if tells and high is not None and dice.random() < min(0.3, 20 / count):
                mark = high - dice.choice([0, self._style.jitter, self._style.jitter + 1]) * self._fineness
                told.append(Told(number + 1, mark, available[-1] + 1))
        last_ns = available[-1] if available else begin * TICK_NS
        ended_ns = last_ns + dice.randint(0, 20) * TICK_NS + 2 if dice.random() < 0.5 else None
        self.features |= {"a source that ends"} if ended_ns is not None else set()
        table = pa.RecordBatch.from_pylist(rows, schema=COUNT_SCHEMA)
        return SourceLog(source, home, table, np.array(available, np.int64), tuple(told), begin * TICK_NS, ended_ns)

    def _moments(self, count: int, begin: int) -> list[float]:
        """When something happens, in ticks: a steady stream, or stretches of very different rates, silence among them."""
        dice, span = self._dice, SPAN_TICKS - begin
        stretches = 1 if self._is_steady else dice.randint(2, 6)
        weights = [1.0 if self._is_steady else dice.choice([0.0, 0.2, 1.0, 5.0]) for _ in range(stretches)]
        chosen = dice.choices(range(stretches), [w or 0.01 for w in weights], k=count)
        return sorted(begin + (place + dice.random()) * span / stretches for place in chosen)

    def _time(self, now: float) -> int:
        dice = self._dice
        back = dice.randint(0, self._style.jitter) + (dice.randint(1, 40) if dice.random() < self._style.late else 0)
        time = int((now - back) * self._fineness)
        return time // self._grain * self._grain
