"""A delta taken apart for several roots: each gets the same stretch of the same chains, with the parts of its own keys."""

from __future__ import annotations

from headwater.engine.aggregates import operators_of
from headwater.engine.part_bytes import part_from_bytes, part_to_bytes
from headwater.engine.part_split import split_part
from headwater.engine.parts import ALL_RAW
from headwater.engine.placement import placement
from headwater.engine.query_set import QuerySet
from headwater.packing import Bytes
from headwater.protocols.delta import Delta
from headwater.protocols.messages import decode, encode
from headwater.windows import CountWindow


class Splitter:
    """Knows by which keys the families of some queries can be taken apart."""

    def __init__(self, queries: QuerySet, buckets: int) -> None:
        self._key_names = key_names(queries)
        # A user's own need no path to be found by, as long as they stay in one process.
        own = [a for e in queries.entries for _, a in e.query.aggregates if a.function == "user"]
        self._operators = [op for aggregation in own for op in operators_of(aggregation, None)]
        self._buckets = buckets

    def split(self, frame: Bytes) -> list[Bytes]:
        """The frame for each root; what is no delta goes to all of them as it is."""
        message = decode(frame) if self._buckets > 1 else None
        if not isinstance(message, Delta):
            return [frame] * self._buckets
        shares: list[list[Bytes]] = [[] for _ in range(self._buckets)]
        for data in message.parts:
            whole = part_from_bytes(data, self._operators)
            for bucket, part in split_part(whole, self._buckets, self._key_names).items():
                shares[bucket].append(data if part is whole else part_to_bytes(part))
        return [encode(Delta(message.ranges, message.advances, share)) for share in shares]


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
