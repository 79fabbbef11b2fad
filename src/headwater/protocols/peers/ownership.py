"""Who runs which partition where nobody assigns them: each node decides for itself, and what all have heard is merged.

An owner has a version. Whoever takes a partition claims it under the next version; of two owners the higher version wins, and of
two that claimed at once the lower node. So tables that have heard the same claims, in any order and however often, are equal.
Until a claim is heard two nodes run a partition, which does no harm: what they make of it is the same.

A node claims a partition

- when its owner is gone, or it never had one, and the placement over those who live gives it to the node (`OwnerTable.claims`);
- when the node joins, or comes back, and the placement gives it the partition: one with each beat (`OwnerTable.share`);
- when another lags behind with it, and the node itself does not lag (`LagWatch`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class PartitionOwner(NamedTuple):
    """The node that runs a partition, by its claim of this version."""

    version: int
    node: str


#: The owner of a partition that nobody has claimed.
NOBODY = PartitionOwner(0, "")
#: How well a node suits a partition.
Score = Callable[[str, str], int]


def winner(one: PartitionOwner, other: PartitionOwner) -> PartitionOwner:
    """The owner that counts of two: the higher version, at equal versions the lower node.

    >>> winner(PartitionOwner(2, "c"), PartitionOwner(1, "a")), winner(PartitionOwner(2, "c"), PartitionOwner(2, "b"))
    (PartitionOwner(version=2, node='c'), PartitionOwner(version=2, node='b'))
    """
    return min(one, other, key=lambda owner: (-owner.version, owner.node))


# --- where partitions belong ---


def rendezvous_score(partition: str, node: str) -> int:
    """How well a node suits a partition: the same number wherever it is computed."""
    name = partition.encode()
    text = len(name).to_bytes(4, "big") + name + node.encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def placement(
    partitions: Iterable[str],
    living: Iterable[str],
    former: Mapping[str, str] | None = None,
    score: Score = rendezvous_score,
) -> dict[str, str]:
    """The node that each partition belongs to, by rendezvous hashing with bounded load.

    The pair that suits best is taken first, and no node gets more than the mean, rounded up. That depends on who lives and
    on nothing else, so all who agree on that agree on the placement, whatever they have heard of claims. ``former`` owners
    decide only where two nodes suit a partition equally well: then the one that comes first behind the former in the ring has it.

    >>> sorted(placement(["p", "q", "r", "s"], ["a", "b"]).values())
    ['a', 'a', 'b', 'b']
    """
    names, nodes, before = sorted(set(partitions)), sorted(set(living)), former or {}
    # Not 1.25 times the mean, as is usual for many small items: with two partitions to a node that leaves some without any.
    room = dict.fromkeys(nodes, -(-len(names) // max(len(nodes), 1)))
    pairs = [(-score(name, node), name, *_ring_place(node, before.get(name, ""))) for name in names for node in nodes]
    found: dict[str, str] = {}
    for _, name, _, node in sorted(pairs):
        if name not in found and room[node]:
            found[name] = node
            room[node] -= 1
    return found


def ring_responsible(node: str, failed: str, living: Iterable[str]) -> bool:
    """Whether the node is the first of those who live behind one that failed, in the ring of their names.

    >>> [ring_responsible(node, "b", ["a", "c", "d"]) for node in "acd"]
    [False, True, False]
    """
    return node == min(living, key=lambda one: _ring_place(one, failed), default=None)


def _ring_place(node: str, start: str) -> tuple[bool, str]:
    return node <= start, node


# --- the table of owners ---


@dataclass(slots=True)
class OwnerTable:
    """What a node has heard of the owners of partitions. To merge is a join: order and repetition are of no matter.

    >>> table = OwnerTable.of(["p", "q"])
    >>> table.merge({"p": PartitionOwner(1, "b"), "q": PartitionOwner(1, "a")}); table.owned_by("b")
    ['p']
    >>> table.claims("a", living=["a", "c"]), table.claims("c", living=["a", "c"])
    ({'p': PartitionOwner(version=2, node='a')}, {})
    """

    owners: dict[str, PartitionOwner] = field(default_factory=dict)

    @classmethod
    def of(cls, partitions: Iterable[str]) -> OwnerTable:
        """The table of a job's partitions before anybody has claimed one."""
        return cls(dict.fromkeys(partitions, NOBODY))

    def merge(self, heard: Mapping[str, PartitionOwner]) -> None:
        """Another's table, part of it, or claims; own claims as well, once they are made."""
        for partition, owner in heard.items():
            self.owners[partition] = winner(owner, self.owners.get(partition, owner))

    def owned_by(self, node: str) -> list[str]:
        """The partitions that the node has to run, by name."""
        return sorted(partition for partition, owner in self.owners.items() if owner.node == node)

    def newly_owned(self, node: str, heard: Mapping[str, PartitionOwner]) -> list[str]:
        """The partitions that these owners, not merged yet, give to the node: unknown ones, or by a higher version.

        One that falls to the node because two had claimed it at once is not among them; `owned_by` has it after the merge.
        """
        return sorted(
            partition
            for partition, owner in heard.items()
            if owner.node == node and (partition not in self.owners or owner.version > self.owners[partition].version)
        )

    def claim(self, partition: str, node: str) -> PartitionOwner:
        """The owner that the node becomes when it takes the partition, whoever has it."""
        return PartitionOwner(self.owners.get(partition, NOBODY).version + 1, node)

    def claims(self, node: str, living: Iterable[str]) -> dict[str, PartitionOwner]:
        """What the node claims of the partitions whose owner is not among the living; it lives itself, whatever it is told.

        Nodes that agree on who lives claim different partitions, and together all of them.
        """
        nodes = {*living, node}
        home = self._home(nodes)
        orphans = (name for name, owner in sorted(self.owners.items()) if owner.node not in nodes)
        return {partition: self.claim(partition, node) for partition in orphans if home[partition] == node}

    def share(self, node: str, living: Iterable[str]) -> dict[str, PartitionOwner]:
        """The next partition that a joining node claims of its placement, and of its owner most has to spare; {} at the end.

        To be asked with each beat until there is nothing, and not again: later a partition may be elsewhere because its owner
        was too slow for it.
        """
        nodes = {*living, node}
        home = self._home(nodes)
        wanted = [name for name, owner in self.owners.items() if home[name] == node and owner.node != node]
        if not wanted:
            return {}
        loads = {one: len(self.owned_by(one)) for one in nodes}
        first = min(wanted, key=lambda name: (-loads.get(self.owners[name].node, 0), name))
        return {first: self.claim(first, node)}

    def _home(self, nodes: Iterable[str]) -> dict[str, str]:
        return placement(self.owners, nodes, {partition: owner.node for partition, owner in self.owners.items()})


