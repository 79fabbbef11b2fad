"""Which units a node runs: claims, shares of those that join, and help for those that lag."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from headwater.node.holon.settings import HolonSettings
from headwater.protocols.peers.failure_detector import FailureDetector
from headwater.protocols.peers.ownership import LagWatch, OwnerTable, PartitionOwner

#: So many beats a node listens before it claims anything: whoever lives has said so by then.
LISTENING_BEATS = 2
#: So many looks of a partition that was not read to its end are remembered; of more only the oldest count.
LOOKS_MAX = 64
#: A node that has not beaten for so long was paused itself: others may have what it ran.
PAUSE_BEATS = 5
#: Claims of a higher version are made up.
VERSION_MAX = 1 << 48


class Backlog:
    """How long what is there of a partition has waited to be read.

    >>> backlog = Backlog()
    >>> backlog.seen(10, 1000); backlog.seen(30, 2000)
    >>> backlog.lag_ns(0, 5000), backlog.lag_ns(10, 5000), backlog.lag_ns(30, 5000)
    (4000, 3000, 0)
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[int, int]] = deque()

    def seen(self, end: int, now_ns: int) -> None:
        """The partition has so many events."""
        if self._looks and end <= self._looks[-1][0]:
            return
        if len(self._looks) == LOOKS_MAX:
            _, since = self._looks.pop()
            self._looks.append((end, since))
        else:
            self._looks.append((end, now_ns))

    def lag_ns(self, index: int, now_ns: int) -> int:
        """Since when there are events that are not among the first ``index``."""
        while self._looks and self._looks[0][0] <= index:
            self._looks.popleft()
        return max(now_ns - self._looks[0][1], 0) if self._looks else 0


class Owning:
    """Decides what this node claims. It is told who is heard and what owners are told, and says what is to be run.

    >>> owning = Owning("a", ["p", "q"], HolonSettings(beat_ns=100))
    >>> owning.started(0)
    >>> [owning.beat(now_ns) for now_ns in (100, 200)], owning.mine()
    ([[], []], ['p', 'q'])
    """

    def __init__(self, name: str, units: Iterable[str], settings: HolonSettings) -> None:
        self._name, self._settings = name, settings
        self.table = OwnerTable.of(sorted(units))
        self._detector = FailureDetector(settings.detector)
        self._lags = LagWatch(settings.lag_ns_min, settings.lag_held_ns_min)
        #: The peers that were heard of, those among them that are suspected.
        self._peers: set[str] = set()
        self._gone: set[str] = set()
        self._beats = 0
        self._is_joining = True
        self._last_beat_ns: int | None = None

    # --- who lives ---

    def started(self, now_ns: int) -> None:
        """The node lives, and listens first."""
        self._last_beat_ns = now_ns

    def joined(self, peer: str, now_ns: int) -> None:
        """A peer can be reached: it is expected to be heard."""
        if peer != self._name:
            self._peers.add(peer)
            self._detector.expect(peer, now_ns)

    def heard(self, peer: str, now_ns: int) -> None:
        """A heartbeat of a peer."""
        self._peers.add(peer)
        if peer in self._gone:
            # Each has taken what the other ran: all take their shares.
            self._gone.discard(peer)
            self._is_joining = True
        self._detector.heard(peer, now_ns)

    def refused(self, peer: str, now_ns: int) -> list[str]:
        """A peer refused a connection. Returns who is suspected that was not before."""
        if peer in self._peers:
            self._detector.refused(peer, now_ns)
        return self._suspect(now_ns)

    def _suspect(self, now_ns: int) -> list[str]:
        suspects = set(self._detector.suspects(now_ns))
        fresh = sorted(suspects - self._gone)
        self._gone |= suspects
        for peer in fresh:
            self._lags.forget(peer)
        if self._is_listening:
            return fresh
        self.table.merge(self.table.claims(self._name, self.living))
        return fresh

    @property
    def _is_listening(self) -> bool:
        return self._beats < LISTENING_BEATS

    @property
    def living(self) -> list[str]:
        """This node and the peers that are not suspected."""
        return sorted({self._name, *self._peers} - (self._gone - {self._name}))

    @property
    def peers(self) -> list[str]:
        """All peers that frames may be sent to; one that is suspected may be there again."""
        return sorted(self._peers)

    @property
    def rank(self) -> int:
        """How many of the living come before this node, where one is to do what any could."""
        return self.living.index(self._name)

    # --- who owns what ---

    def told(self, owners: Mapping[str, PartitionOwner]) -> None:
        """Claims of others; nobody has claimed anything so often that numbers come to an end."""
        known = {unit: owner for unit, owner in owners.items() if unit in self.table.owners}
        self.table.merge({unit: owner for unit, owner in known.items() if owner.version < VERSION_MAX})

    def lags(self, node: str, lags: Mapping[str, int], now_ns: int) -> None:
        """How far a node is behind with what it runs."""
        self._lags.told(node, lags, now_ns)

    def beat(self, now_ns: int) -> list[str]:
        """Claim what is to be claimed now. Returns who is suspected that was not before."""
        last = self._last_beat_ns
        if last is not None and now_ns - last > PAUSE_BEATS * self._settings.beat_ns:
            self._is_joining = True
        self._last_beat_ns = now_ns
        self._beats += 1
        fresh = self._suspect(now_ns)
        if not self._is_listening:
            self._take_share()
            self._help()
        return fresh

    def _take_share(self) -> None:
        if self._is_joining:
            share = self.table.share(self._name, self.living)
            self.table.merge(share)
            self._is_joining = bool(share)

    def _help(self) -> None:
        lagging = self._lags.stealable(self._name)
        if lagging is not None and self.table.owners[lagging.partition].node == lagging.node:
            self.table.merge({lagging.partition: self.table.claim(lagging.partition, self._name)})

    def mine(self) -> list[str]:
        """The units that this node has to run."""
        return self.table.owned_by(self._name)

    def owner(self, unit: str) -> str | None:
        """Who runs a unit, if they live."""
        node = self.table.owners[unit].node
        return node if node in self.living else None

    def rank_for(self, unit: str) -> int | None:
        """How many come before this node in telling what there is of a unit; None if the node runs it."""
        return None if self.owner(unit) == self._name else self.rank

    def turn(self, unit: str) -> int:
        """How many come before this node in what the owner of a unit does for all, if it lives, and if there is such a unit."""
        owner = self.owner(unit) if unit in self.table.owners else None
        order = self.living if owner is None else [owner, *(node for node in self.living if node != owner)]
        return order.index(self._name)
