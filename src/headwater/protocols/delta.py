"""The delta: what a stretch of one or several chains adds, and how far their sources have come.

A chain is the sequence of deltas of one leaf: one source, or a group of up to thousands. Its positions count its deltas. Deltas
of neighbouring stretches, and of different chains, may be combined at any time and in any grouping; the combination says the
same as its parts. What the parts hold is opaque here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from headwater.arrays import Int64Array
from headwater.packing import Bytes, Reader, Writer
from headwater.protocols.frames import FrameError

#: The advances of so few sources are written as one list.
FEW_SOURCES = 64
#: A leaf has a second chain, of what it cuts where the root says; its positions are the numbers of cuts.
CUT_SUFFIX = "#cuts"


@dataclass(frozen=True, slots=True)
class Range:
    """The stretch [start, end) of a chain, sent by the owner of ``epoch``."""

    epoch: int
    start: int
    end: int


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
        return isinstance(other, Advance) and all(
            np.array_equal(mine, others)
            for mine, others in (
                (self.sources, other.sources),
                (self.counts, other.counts),
                (self.rises, other.rises),
                (self.latest, other.latest),
            )
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Delta:
    """``ranges``: which stretch of which chain; ``advances``: how their sources moved; ``parts``: what they add."""

    ranges: Mapping[str, Range]
    advances: Mapping[str, Advance] = field(default_factory=dict)
    parts: Sequence[Bytes] = ()


#: Makes one list of parts out of several: those of deltas in the order of their chains.
Merge = Callable[[Sequence[Sequence[Bytes]]], Sequence[Bytes]]


def combine(deltas: Sequence[Delta], merge: Merge) -> Delta:
    """One delta for several: neighbours of a chain in their order, chains in any.

    >>> one = Delta({"a": Range(1, 0, 1)}, {"a": Advance.of([0], [5], [10])}, [b"x"])
    >>> two = Delta({"a": Range(1, 1, 2)}, {"a": Advance.of([0, 1], [2, 1], [1, 7])}, [b"y"])
    >>> both = combine([one, two], lambda lists: [part for parts in lists for part in parts])
    >>> both.ranges["a"], both.advances["a"].counts, both.parts
    (Range(epoch=1, start=0, end=2), array([7, 1]), [b'x', b'y'])
    """
    ranges: dict[str, Range] = {}
    moved: dict[str, list[Advance]] = {}
    for delta in deltas:
        for chain, stretch in delta.ranges.items():
            before = ranges.get(chain)
            if before is not None and (before.epoch, before.end) != (stretch.epoch, stretch.start):
                raise ValueError(f"chain {chain!r}: {stretch} does not follow {before}")
            ranges[chain] = stretch if before is None else Range(stretch.epoch, before.start, stretch.end)
        for chain, advance in delta.advances.items():
            moved.setdefault(chain, []).append(advance)
    return Delta(
        ranges, {chain: added(parts) for chain, parts in moved.items()}, merge([delta.parts for delta in deltas])
    )


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


def delta_body(delta: Delta) -> bytes:
    """The byte form; equal deltas have equal bytes.

    In columns over all chains: a relay's delta is of hundreds, and a list costs about as much as the few numbers of a chain.
    """
    writer = Writer()
    chains = sorted(delta.ranges)
    writer.texts(chains)
    stretches = [delta.ranges[chain] for chain in chains]
    writer.ints(np.array([[s.epoch, s.start, s.end - s.start] for s in stretches], np.int64).T.ravel())
    moved = [place for place, chain in enumerate(chains) if chain in delta.advances]
    advances = [delta.advances[chains[place]] for place in moved]
    sizes, latest = [len(advance.sources) for advance in advances], [advance.latest for advance in advances]
    writer.ints(np.array([moved, sizes], np.int64).ravel())
    writer.ints(np.array(latest, np.int64))
    columns = [[getattr(advance, name) for advance in advances] for name in ("sources", "counts", "rises")]
    if 0 < sum(sizes) <= FEW_SOURCES:
        writer.ints(np.concatenate([array for column in columns for array in column]))
    elif advances:
        for column in columns:
            writer.ints(np.concatenate(column))
    writer.number(len(delta.parts))
    for part in delta.parts:
        writer.blob(part)
    return writer.finish()


def read_delta(body: bytes | memoryview) -> Delta:
    """The delta of which this is the byte form; anything else is a `FormatError`."""
    reader = Reader(body)
    chains = reader.texts()
    ranges = _read_ranges(reader, chains)
    advances = _read_advances(reader, chains)
    parts = [reader.view() for _ in range(reader.count())]
    reader.finish()
    # Acceptance looks at the ranges: a delta without any could be accepted again and again.
    if not ranges:
        raise FrameError("a delta covers no stretch")
    return Delta(ranges, advances, parts)


def _read_ranges(reader: Reader, chains: list[str]) -> dict[str, Range]:
    numbers = reader.ints()
    if len(numbers) != 3 * len(chains):
        raise FrameError("a delta has more or fewer stretches than chains")
    epochs, starts, lengths = numbers.reshape(3, -1)
    if any(later <= earlier for earlier, later in pairwise(chains)):
        raise FrameError("chains are named twice or out of order")
    ends = starts + lengths
    if len(chains) and (int(epochs.min()) < 1 or int(starts.min()) < 0 or (ends <= starts).any()):
        raise FrameError("a chain has a stretch that there cannot be")
    return dict(zip(chains, map(Range, epochs.tolist(), starts.tolist(), ends.tolist())))


def _read_advances(reader: Reader, chains: list[str]) -> dict[str, Advance]:
    numbers, latest = reader.ints(), reader.ints()
    if len(numbers) % 2 or len(numbers) != 2 * len(latest):
        raise FrameError("the advances of chains are damaged")
    moved, sizes = numbers.reshape(2, -1)
    total = int(sizes.sum())
    if len(moved) and (int(sizes.min()) < 0 or not int(moved[0]) >= 0 or int(moved[-1]) >= len(chains)):
        raise FrameError("a delta says more than its stretches cover")
    if (moved[1:] <= moved[:-1]).any():
        raise FrameError("the advances of chains are not in order")
    if 0 < total <= FEW_SOURCES:
        lists = reader.ints()
        if len(lists) != 3 * total:
            raise FrameError("the advances of chains are damaged")
        sources, counts, rises = lists.reshape(3, -1)
    elif len(moved):
        sources, counts, rises = reader.ints(), reader.ints(), reader.ints()
    else:
        return {}
    if not len(sources) == len(counts) == len(rises) == total or total and int(counts.min()) < 0:
        raise FrameError("the advances of chains are damaged")
    return _apart([chains[place] for place in moved.tolist()], sizes, latest, sources, counts, rises)


def _apart(
    chains: list[str], sizes: Int64Array, latest: Int64Array, sources: Int64Array, counts: Int64Array, rises: Int64Array
) -> dict[str, Advance]:
    """Each chain's own of all columns."""
    ends = np.cumsum(sizes)
    # A source that is named twice would move once: what is added by number does not add up.
    falls = np.flatnonzero(sources[1:] <= sources[:-1]) + 1
    if len(sources) and (int(sources.min()) < 0 or not np.isin(falls, ends).all()):
        raise FrameError("the sources of a chain are not in order")
    advances, begin = {}, 0
    for chain, end, last in zip(chains, ends.tolist(), latest.tolist()):
        advances[chain] = Advance(sources[begin:end], counts[begin:end], rises[begin:end], last)
        begin = end
    return advances
