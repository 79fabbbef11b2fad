"""What is run: queries, nodes and where their events come from. Frozen descriptions, which travel to the processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.edge.errors import EdgeError
from headwater.edge.rates import SECOND_NS
from headwater.edge.sources import Source
from headwater.language.query import Query
from headwater.node import NodeSettings

ROOT = "root"
#: These nodes are never restored, unless the root is to be killed: then it is recorded whatever this says.
UNRECORDED = NodeSettings(is_recorded=False)


@dataclass(frozen=True)
class Leaf:
    """A node that reads sources."""

    name: str
    sources: tuple[Source, ...]
    parent: str = ROOT


@dataclass(frozen=True)
class Relay:
    """A node between others, in a process of its own."""

    name: str
    parent: str = ROOT


@dataclass(frozen=True)
class ClusterPlan:
    """A root, leaves and perhaps relays, all on this machine.

    >>> import headwater as hw
    >>> ClusterPlan((hw.query("n", hw.tumbling(10), n=hw.count()),), (Leaf("a", ()),)).check()
    Traceback (most recent call last):
    headwater.edge.errors.EdgeError: leaf 'a' has no sources: give it one at least
    """

    queries: tuple[Query, ...]
    leaves: tuple[Leaf, ...]
    relays: tuple[Relay, ...] = ()
    #: Further arguments of `RootNode`; its ``settings`` are those of the leaves unless they are given here.
    root_settings: Mapping[str, Any] = field(default_factory=dict)
    #: Of leaves and relays. ``resend_ns`` must be longer than what a thin link has queued takes, else frames are doubled.
    leaf_settings: NodeSettings = UNRECORDED
    #: Of every link, in each direction.
    bits_per_s: float | None = None
    #: How many processors the root and each leaf or relay may use, such as 0.5; as far as the system allows (`quota.py`).
    root_cpus: float | None = None
    leaf_cpus: float | None = None
    leaves_per_process: int = 1
    #: The events that a leaf is given at once, and how often it is given scheduled ones.
    events_max: int = 1 << 16
    slot_ns: int = SECOND_NS // 1000
    #: Before the run, in the same processes, a run over this many events of each source: kernels are compiled and loaded then.
    warm_up_events: int = 0
    #: This long after the begin of reading the root is killed, if it still runs, and another is made from its journal.
    restart_root_s: float | None = None
    #: A run that takes longer fails. The first one may have to wait for kernels to be compiled.
    limit_s: float = 120.0

    @property
    def below(self) -> tuple[Leaf | Relay, ...]:
        """All nodes but the root."""
        return (*self.relays, *self.leaves)

    @property
    def parents(self) -> dict[str, str]:
        """For each node but the root the one above it."""
        return {node.name: node.parent for node in self.below}

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The nodes of each process.

        >>> ClusterPlan((), tuple(Leaf(name, ()) for name in "abc"), leaves_per_process=2).groups
        [('root',), ('a', 'b'), ('c',)]
        """
        names = [leaf.name for leaf in self.leaves]
        size = self.leaves_per_process
        together = [tuple(names[first : first + size]) for first in range(0, len(names), size)]
        return [(ROOT,), *((relay.name,) for relay in self.relays), *together]

    def cpus_of(self, group: Collection[str]) -> float | None:
        """The number of processors that the process of these nodes may use; None: all."""
        if ROOT in group:
            return self.root_cpus
        return None if self.leaf_cpus is None else self.leaf_cpus * len(group)

    def check(self) -> None:
        """Refuse what cannot be run."""
        if not self.leaves:
            raise EdgeError("a plan without leaves has no events: give it one leaf at least")
        if self.leaves_per_process < 1 or self.events_max < 1 or self.slot_ns < 1:
            raise EdgeError("leaves_per_process, events_max and slot_ns are 1 at least")
        _check_unique("node", [ROOT, *(node.name for node in self.below)])
        _check_unique("source", [source.name for leaf in self.leaves for source in leaf.sources])
        above = {ROOT, *(relay.name for relay in self.relays)}
        for node in self.below:
            if node.parent not in above - {node.name}:
                raise EdgeError(f"node {node.name!r}: its parent {node.parent!r} is no relay and not {ROOT!r}")
        for leaf in self.leaves:
            if not leaf.sources:
                raise EdgeError(f"leaf {leaf.name!r} has no sources: give it one at least")

    def only(self, names: Collection[str]) -> ClusterPlan:
        """What the process of these nodes has to know: the sources of others can be large."""
        return replace(self, leaves=tuple(leaf for leaf in self.leaves if leaf.name in names))

    def warm_up(self) -> ClusterPlan:
        """The same nodes over the first events of each source, without bounds of links and processors, and without a kill."""
        count = self.warm_up_events
        leaves = tuple(replace(leaf, sources=tuple(s.head(count) for s in leaf.sources)) for leaf in self.leaves)
        plan = replace(self, leaves=leaves, bits_per_s=None, root_cpus=None, leaf_cpus=None)
        return replace(plan, restart_root_s=None, warm_up_events=0)


def _check_unique(what: str, names: list[str]) -> None:
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise EdgeError(f"two {what}s are called {doubled[0]!r}: every {what} has a name of its own")
