"""How far sources went on: the part of a delta that says which events it covers."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, fields

import numpy as np

from headwater.base.arrays import Int64Array


@dataclass(frozen=True, slots=True)
class Advance:
    """How far the sources of a chain went on: by number, sorted, those that moved; all as differences, so that they add up.

    Differences of watermarks wrap around in 64 bits: a source starts at minus infinity.
    """

    sources: Int64Array
    counts: Int64Array
    rises: Int64Array
    #: How far the latest time of all events of the chain has risen.
    latest: int = 0

    @classmethod
    def of(cls, sources: list[int], counts: list[int], rises: list[int], latest: int = 0) -> Advance:
        return cls(np.array(sources, np.int64), np.array(counts, np.int64), np.array(rises, np.int64), latest)

    def __eq__(self, other: object) -> bool:
        names = (field.name for field in fields(self))
        return isinstance(other, Advance) and all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class Advances(Mapping[str, Advance]):
    """Those of several chains, in columns: a relay's delta is of hundreds, most of them with one source.

    ``sizes``: how many sources of each chain moved; these follow one another.

    >>> both = Advances.of({"a": Advance.of([0], [5], [10]), "b": Advance.of([0, 2], [1, 1], [7, 8], 9)})
    >>> both.sizes, both.counts, both["b"].rises, Advances.of({}).counts
    (array([1, 2]), array([5, 1, 1]), array([7, 8]), array([], dtype=int64))
    """

    chains: tuple[str, ...]
    sizes: Int64Array
    latest: Int64Array
    sources: Int64Array
    counts: Int64Array
    rises: Int64Array

    @classmethod
    def of(cls, advances: Mapping[str, Advance]) -> Advances:
        if isinstance(advances, Advances):
            return advances
        each = list(advances.values())
        heads = np.array([[len(one.sources), one.latest] for one in each], np.int64).reshape(-1, 2)
        columns = [
            np.concatenate([np.empty(0, np.int64), *(getattr(one, name) for one in each)])
            for name in ("sources", "counts", "rises")
        ]
        return cls(tuple(advances), heads[:, 0], heads[:, 1], *columns)

    def apart(self) -> dict[str, Advance]:
        """Each chain's own."""
        found, begin = {}, 0
        for chain, end, latest in zip(self.chains, np.cumsum(self.sizes).tolist(), self.latest.tolist()):
            found[chain] = Advance(self.sources[begin:end], self.counts[begin:end], self.rises[begin:end], latest)
            begin = end
        return found

    def __contains__(self, chain: object) -> bool:
        return chain in self.chains

    def __getitem__(self, chain: str) -> Advance:
        return self.apart()[chain]

    def __iter__(self) -> Iterator[str]:
        return iter(self.chains)

    def __len__(self) -> int:
        return len(self.chains)

    @property
    def chain(self) -> Int64Array:
        """Of each source, the place of its chain."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def items(self) -> ItemsView[str, Advance]:
        return self.apart().items()

    def values(self) -> ValuesView[Advance]:
        return self.apart().values()


def added(advances: Sequence[Advance]) -> Advance:
    """Differences one after the other."""
    if len(advances) == 1:
        return advances[0]
    sources, place = np.unique(np.concatenate([advance.sources for advance in advances]), return_inverse=True)
    counts, rises = np.zeros(len(sources), np.int64), np.zeros(len(sources), np.int64)
    np.add.at(counts, place, np.concatenate([advance.counts for advance in advances]))
    np.add.at(rises, place, np.concatenate([advance.rises for advance in advances]))
    latest = 0
    for advance in advances:
        latest = wrapped(latest + advance.latest)
    return Advance(sources, counts, rises, latest)


def wrapped(value: int) -> int:
    """A difference of two 64-bit numbers as one of them.

    >>> wrapped(5 - -(2**63)), wrapped(-(2**63) + wrapped(5 - -(2**63)))
    (-9223372036854775803, 5)
    """
    return (value + 2**63) % 2**64 - 2**63


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Moves(Mapping[str, list[int]]):
    """Rows by the names of sources, given by their numbers; the dictionary is only made when it is read.

    >>> import numpy as np
    >>> Moves(["a", "b"], np.array([1]), np.array([[0, 5, 99]]))
    {'b': [0, 5, 99]}
    """

    names: Sequence[str]
    numbers: Int64Array
    rows: Int64Array

    def apart(self) -> dict[str, list[int]]:
        return dict(zip([self.names[number] for number in self.numbers.tolist()], self.rows.tolist()))

    def __getitem__(self, name: str) -> list[int]:
        return self.apart()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.apart())

    def __len__(self) -> int:
        return len(self.numbers)

    def items(self) -> ItemsView[str, list[int]]:
        return self.apart().items()

    def __repr__(self) -> str:
        return repr(self.apart())
