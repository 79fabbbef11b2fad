"""A leaf's deltas for several roots: each gets the same stretch of the same chain, with the parts of its own keys."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.base.packing import Bytes
from headwater.engine.placement import placement
from headwater.engine.wire.part_bytes import part_to_bytes
from headwater.engine.wire.parts import ALL_RAW, Part
from headwater.engine.wire.query_set import QuerySet
from headwater.engine.wire.split import KeyNames, split_part
from headwater.language.query import Query
from headwater.language.windows import CountWindow

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Sharing:
    """What roots agree on about their keys, once and for good: what one of them has begun, no other can go on with.

    ``raw_keys``: by which keys events are taken apart that travel as they are, none if they meet on one root. ``together``: keys
    of which one root has all, for windows without events depend on all of them.
    """

    raw_keys: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, queries: Sequence[Query], round_trips: bool) -> Sharing:
        """Events that several queries share can be taken apart only if all of these go by the same keys."""
        together = {query.keys for query in queries if query.emit_empty}
        sharing = [query for query in queries if placement(query, round_trips).way == "raw"]
        keys = {query.keys for query in sharing}
        can_share = len(keys) == 1 and not any(map(_counts_all, sharing)) and not keys & together
        return cls(keys.pop() if can_share else (), tuple(sorted(together)))

    def problem(self, query: Query, round_trips: bool) -> str | None:
        """Why a query cannot join the others."""
        is_raw = placement(query, round_trips).way == "raw"
        if is_raw and self.raw_keys and (query.keys != self.raw_keys or _counts_all(query)):
            return f"its events travel, and those of the others are shared among roots by {', '.join(self.raw_keys)}"
        if query.emit_empty and query.keys and query.keys not in self.together:
            return f"it has windows without events, and {', '.join(query.keys)} are shared among roots"
        return None


def _counts_all(query: Query) -> bool:
    return isinstance(query.window, CountWindow) and query.window.per == "all"


@dataclass(frozen=True, slots=True)
class Splitting:
    """How many roots there are, and by which key columns the families of queries can be taken apart."""

    roots: int = 1
    key_names: KeyNames = field(default_factory=dict)

    @classmethod
    def of(cls, queries: QuerySet, roots: int, sharing: Sharing | None = None) -> Splitting:
        """With ``sharing`` as it was agreed before; else as it fits these queries."""
        if roots == 1:
            return cls()
        if sharing is None:
            sharing = Sharing.of([entry.query for entry in queries.entries], queries.round_trips)
        return cls(roots, key_names(queries, sharing))


def part_shares(part: Part, splitting: Splitting) -> Mapping[int, bytes]:
    """The bytes of a part for each root that gets any of it."""
    if splitting.roots == 1:
        return {0: part_to_bytes(part)}
    shares = split_part(part, splitting.roots, splitting.key_names)
    return {root: part_to_bytes(share) for root, share in shares.items()}


def key_names(queries: QuerySet, sharing: Sharing) -> dict[int, tuple[str, ...]]:
    """The key columns by which each family, by its number, can be taken apart."""
    names = {e.number: () if e.query.keys in sharing.together else e.query.keys for e in queries.entries}
    return {**names, ALL_RAW: sharing.raw_keys}


def bundle(frames: Sequence[bytes]) -> bytes:
    """Several frames as one.

    >>> [bytes(frame) for frame in unbundled(bundle([b"a", b"bc"]), 2)]
    [b'a', b'bc']
    """
    return b"".join([*(_LENGTH.pack(len(frame)) for frame in frames), *frames])


def unbundled(data: Bytes, count: int) -> list[Bytes]:
    """The ``count`` frames of a bundle; a single frame is no bundle."""
    if count == 1:
        return [data]
    view, at = memoryview(data), count * _LENGTH.size
    frames: list[Bytes] = []
    for number in range(count):
        (length,) = _LENGTH.unpack_from(view, number * _LENGTH.size)
        frames.append(view[at : at + length])
        at += length
    return frames
