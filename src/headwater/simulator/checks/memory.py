"""How much a node may hold when all is quiet: what it knows of queries and sources, and nothing of events that no window needs.

Counted in bytes of its snapshot, for that is what every node can tell of itself. The figures are about twice of what seeds
have shown; whatever stays for each event or window is more than that after a few hundred events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.language.query import Query
from headwater.language.windows import CountWindow
from headwater.simulator.checks.truth import ViolationError

NODE_BYTES, QUERY_BYTES, SOURCE_BYTES, DECISION_BYTES = 3000, 5500, 400, 70
#: Of an event, for each query whose windows may wait for ever: until they are full, or for a window of another node.
EVENT_BYTES = 150
#: Of a relay, which knows no query.
RELAY_SOURCE_BYTES = 500
#: Of each delta that a leaf has sent and that nobody has accepted: after the end nobody will.
DELTA_BYTES = 4000


@dataclass(frozen=True, slots=True)
class MemoryBound:
    """What there was in a run: queries, sources, decisions about them, events; and how many deltas a leaf may hold.

    >>> MemoryBound((), 2, 3, 4, 5).check("relay-1", "relay", 5000)
    Traceback (most recent call last):
    headwater.simulator.checks.truth.ViolationError: relay-1 holds 5,000 bytes when all is quiet; it may hold 4,000
    """

    queries: Sequence[Query]
    sources: int
    decisions: int
    events: int
    deltas: int

    def check(self, name: str, role: str, held_bytes: int) -> None:
        """Refuse a node that holds more than this lets it."""
        allowed = self._allowed(role)
        if held_bytes > allowed:
            raise ViolationError(f"{name} holds {held_bytes:,} bytes when all is quiet; it may hold {allowed:,}")

    def _allowed(self, role: str) -> int:
        if role == "relay":
            return NODE_BYTES + RELAY_SOURCE_BYTES * self.sources
        known = NODE_BYTES + QUERY_BYTES * len(self.queries) + SOURCE_BYTES * self.sources
        known += EVENT_BYTES * self.events * sum(map(waits, self.queries))
        return known + (DECISION_BYTES * self.decisions if role == "root" else DELTA_BYTES * self.deltas)


def waits(query: Query) -> bool:
    """Whether windows may be open for ever, and their events are kept."""
    return isinstance(query.window, CountWindow) or query.scope not in ("global", "node")
