"""What is seen of nodes without a root while they run: who has finished, which paths they took, how much they hold."""

from __future__ import annotations

from typing import Any

from headwater.protocols.actions import Finished, Noted
from headwater.simulator.checks.counts import Counts
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.world.machine import Machine

#: What nodes tell of messages that make no sense: here all come from nodes.
DAMAGED = ("damaged", "unreadable")


class HolonChecker:
    """Watches all nodes of a run."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        #: By machine the life in which its node said that everything is out.
        self._finished: dict[str, int] = {}

    def after(self, time_ns: int, machine: Machine, event: Any, actions: list[Any], done: int) -> None:
        """A node was handed an event, and the first ``done`` of its actions were done."""
        for action in actions[:done]:
            match action:
                case Noted(what, detail):
                    if what.startswith(DAMAGED):
                        raise ViolationError(
                            f"{machine.name} tells of a {what}, but nothing damages frames here: {detail}"
                        )
                    self._counts[f"path: node {what}"] += 1
                case Finished():
                    self._finished[machine.name] = machine.life

    def happened(self, time_ns: int, machine: str, what: str) -> None:
        """Faults are not checked."""

    def has_finished(self, machine: Machine) -> bool:
        """Whether its node said, in this life, that everything is out."""
        return self._finished.get(machine.name) == machine.life
