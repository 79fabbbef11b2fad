"""The chains that pieces come of: how far the events of each are in pieces."""

from __future__ import annotations

import numpy as np

from headwater.base.arrays import BoolArray, Int64Array
from headwater.base.source_numbers import Cached
from headwater.engine.wire.parts import HEAD_IS_ALL, HEAD_LATEST, HEAD_UNTIL
from headwater.language.times import FOREVER, NEVER


class ChainCoverage:
    """Of each chain: before which time all events are in pieces, its latest time, and its events since the last cut.

    Invariant: each array has a place for every chain, by its number.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.since_cut = np.empty(0, np.int64)
        self.covered = np.empty(0, np.int64)
        self.latest = np.empty(0, np.int64)
        self._told = np.empty(0, np.int64)  # chains of which the delta that comes in has said how far they are
        self._numbered: Cached[Int64Array] = Cached(self._number_all)

    def __len__(self) -> int:
        return len(self.numbers)

    def begin_delta(self) -> None:
        """What heads say from now on replaces what those of earlier deltas have said."""
        self._told = np.empty(0, np.int64)

    def numbers_of(self, chains: tuple[str, ...]) -> Int64Array:
        """The numbers of chains; new ones get theirs."""
        return self._numbered.of(chains)

    def _number_all(self, chains: tuple[str, ...]) -> Int64Array:
        fresh = [chain for chain in dict.fromkeys(chains) if chain not in self.numbers]
        self.numbers |= {chain: len(self.numbers) + place for place, chain in enumerate(fresh)}
        unknown = np.full(len(fresh), NEVER)
        self.covered, self.latest = (np.concatenate((known, unknown)) for known in (self.covered, self.latest))
        self.since_cut = np.concatenate((self.since_cut, np.zeros(len(fresh), np.int64)))
        return np.array([self.numbers[chain] for chain in chains], np.int64)

    def take_heads(self, chains: Int64Array, heads: Int64Array) -> None:
        """What the heads of pieces say of their chains."""
        # Relays put parts together that are alike, so those of one delta come in any order.
        fresh = chains[~np.isin(chains, self._told)]
        self.covered[fresh] = self.latest[fresh] = NEVER
        np.maximum.at(self.covered, chains, np.where(heads[HEAD_IS_ALL] == 1, FOREVER, heads[HEAD_UNTIL]))
        np.maximum.at(self.latest, chains, heads[HEAD_LATEST])
        self._told = np.concatenate((self._told, fresh))

    def of(self, chain: str) -> int:
        """Before this time all events of a chain are in pieces."""
        return int(self.covered[self.numbers[chain]]) if chain in self.numbers else NEVER

    def reach(self, watermark: int) -> int:
        """Before this time no event of any chain is missing; ``watermark``: of all."""
        behind: BoolArray = self.latest >= self.covered
        return min(watermark, int(self.covered[behind].min(initial=FOREVER)))
