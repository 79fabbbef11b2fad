"""A leaf's deltas for several roots: each gets the same stretch of the same chain, with the parts of its own keys."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.engine.part_bytes import part_to_bytes
from headwater.engine.part_split import KeyNames, split_part
from headwater.engine.parts import ALL_RAW, Part
from headwater.engine.placement import placement
from headwater.engine.query_set import QuerySet
from headwater.packing import Bytes
from headwater.windows import CountWindow

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Splitting:
    """How many roots there are, and by which key columns the families of queries can be taken apart."""

    roots: int = 1
    key_names: KeyNames = field(default_factory=dict)

    @classmethod
    def of(cls, queries: QuerySet, roots: int) -> Splitting:
        return cls(roots, key_names(queries)) if roots > 1 else cls()


def part_shares(part: Part, splitting: Splitting) -> Mapping[int, bytes]:
    """The bytes of a part for each root that gets any of it."""
    if splitting.roots == 1:
        return {0: part_to_bytes(part)}
    shares = split_part(part, splitting.roots, splitting.key_names)
    return {root: part_to_bytes(share) for root, share in shares.items()}


def key_names(queries: QuerySet) -> dict[int, tuple[str, ...]]:
    """The key columns by which each family, by its number, can be taken apart.

    How far windows without events go is a matter of all keys together. Events that several queries share can be taken apart
    only if all of these go by the same keys.
    """
    together = {entry.query.keys for entry in queries.entries if entry.query.emit_empty}
    names = {e.number: () if e.query.keys in together else e.query.keys for e in queries.entries}
    sharing = [e.query for e in queries.entries if placement(e.query, queries.round_trips).way == "raw"]
    keys = {query.keys for query in sharing}
    counts_all = any(isinstance(query.window, CountWindow) and query.window.per == "all" for query in sharing)
    return {**names, ALL_RAW: keys.pop() if len(keys) == 1 and not counts_all and not keys & together else ()}


def bundle(frames: Sequence[bytes]) -> bytes:
    """Several frames as one.

    >>> [bytes(frame) for frame in unbundled(bundle([b"a", b"bc"]), 2)]
    [b'a', b'bc']
    """
    return b"".join([*(_LENGTH.pack(len(frame)) for frame in frames), *frames])


def unbundled(data: Bytes, count: int) -> list[Bytes]:
    """The frames of a bundle of so many; a single frame is no bundle."""
    if count == 1:
        return [data]
    view, at = memoryview(data), count * _LENGTH.size
    frames: list[Bytes] = []
    for number in range(count):
        (length,) = _LENGTH.unpack_from(view, number * _LENGTH.size)
        frames.append(view[at : at + length])
        at += length
    return frames
