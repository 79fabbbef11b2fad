"""Checkpoints: what a node writes down now and then, and only when all rows that it stands for are durable."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.protocols.actions import Checkpoint


class Checkpoints:
    """Holds what is to be written until it may be.

    >>> checkpoints = Checkpoints(every_ns=100)
    >>> checkpoints.started(0)
    >>> checkpoints.beat(100, lambda: (b"state", {"*/1": 3})); checkpoints.release({"*/1": 2}), checkpoints.release({"*/1": 3})
    (None, Checkpoint(data=b'state'))
    """

    def __init__(self, every_ns: int) -> None:
        self._every_ns = every_ns
        self._made_ns = 0
        #: What is to be written, and how many rows of each chain of output it stands for.
        self._candidate: tuple[bytes, Mapping[str, int]] | None = None

    def started(self, now_ns: int) -> None:
        """The node lives: what it knows was written down before."""
        self._made_ns = now_ns

    def beat(self, now_ns: int, make: Callable[[], tuple[bytes, Mapping[str, int]]]) -> None:
        """Make one, if it is time and none waits: one that waits is durable sooner than any that is made later."""
        if now_ns - self._made_ns >= self._every_ns and self._candidate is None:
            self._made_ns, self._candidate = now_ns, make()

    def release(self, durable: Mapping[str, int]) -> Checkpoint | None:
        """What may be written now."""
        if self._candidate is None:
            return None
        data, needed = self._candidate
        if any(durable.get(chain, 0) < rows for chain, rows in needed.items()):
            return None
        self._candidate = None
        return Checkpoint(data)
