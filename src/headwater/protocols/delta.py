"""The delta: what a stretch of one or several chains adds, and how far their sources have come.

A chain is the sequence of deltas of one leaf: one source, or a group of up to thousands. Its positions count its deltas. Deltas
of neighbouring stretches, and of different chains, may be combined at any time and in any grouping; the combination says the
same as its parts. What the parts hold is opaque here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.arrays import Int64Array
from headwater.packing import Bytes, Reader, Writer
from headwater.protocols.frames import FrameError

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
    """The byte form; equal deltas have equal bytes."""
    writer = Writer()
    writer.number(len(delta.ranges))
    for chain, stretch in sorted(delta.ranges.items()):
        writer.blob(chain.encode())
        writer.number(stretch.epoch)
        writer.number(stretch.start)
        writer.number(stretch.end - stretch.start)
    writer.number(len(delta.advances))
    for chain, advance in sorted(delta.advances.items()):
        writer.blob(chain.encode())
        writer.ints(advance.sources)
        writer.ints(advance.counts)
        writer.ints(advance.rises)
        writer.signed(advance.latest)
    writer.number(len(delta.parts))
    for part in delta.parts:
        writer.blob(part)
    return writer.finish()


def read_delta(body: bytes | memoryview) -> Delta:
    """The delta of which this is the byte form; anything else is a `FormatError`."""
    reader = Reader(body)
    ranges = _read_ranges(reader)
    advances = _read_advances(reader)
    parts = [reader.view() for _ in range(reader.count())]
    reader.finish()
    # Acceptance looks at the ranges: whatever moves without one would move again with every copy of the delta.
    if not ranges or not advances.keys() <= ranges.keys():
        raise FrameError("a delta says more than its stretches cover")
    return Delta(ranges, advances, parts)


def _read_ranges(reader: Reader) -> dict[str, Range]:
    ranges: dict[str, Range] = {}
    for _ in range(reader.count()):
        chain = read_chain(reader, ranges)
        epoch, start, length = reader.number(), reader.number(), reader.number()
        if epoch == 0 or length == 0 or max(epoch, start + length) >= 2**63:
            raise FrameError(f"chain {chain!r} has no stretch of {length} from {start} on in epoch {epoch}")
        ranges[chain] = Range(epoch, start, start + length)
    return ranges


def _read_advances(reader: Reader) -> dict[str, Advance]:
    advances: dict[str, Advance] = {}
    for _ in range(reader.count()):
        chain = read_chain(reader, advances)
        sources, counts, rises, latest = reader.ints(), reader.ints(), reader.ints(), reader.signed()
        if not len(sources) == len(counts) == len(rises) or (counts < 0).any() or wrapped(latest) != latest:
            raise FrameError(f"the advance of chain {chain!r} is damaged")
        # A source that is named twice would move once: what is added by number does not add up.
        if (sources < 0).any() or (sources[1:] <= sources[:-1]).any():
            raise FrameError(f"the sources of chain {chain!r} are not in order")
        advances[chain] = Advance(sources, counts, rises, latest)
    return advances


def read_chain(reader: Reader, before: dict[str, Any]) -> str:
    """The name of the next chain; names come in order, each once."""
    try:
        chain = reader.blob().decode()
    except UnicodeDecodeError as error:
        raise FrameError(f"a chain has a name that is no text: {error}") from error
    if before and chain <= next(reversed(before)):
        raise FrameError(f"chain {chain!r} is named twice or out of order")
    return chain
