"""The windows of a group's queries: which there are, the operators they share, where they cut events, and what closes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.intake.chunk import Chunk, blank
from headwater.engine.intake.reorder import OrderedEvents, ReorderBuffer, concat_stretches
from headwater.engine.operators.operator import COUNT, Op
from headwater.engine.operators.partials import PartialColumn, lift
from headwater.engine.results.aggregates import operators_of, type_read
from headwater.engine.slices.edges import Edges, fixed_spec
from headwater.engine.slices.slicer import SlicedRows
from headwater.engine.slices.store import RowBlock
from headwater.engine.windows.assembler import Closed
from headwater.engine.windows.counts import CountQuery, CountWalk, count_table
from headwater.engine.windows.fixed import FixedWindows, outside_of
from headwater.engine.windows.late import OUTSIDE, Dropped
from headwater.engine.windows.markers import CutQuery, Walk
from headwater.engine.windows.registered import Registered, one_of_each
from headwater.engine.windows.separation import separations
from headwater.engine.windows.sessions import SessionWindows
from headwater.engine.windows.view import View
from headwater.language.expressions import Expr
from headwater.language.query import Query
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, CountWindow, Session, Sliding


class GroupWindows:
    """Queries by their kind of window, and what is worked out from all of them together.

    Invariant: after `prepare` and until queries come or go, ``ops`` are the operators that results need, and ``edges``, ``gap``,
    ``over_all`` and ``by_key`` say where events are cut.
    """

    def __init__(self) -> None:
        self.fixed = FixedWindows()  # of all queries at once: there may be a million
        self.sessions: list[SessionWindows] = []
        self.cut_queries: list[CutQuery] = []
        self.walks: list[Walk] = []  # one for all cut queries of the same window
        self.count_queries: list[CountQuery] = []
        self.count_walks: list[CountWalk] = []
        self.conditions: list[Expr] = []  # of markers; walks name them by their place
        self.ops: list[Op] = []
        self.template: dict[Op, PartialColumn] = {}  # the columns of ``ops`` without rows
        self.edges = Edges([])  # where events are cut for all queries
        self.gap: int | None = None  # the smallest of sessions
        self.over_all = count_table([])  # count windows over all events ...
        self.by_key = count_table([])  # ... and those of each key
        self.is_changed = True  # whether queries came or went, or live longer or shorter than before

    # --- queries ---

    def entries(self) -> list[Registered]:
        others = [query.entry for query in self.others]
        return sorted([*self.fixed.queries, *others], key=lambda entry: entry.number)

    @property
    def others(self) -> list[SessionWindows | CutQuery | CountQuery]:
        """All but the fixed windows, which are computed in bulk."""
        return [*self.sessions, *self.cut_queries, *self.count_queries]

    def add(self, entry: Registered, waiting: int) -> None:
        """A query comes. ``waiting``: events that came before it and are still to be accounted for."""
        window = entry.query.window
        if isinstance(window, Sliding | Band):
            self.fixed.add(entry, waiting)
        elif isinstance(window, CountWindow):
            self.count_queries.append(CountQuery(entry, _shared(self.count_walks, CountWalk(entry))))
        elif isinstance(window, Session):
            self.sessions.append(SessionWindows(entry, waiting))
        else:
            walk = Walk(entry, [self._condition(expr) for expr in window.conditions()])
            self.cut_queries.append(CutQuery(entry, _shared(self.walks, walk)))
        self.is_changed = True

    def _condition(self, expr: Expr) -> int:
        for i, known in enumerate(self.conditions):
            if known.key() == expr.key():
                return i
        self.conditions.append(expr)
        return len(self.conditions) - 1

    def remove(self, numbers: frozenset[int], buffer: ReorderBuffer) -> None:
        """Queries go, and with them the markers of waiting events that only they have asked for."""
        self.fixed.queries = [entry for entry in self.fixed.queries if entry.number not in numbers]
        self.sessions = [q for q in self.sessions if q.entry.number not in numbers]
        self.cut_queries = [q for q in self.cut_queries if q.entry.number not in numbers]
        self.count_queries = [q for q in self.count_queries if q.entry.number not in numbers]
        self.walks = _without(self.walks, numbers)
        self.count_walks = _without(self.count_walks, numbers)
        used = sorted({i for walk in self.walks for i in walk.conditions})
        self.conditions = [self.conditions[i] for i in used]
        for part in buffer.parts:
            part.markers = [part.markers[i] for i in used]
        for walk in self.walks:
            walk.conditions = [used.index(i) for i in walk.conditions]
        self.is_changed = True

    def prepare(self, types: Mapping[str, pa.DataType]) -> bool:
        """Work everything out after a change of queries, by the ``types`` of columns; returns whether there was one."""
        if not self.is_changed:
            return False
        self.fixed.refresh()
        entries = self.entries()
        ops = operators(types, *(entry.query for entry in one_of_each(entries)))
        if ops != self.ops:
            columns = {name: blank(types.get(name, pa.float64()), 0) for name in columns_read(ops)}
            empty = Chunk(np.empty(0, np.int64), 0, 0, [], columns)
            self.ops, self.template = ops, lift(ops, empty, np.empty(0, np.int32), 0)
        # A query that came later sees nothing before its begin: an edge there keeps rows on one side.
        begins = {entry.begin for entry in entries} - {NEVER}
        extra = [fixed_spec(Band(begin, 2**60), NEVER, FOREVER) for begin in sorted(begins)]
        self.edges = Edges([*map(tuple, self.fixed.specs.tolist()), *extra]) if extra else self.fixed.edges
        self.over_all = count_table([walk for walk in self.count_walks if not walk.by_key])
        self.by_key = count_table([walk for walk in self.count_walks if walk.by_key])
        self.gap = min((q.gap for q in self.sessions), default=None)
        self.is_changed = False
        return True

    # --- events ---

    def late(self, times: Int64Array, slices: tuple[Int64Array, Int64Array], marks: Int64Array) -> BoolArray:
        """Events of which some window was over before they came: their slice had ended, or their session could have."""
        over = slices[1][np.searchsorted(slices[0], times, side="right") - 1] <= marks
        if self.gap is not None:
            over |= times < marks - self.gap
        return over

    def account(self, rows: SlicedRows, weights: Int64Array) -> None:
        """Count the events of new rows that lie in no window of a query."""
        self.fixed.account(rows.first, weights)
        for session in self.sessions:
            session.account(rows.first, weights)
        outside = {id(walk): walk.outside(rows, weights) for walk in self.walks}
        for query in self.cut_queries:
            query.counts[OUTSIDE] += outside[id(query.walk)]

    def account_stragglers(self, chunk: Chunk, watermarks: Int64Array) -> list[Dropped]:
        """Count what each new straggler is to each query; returns those that are too late, per query."""
        pairs = self.fixed.account_stragglers(chunk.times, watermarks)
        lost = [(number, pairs[pairs[:, 0] == number, 1]) for number in np.unique(pairs[:, 0]).tolist()]
        lost += [(q.entry.number, q.account_stragglers(chunk.times, watermarks)) for q in self.sessions]
        strict: list[CutQuery | CountQuery] = [*self.cut_queries, *self.count_queries]
        lost += [(q.entry.number, q.account_stragglers(chunk.times)) for q in strict]
        return [Dropped(number, chunk.take(which), watermarks[which]) for number, which in lost if len(which)]

    def slices_of_windows(self, starts: Int64Array) -> Int64Array:
        """The slices to be counted: where a query is alone, not those between its windows."""
        is_alone = len(self.fixed.queries) == 1 and not self.sessions
        return starts[self.fixed.covers(starts)] if is_alone else starts

    # --- windows ---

    def nothing_closes(self, after: int, until: int) -> bool:
        """Whether nothing can close without late events: there are only fixed windows, none of which ends now."""
        return not self.sessions and self.fixed.nothing_closes(after, until)

    def close(
        self,
        view: View,
        buffer: ReorderBuffer,
        after: int,
        until: int,
        is_paced: bool,
        position: int,
        by_key: Int64Array,
    ) -> list[Closed]:
        """Everything that closes or is revised. ``position``, ``by_key``: how many events there were, in all and of each key."""
        pieces = self.fixed.close(view, after, until, is_paced)
        for session in self.sessions:
            pieces.extend(session.close(view, after, until))
        for walk in self.walks:
            pieces.extend(walk.close(view, buffer, until))
        for counted in self.count_walks:
            pieces.extend(counted.close(view, by_key if counted.by_key else np.array([position])))
        return [piece for piece in pieces if len(piece)]

    def needed(self, view: View, until: int) -> tuple[BoolArray, BoolArray]:
        """Which rows and which stragglers a window that is still open, late events included, needs."""
        rows, stragglers = self.fixed.needed(view, until)
        for session in self.sessions:
            more = session.needed(view, until)
            rows, stragglers = rows | more[0], stragglers | more[1]
        for walk in self.walks if view.block is not None else ():
            rows = rows | walk.needed(view)
        for counted in self.count_walks if view.block is not None else ():
            rows = rows | counted.needed(view)
        return rows, stragglers

    def separations(self, block: RowBlock, key_starts: Int64Array) -> BoolArray:
        """For rows sorted by (key, first): whether each must not be combined with the row before it."""
        return separations(block, key_starts, self.edges, self.gap, self.walks, self.over_all, self.by_key)

    # --- keys ---

    @property
    def remembers_keys(self) -> bool:
        """Whether some window needs all keys there ever were: open markers and counts of each key, empty windows."""
        return bool(self.walks) or any(walk.by_key for walk in self.count_walks) or self.fixed.remembers_keys

    def keys_in_use(self) -> list[Int32Array]:
        used = [self.fixed.keys_in_use(), *(session.history.keys_in_use() for session in self.sessions)]
        return [np.array(keys, np.int32) for keys in used]

    def renumber(self, numbers: Int32Array) -> None:
        """Keys have new numbers."""
        self.fixed.renumber(numbers)
        for session in self.sessions:
            session.history.renumber(numbers)

    # --- accounts and snapshots ---

    def counts(
        self, number: int, waiting: list[OrderedEvents], position: int, by_key: Int64Array, key_count: int
    ) -> Int64Array:
        """What became of events for a query (MEMBER, LATE, DROPPED, OUTSIDE), besides the members that are in slices.

        Of events that wait for their order, those count as outside that are in no window as things stand.
        """
        fixed = self.fixed.find(number)
        if fixed is not None:
            counts = self.fixed.counts.get(number, np.zeros(4, np.int64)).copy()
            counts[OUTSIDE] += sum(outside_of(fixed, part.chunk.times) for part in waiting)
            return counts
        (query,) = (query for query in self.others if query.entry.number == number)
        counts, stretch = query.counts.copy(), concat_stretches(waiting).in_order() if waiting else None
        if isinstance(query, CountQuery):
            keys = np.empty(0, np.int32) if stretch is None else stretch.keys
            totals = np.array([position + len(keys)])
            if query.walk.by_key:
                totals = np.bincount(keys, minlength=key_count)
                totals[: len(by_key)] += by_key
            counts[OUTSIDE] += query.walk.outside(totals)
        elif stretch is not None and isinstance(query, SessionWindows):
            counts[OUTSIDE] += int((stretch.chunk.times < query.entry.begin).sum())
        elif stretch is not None and isinstance(query, CutQuery):
            counts[OUTSIDE] += query.walk.waiting_outside(stretch, key_count)
        return counts

    def numbered_conditions(self) -> list[list[int]]:
        """The conditions of each query with markers, by number."""
        return [query.walk.conditions for query in self.cut_queries]

    def renumber_markers(self, before: list[list[int]], buffer: ReorderBuffer) -> None:
        """Conditions are numbered anew after a restoration: let the markers of waiting events follow."""
        old: dict[int, int] = {}
        for now, known in zip(self.numbered_conditions(), before, strict=True):
            old.update(zip(now, known, strict=True))
        for part in buffer.parts:
            part.markers = [part.markers[old[i]] for i in range(len(self.conditions))]


def operators(types: Mapping[str, pa.DataType], *queries: Query) -> list[Op]:
    """The operators that results of these queries are made of, each once; the number of events is always among them."""
    wanted = dict.fromkeys([COUNT])
    for aggregation in {id(each): each for query in queries for _, each in query.aggregates}.values():
        wanted.update(dict.fromkeys(operators_of(aggregation, type_read(aggregation, types))))
    return list(wanted)


def columns_read(ops: Iterable[Op]) -> list[str]:
    """The columns that operators read, each once.

    Not a set: chunks are written down, and the order of a set of strings changes from process to process.
    """
    return list(dict.fromkeys(name for op in ops for name in op.columns))


_AnyWalk = TypeVar("_AnyWalk", Walk, CountWalk)


def _shared(walks: list[_AnyWalk], fresh: _AnyWalk) -> _AnyWalk:
    """The walk that comes to the same windows as a fresh one; the fresh one itself if there is none yet."""
    for walk in walks:
        if walk.serves(fresh):
            return walk
    walks.append(fresh)
    return fresh


def _without(walks: list[_AnyWalk], numbers: frozenset[int]) -> list[_AnyWalk]:
    """The walks that are left when queries go."""
    for walk in walks:
        walk.entries = [entry for entry in walk.entries if entry.number not in numbers]
    return [walk for walk in walks if walk.entries]
