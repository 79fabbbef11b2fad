"""The decision log that all nodes share: numbered entries, of which the first one with a number counts."""

from __future__ import annotations


class SharedDecisions:
    """Entries by number; they are opaque here.

    >>> decisions = SharedDecisions()
    >>> decisions.decide(0, b"one"), decisions.decide(0, b"other"), decisions.following(0)
    (b'one', b'one', [(0, b'one')])
    """

    def __init__(self) -> None:
        self._entries: dict[int, bytes] = {}

    def decide(self, number: int, entry: bytes) -> bytes:
        """Put an entry under a number, if none is there; returns the one that is there."""
        return self._entries.setdefault(number, entry)

    def following(self, number: int) -> list[tuple[int, bytes]]:
        """The entries from a number on, up to the first that is missing."""
        found = []
        while (entry := self._entries.get(number)) is not None:
            found.append((number, entry))
            number += 1
        return found
