"""What has been accepted of every chain, and the one rule of acceptance.

A delta is accepted whole iff every stretch of it begins where its chain stands and comes from the current epoch; else it is
dropped whole and the sender is told where the chains stand. So duplicates, gaps, overlaps and zombies (owners of an old epoch,
who do not know that another has taken their chain over) do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headwater.protocols.delta import CUT_SUFFIX, ChainRange, Delta


class Position(NamedTuple):
    """Where a chain stands: the epoch of its owner, and the position up to which everything is there.

    Of two answers about a chain, the larger one was given later.
    """

    epoch: int
    at: int


#: A chain nobody has heard of.
UNKNOWN = Position(0, 0)
#: Why a zombie's stretch is refused.
OLD_EPOCH = "old epoch"


@dataclass(slots=True)
class Ledger:
    """Where each chain stands, the chain of its cuts included. At a root neither an epoch nor a position ever falls.

    >>> ledger = Ledger({"a": Position(1, 3)})
    >>> ledger.objections({"a": ChainRange(1, 3, 5)})
    {}
    >>> ledger.objections({"a": ChainRange(1, 4, 5)}), ledger.objections({"a": ChainRange(1, 2, 3)})
    ({'a': 'gap'}, {'a': 'duplicate'})
    """

    positions: dict[str, Position] = field(default_factory=dict)

    def objections(self, ranges: Mapping[str, ChainRange]) -> dict[str, str]:
        """Why these stretches cannot be accepted; nothing if they can."""
        found = {}
        for chain, stretch in ranges.items():
            position = self.positions.get(chain, UNKNOWN)
            if stretch[:2] == position and position.epoch and stretch.start < stretch.end:
                continue  # as nearly always
            reason = self._objection(position, stretch)
            if reason is not None:
                found[chain] = reason
        return found

    def _objection(self, position: Position, stretch: ChainRange) -> str | None:
        if position.epoch == 0:
            return "unknown"
        if stretch.epoch < position.epoch:
            return OLD_EPOCH  # a zombie
        if stretch.epoch > position.epoch:
            return "new epoch"
        if stretch.end <= position.at:
            return "duplicate"
        if stretch.start == position.at:
            return None
        return "gap" if stretch.start > position.at else "overlap"

    def accept(self, delta: Delta) -> None:
        """Move on; call it only without objections."""
        for chain, stretch in delta.ranges.items():
            self.positions[chain] = Position(stretch.epoch, stretch.end)

    def of(self, chains: Mapping[str, Any]) -> dict[str, Position]:
        """Where these chains stand."""
        return {chain: self.positions.get(chain, UNKNOWN) for chain in chains}

    # --- owners and cuts, decided by the root ---

    def open(self, chain: str, cut: int) -> None:
        """A chain begins; cuts up to this number do not concern it. It has no owner before its first epoch."""
        self.positions[chain], self.positions[chain + CUT_SUFFIX] = Position(0, 0), Position(0, cut)

    def new_epoch(self, chain: str) -> None:
        """What was cut under older epochs is void from now on."""
        for name in (chain, chain + CUT_SUFFIX):
            position = self.positions[name]
            self.positions[name] = Position(position.epoch + 1, position.at)

    def cut_of(self, chain: str) -> int:
        """The last cut for which everything of this chain is there."""
        return self.positions[chain + CUT_SUFFIX].at

    def pass_cut(self, chain: str, number: int) -> None:
        """Nothing of this chain is missing for cuts up to this number."""
        position = self.positions[chain + CUT_SUFFIX]
        self.positions[chain + CUT_SUFFIX] = Position(position.epoch, max(position.at, number))

    # --- snapshots ---

    def state(self) -> list[list[Any]]:
        return [[chain, position.epoch, position.at] for chain, position in self.positions.items()]

    @classmethod
    def restored(cls, state: Sequence[Sequence[Any]]) -> Ledger:
        return cls({chain: Position(epoch, at) for chain, epoch, at in state})
