"""What a relay holds: deltas of its children, taken in chains, until the root has accepted them.

They stay as they came. If a combination of them is dropped above, those that still fit are combined anew; children are asked only
for what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from headwater.protocols.delta import ChainRange, Delta
from headwater.protocols.ledger import UNKNOWN, Ledger, Position

#: A chain that is new here, or has a new owner: the child knows better.
_BELIEVED = frozenset({"unknown", "new epoch"})
#: Objections that hold only while some of the chain is held.
_HEARSAY = frozenset({"gap", "duplicate", "overlap"})


@dataclass(slots=True)
class Held:
    """A child's delta, its size, whether it was sent on, and how often `Holding.overdue` has met it since."""

    delta: Delta
    nbytes: int
    sent: bool = False
    looks: int = 0
    #: The child it came from.
    link: str = ""


@dataclass(slots=True)
class Holding:
    """The chains that run through a relay.

    Invariant: the held stretches of each chain come in their order, and the ledger says that the chain stands where they end, or
    further: a delta of several chains is held until the root has all of it, and may have of one chain what is accepted, or void.
    While some are held, only what follows is taken. If none is held, the ledger knows by hearsay only (an answer that was
    overtaken, a parent that has lost its memory since), and must not stop a child that knows better.
    """

    ledger: Ledger = field(default_factory=Ledger)
    held: list[Held] = field(default_factory=list)
    #: What the root is known to have accepted: it need not be sent again.
    safe: dict[str, Position] = field(default_factory=dict)
    #: Chains of which nothing is held and a gap was refused. If the child has nothing before it, the next one is believed.
    doubted: set[str] = field(default_factory=set)
    #: Chains that the root began anew, and from where. Until more of them is accepted each travels alone: what was wrong with a
    #: combination may be the part of one child, and must not cost its siblings another beginning.
    apart: dict[str, Position] = field(default_factory=dict)
    #: How many bytes of each child are held at most.
    bytes_max: int = 1 << 62
    _bytes: int = 0  # of all that came since it was last counted

    def take(self, delta: Delta, nbytes: int, link: str = "") -> bool:
        """Take a child's delta in; False if it does not fit: then the ledger says where its chains stand.

        A chain that is new here, or has a new owner, is believed: if that was wrong, the root will say so.
        """
        if not self._has_room(nbytes, link):
            return False
        objections = self._objections(delta)
        if not _BELIEVED.issuperset(objections.values()):
            return False
        owners = [chain for chain, reason in objections.items() if reason == "new epoch"]
        for chain in owners:
            self._void(chain)
        # What was void may have carried other chains of this delta, which now stand further back.
        if owners and not _BELIEVED.issuperset(self._objections(delta).values()):
            return False
        self.ledger.accept(delta)
        self.doubted -= delta.ranges.keys()
        self.held.append(Held(delta, nbytes, link=link))
        return True

    def _has_room(self, nbytes: int, link: str) -> bool:
        self._bytes += nbytes
        if self._bytes <= self.bytes_max:
            return True
        self._bytes = nbytes + sum(one.nbytes for one in self.held)
        return nbytes + sum(one.nbytes for one in self.held if one.link == link) <= self.bytes_max

    def _objections(self, delta: Delta) -> dict[str, str]:
        """The objections of the ledger, without those that rest on hearsay."""
        objections = self.ledger.objections(delta.ranges)
        if _HEARSAY.isdisjoint(objections.values()):
            return objections
        held = _chains(one.delta for one in self.held)
        return {
            chain: reason
            for chain, reason in objections.items()
            if reason not in _HEARSAY or chain in held or not self._believed(chain, delta)
        }

    def _believed(self, chain: str, delta: Delta) -> bool:
        """Whether to take a stretch though it does not begin where hearsay has it."""
        stretch, safe = delta.ranges[chain], self.safe.get(chain, UNKNOWN)
        if stretch[:2] < safe:
            return False
        if stretch.start <= self.ledger.positions[chain].at or chain in self.doubted:
            return True
        self.doubted.add(chain)
        return False

    def _void(self, chain: str) -> None:
        """A new owner: what the old one sent will not be accepted any more."""
        self.ledger.positions.pop(chain, None)
        self._keep_fitting({})

    @property
    def has_unsent(self) -> bool:
        return any(not one.sent for one in self.held)

    def next_to_send(self, bytes_max: int) -> list[Delta]:
        """What was not sent yet, as much of it as may be combined into one delta."""
        chosen: list[Delta] = []
        size = 0
        ends: dict[str, ChainRange] = {}
        for one in self.held:
            if one.sent:
                continue
            is_apart = not self.apart.keys().isdisjoint(one.delta.ranges)
            if chosen and (is_apart or size + one.nbytes > bytes_max or not _follows(one.delta, ends)):
                break
            one.sent, one.looks = True, 0
            chosen.append(one.delta)
            if is_apart:
                break
            size += one.nbytes
            ends.update(one.delta.ranges)
        return chosen

    def accepted(self, positions: Mapping[str, Position]) -> None:
        """The root has accepted up to these positions: drop what they cover."""
        for chain, position in positions.items():
            self.safe[chain] = max(position, self.safe.get(chain, UNKNOWN))
            self.ledger.positions[chain] = max(position, self.ledger.positions.get(chain, UNKNOWN))
            if position > self.apart.get(chain, position):
                del self.apart[chain]
        self.held = [one for one in self.held if not _covered(one.delta, self.safe)]

    def safe_of(self, chains: Iterable[str]) -> dict[str, Position]:
        """What the root is known to have of these chains, for a child that may have missed the acceptance."""
        return {chain: self.safe[chain] for chain in chains if chain in self.safe}

    def rejected(self, positions: Mapping[str, Position]) -> dict[str, Position]:
        """The parent stands here: keep what fits, send it anew, and return where children have to begin again."""
        # An answer may be older than an acceptance that has come already; but the parent knows best which epochs there are, and
        # whoever believed in one that there is not would wait for it for ever.
        for chain, position in positions.items():
            if position.epoch < self.safe.get(chain, UNKNOWN).epoch:
                self.safe[chain] = position
            if 0 < self.ledger.positions.get(chain, UNKNOWN).epoch < position.epoch:
                self.apart[chain] = position
        told = {chain: max(position, self.safe.get(chain, UNKNOWN)) for chain, position in positions.items()}
        again = self._keep_fitting(told)
        # Who answers each frame with an older answer would be sent it again for ever: what is held may still be on its way.
        if told == positions:
            self.send_again()
        return again

    def forget(self, chains: Set[str]) -> None:
        """Nothing of these chains will be accepted any more."""
        for chain in chains:
            self.ledger.positions.pop(chain, None)
            self.safe.pop(chain, None)
            self.doubted.discard(chain)
            self.apart.pop(chain, None)
        self.held = [one for one in self.held if not chains & one.delta.ranges.keys()]

    def overdue(self) -> int:
        """Called at regular times: mark what was not accepted between two calls to be sent again; returns how many."""
        count = 0
        for one in self.held:
            one.looks += one.sent
            if one.looks >= 2:
                one.sent, one.looks = False, 0
                count += 1
        return count

    def send_again(self) -> None:
        """Mark everything to be sent once more."""
        for one in self.held:
            one.sent = False

    def check(self) -> None:
        """Assert the invariant."""
        ends: dict[str, Position] = {}
        for one in self.held:
            for chain, stretch in one.delta.ranges.items():
                end = ends.get(chain, UNKNOWN)
                assert stretch[:2] >= end, f"{chain!r}: {stretch} is held behind {end}"
                ends[chain] = Position(stretch.epoch, stretch.end)
        for chain, end in ends.items():
            stands = self.ledger.positions[chain]
            assert stands >= end, f"{chain!r} is held up to {end}, and is said to stand at {stands}"

    def _keep_fitting(self, positions: Mapping[str, Position]) -> dict[str, Position]:
        """Keep the held deltas that form chains from ``positions`` on (where these are silent, from their own beginning)."""
        stands = Ledger({chain: position for chain, position in positions.items() if position.epoch})
        kept, lost = [], []
        for one in self.held:
            if _covered(one.delta, positions):
                continue
            if self._fits(stands, one.delta):
                stands.accept(one.delta)
                kept.append(one)
            else:
                lost.append(one.delta)
                self._break_off(stands, one.delta)
        self.held = kept
        again = _chains(lost) | {chain for chain, position in positions.items() if position.epoch}
        for chain in again:
            if chain in stands.positions:
                self.ledger.positions[chain] = stands.positions[chain]
            else:
                self.ledger.positions.pop(chain, None)
        return {chain: self.ledger.positions[chain] for chain in sorted(again) if chain in self.ledger.positions}

    def _break_off(self, stands: Ledger, delta: Delta) -> None:
        """A delta is lost: what follows it in its chains does not fit any more."""
        for chain, stretch in delta.ranges.items():
            if stretch.epoch == self.ledger.positions.get(chain, UNKNOWN).epoch:
                stands.positions.setdefault(chain, Position(stretch.epoch, stretch.start))

    def _fits(self, stands: Ledger, delta: Delta) -> bool:
        for chain, reason in stands.objections(delta.ranges).items():
            current = self.ledger.positions.get(chain, UNKNOWN)
            if reason != "unknown" or delta.ranges[chain].epoch != current.epoch:
                return False
        return True


def _follows(delta: Delta, ends: Mapping[str, ChainRange]) -> bool:
    """Whether a delta goes on where its chains end."""
    before = ((ends[chain], stretch) for chain, stretch in delta.ranges.items() if chain in ends)
    return all((end.epoch, end.end) == stretch[:2] for end, stretch in before)


def _covered(delta: Delta, positions: Mapping[str, Position]) -> bool:
    """Whether all of a delta is accepted, or void."""
    return all((s.epoch, s.end) <= positions.get(chain, UNKNOWN) for chain, s in delta.ranges.items())


def _chains(deltas: Iterable[Delta]) -> set[str]:
    return {chain for delta in deltas for chain in delta.ranges}
