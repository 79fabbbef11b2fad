"""What the root keeps by chain: how far its events are in pieces, and which of these its owner is asked to look into."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from headwater.base.arrays import BoolArray, Int64Array
from headwater.base.source_numbers import Cached
from headwater.engine.wire.looks import Look
from headwater.engine.wire.parts import HEAD_IS_ALL, HEAD_LATEST, HEAD_UNTIL
from headwater.language.times import FOREVER, NEVER


class ChainCoverage:
    """How far each chain is in pieces: before which time all its events are, its latest time, its events since the last cut.

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


class OpenLooks:
    """Pieces that leaves are asked to look into, because a window may end in them, and for which cuts.

    ``chains``: by the number of the piece. Invariant: every look stands under its number, and under that of its chain.
    """

    def __init__(self) -> None:
        self.last_cut = NEVER  # the last one that leaves look for
        self.corrections = 0  # cuts that leaves had to look for
        self.chains: dict[int, str] = {}
        self._by_chain: dict[str, dict[int, Look]] = {}
        self.cuts: set[tuple[int, int]] = set()  # by sequence and position, those that count as corrections already
        self._guesses: dict[int, int] = {}  # for each cut that is looked for, about when it is

    def __bool__(self) -> bool:
        return bool(self.chains)

    def of(self, chain: str) -> list[Look]:
        """What the owner of a chain is asked; sources by their number over all."""
        return list(self._by_chain.get(chain, {}).values())

    def find(self, number: int) -> Look | None:
        return self._by_chain.get(self.chains.get(number, ""), {}).get(number)

    def guesses(self) -> list[tuple[int, int]]:
        """The cuts that are looked for: behind how many events, and about when."""
        return sorted(self._guesses.items()) if self else []

    def ask(self, looks: Iterable[tuple[str, Look]]) -> None:
        """These looks, by chain, and no others: before all was here, a cut may have been looked for elsewhere."""
        self.chains, self._by_chain = {}, {}
        for chain, look in looks:
            self.chains[look.number] = chain
            self._by_chain.setdefault(chain, {})[look.number] = look

    def ask_for(self, looks: list[tuple[str, Look]], sequences: Int64Array, cuts: Int64Array) -> None:
        """The same, where look i is for the cut behind position ``cuts[i]`` of a sequence."""
        before = self.chains
        self.ask(looks)
        self.last_cut = int(cuts.max(initial=NEVER))
        self._guesses = {cut: (look.low + look.high) // 2 for cut, (_, look) in zip(cuts.tolist(), looks)}
        for (_, look), cut in zip(looks, zip(sequences.tolist(), cuts.tolist())):
            if look.number not in before and cut not in self.cuts:
                self.cuts.add(cut)
                self.corrections += 1

    def forget(self, number: int) -> None:
        """A piece was answered, or settled without an answer."""
        chain = self.chains.pop(number, None)
        if chain is not None:
            del self._by_chain[chain][number]

    def passed(self, counted: Int64Array) -> None:
        """Cuts are known up to position ``counted[sequence]``."""
        self.cuts = {(sequence, cut) for sequence, cut in self.cuts if cut > counted[sequence]}

    def places(self) -> list[list[int]]:
        """Of each look the number of its piece, and the times between which the cut lies."""
        return [[look.number, look.low, look.high] for asked in self._by_chain.values() for look in asked.values()]
