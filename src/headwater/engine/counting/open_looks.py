"""Pieces that leaves are asked to look into, because a window may end in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.base.arrays import Int64Array
from headwater.engine.wire.looks import Look
from headwater.language.times import NEVER


class OpenLooks:
    """What the owner of each chain is asked, and for which cuts.

    Invariant: every look stands under its number, and under that of its chain.
    """

    def __init__(self) -> None:
        self.last_cut = NEVER  # the last one that leaves look for
        self.corrections = 0  # cuts that leaves had to look for
        self._chains: dict[int, str] = {}
        self._by_chain: dict[str, dict[int, Look]] = {}
        self.cuts: set[tuple[int, int]] = set()  # by sequence and position, those that count as corrections already
        self._guesses: dict[int, int] = {}  # for each cut that is looked for, about when it is

    def __bool__(self) -> bool:
        return bool(self._chains)

    def chains(self) -> Mapping[int, str]:
        """The pieces that leaves look into, each with its chain."""
        return self._chains

    def of(self, chain: str) -> list[Look]:
        """What the owner of a chain is asked; sources by their number over all."""
        return list(self._by_chain.get(chain, {}).values())

    def find(self, number: int) -> Look | None:
        return self._by_chain.get(self._chains.get(number, ""), {}).get(number)

    def guesses(self) -> list[tuple[int, int]]:
        """The cuts that are looked for: behind how many events, and about when."""
        return sorted(self._guesses.items()) if self else []

    def ask(self, looks: Iterable[tuple[str, Look]]) -> None:
        """These looks, by chain, and no others: before all was here, a cut may have been looked for elsewhere."""
        self._chains, self._by_chain = {}, {}
        for chain, look in looks:
            self._chains[look.number] = chain
            self._by_chain.setdefault(chain, {})[look.number] = look

    def ask_for(self, looks: list[tuple[str, Look]], sequences: Int64Array, cuts: Int64Array) -> None:
        """The same, where look i is for the cut behind position ``cuts[i]`` of a sequence."""
        before = self._chains
        self.ask(looks)
        self.last_cut = int(cuts.max(initial=NEVER))
        self._guesses = {cut: (look.low + look.high) // 2 for cut, (_, look) in zip(cuts.tolist(), looks)}
        for (_, look), cut in zip(looks, zip(sequences.tolist(), cuts.tolist())):
            if look.number not in before and cut not in self.cuts:
                self.cuts.add(cut)
                self.corrections += 1

    def forget(self, number: int) -> None:
        """Nobody has to look into a piece any more."""
        chain = self._chains.pop(number, None)
        if chain is not None:
            del self._by_chain[chain][number]

    def passed(self, counted: Int64Array) -> None:
        """Cuts are known up to position ``counted[sequence]``."""
        self.cuts = {(sequence, cut) for sequence, cut in self.cuts if cut > counted[sequence]}

    def places(self) -> list[list[int]]:
        """Of each look the number of its piece, and the times between which the cut lies."""
        return [[look.number, look.low, look.high] for asked in self._by_chain.values() for look in asked.values()]
