"""The queries of a group: which windows they have, which operators they share, and where events are cut for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from headwater.engine.groups.work import WorkCount
from headwater.engine.intake.chunk import Chunk, blank
from headwater.engine.intake.keys import KeyTable
from headwater.engine.intake.reorder import ReorderBuffer
from headwater.engine.operators.operator import COUNT, Op
from headwater.engine.operators.partials import PartialColumn, lift
from headwater.engine.results.aggregates import operators_of
from headwater.engine.slices.edges import Edges, fixed_spec
from headwater.engine.slices.order_slicer import CountState
from headwater.engine.slices.store import RowStore
from headwater.engine.windows.counts import CountQuery, CountWalk, count_table
from headwater.engine.windows.fixed import FixedWindows
from headwater.engine.windows.late import Stragglers
from headwater.engine.windows.markers import CutQuery, Walk
from headwater.engine.windows.registered import Registered, one_of_each
from headwater.engine.windows.sessions import SessionWindows
from headwater.language.expressions import Expr
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, CountWindow, Session, Sliding


@dataclass(slots=True)
class Totals:
    """What a group has seen, or had seen when a query came: ``clean`` events went into slices."""

    seen: int = 0
    filtered: int = 0
    clean: int = 0
    early: int = 0  # before the group's begin


class GroupQueries:
    """Queries that share everything. ``begin``: events before it belong to none of them."""

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int = NEVER) -> None:
        self.key_names = keys
        self.where = where
        self.begin = begin
        self.keys = KeyTable(keys)
        self.fixed = FixedWindows()
        self.sessions: list[SessionWindows] = []
        self.cut_queries: list[CutQuery] = []
        self.walks: list[Walk] = []  # one for all cut queries of the same window
        self.count_queries: list[CountQuery] = []
        self.count_walks: list[CountWalk] = []
        self.conditions: list[Expr] = []
        self.in_order = False  # once events wait for their order they always do: none must get lost on the way
        self.ops: list[Op] = []
        self.store = RowStore()
        self.stragglers = Stragglers()
        self.buffer = ReorderBuffer()
        self.watermark = NEVER
        self.totals = Totals()
        self.position = 0
        self.by_key = CountState(np.empty((0, 3), np.int64), np.empty(0, np.int64))
        self.work = WorkCount()
        self._baselines: dict[int, Totals] = {}
        self._spreads: dict[str, tuple[int, int]] = {}
        self._template: dict[Op, PartialColumn] = {}
        self._types: Mapping[str, pa.DataType] = {}
        self._edges = Edges([])
        self._dirty = True

    def queries(self) -> list[Registered]:
        others = [query.entry for query in self._others()]
        return sorted([*self.fixed.queries, *others], key=lambda entry: entry.number)

    def _others(self) -> list[SessionWindows | CutQuery | CountQuery]:
        """All but the fixed windows, which are computed in bulk."""
        return [*self.sessions, *self.cut_queries, *self.count_queries]

    def register(self, entries: Iterable[Registered]) -> None:
        waiting = len(self.buffer)
        for entry in entries:
            window = entry.query.window
            if isinstance(window, Sliding | Band):
                self.fixed.add(entry, waiting)
            elif isinstance(window, CountWindow):
                self.in_order = True
                self.count_queries.append(CountQuery(entry, _shared(self.count_walks, CountWalk(entry))))
            elif isinstance(window, Session):
                self.sessions.append(SessionWindows(entry, waiting))
            else:
                self.in_order = True
                walk = Walk(entry, [self._condition(expr) for expr in window.conditions()])
                self.cut_queries.append(CutQuery(entry, _shared(self.walks, walk)))
            self._baselines[entry.number] = Totals(
                self.totals.seen, self.totals.filtered, self.totals.clean, self.totals.early
            )
        self._dirty = True

    def _condition(self, expr: Expr) -> int:
        for i, known in enumerate(self.conditions):
            if known.key() == expr.key():
                return i
        self.conditions.append(expr)
        return len(self.conditions) - 1

    def unregister(self, number: int) -> None:
        self.fixed.queries = [entry for entry in self.fixed.queries if entry.number != number]
        self.sessions = [q for q in self.sessions if q.entry.number != number]
        self.cut_queries = [q for q in self.cut_queries if q.entry.number != number]
        self.count_queries = [q for q in self.count_queries if q.entry.number != number]
        self.walks = _without(self.walks, number)
        self.count_walks = _without(self.count_walks, number)
        self._drop_conditions()
        self._dirty = True

    def _drop_conditions(self) -> None:
        """Conditions that no query has any more are not evaluated any more."""
        used = sorted({i for walk in self.walks for i in walk.conditions})
        self.conditions = [self.conditions[i] for i in used]
        for part in self.buffer.parts:
            part.markers = [part.markers[i] for i in used]
        for walk in self.walks:
            walk.conditions = [used.index(i) for i in walk.conditions]

    def changed(self) -> None:
        """A query's stretch of life was changed from outside."""
        self._dirty = True

    def prepare(self, types: Mapping[str, pa.DataType]) -> None:
        """Work out operators and edges after a change of queries; ``types`` of the columns are known now."""
        if not self._dirty:
            return
        self.fixed.refresh()
        entries = self.queries()
        wanted = dict.fromkeys([COUNT])
        for aggregation in {
            id(aggregation): aggregation for entry in one_of_each(entries) for _, aggregation in entry.query.aggregates
        }.values():
            column_type = None if aggregation.column is None else types.get(aggregation.column, pa.float64())
            wanted.update(dict.fromkeys(operators_of(aggregation, column_type)))
        self._types = types
        self._change_operators(list(wanted))
        # A query that came later sees nothing before its begin: an edge there keeps rows on one side.
        begins = {entry.begin for entry in entries} - {NEVER}
        extra = [fixed_spec(Band(begin, 2**60), NEVER, FOREVER) for begin in sorted(begins)]
        self._edges = Edges([*map(tuple, self.fixed.specs.tolist()), *extra]) if extra else self.fixed.edges
        by_key = count_table([walk for walk in self.count_walks if walk.by_key])
        self.by_key = CountState(by_key, self.by_key.base)
        self._over_all = count_table([walk for walk in self.count_walks if not walk.by_key])
        self._gap = min((q.gap for q in self.sessions), default=None)
        self._dirty = False

    def _change_operators(self, ops: list[Op]) -> None:
        for block in self.store.blocks() if self.sessions else ():
            block.last = block.first if block.last is None else block.last
        if ops == self.ops:
            return
        names = sorted({op.column for op in ops if op.column is not None})
        empty = Chunk(*_NOTHING, [], {name: blank(self._types.get(name, pa.float64()), 0) for name in names})
        self._template = lift(ops, empty, np.empty(0, np.int32), 0)
        for block in self.store.blocks():
            zeros = np.zeros(len(block), np.int64)
            for op in ops:
                # Rows from before the query came are in none of its windows: whatever stands there is never read.
                block.partials.setdefault(op, self._template[op].combine_ranges(zeros, zeros))
            block.partials = {op: block.partials[op] for op in ops}
        for chunk in [*(part.chunk for part in self.buffer.parts), *self.stragglers.chunks()]:
            for name in names:
                chunk.columns.setdefault(name, blank(self._types.get(name, pa.float64()), len(chunk)))
        self.ops = ops


_AnyWalk = TypeVar("_AnyWalk", Walk, CountWalk)


def _shared(walks: list[_AnyWalk], fresh: _AnyWalk) -> _AnyWalk:
    """The walk that comes to the same windows as a fresh one; the fresh one itself if there is none yet."""
    for walk in walks:
        if walk.serves(fresh):
            return walk
    walks.append(fresh)
    return fresh


def _without(walks: list[_AnyWalk], number: int) -> list[_AnyWalk]:
    """The walks that are left when a query goes."""
    for walk in walks:
        walk.entries = [entry for entry in walk.entries if entry.number != number]
    return [walk for walk in walks if walk.entries]


_NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))
