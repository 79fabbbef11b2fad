"""What comes of a run: rows with the moments they came out, and what each node and link had to do for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.edge.cluster.plan import ROOT
from headwater.edge.links import Traffic
from headwater.edge.rates import SECOND_NS


@dataclass(frozen=True)
class Emission:
    """The rows of one step of the root and when they came out, by `time.monotonic_ns`, which is one clock for all processes."""

    step: int
    emitted_ns: int
    rows: pa.Table


@dataclass(frozen=True)
class NodeOutcome:
    """What one node did between the begin of reading and the end of the run; its traffic is that of its whole life.

    Of a root that was killed and made again it is what the last one did.
    """

    name: str
    #: Processor seconds of its process, with ZeroMQ's threads; nodes of one process share them by the work of each.
    cpu_s: float
    #: Processor seconds of the thread that drives it, spent for this node alone.
    work_s: float
    #: Events that were read, each counted once.
    events: int = 0
    #: On the link to its parent; nothing at the root.
    up: Traffic = field(default_factory=Traffic)
    down: Traffic = field(default_factory=Traffic)
    #: The most bytes that waited for the links.
    queued_bytes_max: int = 0
    #: What the node itself has counted, if it does.
    report: dict[str, float] = field(default_factory=dict)
    #: How often it noted each thing.
    notes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterOutcome:
    """What came of a run. An event that is due ``d`` nanoseconds after the begin was due at ``begin_ns + d``."""

    emissions: tuple[Emission, ...]
    aside: pa.Table | None
    begin_ns: int
    finished_ns: int
    nodes: dict[str, NodeOutcome]
    #: How the processors of each process were bounded, by the name of its first node; only where the plan asked for it.
    quotas: dict[str, str] = field(default_factory=dict)
    #: When the root was killed, if it was, and when another was there.
    killed_ns: int | None = None
    restarted_ns: int | None = None

    @property
    def rows(self) -> pa.Table:
        """All result rows in the order of their steps."""
        return joined(emission.rows for emission in self.emissions)

    @property
    def row_emitted_ns(self) -> Int64Array:
        """For each row of `rows` when it came out."""
        counts = [emission.rows.num_rows for emission in self.emissions]
        return np.repeat(np.array([emission.emitted_ns for emission in self.emissions], np.int64), counts)

    @property
    def wall_s(self) -> float:
        """Seconds from the begin of reading to the end of the stream at the root."""
        return (self.finished_ns - self.begin_ns) / SECOND_NS

    @property
    def root(self) -> NodeOutcome:
        return self.nodes[ROOT]

    @property
    def events(self) -> int:
        return sum(node.events for node in self.nodes.values())

    @property
    def events_per_s(self) -> float:
        return self.events / self.wall_s

    @property
    def total_bytes(self) -> int:
        """The bytes of frames on all links, in both directions."""
        return sum(node.up.bytes + node.down.bytes for node in self.nodes.values())


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """One table of many; without columns if there are none.

    >>> joined([pa.table({"n": [1]}), pa.table({"n": [2]})]).column("n").to_pylist(), joined([]).num_rows
    ([1, 2], 0)
    """
    some = list(tables)
    return pa.concat_tables(some, promote_options="permissive") if some else pa.table({})
