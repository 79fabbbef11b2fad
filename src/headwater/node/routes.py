"""Routes: which links each chain was heard on, so that what concerns it goes down these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.protocols.actions import Action, SendMessage
from headwater.protocols.delta import CUT_SUFFIX
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Positions, encode


@dataclass(slots=True)
class Routes:
    """The ways down from a node with children. A chain may be heard on several links, after a takeover for example."""

    links: dict[str, dict[str, None]] = field(default_factory=dict)
    children: dict[str, None] = field(default_factory=dict)
    _last: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def heard(self, chain: str, link: str) -> None:
        self.children[link] = None
        self.links.setdefault(chain.removesuffix(CUT_SUFFIX), {})[link] = None

    def heard_all(self, chains: tuple[str, ...], link: str) -> None:
        """The same of many; most often they are those of the last time."""
        if self._last.get(link) != chains:
            self._last[link] = chains
            for chain in chains:
                self.heard(chain, link)

    def of(self, chain: str) -> list[str]:
        return list(self.links.get(chain.removesuffix(CUT_SUFFIX), ()))

    def down(self, chain: str, frame: bytes) -> list[Action]:
        """To whoever speaks for a chain."""
        return [SendMessage(link, frame) for link in self.of(chain)]

    def to_all(self, frame: bytes, but: str | None = None) -> list[Action]:
        """To all children, except one."""
        return [SendMessage(link, frame) for link in self.children if link != but]

    def positions(self, resend: bool, positions: Mapping[str, Position]) -> list[Action]:
        """Where these chains stand, to whoever speaks for them."""
        told: dict[str, dict[str, Position]] = {}
        for chain, position in positions.items():
            for link in self.of(chain):
                told.setdefault(link, {})[chain] = position
        return [SendMessage(link, encode(Positions(resend, known))) for link, known in told.items()]

    def state(self) -> list[list[str]]:
        return [[chain, *links] for chain, links in self.links.items()]

    @classmethod
    def restored(cls, state: Sequence[Sequence[str]]) -> Routes:
        routes = cls()
        for chain, *links in state:
            for link in links:
                routes.heard(chain, link)
        return routes
