"""Source numbers of many chains in one array. Cached: a relay names the same chains in every delta."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from headwater.base.arrays import Int64Array

T = TypeVar("T")
#: How many lists of chains are cached, and the shortest that is worth it.
CROWDS_MAX, SMALLEST = 64, 8


@dataclass(frozen=True, slots=True)
class SourceNumbers:
    """The numbers of all sources of some chains, those of each chain from ``starts`` on; none of a chain that is not known."""

    numbers: Int64Array
    starts: Int64Array
    sizes: Int64Array
    are_known: bool

    @classmethod
    def of(cls, sources: Sequence[Int64Array | None]) -> SourceNumbers:
        """The numbers of the sources of each chain; None: a chain that is not known.

        >>> crowd = SourceNumbers.of([np.array([4, 7]), np.array([5]), None])
        >>> crowd.at(np.array([0, 1]), np.array([1, 0])), crowd.are_known
        (array([7, 5]), False)
        >>> crowd.has(np.array([1]), np.array([0])), crowd.has(np.array([2]), np.array([0]))
        (True, False)
        """
        known = [one for one in sources if one is not None]
        sizes = np.array([0 if one is None else len(one) for one in sources], np.int64)
        numbers = np.concatenate(known) if known else np.empty(0, np.int64)
        return cls(numbers, np.cumsum(sizes) - sizes, sizes, len(known) == len(sources))

    def at(self, chain: Int64Array, place: Int64Array) -> Int64Array:
        """The numbers of the sources at these places of their chains, each by its place in the list."""
        return np.asarray(self.numbers[self.starts[chain] + place])

    def has(self, chain: Int64Array, place: Int64Array) -> bool:
        """Whether chains have sources at these places."""
        return bool(((place >= 0) & (place < self.sizes[chain])).all())


#: Of some chains, in their order.
Resolve = Callable[[tuple[str, ...]], SourceNumbers]


@dataclass(slots=True)
class Cached(Generic[T]):
    """A cache of what was made of long lists of chains; `forget` empties it when that is no longer true."""

    make: Callable[[tuple[str, ...]], T]
    known: dict[tuple[str, ...], T] = field(default_factory=dict)

    def of(self, chains: tuple[str, ...]) -> T:
        if len(chains) < SMALLEST:
            return self.make(chains)
        found = self.known.get(chains)
        if found is None:
            if len(self.known) >= CROWDS_MAX:
                self.known.clear()
            found = self.known[chains] = self.make(chains)
        return found

    def forget(self) -> None:
        self.known.clear()
