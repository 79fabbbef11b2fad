"""What every node can do, for hosts that drive one without knowing which."""

from __future__ import annotations

from typing import Protocol

from headwater.protocols.actions import Action
from headwater.protocols.events import Event


class Node(Protocol):
    """A leaf, a relay or a root."""

    def handle(self, event: Event, now_ns: int) -> list[Action]:
        """What happens, at a time of the host's clock; returns what is to be done about it, in this order."""
        ...

    def snapshot(self) -> bytes:
        """What it knows; ``restore`` of its class makes a node of this that goes on."""
        ...

    def check(self) -> None:
        """Assert what holds between two events; the simulator does so after each."""
        ...
