"""The sources of leaves: logs that a machine has to itself, and looks into for as long as its node wants to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.protocols import actions as act
from headwater.protocols import events
from headwater.simulator.workloads.streams import LogCursor
from headwater.simulator.world.machine import Machine
from headwater.simulator.world.network import MS

if TYPE_CHECKING:
    from headwater.simulator.world.world import World

#: How long a leaf takes from one look into its logs to the next while there is more to read.
LOOK_NS = MS // 10


class SourceLogs:
    """Opens the logs of a machine, and hands what is in them to its node."""

    def __init__(self, world: World) -> None:
        self._world = world

    def started(self, machine: Machine) -> None:
        for log in machine.logs:
            self._world.at(max(self._world.time_ns, log.opened_ns), self._open, machine, machine.life, log.source)

    def do(self, machine: Machine, action: Any) -> None:
        match action:
            case act.ReadFrom(source, offset):
                # A node that has its memory back may ask before its sources were opened again.
                self._reader(machine, source).move(offset)
                self._look_soon(machine)
            case act.PauseReading():
                machine.is_reading_paused = True
            case act.ResumeReading():
                machine.is_reading_paused = False
                self._look_soon(machine)

    def woke(self, machine: Machine) -> None:
        self._look_soon(machine)

    def crashed(self, machine: Machine) -> None:
        """Its readers are gone with it."""

    def _open(self, machine: Machine, life: int, source: str) -> None:
        if machine.life != life or machine.node is None:
            return
        log = self._reader(machine, source).log
        self._world.hand(machine, events.SourceOpened(source, log.home, log.events.schema))

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
        look_ns = max(min(moments), self._world.time_ns + LOOK_NS)
        if machine.look_ns is None or look_ns < machine.look_ns:
            machine.look_ns = look_ns
            self._world.at(look_ns, self._look, machine, machine.life, look_ns)

    def _look(self, machine: Machine, life: int, look_ns: int) -> None:
        if machine.life != life or machine.look_ns != look_ns:
            return
        machine.look_ns = None
        if machine.paused_until_ns > self._world.time_ns:
            return  # it looks again when it wakes
        if machine.busy_until_ns > self._world.time_ns:
            machine.look_ns = machine.busy_until_ns
            self._world.at(machine.look_ns, self._look, machine, life, machine.look_ns)
            return
        dice = self._world.dice if self._world.cuts_batches else None
        for reader in list(machine.readers.values()):
            if machine.is_reading_paused or machine.life != life or machine.node is None:
                break
            if machine.busy_until_ns > self._world.time_ns:
                break
            event = reader.next_event(self._world.time_ns, dice)
            if event is not None:
                self._world.hand(machine, event)
        self._look_soon(machine)
