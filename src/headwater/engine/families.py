"""Which queries are computed together, and how: the one door between the engine and its query groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.counting.leaf import CountLeafGroup
from headwater.engine.counting.root import CountRootGroup
from headwater.engine.groups.baselines.buckets import BucketGroup, can_split, overlap
from headwater.engine.groups.replay.group import ReplayGroup
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import TimeScan, scan_times
from headwater.engine.intake.keys import NODE_KEY, KeyTable
from headwater.engine.placement import Way, needs_replay, placement
from headwater.engine.results.output import Layout, OutputPlan, ResultColumns, piece_columns
from headwater.engine.tree.marker_cuts import CutLeafGroup, CutRootGroup
from headwater.engine.tree.raw import RawGroup
from headwater.engine.windows.assembler import Closed
from headwater.engine.windows.late import Dropped
from headwater.engine.windows.registered import Registered, one_of_each
from headwater.language.modes import COUNTING, HALVES, LARGE_ONLY, LEAVES, ONE_WAY
from headwater.language.query import Query
from headwater.language.times import NEVER
from headwater.language.windows import Band, CountWindow, Session, Sliding

#: All queries of a leaf that need events as they are: these travel once for all.
RAW_FAMILY = ("raw",)


class Group(Protocol):
    """What a family needs of a group, whichever way it computes."""

    keys: KeyTable
    watermark: int

    @property
    def slice_count(self) -> int: ...
    @property
    def calculation_count(self) -> int: ...
    def queries(self) -> list[Registered]: ...
    def register(self, entries: Iterable[Registered]) -> None: ...
    def unregister(self, number: int) -> None: ...
    def changed(self) -> None: ...
    def prepare(self, types: Mapping[str, pa.DataType]) -> None: ...
    def accept(
        self, chunk: Chunk, arrays: Mapping[str, pa.Array], scan: TimeScan, watermarks: Int64Array | int
    ) -> list[Dropped]: ...
    def expected_rows(self, until: int) -> int: ...
    def close(self, until: int) -> list[Closed]: ...
    def counters(self, number: int) -> dict[str, int]: ...
    def count(self, seen: int, filtered: int, early: int) -> None: ...
    def row_count(self) -> int: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None: ...


def family_of(entry: Registered, mode: str) -> tuple[Any, ...]:
    """Queries with equal names are computed together."""
    query = entry.query
    if mode in ("debucket", "cebuffer"):
        return (mode, entry.number)
    if mode in LEAVES and way_of(query, mode) == "raw":
        return RAW_FAMILY
    if needs_replay(query):
        return ("replay", entry.number)
    where = None if query.where is None else query.where.key()
    name: tuple[Any, ...] = ("shared", group_keys(query), where, _begin(entry))
    if mode in HALVES:
        # What travels in the same way is computed together.
        name = (*name, way_of(query, mode))
        if isinstance(query.window, CountWindow):
            # Positions over all events and those of each key are proven apart.
            name = (*name, query.window.per)
    if mode in ("desw", "scotty"):
        name = (*name, query.window.measure, tuple(aggregation for _, aggregation in query.aggregates))
    return name


def way_of(query: Query, mode: str) -> Way:
    """How a query is computed by halves of an engine in this mode."""
    return placement(query, mode not in ONE_WAY, mode in COUNTING, mode in LARGE_ONLY).way


def group_keys(query: Query) -> tuple[str, ...]:
    """The key columns, and behind them the node where each node's windows stand for themselves."""
    return (*query.keys, NODE_KEY) if query.scope == "node" else query.keys


def _begin(entry: Registered) -> int:
    """Windows that need the final order count from their begin: those that come later count for themselves."""
    return NEVER if isinstance(entry.query.window, Sliding | Band | Session) else entry.begin


