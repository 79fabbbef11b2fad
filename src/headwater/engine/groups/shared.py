"""A query group: queries with the same keys and condition, which share slices, rows and operators.

Events come in, each touched once per shared operator; when the watermark rises, closed windows come out. A group whose windows
need only times (fixed windows, sessions) cuts events as they arrive. One with markers or counts lets them wait until their order
is final, then cuts them at everything at once, so all its queries still share one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.snapshots import pairs, parts, record, snapshot, told
from headwater.engine.groups.accounts import Accounts, Totals
from headwater.engine.groups.baselines.work import WorkCount
from headwater.engine.groups.windows import GroupWindows, columns_read
from headwater.engine.intake.chunk import Chunk, blank
from headwater.engine.intake.columns import Events
from headwater.engine.intake.keys import KeyTable
from headwater.engine.intake.predicates import mask as predicate_mask
from headwater.engine.intake.reorder import OrderedEvents, ReorderBuffer
from headwater.engine.intake.widening import Widening, widen_chunks
from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.operator import COUNT, Op
from headwater.engine.operators.partials import PartialColumn, lift
from headwater.engine.operators.retyping import retyped
from headwater.engine.operators.sums.exact_sum import SumColumn
from headwater.engine.slices.dense import lift_slices
from headwater.engine.slices.order_slicer import CountState, KeyCuts, cut_in_order, position_cut_count, position_cuts
from headwater.engine.slices.slicer import SlicedRows, cut_by_arrival, cut_sorted
from headwater.engine.slices.store import RowBlock, RowStore, block_of
from headwater.engine.windows.assembler import Closed
from headwater.engine.windows.late import Dropped, Stragglers
from headwater.engine.windows.registered import Registered
from headwater.engine.windows.view import View
from headwater.errors import DataError
from headwater.language.expressions import Expr
from headwater.language.times import FOREVER, NEVER

#: A group with more keys than this forgets those that are not in use.
KEYS_KEPT = 1 << 16


class QueryGroup:
    """Takes in events, each once per shared operator, and gives the windows that close. ``begin``: no event before it counts.

    What it holds: the windows of its queries, its keys, rows of partials, stragglers, events that wait for their order, and the
    accounts of all. The halves of an engine on several nodes are groups too. They change how events wait (`wait`,
    ``waits_with_values``) and when windows close (`close`), and use `lifted` and `close_up` as they are.
    """

    #: Whether the events that wait have the columns that operators read.
    waits_with_values: ClassVar[bool] = True

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int = NEVER) -> None:
        self.key_names = keys
        self.where = where
        self.begin = begin
        self.windows = GroupWindows()
        self.keys = KeyTable(keys)
        self.store = RowStore()
        self.stragglers = Stragglers()
        self.buffer = ReorderBuffer()
        self.in_order = False  # once events wait for their order they always do: none must get lost on the way
        self.watermark = NEVER
        self.position = 0  # of the next event whose order is final ...
        self.by_key = CountState(self.windows.by_key, np.empty(0, np.int64))  # ... and that of the next one of each key
        self.accounts = Accounts()
        self.work = WorkCount()
        self._spreads: dict[str, tuple[int, int]] = {}  # the limbs that sums of a column took, as a first guess

    # --- queries ---

    def queries(self) -> list[Registered]:
        return self.windows.entries()

    def register(self, entries: Sequence[Registered]) -> None:
        waiting = len(self.buffer)
        for entry in entries:
            self.windows.add(entry, waiting)
        self.accounts.open(entry.number for entry in entries)
        self.in_order |= bool(self.windows.cut_queries or self.windows.count_queries)

    def unregister(self, *numbers: int) -> None:
        self.windows.remove(frozenset(numbers), self.buffer)

    def changed(self) -> None:
        """The time at which a query ends was changed."""
        self.windows.is_changed = True

    def prepare(self, types: Mapping[str, pa.DataType]) -> None:
        """Work out operators and edges after a change of queries; ``types`` of the columns are known now."""
        if self.windows.prepare(types):
            self.by_key = CountState(self.windows.by_key, self.by_key.base)
            self._fit(types)

    def _fit(self, types: Mapping[str, pa.DataType]) -> None:
        """Fill rows and events that came before a query with blanks for its operators; none of its windows reads them."""
        for block in self.store.blocks():
            if self.windows.sessions and block.last is None:
                block.last = block.first
            zeros = np.zeros(len(block), np.int64)
            for op in self.ops:
                if op not in block.partials:
                    block.partials[op] = self.windows.template[op].combine_ranges(zeros, zeros)
            block.partials = {op: block.partials[op] for op in self.ops}
        waiting = [part.chunk for part in self.buffer.parts] if self.waits_with_values else []
        for chunk in [*waiting, *self.stragglers.chunks()]:
            for name in sorted({*columns_read(self.ops)} - chunk.columns.keys()):
                chunk.columns[name] = blank(types.get(name, pa.float64()), len(chunk))

    def retype(self, changes: Mapping[str, Widening], types: Mapping[str, pa.DataType]) -> None:
        """Columns have grown: everything that is held becomes what it were if they had been so from the start."""
        self.keys.retype(changes)
        self.windows.ops, self.windows.is_changed = [], True
        self.prepare(types)
        for block in self.store.blocks():
            block.partials = retyped(block.partials, changes, self.windows.template)
        widen_chunks([*(part.chunk for part in self.buffer.parts), *self.stragglers.chunks()], changes)
        for name in changes:
            self._spreads.pop(name, None)

    # --- events ---

    def accept(self, events: Events) -> list[Dropped]:
        """Take in well-formed events; returns those that are too late, per query."""
        self.accounts.totals.seen += len(events)
        chunk = events.chunk.select(columns_read(self.ops))
        events = Events(chunk, events.arrays, events.scan, events.watermarks)
        chosen = self._chosen(events.chunk.times, events.arrays)
        if chosen is not None:
            conditions = [name for expr in self.windows.conditions for name in expr.columns()]
            events = events.take(chosen, {*self.key_names, *conditions})
        if len(events) == 0:
            return []
        key_arrays = [events.arrays[name] for name in self.key_names]
        if self._accept_sorted(events, key_arrays):
            return []
        keys = self.keys.encode(key_arrays, len(events))
        return self._accept_in_order(events, keys) if self.in_order else self._accept_by_arrival(events, keys)

    def _chosen(self, times: Int64Array, arrays: Mapping[str, pa.Array]) -> Int64Array | None:
        """Which events pass the group's condition and begin, None for all."""
        keep: BoolArray | None = None
        if self.where is not None:
            keep = predicate_mask(self.where, arrays, len(times))
            self.accounts.totals.filtered += len(times) - int(keep.sum())
        if self.begin > NEVER:
            later = times >= self.begin
            self.accounts.totals.early += int((~later).sum() if keep is None else (keep & ~later).sum())
            keep = later if keep is None else keep & later
        return None if keep is None or keep.all() else np.flatnonzero(keep)

    def _accept_sorted(self, events: Events, key_arrays: list[pa.Array]) -> bool:
        """The fast path for events in order that are not late, with keys that are known; returns whether it was taken."""
        chunk, scan = events.chunk, events.scan
        if self.in_order or self.windows.gap is not None or not scan.in_order or not events.are_on_time:
            return False
        slices = self.windows.edges.slices_between(scan.low, scan.high, chunk.times)
        lifted = self.lift_sorted(chunk, key_arrays, slices)
        if lifted is None:
            return False
        self.work.entered(self.windows.slices_of_windows(slices[0]))
        self.add_lifted(*lifted)
        return True

    def lift_sorted(
        self,
        chunk: Chunk,
        key_arrays: list[pa.Array],
        slices: tuple[Int64Array, Int64Array],
        bounds: Int64Array | None = None,
    ) -> tuple[SlicedRows, dict[Op, PartialColumn]] | None:
        """Rows and partials of events in order of time; None if their keys need the general way.

        ``bounds``: where slices begin among the events, if that is known.
        """
        keys = self.keys.direct(key_arrays)
        if keys is None:
            return None
        lifted = lift_slices(self.ops, chunk, keys, slices, bounds)
        if lifted is not None:
            return lifted
        rows = cut_sorted(chunk.times, keys, slices, bounds=bounds)
        if rows is None:
            # New keys: number them, and look again.
            self.keys.encode(key_arrays, len(chunk))
            keys = self.keys.direct(key_arrays)
            rows = None if keys is None else cut_sorted(chunk.times, keys, slices, bounds=bounds)
        return None if rows is None else (rows, self.lifted(chunk, rows.of_event, len(rows)))

    def _accept_by_arrival(self, events: Events, keys: Int32Array) -> list[Dropped]:
        chunk, scan = events.chunk, events.scan
        slices = self.windows.edges.slices_between(scan.low, scan.high, chunk.times)
        late = self._late(events, slices)
        rows = cut_by_arrival(
            chunk.times, keys, len(self.keys), slices, None if late is None else ~late, self.windows.gap, scan.in_order
        )
        self._lift(rows, chunk, slices[0])
        if late is None:
            return []
        which = np.flatnonzero(late)
        return self._add_stragglers(chunk.take(which), keys[which], events.marks[which])

    def _late(self, events: Events, slices: tuple[Int64Array, Int64Array]) -> BoolArray | None:
        """Which events are late for some window, None if there are none."""
        times = events.chunk.times
        if events.are_on_time:
            return None
        behind = np.flatnonzero(times < events.watermarks)
        if len(behind) == 0:
            return None
        over = self.windows.late(times[behind], slices, events.marks[behind])
        if not over.any():
            return None
        late = np.zeros(len(times), np.bool_)
        late[behind[over]] = True
        return late

    def _accept_in_order(self, events: Events, keys: Int32Array) -> list[Dropped]:
        chunk, marks = events.chunk, events.watermarks
        markers = [predicate_mask(expr, events.arrays, len(events)) for expr in self.windows.conditions]
        stretch = OrderedEvents(chunk, keys, markers)
        are_on_time = isinstance(marks, int) and events.scan.low >= marks
        late = np.zeros(0, np.bool_) if are_on_time else chunk.times < marks
        if not late.any():
            self.accounts.totals.clean += len(chunk)
            self.wait(stretch)
            return []
        which, rest = np.flatnonzero(late), np.flatnonzero(~late)
        self.accounts.totals.clean += len(rest)
        self.wait(stretch.take(rest))
        return self._add_stragglers(chunk.take(which), keys[which], events.marks[which])

    def wait(self, stretch: OrderedEvents) -> None:
        """Events on time wait until their order is final."""
        self.buffer.add(stretch)

    def _lift(self, rows: SlicedRows, chunk: Chunk, starts: Int64Array) -> None:
        """Rows of events as they came, which lie in the slices that begin at ``starts``."""
        if len(rows):
            self.work.entered(self.windows.slices_of_windows(starts))
            self.add_lifted(rows, self.lifted(chunk, rows.of_event, len(rows)))

    def lifted(self, chunk: Chunk, of_event: Int32Array, row_count: int) -> dict[Op, PartialColumn]:
        """The partials of rows: event i adds to row ``of_event[i]``."""
        for name, values in chunk.columns.items():
            values.spread = self._spreads.get(name)
        partials = lift(self.ops, chunk, of_event, row_count)
        for op, column in partials.items():
            if op.kind == "sum" and op.column is not None and isinstance(column, SumColumn):
                self._spreads[op.column] = column.low, column.high
        return partials

    def add_lifted(self, rows: SlicedRows, partials: dict[Op, PartialColumn]) -> None:
        counts = partials[COUNT]
        assert isinstance(counts, CountColumn)
        event_count = int(counts.counts.sum())
        if not self.in_order:
            self.accounts.totals.clean += event_count
        if self.windows.gap is not None:
            self.work.paused(rows, self.windows.gap, len(self.keys))
        self.work.calculated(event_count, len(self.ops))
        self.windows.account(rows, counts.counts)
        self.store.append(block_of(rows, partials))

    def _add_stragglers(self, chunk: Chunk, keys: Int32Array, watermarks: Int64Array) -> list[Dropped]:
        self.stragglers.add(chunk, keys, watermarks)
        self.work.calculated(len(chunk), len(self.ops))
        return self.windows.account_stragglers(chunk, watermarks)

    # --- windows ---

    def is_due(self, until: int) -> bool:
        """Whether a watermark of ``until`` may close something, without another word of a leaf."""
        return self.watermark < until

    def owes(self, until: int) -> bool:
        """Whether windows without events may still have to come, up to ``until``."""
        return self.windows.fixed.remembers_keys and self.watermark < until

    def reach(self, until: int) -> int:
        """How far the watermark may rise at once towards ``until``, so that not too much comes out."""
        if not self.windows.fixed.remembers_keys:
            return until
        rows = [block.first for block in self.store.blocks()]
        times = np.concatenate([np.empty(0, np.int64), *rows, *(late.times for late in self.stragglers.chunks())])
        is_new = np.concatenate((np.zeros(len(times) - len(self.stragglers), np.bool_), self.stragglers.new))
        return self.windows.fixed.reach(self.watermark, until, len(self.keys), times, is_new)

    def close(self, until: int, is_paced: bool = False) -> list[Closed]:
        """The group's watermark rises to ``until``: everything that this closes or revises.

        ``is_paced``: as far as `reach` said, so that no number of windows without events is too large.
        """
        # Not after closing: what closed is still named by the numbers of its keys.
        if len(self.keys) > max(KEYS_KEPT, 4 * (len(self.store) + len(self.stragglers) + len(self.buffer))):
            self._forget_keys()
        after, self.watermark = self.watermark, until
        for stretch in self.buffer.release(until) if self.in_order else ():
            self._cut(stretch)
        is_quiet = not (self.in_order or self.stragglers.new.any()) and self.windows.nothing_closes(after, until)
        if not is_quiet:
            try:
                return self.close_up(after, until, is_paced)
            except DataError:
                self.watermark = after
                raise
        self._compact_if_due()
        return []

    def close_up(self, after: int, until: int, is_paced: bool = False) -> list[Closed]:
        """What closes or is revised as the watermark goes from ``after`` to ``until``, of all that is in rows."""
        found = self.store.sorted(len(self.keys))
        block, key_starts = (None, np.zeros(len(self.keys) + 1, np.int64)) if found is None else found
        view = View(block, key_starts, self.keys.in_order(), self.stragglers, self.ops, self.windows.template)
        pieces = self.windows.close(view, self.buffer, after, until, is_paced, self.position, self.by_key.base)
        self.stragglers.seen()
        rows, stragglers = self.windows.needed(view, until)
        if block is not None:
            self.store.keep(rows, len(self.keys))
        self.stragglers.keep(stragglers)
        self.windows.fixed.forget(until)
        self._compact_if_due()
        return pieces

    def expected_rows(self, until: int) -> int:
        """About how many result rows an advance of the watermark to ``until`` gives."""
        return max(len(self.store), len(self.keys) * self.windows.fixed.expected_windows(self.watermark, until))

    def _cut(self, stretch: OrderedEvents) -> None:
        """Cut events whose order is final at everything: edges, positions, markers."""
        times, keys, key_count = stretch.chunk.times, stretch.keys, len(self.keys)
        starts, _ = self.windows.edges.slices_between(int(times[0]), int(times[-1]), times)
        by_time = np.searchsorted(times, starts[1:])
        cuts = np.union1d(by_time, position_cuts(self.windows.over_all, self.position, len(times)))
        key_cuts = [walk.on(stretch, key_count) for walk in self.windows.walks]
        joined = np.concatenate(key_cuts) if key_cuts else None
        own = None if joined is None else KeyCuts.of(joined[:, 0], joined[:, 1], key_count)
        counting = self.by_key if len(self.by_key.counts) else None
        rows = cut_in_order(times, keys, key_count, cuts, own, counting, self.windows.gap)
        assert rows.position is not None
        rows.position += self.position
        self.position += len(times)
        own_count = 0 if joined is None else len(joined)
        if rows.key_position is not None:
            own_count += position_cut_count(self.by_key.counts, rows.key_position)
        self.work.cut(starts, cuts, own_count)
        self.add_lifted(rows, self.lifted(stretch.chunk, rows.of_event, len(rows)))

    def _forget_keys(self) -> None:
        """Forget keys that nothing refers to any more: streams have new ones for ever."""
        if self.windows.remembers_keys or len(self.by_key.base):
            return
        waiting = [part.keys for part in self.buffer.parts]
        rows = [block.key for block in self.store.blocks()]
        used = [*rows, *waiting, self.stragglers.keys, *self.windows.keys_in_use()]
        numbers = self.keys.keep(np.unique(np.concatenate(used)).astype(np.int64))
        self.store.renumber(numbers)
        self.stragglers.renumber(numbers)
        self.buffer.renumber(numbers)
        self.windows.renumber(numbers)
        self.work.renumber(numbers, len(self.keys))

    def _compact_if_due(self) -> None:
        if self.store.wants_compaction():
            self._compact()

    def _compact(self) -> None:
        found = self.store.sorted(len(self.keys))
        if found is not None:
            self.store.compact(self.windows.separations(*found), len(self.keys))

    # --- for the other half of an engine ---

    @property
    def ops(self) -> list[Op]:
        """The operators that all queries share."""
        return self.windows.ops

    @property
    def counts_by_key(self) -> bool:
        """Whether there are count windows in which each key counts for itself."""
        return any(walk.by_key for walk in self.windows.count_walks)

    def take_block(self) -> RowBlock | None:
        """Take out all rows, those of one slice and key (of sessions: one unbroken run) combined."""
        if len(self.store) == 0:
            return None
        self._compact()
        found = self.store.sorted(len(self.keys))
        assert found is not None
        self.store.clear()
        return found[0]

    def add_block(self, block: RowBlock) -> None:
        """Rows that another half has cut."""
        rows = SlicedRows(np.empty(0, np.int32), block.key, block.first, block.last)
        self.add_lifted(rows, {op: block.partials[op] for op in self.ops})

    def add_late(self, chunk: Chunk, keys: Int32Array, watermarks: Int64Array) -> None:
        """Events of which some window was over before they came, as another half has found."""
        self._add_stragglers(chunk, keys, watermarks)
        # One that came after the end of its source, or of all, is counted and in no window; no window may look for it.
        self.stragglers.keep(self.stragglers.watermarks < FOREVER)

    def forget_unused_keys(self) -> None:
        if len(self.keys) > KEYS_KEPT and len(self.store) + len(self.stragglers) == 0 and not self.in_order:
            self._forget_keys()

    # --- accounts and snapshots ---

    def row_count(self) -> int:
        return len(self.store)

    def count(self, seen: int, filtered: int, early: int) -> None:
        """Events that another half of the engine has seen."""
        self.accounts.count(seen, filtered, early)

    def counters(self, number: int) -> dict[str, int]:
        """What became of every event since the query came, malformed ones aside."""
        positions = self.position, self.by_key.base
        extra = self.windows.counts(number, self.buffer.parts, *positions, len(self.keys))
        return self.accounts.counters(number, extra)

    #: Everything that events have left behind; the queries themselves are kept by the engine.
    state, _restore = snapshot(
        {
            "keys": "keys",
            "store": "store",
            "stragglers": "stragglers",
            "buffer": "buffer",
            "watermark": "watermark",
            "totals": record("accounts.totals", Totals),
            "baselines": pairs("accounts.before", Totals),
            "position": "position",
            "by_key": "by_key.base",
            "fixed": "windows.fixed",
            "others": parts("windows.others"),
            "conditions": told("windows", GroupWindows.numbered_conditions),
            "in_order": "in_order",
            "work": "work",
        }
    )

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        """Take over a state; the queries were registered before, in the same order."""
        self.prepare(types)
        self._restore(state, self.ops)
        self.windows.renumber_markers(state["conditions"], self.buffer)
        # Queries that came just before the snapshot: nothing has a place for their operators yet.
        self._fit(types)
