"""The world: one seed, one virtual time, one queue of what happens next.

What happens is ordered by (time, order of scheduling), and everything random comes from generators that the seed began, so a run
is a function of its seed. The world is a host like any other: it hands events to nodes and does what they ask for, in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from headwater.node import Node
from headwater.protocols import actions as act
from headwater.protocols import events
from headwater.protocols.actions import Action
from headwater.protocols.events import Event
from headwater.simulator.checks.counts import Counts
from headwater.simulator.workloads.streams import LogCursor
from headwater.simulator.world.disk import DiskError
from headwater.simulator.world.machine import Machine
from headwater.simulator.world.network import MS, Network

#: How long a leaf takes from one look into its logs to the next while there is more to read.
LOOK_NS = MS // 10


class NodeError(Exception):
    """A node raised an error, which none ever should."""


class WorldObserver(Protocol):
    """A checker or a transcript. ``done``: how many of the actions were done before the machine fell over."""

    def after(self, time_ns: int, machine: Machine, event: Event | None, actions: list[Action], done: int) -> None: ...

    def happened(self, time_ns: int, machine: str, what: str) -> None: ...


class World:
    """Machines by name, the network between them, and the time."""

    def __init__(self, seed: int, observers: list[WorldObserver] | None = None) -> None:
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
        self._parents: dict[str, str] = {}

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
        for log in machine.logs:
            self.at(max(self.time_ns, log.opened_ns), self._open, machine, machine.life, log.source)

    def crash(self, machine: Machine, keeps_memory: bool) -> None:
        """A machine falls over; a root has on disk what it recorded, others have their memory or nothing."""
        if machine.node is None:
            return
        machine.storage.disk.lose(self.dice)
        if keeps_memory and machine.role != "root":
            machine.storage.remember(machine.node.snapshot())
        machine.forget_life()
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

    def _handle(self, machine: Machine, node: Node, event: Event) -> None:
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
            case act.ReadFrom(source, offset):
                # A node that has its memory back may ask before its sources were opened again.
                self._reader(machine, source).move(offset)
                self._look_soon(machine)
            case act.PauseReading():
                machine.is_reading_paused = True
            case act.ResumeReading():
                machine.is_reading_paused = False
                self._look_soon(machine)
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
            self.counts["fault: replacement"] += 1
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
        self._look_soon(machine)

    # --- sources ---

    def _open(self, machine: Machine, life: int, source: str) -> None:
        if machine.life != life or machine.node is None:
            return
        log = self._reader(machine, source).log
        self.hand(machine, events.SourceOpened(source, log.home, log.events.schema))

    def _reader(self, machine: Machine, source: str) -> LogCursor:
        reader = machine.readers.get(source)
        if reader is None:
            log = next(log for log in machine.logs if log.source == source)
            reader = machine.readers[source] = LogCursor(log)
        return reader

    def _look_soon(self, machine: Machine) -> None:
        """Look into the logs as soon as there is something to read."""
        if machine.is_reading_paused or machine.node is None:
            return
        moments = [moment for reader in machine.readers.values() if (moment := reader.next_ns()) is not None]
        if not moments:
            return
        look_ns = max(min(moments), self.time_ns + LOOK_NS)
        if machine.look_ns is None or look_ns < machine.look_ns:
            machine.look_ns = look_ns
            self.at(look_ns, self._look, machine, machine.life, look_ns)

    def _look(self, machine: Machine, life: int, look_ns: int) -> None:
        if machine.life != life or machine.look_ns != look_ns:
            return
        machine.look_ns = None
        if machine.paused_until_ns > self.time_ns:
            return  # it looks again when it wakes
        if machine.busy_until_ns > self.time_ns:
            machine.look_ns = machine.busy_until_ns
            self.at(machine.look_ns, self._look, machine, life, machine.look_ns)
            return
        dice = self.dice if self.cuts_batches else None
        for reader in list(machine.readers.values()):
            if machine.is_reading_paused or machine.life != life or machine.node is None:
                break
            if machine.busy_until_ns > self.time_ns:
                break
            event = reader.next_event(self.time_ns, dice)
            if event is not None:
                self.hand(machine, event)
        self._look_soon(machine)

    def tell(self, machine: str, what: str) -> None:
        for observer in self.observers:
            observer.happened(self.time_ns, machine, what)
