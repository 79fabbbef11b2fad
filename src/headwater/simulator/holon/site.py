"""What the machines of nodes without a root stand in: the input, the output and the decision log, as one place that all reach.

A node's host looks at the input and the decision log at intervals, feeds the partitions that its node reads, appends rows and
syncs them now and then. A host whose storage is slow answers late; one whose storage is full stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.node.holon import happenings as happen
from headwater.protocols import actions as act
from headwater.simulator.holon.shared_decisions import SharedDecisions
from headwater.simulator.holon.shared_output import Life, SharedOutput
from headwater.simulator.workloads.streams import LogCursor, SourceLog
from headwater.simulator.world.disk import DiskFullError
from headwater.simulator.world.machine import Machine
from headwater.simulator.world.network import MS

if TYPE_CHECKING:
    from headwater.simulator.world.world import World

#: How long the shared storage takes for a request and for its answer, where nothing is wrong with it.
STORAGE_NS = MS // 5


@dataclass(slots=True)
class Lived:
    """What the host of a node remembers for as long as a life of it lasts."""

    life: int
    #: The number of the first entry of the decision log that the node was not told, and what it knows to be synced.
    told: int = 0
    synced: Mapping[str, int] = field(default_factory=dict)
    #: When the host looks next, so that there is one look at a time.
    look_ns: int = -1


class HolonSite:
    """The shared things of a run. ``look_ns`` and ``sync_ns``: how often hosts look, and sync what they appended."""

    def __init__(
        self, world: World, logs: Mapping[str, SourceLog], look_ns: int = 20 * MS, sync_ns: int = 60 * MS
    ) -> None:
        self._world = world
        self.logs = dict(logs)
        self.output, self.decisions = SharedOutput(), SharedDecisions()
        self.look_ns, self.sync_ns = look_ns, sync_ns
        #: By machine, how much longer its storage takes by now.
        self.slowness_ns: dict[str, int] = {}
        self._lives: dict[str, Lived] = {}

    # --- machines ---

    def started(self, machine: Machine) -> None:
        """The node is told of its peers and of all decisions; its host begins to look."""
        world = self._world
        self._lives[machine.name] = Lived(machine.life)
        self._tell_decisions(machine)
        for peer in list(world.machines.values()):
            if peer is not machine and not peer.is_gone:
                self._hand(machine, machine.life, happen.PeerJoined(peer.name))
                self._hand(peer, peer.life, happen.PeerJoined(machine.name))
        self._look_at(machine, world.time_ns)
        world.at(world.time_ns + self.sync_ns, self._sync, machine, machine.life)

    def crashed(self, machine: Machine) -> None:
        """Some peers find that nobody answers any more."""
        world = self._world
        for peer in list(world.machines.values()):
            if peer is not machine and peer.is_up and world.dice.random() < 0.5:
                at_ns = world.time_ns + world.dice.randrange(1, 20 * MS)
                world.at(at_ns, self._refused, peer, peer.life, machine)

    def _refused(self, peer: Machine, life: int, machine: Machine) -> None:
        if not machine.is_up:
            self._hand(peer, life, happen.PeerGone(machine.name))

    def woke(self, machine: Machine) -> None:
        self._look_at(machine, self._world.time_ns)

    # --- what nodes ask for ---

    def do(self, machine: Machine, action: Any) -> None:
        match action:
            case act.ReadFrom(partition, index):
                reader = machine.readers.setdefault(partition, LogCursor(self.logs[partition]))
                reader.move(index)
            case happen.StopReading(partition):
                machine.readers.pop(partition, None)
            case happen.AppendRows():
                self._append(machine, action)
            case happen.Decide(number, entry):
                world = self._world
                world.at(self._answer_ns(machine), self._decide, machine, machine.life, number, entry)

    def _append(self, machine: Machine, asked: happen.AppendRows) -> None:
        if machine.storage.disk.is_full:
            raise DiskFullError(f"no room for {len(asked.rows)} rows of {asked.chain}")
        self.output.append(_life(machine), asked.chain, asked.index, asked.rows)
        answer = happen.RowsAppended(asked.chain, asked.index + len(asked.rows))
        self._world.at(self._answer_ns(machine), self._hand_slowly, machine, machine.life, answer)

    def _decide(self, machine: Machine, life: int, number: int, entry: bytes) -> None:
        """The entry gets there even if the machine has fallen over meanwhile."""
        answer = happen.EntryDecided(number, self.decisions.decide(number, entry))
        self._world.at(self._answer_ns(machine), self._hand_slowly, machine, life, answer)

    def _answer_ns(self, machine: Machine) -> int:
        return self._world.time_ns + STORAGE_NS + self.slowness_ns.get(machine.name, 0)

    def _hand_slowly(self, machine: Machine, life: int, answer: Any) -> None:
        if machine.name in self.slowness_ns and machine.life == life and machine.is_up:
            self._world.counts["fault: stall"] += 1
        self._hand(machine, life, answer)

    def _hand(self, machine: Machine, life: int, event: Any) -> None:
        if machine.life == life:
            self._world.hand(machine, event)

    # --- what hosts do by themselves ---

    def ends(self) -> dict[str, int]:
        """How many events of each partition are there by now."""
        now_ns = self._world.time_ns
        return {name: int(np.searchsorted(log.available_ns, now_ns, side="right")) for name, log in self.logs.items()}

    def _look_at(self, machine: Machine, at_ns: int) -> None:
        lived = self._lives.get(machine.name)
        if lived is not None and machine.is_up:
            lived.look_ns = at_ns
            self._world.at(at_ns, self._look, machine, lived, at_ns)

    def _look(self, machine: Machine, lived: Lived, at_ns: int) -> None:
        """Look at the input and at the decisions; a paused or busy host does so later."""
        world = self._world
        if machine.life != lived.life or not machine.is_up or lived.look_ns != at_ns:
            return
        if machine.paused_until_ns > world.time_ns:
            return  # it looks when it wakes
        if machine.busy_until_ns > world.time_ns:
            self._look_at(machine, machine.busy_until_ns)
            return
        self._tell_decisions(machine)
        self._hand(machine, lived.life, happen.InputSeen(self.ends()))
        self._feed(machine, lived.life)
        self._look_at(machine, world.time_ns + world.dice.randint(self.look_ns // 2, self.look_ns))

    def _tell_decisions(self, machine: Machine) -> None:
        lived = self._lives[machine.name]
        for number, entry in self.decisions.following(lived.told):
            lived.told = number + 1
            self._hand(machine, lived.life, happen.EntryDecided(number, entry))

    def _feed(self, machine: Machine, life: int) -> None:
        world = self._world
        for partition in sorted(machine.readers):
            # What the node is told may end its reading, or its life.
            reader = machine.readers.get(partition)
            if reader is None or machine.life != life or machine.busy_until_ns > world.time_ns:
                continue
            event = reader.next_event(world.time_ns, world.dice if world.cuts_batches else None)
            if event is not None:
                world.hand(machine, event)

    def _sync(self, machine: Machine, life: int) -> None:
        """What the machine appended so far is safe; the node is told how much is."""
        world = self._world
        if machine.life != life or not machine.is_up:
            return
        if machine.paused_until_ns <= world.time_ns and not machine.storage.disk.is_full:
            world.at(self._answer_ns(machine), self._synced, machine, life)
        world.at(world.time_ns + self.sync_ns, self._sync, machine, life)

    def _synced(self, machine: Machine, life: int) -> None:
        lived = self._lives[machine.name]
        if machine.life != life or not machine.is_up:
            return
        self.output.sync(_life(machine))
        durable = self.output.durable()
        if durable != lived.synced:
            lived.synced = durable
            self._hand_slowly(machine, life, happen.RowsSynced(durable))

    def lose_power(self, dice: Random, node: str | None = None) -> int:
        """The power of a node, or of all, is gone: what it has not synced may be. Returns how many rows were lost."""
        return self.output.lose_power(dice, node)


def _life(machine: Machine) -> Life:
    return machine.name, machine.life
