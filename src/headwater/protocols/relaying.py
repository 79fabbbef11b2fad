"""What a relay holds: deltas of its children, taken in chains, until the root has accepted them.

They stay as they came. If a combination of them is dropped above, those that still fit are combined anew; children are asked only
for what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.protocols.delta import Delta
from headwater.protocols.ledger import UNKNOWN, Ledger, Position


@dataclass(slots=True)
class Held:
    """A child's delta, its size, and whether it was sent on."""

    delta: Delta
    nbytes: int
    sent: bool = False


@dataclass(slots=True)
class Holding:
    """The chains that run through a relay.

    Invariant: the held stretches of each chain follow one another and end where the ledger says that it stands.
    """

    ledger: Ledger = field(default_factory=Ledger)
    held: list[Held] = field(default_factory=list)

    def take(self, delta: Delta, nbytes: int) -> bool:
        """Take a child's delta in; False if it does not fit: then the ledger says where its chains stand.

        A chain that is new here, or has a new owner, is believed: if that was wrong, the root will say so.
        """
        objections = self.ledger.objections(delta.ranges)
        if any(reason not in ("unknown", "new epoch") for reason in objections.values()):
            return False
        for chain in objections:
            self._void(chain)
        self.ledger.accept(delta)
        self.held.append(Held(delta, nbytes))
        return True

    def _void(self, chain: str) -> None:
        """A new owner: what the old one sent will not be accepted any more."""
        self.ledger.positions.pop(chain, None)
        self._keep_fitting({})

    def next_to_send(self, bytes_max: int) -> list[Delta]:
        """What was not sent yet, as much of it as may be combined into one delta."""
        chosen, size = [], 0
        for one in self.held:
            if one.sent:
                continue
            if chosen and size + one.nbytes > bytes_max:
                break
            one.sent = True
            chosen.append(one.delta)
            size += one.nbytes
        return chosen

    def accepted(self, positions: Mapping[str, Position]) -> None:
        """The root has these: let go of what they cover."""
        for chain, position in positions.items():
            known = self.ledger.positions.get(chain, UNKNOWN)
            if (position.epoch, position.at) > (known.epoch, known.at):
                self.ledger.positions[chain] = position
        self.held = [one for one in self.held if not _covered(one.delta, positions)]

    def rejected(self, positions: Mapping[str, Position]) -> dict[str, Position]:
        """The parent stands here: keep what fits, send it anew, and return where children have to begin again."""
        return self._keep_fitting(positions)

    def send_again(self) -> None:
        """No answer came: everything has to be sent once more."""
        for one in self.held:
            one.sent = False

    def _keep_fitting(self, positions: Mapping[str, Position]) -> dict[str, Position]:
        """Keep the held deltas that form chains from ``positions`` on (where these are silent, from their own beginning)."""
        stands = Ledger({chain: position for chain, position in positions.items() if position.epoch})
        kept, lost = [], []
        for one in self.held:
            if _covered(one.delta, positions):
                continue
            if self._fits(stands, one.delta):
                stands.accept(one.delta)
                one.sent = False
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


def _covered(delta: Delta, positions: Mapping[str, Position]) -> bool:
    """Whether all of a delta is accepted, or void."""
    for chain, stretch in delta.ranges.items():
        position = positions.get(chain, UNKNOWN)
        if (stretch.epoch, stretch.end) > (position.epoch, position.at):
            return False
    return True


def _chains(deltas: Iterable[Delta]) -> set[str]:
    return {chain for delta in deltas for chain in delta.ranges}
