"""What has been accepted of every chain, and the one rule of acceptance.

A delta is accepted whole iff every stretch of it begins where its chain stands and comes from the current epoch; else it is
dropped whole and the sender is told where the chains stand. So duplicates, gaps, overlaps and zombies (owners of an old epoch
that are still alive) do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headwater.protocols.delta import ChainRange, Delta


class Position(NamedTuple):
    """Where a chain stands: the epoch of its owner, and the position up to which everything is there."""

    epoch: int
    at: int


#: A chain nobody has heard of.
UNKNOWN = Position(0, 0)


@dataclass(slots=True)
class Ledger:
    """
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
        if stretch.epoch != position.epoch:
            # A zombie: somebody else owns the chain by now.
            return "old epoch" if stretch.epoch < position.epoch else "new epoch"
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