def _group_of(entry: Registered, mode: str) -> Group:
    query = entry.query
    keys, where = group_keys(query), query.where
    if mode in HALVES and way_of(query, mode) == "cuts":
        return (CutLeafGroup if mode in LEAVES else CutRootGroup)(keys, where, _begin(entry))
    if mode in HALVES and way_of(query, mode) == "counts":
        return (CountLeafGroup if mode in LEAVES else CountRootGroup)(keys, where, _begin(entry))
    if mode in LEAVES and way_of(query, mode) == "raw":
        return RawGroup()
    if mode == "cebuffer" or needs_replay(query):
        return ReplayGroup(keys, where)
    if mode == "debucket" and overlap(query) > 1:
        return BucketGroup(keys, where, _begin(entry)) if can_split(query) else ReplayGroup(keys, where)
    return QueryGroup(keys, where, _begin(entry))


class Family:
    """A group with the plan of its output."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._plan: OutputPlan | None = None
        self.columns: frozenset[str] = frozenset()
        self.malformed = 0
        self._malformed_before: dict[int, int] = {}

    @classmethod
    def create(cls, entry: Registered, mode: str, watermark: int) -> Family:
        """The family of a first query; ``watermark`` is where the engine stands."""
        group = _group_of(entry, mode)
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

    def expected_rows(self, until: int) -> int:
        return self.group.expected_rows(until)

    @property
    def row_count(self) -> int:
        return self.group.row_count()

    def register(self, entries: Sequence[Registered]) -> None:
        self.group.register(entries)
        self._malformed_before |= dict.fromkeys((entry.number for entry in entries), self.malformed)
        self._changed()

    def unregister(self, number: int) -> None:
        self.group.unregister(number)
        del self._malformed_before[number]
        self._changed()

    def _changed(self) -> None:
        self._plan = None
        self.columns = frozenset().union(*(entry.query.columns() for entry in one_of_each(self.group.queries())))

    def changed(self) -> None:
        self.group.changed()

    def prepare(self, types: Mapping[str, pa.DataType]) -> None:
        self.group.prepare(types)

    def accept(
        self,
        chunk: Chunk,
        arrays: Mapping[str, pa.Array],
        scan: TimeScan,
        watermarks: Int64Array | int,
        misfits: Mapping[str, Iterable[int]],
    ) -> list[Dropped]:
        """Take in events. ``misfits``: per column those with a value of a wrong type; who reads it goes without them."""
        wrong = {row for name, rows in misfits.items() if name in self.columns for row in rows}
        if wrong:
            self.malformed += len(wrong)
            fits = np.ones(len(chunk), np.bool_)
            fits[list(wrong)] = False
            kept = np.flatnonzero(fits)
            if len(kept) == 0:
                return []
            chunk = chunk.take(kept)
            arrays = {name: array.take(pa.array(kept)) for name, array in arrays.items()}
            scan = scan_times(chunk.times)
            watermarks = watermarks if isinstance(watermarks, int) else watermarks[kept]
        return self.group.accept(chunk, arrays, scan, watermarks)

    def close(self, until: int, layout: Layout, types: Mapping[str, pa.DataType]) -> list[ResultColumns]:
        """What closes, as columns."""
        return self.pieces(self.group.close(until), layout, types)

    def pieces(self, closed: list[Closed], layout: Layout, types: Mapping[str, pa.DataType]) -> list[ResultColumns]:
        """Closed windows as columns."""
        if not closed:
            return []
        if self._plan is None:
            self._plan = OutputPlan(self.group.queries(), types)
        plan, keys = self._plan, self.group.keys
        made = []
        for piece in closed:
            columns, overflow_count = piece_columns(piece, plan, keys, layout)
            made.append(ResultColumns(columns, piece.key, keys.ranks(), piece.is_sorted, overflow_count))
        return made

    def count(self, seen: int, filtered: int, early: int, malformed: int) -> None:
        """Events that another half of the engine has seen."""
        self.group.count(seen, filtered, early)
        self.malformed += malformed

    def counters(self, number: int) -> dict[str, int]:
        malformed = self.malformed - self._malformed_before[number]
        counts = self.group.counters(number)
        return counts | {"in": counts["in"] + malformed, "malformed": malformed}

    def state(self) -> dict[str, Any]:
        before = [list(pair) for pair in self._malformed_before.items()]
        return {"group": self.group.state(), "malformed": self.malformed, "malformed_before": before}

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        self.group.restore(state["group"], types)
        self.malformed = state["malformed"]
        self._malformed_before = dict(map(tuple, state["malformed_before"]))
