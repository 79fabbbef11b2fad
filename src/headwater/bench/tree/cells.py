"""One measured run of a whole tree: real nodes, real frames, every link's bytes and every node's processor time.

Leaves read a second of events each, then everything settles: one delta per second and leaf. The start (who is there, which
queries) is counted apart, so that a figure can take it in.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import headwater as hw
from headwater.bench.tree.stream import DISORDER, SCHEMA, Second, Shape
from headwater.protocols.events import BatchArrived, Event, MixedBatchArrived, SourceOpened
from headwater.simulator.instant import InstantTree, LiveLog

Work = tuple[str, str]


@dataclass(frozen=True)
class Cell:
    """What one run showed. Bytes are those of both directions, by level: the links above leaves first."""

    shape: Shape
    begin_bytes: list[int]
    level_bytes: list[int]
    #: Those of all central frames on one level of links.
    central_bytes: int
    #: Processor seconds by role and by what was done: ("leaf", "take in"), ("leaf", "send"), ("relay", "merge"), ...
    work: dict[Work, float]
    #: Median processor seconds from the end of a second to all its rows, through the whole tree.
    latency: float

    @property
    def events(self) -> int:
        """The number of events that all leaves read together."""
        return self.shape.events

    @property
    def total_bytes(self) -> int:
        """All links, with the start."""
        return sum(self.begin_bytes) + sum(self.level_bytes)

    @property
    def ratio(self) -> float:
        """All bytes / those of central on the same links."""
        return self.total_bytes / (self.central_bytes * self.shape.levels)

    @property
    def steady_ratio(self) -> float:
        """Bytes without those of the start / those of central on the same links."""
        return sum(self.level_bytes) / (self.central_bytes * self.shape.levels)

    @property
    def worst_level(self) -> float:
        """The level that saves least, with its start."""
        return max(b + s for b, s in zip(self.begin_bytes, self.level_bytes)) / self.central_bytes

    def seconds_of(self, role: str) -> float:
        """Processor time of all nodes of a role."""
        return sum(seconds for (who, _), seconds in self.work.items() if who == role)


class MeasuredTree(InstantTree):
    """Counts the processor time of every node by its role and by what it did."""

    def __init__(self, parents: dict[str, str], queries: Sequence[hw.Query], **settings: Any) -> None:
        self.work: defaultdict[Work, float] = defaultdict(float)
        super().__init__(parents, queries, **settings)

    def handle(self, name: str, event: Event) -> None:
        """As the tree does, with the time it took."""
        start = time.process_time()
        super().handle(name, event)
        role = name.partition("-")[0]
        done = {"leaf": "take in" if isinstance(event, BatchArrived | MixedBatchArrived) else "send"}.get(role, "merge")
        self.work[role, done] += time.process_time() - start

    def open_all(self, leaf: str, names: Sequence[str]) -> None:
        """All sources of a leaf at once, as a leaf that starts has them."""
        for name in names:
            self.sources[name] = LiveLog(leaf)
            self.handle(leaf, SourceOpened(name, "", SCHEMA))

    def read(self, names: Sequence[str], second: Second) -> None:
        """A leaf reads what has arrived in a second from all its sources."""
        if len(names) == 1:
            self.push(names[0], second.batch, settle=False)
        else:
            self.push_mixed(names, second.sources, second.offsets, second.batch, settle=False)

    def level_bytes(self) -> list[int]:
        """The bytes so far on each level of links, both directions."""
        levels: Counter[int] = Counter()
        for name in self.parents:
            role, number, *_ = name.split("-")
            levels[0 if role == "leaf" else int(number)] += self.bytes_up[name] + self.bytes_down[name]
        return [levels[level] for level in sorted(levels)]


def measure(shape: Shape, queries: Sequence[hw.Query]) -> Cell:
    """Run the whole stream through the tree."""
    arrivals = shape.arrivals()
    names = [[f"{leaf}/{number}" for number in range(shape.sources)] for leaf in range(shape.leaves)]
    tree = MeasuredTree(shape.parents(), queries, disorder=DISORDER)
    for leaf in range(shape.leaves):
        tree.open_all(f"leaf-{leaf}", names[leaf])
    tree.settle()
    begin = tree.level_bytes()
    tree.work.clear()
    rows, latencies = 0, []
    for second in range(shape.seconds):
        for leaf in range(shape.leaves):
            tree.read(names[leaf], arrivals[leaf][second])
        start = time.process_time()
        tree.settle()
        latencies.append(time.process_time() - start)
        rows += tree.take_rows().num_rows
    if not rows:
        raise RuntimeError("no window closed: the tree has not done what is measured")
    steady = [after - before for before, after in zip(begin, tree.level_bytes())]
    central = sum(second.central_bytes for seconds in arrivals for second in seconds)
    return Cell(shape, begin, steady, central, tree.work, median(latencies))


def windows(count: int, **aggregates: Any) -> list[hw.Query]:
    """Tumbling windows by key of 1, 2, ... seconds."""
    return [hw.query(f"q{i}", hw.tumbling(f"{i} s"), keys=["key"], **aggregates) for i in range(1, count + 1)]


def average(count: int = 1) -> list[hw.Query]:
    """The decomposable case."""
    return windows(count, avg=hw.avg("value"))


def medians(count: int = 1) -> list[hw.Query]:
    """The holistic case."""
    return windows(count, median=hw.median("value"))
