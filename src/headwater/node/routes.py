"""Routes: over which link each chain comes and goes, and since when nothing of it has come.

Whoever has a link can name any chain. So a chain comes over one link: the one on which this node let it in. Another link may
bring it only after this one has been silent about it, or its owner has left. How many chains come over a link is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.protocols.actions import Action, SendMessage
from headwater.protocols.delta import CUT_SUFFIX
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Positions, encode

#: The most chains that are let in over one link.
CHAINS_PER_LINK_MAX = 1 << 14
#: When a chain was heard of which nothing was heard since this process began, or whose owner has left.
LONG_AGO = -(2**63)


@dataclass(slots=True)
class Routes:
    """The link of each chain, and when it last brought something of it.

    When is no part of a snapshot: a root that is made again from its records has heard less than the one that was lost, so what
    that one let in it lets in too.

    >>> routes = Routes(silence_ns=10)
    >>> routes.admit("x", "a", now_ns=0)
    >>> routes.may_bring(["x"], "b", now_ns=9), routes.may_bring(["x"], "b", now_ns=10)
    (False, True)
    """

    silence_ns: int
    links: dict[str, str] = field(default_factory=dict)
    children: dict[str, dict[str, None]] = field(default_factory=dict)  # the chains of each link
    _heard_ns: dict[str, int] = field(default_factory=dict)
    #: By link the chains that it named last, and when: mostly the same ones all the time.
    _last: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)

    # --- who may bring what ---

    def of(self, chain: str) -> str | None:
        """The link over which a chain comes."""
        return self.links.get(chain.removesuffix(CUT_SUFFIX))

    def strangers(self, chains: tuple[str, ...], link: str) -> list[str]:
        """Those of the chains that do not come over this link."""
        known = self._last.get(link)
        if known is not None and known[0] == chains:
            return []  # as nearly always
        return [chain for chain in chains if self.of(chain) != link]

    def may_bring(self, strangers: Sequence[str], link: str, now_ns: int) -> bool:
        """Whether all of these chains, which do not come over this link, may from now on."""
        count = len(self.children.get(link, ())) + len({chain.removesuffix(CUT_SUFFIX) for chain in strangers})
        is_free = (self.of(chain) is None or self.is_silent(chain, now_ns) for chain in strangers)
        return not strangers or (count <= CHAINS_PER_LINK_MAX and all(is_free))

    def admit(self, chain: str, link: str, now_ns: int) -> None:
        """The chain comes over this link from now on."""
        chain = chain.removesuffix(CUT_SUFFIX)
        if self.of(chain) != link:
            self.forget([chain])
            self.links[chain] = link
            self.children.setdefault(link, {})[chain] = None
        self._heard_ns[chain] = now_ns

    def hear(self, chains: tuple[str, ...], link: str, now_ns: int) -> None:
        """Something of these chains, which all come over this link, has come."""
        known = self._last.get(link)
        if known is not None and known[0] != chains:
            self._settle(link)
        self._last[link] = (chains, now_ns)

    def is_silent(self, chain: str, now_ns: int) -> bool:
        """Whether nothing of it has come for so long that another may have it."""
        chain = chain.removesuffix(CUT_SUFFIX)
        self._settle(self.links.get(chain, ""))
        return now_ns - self._heard_ns.get(chain, LONG_AGO) >= self.silence_ns

    def leave(self, chain: str) -> None:
        """The owner is gone: nobody needs to wait until it has been silent for long."""
        self._settle(self.links.get(chain, ""))
        self._heard_ns[chain] = LONG_AGO

    def listen(self, now_ns: int) -> None:
        """This process begins: who is there has not had a chance to be heard, and its clock may have begun anew."""
        self._last.clear()
        self._heard_ns = dict.fromkeys(self.links, now_ns)

    def forget(self, chains: Iterable[str]) -> None:
        """Nothing of these chains comes any more."""
        for name in chains:
            chain = name.removesuffix(CUT_SUFFIX)
            link = self.links.get(chain)
            if link is None:
                continue
            self._settle(link)
            del self.links[chain], self.children[link][chain]
            self._heard_ns.pop(chain, None)
            if not self.children[link]:
                del self.children[link]

    def _settle(self, link: str) -> None:
        """Note for each chain what was heard last of a link."""
        chains, now_ns = self._last.pop(link, ((), 0))
        for chain in {chain.removesuffix(CUT_SUFFIX) for chain in chains}:
            self._heard_ns[chain] = now_ns

    # --- ways down ---

    def down(self, chain: str, frame: bytes) -> list[Action]:
        """Send a frame down the link of a chain, if there is one."""
        link = self.of(chain)
        return [] if link is None else [SendMessage(link, frame)]

    def to_all(self, frame: bytes, but: str | None = None) -> list[Action]:
        """Send a frame to all children, except one."""
        return [SendMessage(link, frame) for link in self.children if link != but]

    def positions(self, resend: bool, positions: Mapping[str, Position]) -> list[Action]:
        """Tell each link where the chains stand that come over it."""
        told: dict[str, dict[str, Position]] = {}
        for chain, position in positions.items():
            link = self.of(chain)
            if link is not None:
                told.setdefault(link, {})[chain] = position
        return [SendMessage(link, encode(Positions(resend, known))) for link, known in told.items()]

    # --- snapshots ---

    def state(self) -> list[list[str]]:
        return [[chain, link] for chain, link in self.links.items()]

    @classmethod
    def restored(cls, state: Sequence[Sequence[str]], silence_ns: int) -> Routes:
        """Routes of older releases have all links on which a chain was heard, the last one behind the others."""
        routes = cls(silence_ns)
        for chain, *links in state:
            routes.links[chain] = links[-1]
            routes.children.setdefault(links[-1], {})[chain] = None
        return routes
