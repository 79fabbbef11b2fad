"""Which queries are computed together, and how: the one door between the engine and its query groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from headwater.engine.arrays import Int64Array
from headwater.engine.assembler import Closed
from headwater.engine.chunk import Chunk
from headwater.engine.group import Dropped, QueryGroup
from headwater.engine.intake import TimeScan
from headwater.engine.keys import KeyTable
from headwater.engine.output import NODE_KEY, AliasPlan, Layout, alias_plans, piece_columns
from headwater.engine.registered import Registered
from headwater.engine.replay import ReplayGroup
from headwater.query import Query
from headwater.times import NEVER
from headwater.windows import Band, Custom, Punctuated, Session, Sliding


class Group(Protocol):
    """What a family needs of a group, whichever way it computes."""

    keys: KeyTable
    watermark: int
    slice_count: int
    calculation_count: int

    def queries(self) -> list[Registered]: ...
    def register(self, entries: Iterable[Registered]) -> None: ...
    def unregister(self, number: int) -> None: ...
    def changed(self) -> None: ...
    def prepare(self, types: Mapping[str, pa.DataType]) -> None: ...
    def accept(
        self, chunk: Chunk, arrays: Mapping[str, pa.Array], scan: TimeScan, watermarks: Int64Array | int
    ) -> list[Dropped]: ...
    def close(self, until: int) -> list[Closed]: ...
    def counters(self, number: int) -> dict[str, int]: ...
    def row_count(self) -> int: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None: ...


def needs_replay(query: Query) -> bool:
    """Whether a query's windows are computed from kept events: because members depend on each other (distinct), because a
    late event can move a marker's bounds, or because windows of several nodes are matched."""
    window = query.window
    if query.distinct is not None or query.scope in ("ordinal", "matched", "overlap") or isinstance(window, Custom):
        return True
    if isinstance(window, Punctuated) and not window.include_markers:
        return True
    moves = not isinstance(window, Sliding | Band) and window.measure == "time" and not _plain_session(query)
    return moves and query.lateness > 0


def _plain_session(query: Query) -> bool:
    return isinstance(query.window, Session) and query.window.max_duration is None


def family_of(entry: Registered, mode: str) -> tuple[Any, ...]:
    """Queries with equal names are computed together."""
    query = entry.query
    if mode in ("debucket", "cebuffer"):
        return (mode, entry.number)
    if needs_replay(query):
        return ("replay", entry.number)
    # Windows that need the final order count from their begin: those that come later count for themselves.
    begin = NEVER if isinstance(query.window, Sliding | Band) or _plain_session(query) else entry.begin
    where = None if query.where is None else query.where.key()
    name = ("shared", group_keys(query), where, begin)
    if mode in ("desw", "scotty"):
        name = (*name, query.window.measure, tuple(aggregation for _, aggregation in query.aggregates))
    return name


def group_keys(query: Query) -> tuple[str, ...]:
    return (NODE_KEY, *query.keys) if query.scope != "global" else query.keys


class Family:
    """A group with the plan of its output."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._plans: dict[str, AliasPlan] | None = None

    @classmethod
    def create(cls, entry: Registered, mode: str, watermark: int) -> Family:
        """The family of a first query; ``watermark`` is where the engine stands."""
        query = entry.query
        name = family_of(entry, mode)
        group: Group
        if name[0] == "shared":
            group = QueryGroup(group_keys(query), query.where, name[3])
        else:
            group = ReplayGroup(group_keys(query), query.where)
        group.watermark = watermark
        return cls(group)

    @property
    def watermark(self) -> int:
        return self.group.watermark

    @property
    def slice_count(self) -> int:
        return self.group.slice_count

    @property
    def calculation_count(self) -> int:
        return self.group.calculation_count

    @property
    def row_count(self) -> int:
        return self.group.row_count()

    def register(self, entries: Sequence[Registered]) -> None:
        self.group.register(entries)
        self._plans = None

    def unregister(self, number: int) -> None:
        self.group.unregister(number)
        self._plans = None

    def changed(self) -> None:
        self.group.changed()

    def prepare(self, types: Mapping[str, pa.DataType]) -> None:
        self.group.prepare(types)

    def accept(
        self, chunk: Chunk, arrays: Mapping[str, pa.Array], scan: TimeScan, watermarks: Int64Array | int
    ) -> list[Dropped]:
        return self.group.accept(chunk, arrays, scan, watermarks)

    def close(
        self, until: int, layout: Layout, types: Mapping[str, pa.DataType]
    ) -> list[tuple[dict[str, pa.Array], Int64Array]]:
        """What closes, as columns with the rank of each row's key."""
        pieces = self.group.close(until)
        if not pieces:
            return []
        if self._plans is None:
            self._plans = alias_plans(self.group.queries())
        ranks = self.group.keys.ranks()
        plans, keys = self._plans, self.group.keys
        return [(piece_columns(piece, plans, keys, layout, types), ranks[piece.key]) for piece in pieces]

    def counters(self, number: int) -> dict[str, int]:
        return self.group.counters(number)

    def state(self) -> dict[str, Any]:
        return self.group.state()

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        self.group.restore(state, types)
