"""The delta: what a stretch of one or several chains adds, and how far their sources have come.

A chain is the sequence of deltas of one leaf: one source, or a group of up to thousands. Its positions count its deltas. Deltas
of neighbouring stretches, and of different chains, may be combined at any time and in any grouping; the combination says the
same as its parts. What the parts hold is opaque here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headwater.base.names import are_ascending
from headwater.base.packing import Bytes, Reader, Writer
from headwater.protocols.advances import Advance, Advances, added
from headwater.protocols.frames import FrameError

#: The advances of so few sources are written as one list.
FEW_SOURCES = 64
#: A leaf has a second chain, of what it cuts where the root says; its positions are the numbers of cuts.
CUT_SUFFIX = "#cuts"
#: More chains than this are in no message: whoever names so many has made them up.
CHAINS_MAX = 1 << 16


class ChainRange(NamedTuple):
    """The stretch [start, end) of a chain, sent by the owner of ``epoch``."""

    epoch: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Delta:
    """``ranges``: which stretch of which chain; ``advances``: how their sources moved; ``parts``: what they add."""

    ranges: Mapping[str, ChainRange]
    advances: Mapping[str, Advance] = field(default_factory=dict)
    parts: Sequence[Bytes] = ()


#: Makes one list of parts out of several: those of deltas in the order of their chains.
Merge = Callable[[Sequence[Sequence[Bytes]]], Sequence[Bytes]]


def combine(deltas: Sequence[Delta], merge: Merge) -> Delta:
    """One delta for several: neighbours of a chain in their order, chains in any.

    >>> one = Delta({"a": ChainRange(1, 0, 1)}, {"a": Advance.of([0], [5], [10])}, [b"x"])
    >>> two = Delta({"a": ChainRange(1, 1, 2)}, {"a": Advance.of([0, 1], [2, 1], [1, 7])}, [b"y"])
    >>> both = combine([one, two], lambda lists: [part for parts in lists for part in parts])
    >>> both.ranges["a"], both.advances["a"].counts, both.parts
    (ChainRange(epoch=1, start=0, end=2), array([7, 1]), [b'x', b'y'])
    """
    ranges: dict[str, ChainRange] = {}
    moved: dict[str, list[Advance]] = {}
    for delta in deltas:
        for chain, stretch in delta.ranges.items():
            before = ranges.get(chain)
            if before is not None and (before.epoch, before.end) != (stretch.epoch, stretch.start):
                raise ValueError(f"chain {chain!r}: {stretch} does not follow {before}")
            ranges[chain] = stretch if before is None else ChainRange(stretch.epoch, before.start, stretch.end)
        for chain, advance in delta.advances.items():
            moved.setdefault(chain, []).append(advance)
    return Delta(
        ranges, {chain: added(parts) for chain, parts in moved.items()}, merge([delta.parts for delta in deltas])
    )


def delta_body(delta: Delta) -> bytes:
    """The byte form; equal deltas have equal bytes.

    In columns over all chains: a relay's delta is of hundreds, and a list costs about as much as the few numbers of a chain.
    """
    chains = sorted(delta.ranges)
    writer = Writer().texts(chains)
    stretches = [delta.ranges[chain] for chain in chains]
    writer.ints(np.array([[s.epoch, s.start, s.end - s.start] for s in stretches], np.int64).T.ravel())
    apart = dict(delta.advances.items())
    moved = [place for place, chain in enumerate(chains) if chain in apart]
    advances = Advances.of({chains[place]: apart[chains[place]] for place in moved})
    writer.ints(np.concatenate((np.array(moved, np.int64), advances.sizes))).ints(advances.latest)
    columns = advances.sources, advances.counts, advances.rises
    if 0 < len(advances.sources) <= FEW_SOURCES:
        writer.ints(np.concatenate(columns))
    elif moved:
        for column in columns:
            writer.ints(column)
    writer.number(len(delta.parts))
    for part in delta.parts:
        writer.blob(part)
    return writer.finish()


def read_delta(body: bytes | memoryview) -> Delta:
    """The delta of which this is the byte form; anything else is a `FormatError`."""
    reader = Reader(body)
    chains = reader.texts(CHAINS_MAX)
    ranges = _read_ranges(reader, chains)
    advances = _read_advances(reader, chains)
    parts = [reader.view() for _ in range(reader.count())]
    reader.finish()
    # Acceptance looks at the ranges: a delta without any could be accepted again and again.
    if not ranges:
        raise FrameError("a delta covers no stretch")
    return Delta(ranges, advances, parts)


def _read_ranges(reader: Reader, chains: tuple[str, ...]) -> dict[str, ChainRange]:
    numbers = reader.ints()
    if len(numbers) != 3 * len(chains):
        raise FrameError("a delta has more or fewer stretches than chains")
    epochs, starts, lengths = numbers.reshape(3, -1)
    if not are_ascending(chains):
        raise FrameError("chains are named twice or out of order")
    ends = starts + lengths
    if len(chains) and (int(epochs.min()) < 1 or int(starts.min()) < 0 or (ends <= starts).any()):
        raise FrameError("a chain has a stretch that there cannot be")
    return dict(zip(chains, map(ChainRange._make, zip(epochs.tolist(), starts.tolist(), ends.tolist()))))


def _read_advances(reader: Reader, chains: tuple[str, ...]) -> Advances:
    numbers, latest = reader.ints(), reader.ints()
    if len(numbers) % 2 or len(numbers) != 2 * len(latest):
        raise FrameError("the advances of chains are damaged")
    moved, sizes = numbers.reshape(2, -1)
    total = int(sizes.sum())
    if len(moved) and (
        not 0 <= int(sizes.min()) <= int(sizes.max()) < 1 << 32
        or not int(moved[0]) >= 0
        or int(moved[-1]) >= len(chains)
    ):
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
        return Advances.of({})
    if not len(sources) == len(counts) == len(rises) == total or total and int(counts.min()) < 0:
        raise FrameError("the advances of chains are damaged")
    # A source that is named twice would move once: what is added by number does not add up.
    is_first = np.zeros(total + 1, np.bool_)
    is_first[np.cumsum(sizes)] = True
    if total and (int(sources.min()) < 0 or not (is_first[1:-1] | (sources[1:] > sources[:-1])).all()):
        raise FrameError("the sources of a chain are not in order")
    names = chains if len(moved) == len(chains) else tuple([chains[place] for place in moved.tolist()])
    return Advances(names, sizes, latest, sources, counts, rises)
