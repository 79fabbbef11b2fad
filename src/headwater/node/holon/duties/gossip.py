"""Gossip: what is told to whom. Every node says with each beat where it stands; who has more tells what is missing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headwater.node.holon.settings import HolonSettings
from headwater.protocols.peers.gossip_messages import (
    PIECE_BYTES,
    PIECES_MAX,
    Digest,
    PeerMessage,
    PrefixTold,
    WorldPiece,
)
from headwater.protocols.windowed_crdt import Prefix, PrefixDelta

#: So many digests of a peer lack the same before one answers who is not the owner of it.
PATIENCE = 2
#: After a world was sent to a peer, no other is for so many of its digests.
WORLD_PAUSE = 10

#: A chain's place as a digest has it: decisions, index.
Place = tuple[int, int]
#: The decision log among the chains: its place is how many entries are known.
LOG = "the decision log"


@dataclass(slots=True)
class PeerView:
    """What a node knows of a peer by its digests, and what it has answered."""

    digest: Digest
    #: By chain: the place that it lacks something from, and in how many digests it has lacked it.
    lacking: dict[str, tuple[Place, int]] = field(default_factory=dict)
    #: For how many of its digests no world is sent to it, and in how many it has lacked one.
    pause: int = 0
    lacked: int = 0


@dataclass(slots=True)
class WorldPieces:
    """The pieces of a world that have come from a peer; those of another begin anew."""

    world: int = 0
    count: int = 0
    pieces: dict[int, bytes] = field(default_factory=dict)

    def add(self, piece: WorldPiece) -> bytes | None:
        """One more; the whole world once all are there."""
        if (piece.world, piece.count) != (self.world, self.count):
            self.world, self.count, self.pieces = piece.world, piece.count, {}
        self.pieces[piece.number] = piece.data
        if len(self.pieces) < self.count:
            return None
        whole = b"".join(self.pieces[number] for number in range(self.count))
        self.world, self.count, self.pieces = 0, 0, {}
        return whole


def pieces_of(generation: int, count: int, data: bytes) -> Iterator[WorldPiece]:
    """A world of so many executed steps, in pieces; none if it would be too many.

    >>> pieces = WorldPieces()
    >>> [pieces.add(piece) for piece in pieces_of(1, 7, b"world")]
    [b'world']
    """
    size = -(-len(data) // PIECE_BYTES)
    for number in range(size if size <= PIECES_MAX else 0):
        yield WorldPiece(generation, count, number, size, data[number * PIECE_BYTES : (number + 1) * PIECE_BYTES])


class HeldDeltas:
    """The last deltas of a chain, without a gap.

    >>> from headwater.protocols.windowed_crdt import Reach
    >>> held = HeldDeltas(2, 100)
    >>> for start in (0, 3, 6):
    ...     held.add(PrefixDelta("p", 1, 0, start, start + 3, Reach()))
    >>> [delta.start for delta in held.since((0, 6))], held.since((0, 0)), held.since((0, 4))
    ([6], None, None)
    """

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._deltas: deque[PrefixDelta] = deque()
        self._count_max, self._bytes_max, self._bytes = count_max, bytes_max, 0

    def add(self, delta: PrefixDelta) -> None:
        """The next delta of the chain; if it does not follow, those before it help nobody."""
        if self._deltas and not _follows(self._deltas[-1], delta):
            self.clear()
        self._deltas.append(delta)
        self._bytes += _size(delta)
        while self._deltas and (len(self._deltas) > self._count_max or self._bytes > self._bytes_max):
            self._bytes -= _size(self._deltas.popleft())

    def clear(self) -> None:
        """They help nobody any more."""
        self._deltas.clear()
        self._bytes = 0

    def since(self, place: Place) -> list[PrefixDelta] | None:
        """What follows a place; None if that is not held."""
        found = [delta for delta in self._deltas if delta.decisions == place[0] and delta.start >= place[1]]
        return found if found and found[0].start == place[1] else None


def _follows(one: PrefixDelta, other: PrefixDelta) -> bool:
    return (one.decisions, one.end) == (other.decisions, other.start)


def _size(delta: PrefixDelta) -> int:
    return sum(map(len, delta.parts)) + len(delta.reach.private)


class Gossip:
    """What others are to be told. It is asked with each digest of a peer, and told what becomes known here.

    ``unit_of``: the unit of each chain; who owns it answers at once for its chains, others when the owner seems not to.
    """

    def __init__(self, unit_of: Mapping[str, str], settings: HolonSettings) -> None:
        self.views: dict[str, PeerView] = {}
        self._unit_of = unit_of
        self._held = {
            chain: HeldDeltas(settings.deltas_held_max, settings.delta_bytes_held_max) for chain in sorted(unit_of)
        }
        #: What is to be told to all with the next beat.
        self._outbox: list[PrefixDelta] = []
        #: Where chains were one beat ago: who lacks what came since has perhaps not had the time to hear it.
        self._before: dict[str, Place] = {}

    # --- what becomes known here ---

    def made(self, delta: PrefixDelta) -> None:
        """A delta of our own is known from now on: it is to be told."""
        self._held[delta.chain].add(delta)
        self._outbox.append(delta)

    def learned(self, delta: PrefixDelta) -> None:
        """A delta of another's is known from now on."""
        self._held[delta.chain].add(delta)

    def leaped(self, chain: str) -> None:
        """A chain is known further by other than deltas."""
        self._held[chain].clear()

    @property
    def is_urgent(self) -> bool:
        """Whether a step waits to be told."""
        return any(delta.steps is not None for delta in self._outbox)

    def take_outbox(self) -> list[PrefixDelta]:
        """What all are to be told now."""
        taken, self._outbox = self._outbox, []
        return taken

    def beat(self, places: Mapping[str, Place], entries: int) -> None:
        """A beat has passed: this is known now, and so many entries of the decision log."""
        self._before = {**places, LOG: (0, entries)}

    # --- what others say ---

    def heard(self, peer: str, digest: Digest) -> bool | None:
        """A digest; None if a later one has been heard, else whether the peer has begun a new life."""
        view = self.views.get(peer)
        if view is None:
            self.views[peer] = PeerView(digest)
            return False
        known = view.digest
        if digest.incarnation == known.incarnation and digest.beat <= known.beat:
            return None
        view.digest = digest
        return digest.incarnation != known.incarnation

    def missing(
        self,
        peer: str,
        rank: Callable[[str], int | None],
        chains: Mapping[str, Prefix],
        executed: Mapping[str, int],
    ) -> Iterator[PeerMessage]:
        """What a peer lacks by its last digest, and this node should tell it.

        ``rank``: how many come before this node in telling of a unit if its owner does not, None if that is this node;
        ``executed``: by chain, the step of its level that the peer has executed.
        """
        view = self.views[peer]
        for chain, prefix in chains.items():
            place = view.digest.chains.get(chain, (0, 0))
            if not self._lacks(view, chain, place) or not self._is_turn(view, chain, rank(self._unit_of[chain])):
                continue
            held = self._held[chain].since(place)
            if held is not None:
                yield from held
            elif prefix.base <= executed[chain]:
                yield PrefixTold(chain, prefix)

    def _lacks(self, view: PeerView, chain: str, place: Place) -> bool:
        """Whether the peer lacks what was known here a beat ago; counts in how many digests it lacks the same."""
        before = self._before.get(chain)
        if before is None or place >= before:
            view.lacking.pop(chain, None)
            return False
        since, count = view.lacking.get(chain, (place, 0))
        view.lacking[chain] = place, count + 1 if since == place else 1
        return True

    def _is_turn(self, view: PeerView, chain: str, rank: int | None) -> bool:
        """``rank``: None for the owner, who comes first."""
        count = view.lacking[chain][1]
        # Frames are on their way: the owner does not answer each digest, and others only where it seems that nobody does.
        return count % PATIENCE == 1 if rank is None else count % (PATIENCE + 1 + rank) == 0

    def lacks_entries(self, peer: str, rank: int) -> bool:
        """Whether entries of the decision log are to be told to a peer now; the first in rank owns the log."""
        view = self.views[peer]
        place = (0, view.digest.decisions)
        return self._lacks(view, LOG, place) and self._is_turn(view, LOG, rank or None)

    def lacks_world(self, peer: str, bases: Iterable[int], rank: int) -> bool:
        """Whether the world is to be sent to a peer now: it has not executed steps of which parts are held no longer.

        ``bases``: by level, the last step of which that is so. ``rank``: how many come before this node, who send it if they can.
        """
        view = self.views[peer]
        view.pause = max(view.pause - 1, 0)
        executed = view.digest.executed
        if not any(base > executed[level] for level, base in enumerate(bases) if level < len(executed)):
            view.lacked = 0
            return False
        view.lacked += 1
        if view.pause or view.lacked <= rank * PATIENCE:
            return False
        view.pause = WORLD_PAUSE
        return True
