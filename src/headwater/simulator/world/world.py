"""The world: one seed, one virtual time, one queue of what happens next.

What happens is ordered by (time, order of scheduling), and everything random comes from generators that the seed began, so a run
is a function of its seed. The world is a host like any other: it hands events to nodes and does what they ask for, in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from headwater.protocols import actions as act
from headwater.protocols import events
from headwater.protocols.actions import Action
from headwater.protocols.events import Event
from headwater.simulator.checks.counts import Counts
from headwater.simulator.world.disk import DiskError
from headwater.simulator.world.machine import Machine, WorldNode
from headwater.simulator.world.network import Network
from headwater.simulator.world.source_logs import SourceLogs


class NodeError(Exception):
    """A node raised an error, which none ever should."""


class WorldObserver(Protocol):
    """A checker or a transcript. ``done``: how many of the actions were done before the machine fell over."""

    def after(self, time_ns: int, machine: Machine, event: Event | None, actions: list[Action], done: int) -> None: ...

    def happened(self, time_ns: int, machine: str, what: str) -> None: ...


class Surroundings(Protocol):
    """What the machines of a world stand in, besides the network, their clocks and their disks."""

    def started(self, machine: Machine) -> None:
        """A machine's node has begun a life."""

    def do(self, machine: Machine, action: Any) -> None:
        """What the world itself cannot do for a node; notes are for observers."""

    def woke(self, machine: Machine) -> None:
        """A machine goes on after a pause."""

    def crashed(self, machine: Machine) -> None:
        """A machine fell over."""