# --- who lags behind ---

#: A lag that is worth another's help, and how long it has to last.
LAG_NS_MIN, LAG_HELD_NS_MIN = 250_000_000, 2_000_000_000


def with_most_lag(lags: Mapping[str, int]) -> str | None:
    """The node or partition with the largest lag, the lower name of equal ones; None if there is none.

    >>> with_most_lag({"p": 10, "q": 20, "r": 20}), with_most_lag({})
    ('q', None)
    """
    return min(lags, key=lambda name: (-lags[name], name), default=None)


class Lagging(NamedTuple):
    """A partition with which its owner lags behind, so that another may take it."""

    node: str
    partition: str


@dataclass(slots=True)
class LagWatch:
    """How far nodes are behind with their partitions, and since when that is much.

    >>> watch = LagWatch()
    >>> for second in range(3):
    ...     watch.told("a", {"p": 300_000_000, "q": 400_000_000}, now_ns=second * 1_000_000_000)
    ...     print(watch.stealable("b"))
    None
    None
    Lagging(node='a', partition='q')
    """

    #: Which lag is much, and how long it has to be before it is stolen.
    lag_ns_min: int = LAG_NS_MIN
    held_ns_min: int = LAG_HELD_NS_MIN
    _lags: dict[str, dict[str, int]] = field(default_factory=dict)
    #: By node and partition: when the lag became much, and when it was last told to be.
    _since: dict[Lagging, tuple[int, int]] = field(default_factory=dict)

    def told(self, node: str, lags: Mapping[str, int], now_ns: int) -> None:
        """The lag of each partition that the node runs, in nanoseconds; those it does not name, it does not run."""
        high = [Lagging(node, partition) for partition, lag in lags.items() if lag > self.lag_ns_min]
        starts = {one: self._since.get(one, (now_ns, now_ns))[0] for one in high}
        self.forget(node)
        self._lags[node] = dict(lags)
        # A clock that was set back begins to count anew.
        self._since |= {one: (min(start, now_ns), now_ns) for one, start in starts.items()}

    def forget(self, node: str) -> None:
        """The node is gone: what it said of its lags is void."""
        self._lags.pop(node, None)
        self._since = {one: times for one, times in self._since.items() if one.node != node}

    def total(self, node: str) -> int:
        """The lags of all partitions of a node."""
        return sum(self._lags.get(node, {}).values())

    def stealable(self, thief: str) -> Lagging | None:
        """What this node may take: of the node with the largest lag in total its partition with the largest.

        Only if that lag is much and has been for a while, and if the thief has no such lag itself: it takes one partition, and
        no other before it has caught up with that.
        """
        if any(lag > self.lag_ns_min for lag in self._lags.get(thief, {}).values()):
            return None
        node = with_most_lag({node: self.total(node) for node in self._lags if node != thief})
        partition = with_most_lag(self._lags[node]) if node is not None else None
        if node is None or partition is None:
            return None
        found = Lagging(node, partition)
        since, last = self._since.get(found, (0, 0))
        return found if last - since >= self.held_ns_min else None