class World:
    """Machines by name, the network between them, and the time."""

    def __init__(
        self,
        seed: int,
        observers: list[WorldObserver] | None = None,
        surroundings: Callable[[World], Surroundings] = SourceLogs,
    ) -> None:
        self.dice = Random(seed)
        self.time_ns = 0
        self.counts = Counts()
        self.machines: dict[str, Machine] = {}
        self.observers = observers or []
        self.network = Network(self.dice, self.counts, self.at, self._carry, is_there=self._is_there)
        self.steps = 0
        #: Far more than any run needs.
        self.steps_max = 1 << 62
        #: Whether batches are cut at random places, as they are while faults are tried.
        self.cuts_batches = True
        self.is_finished = False
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0
        self._surroundings = surroundings(self)

    # --- time ---

    def at(self, time_ns: int, action: Callable[..., None], *arguments: Any) -> None:
        """Let something happen at a time; at equal times what was scheduled first happens first."""
        heapq.heappush(self._queue, (time_ns, self._scheduled, action, arguments))
        self._scheduled += 1

    def run(self, until_ns: int, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Let everything happen up to a time, or until it is over; returns whether it is."""
        queue = self._queue
        while not is_over():
            if not queue or queue[0][0] > until_ns:
                self.time_ns = max(self.time_ns, until_ns)
                return is_over()
            self.time_ns, _, action, arguments = heapq.heappop(queue)
            action(*arguments)
        return True

    # --- machines ---

    def add(self, machine: Machine) -> None:
        """A machine starts."""
        self.machines[machine.name] = machine
        self.start(machine)

    def start(self, machine: Machine) -> None:
        """A machine's node begins, or goes on after a crash, with its sources."""
        try:
            actions = machine.revive()
        except Exception as error:
            raise NodeError(f"{machine.name} raised {type(error).__name__} on its way back: {error}") from error
        if actions:
            self._perform(machine, None, actions)
        self.hand(machine, events.Started())
        self._surroundings.started(machine)

    def crash(self, machine: Machine, keeps_memory: bool) -> None:
        """A machine falls over; those that record have that on disk, others have their memory or nothing."""
        if machine.node is None:
            return
        machine.storage.disk.lose(self.dice)
        if keeps_memory and machine.maker.recovered is None:
            machine.storage.remember(machine.node.snapshot())
        machine.forget_life()
        self._surroundings.crashed(machine)
        self.tell(machine.name, "crashes" if keeps_memory else "crashes and forgets")

    def pause(self, machine: Machine, until_ns: int) -> None:
        """A machine does nothing for a while; what comes meanwhile waits."""
        self._wait(machine, until_ns)
        self.tell(machine.name, "pauses")

    def _wait(self, machine: Machine, until_ns: int) -> None:
        machine.paused_until_ns = max(machine.paused_until_ns, until_ns)
        self.at(machine.paused_until_ns, self._wake, machine, machine.life)

    def hand(self, machine: Machine, event: Event) -> bool:
        """Hand an event to a node; returns whether the machine is up. A paused or busy one takes it later."""
        node = machine.node
        if node is None:
            return False
        if machine.paused_until_ns > self.time_ns:
            if not machine.backlog:
                self.counts["fault: pause" if machine.unfinished is None else "fault: stall"] += 1
            machine.backlog.append(event)
            return True
        if machine.slowness_ns:
            if machine.busy_until_ns > self.time_ns:
                self.counts["fault: slow"] += 1
                self.at(machine.busy_until_ns, self._hand_late, machine, machine.life, event)
                machine.busy_until_ns += machine.slowness_ns
                return True
            machine.busy_until_ns = self.time_ns + machine.slowness_ns
        self._handle(machine, node, event)
        return True

    def _handle(self, machine: Machine, node: WorldNode, event: Event) -> None:
        self.steps += 1
        if self.steps > self.steps_max:
            raise NodeError(f"{self.steps_max:,} steps and no end: messages breed messages")
        if machine.unread_faults and isinstance(event, events.MessageReceived):
            for fault in machine.unread_faults:
                self.counts[f"fault: {fault}"] += 1
            machine.unread_faults.clear()
        machine.now_ns = machine.clock.now(self.time_ns)
        try:
            actions = node.handle(event, machine.now_ns)
            node.check()
        except Exception as error:
            for observer in self.observers:
                observer.after(self.time_ns, machine, event, [], 0)
            raise NodeError(
                f"{machine.name} raised {type(error).__name__} on {type(event).__name__}: {error}"
            ) from error
        self._perform(machine, event, actions)

    def _perform(self, machine: Machine, event: Event | None, actions: list[Action]) -> None:
        if machine.storage.disk.delay_ns and any(isinstance(action, act.Record | act.Checkpoint) for action in actions):
            machine.unfinished = event, actions
            self._wait(machine, self.time_ns + machine.storage.disk.delay_ns)
        else:
            self._perform_now(machine, event, actions)

    def _perform_now(self, machine: Machine, event: Event | None, actions: list[Action]) -> None:
        stumble = machine.stumble
        done = len(actions)
        if stumble is not None and len(actions) >= 2:
            done = 1 + stumble[0] % (len(actions) - 1)
        broken, number = None, 0
        try:
            for number, action in enumerate(actions[:done]):  # noqa: B007 (where it broke off)
                self._do(machine, action)
        except DiskError as error:
            broken, done = error, number
        for observer in self.observers:
            observer.after(self.time_ns, machine, event, actions, done)
        if broken is not None:
            # What its node knows by now is on no disk: it has to come back as the disk has it.
            self.crash(machine, keeps_memory=False)
            machine.unread_faults.append(broken.fault)
        elif stumble is not None and done < len(actions):
            self.crash(machine, stumble[1])
            if any(not isinstance(action, act.Noted) for action in actions[done:]):
                machine.unread_faults.append("halfway")

    # --- what nodes ask for ---

    def _do(self, machine: Machine, action: Action) -> None:
        """Do an action; rows and notes are for observers."""
        match action:
            case act.SendMessage(target, frame):
                self.network.send(machine.name, target, frame, self.time_ns)
            case act.SetTimer(name, delay_ns):
                number = machine.timers[name] = machine.timers.get(name, 0) + 1
                at_ns = self.time_ns + machine.clock.real_delay(delay_ns)
                self.at(at_ns, self._fire, machine, machine.life, name, number)
            case act.Record(data):
                machine.storage.record(data)
            case act.Checkpoint(data):
                machine.storage.checkpoint(data)
            case act.Finished():
                self.is_finished |= machine.role == "root"
            case act.Superseded():
                machine.is_retired = True
                # Not at once: the rest of its list is still to be done.
                self.at(self.time_ns, machine.forget_life)
            case _:
                self._surroundings.do(machine, action)

    # --- what happens later ---

    def _fire(self, machine: Machine, life: int, name: str, number: int) -> None:
        if machine.life != life or machine.timers.get(name) != number:
            return
        if machine.clock.drift_ppm:
            self.counts["fault: drift"] += 1
        self.hand(machine, events.TimerFired(name))

    def _carry(self, sender: str, target: str, frame: bytes) -> bool:
        machine = self.machines.get(target)
        if machine is None or not self.hand(machine, events.MessageReceived(sender, frame)):
            return False
        origin = self.machines.get(sender)
        if origin is not None and origin.successor is not None and not origin.is_gone:
            self.counts["fault: program" if origin.role == "member" else "fault: replacement"] += 1
        return True

    def _is_there(self, name: str) -> bool:
        machine = self.machines.get(name)
        return machine is not None and machine.is_up

    def _hand_late(self, machine: Machine, life: int, event: Event) -> None:
        if machine.life != life or machine.node is None:
            return
        if machine.unfinished is not None:
            machine.backlog.append(event)
        else:
            self._handle(machine, machine.node, event)

    def _wake(self, machine: Machine, life: int) -> None:
        if machine.life == life and machine.paused_until_ns <= self.time_ns:
            self.wake(machine)

    def wake(self, machine: Machine) -> None:
        """A paused machine goes on, with what waited for its disk and everything that came meanwhile."""
        unfinished, machine.unfinished = machine.unfinished, None
        if unfinished is not None:
            self._perform_now(machine, *unfinished)
        waiting, machine.backlog = machine.backlog, []
        for event in waiting:
            self.hand(machine, event)
        self._surroundings.woke(machine)

    def tell(self, machine: str, what: str) -> None:
        for observer in self.observers:
            observer.happened(self.time_ns, machine, what)
