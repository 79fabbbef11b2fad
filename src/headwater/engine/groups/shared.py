"""A query group: queries with the same keys and condition, which share slices, rows and operators.

Events come in, each touched once per shared operator; when the watermark rises, closed windows come out. A group whose windows
need only times (fixed windows, sessions) cuts events as they arrive. One with markers or counts lets them wait until their order
is final, then cuts them at everything at once, so all its queries still share one pass.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.groups.accounts import GroupAccounts
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import TimeScan
from headwater.engine.intake.predicates import mask as predicate_mask
from headwater.engine.intake.reorder import OrderedEvents
from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.operator import COUNT, Op
from headwater.engine.operators.partials import PartialColumn, lift
from headwater.engine.operators.sums.exact_sum import SumColumn
from headwater.engine.slices.dense import lift_slices
from headwater.engine.slices.edges import Edges
from headwater.engine.slices.order_slicer import KeyCuts, cut_in_order, position_cut_count, position_cuts
from headwater.engine.slices.slicer import SlicedRows, cut_by_arrival, cut_sorted
from headwater.engine.slices.store import RowBlock, block_of
from headwater.engine.windows.assembler import Closed
from headwater.engine.windows.counts import CountQuery
from headwater.engine.windows.late import OUTSIDE, Dropped
from headwater.engine.windows.markers import CutQuery
from headwater.engine.windows.separation import separations
from headwater.engine.windows.view import View
from headwater.language.times import FOREVER, NEVER

#: So many keys are remembered, whether they are still in use or not.
KEYS_KEPT = 1 << 16


class QueryGroup(GroupAccounts):
    """Takes in events, each once per shared operator, and gives the windows that close."""

    # --- events ---

    def accept(
        self, chunk: Chunk, arrays: Mapping[str, pa.Array], scan: TimeScan, watermarks: Int64Array | int
    ) -> list[Dropped]:
        """Take in well-formed events; returns those that are too late, per query.

        ``watermarks``: that of the event's source just before each event, or one number for all.
        """
        self.totals.seen += len(chunk)
        # Not a set: chunks are written down, and the order of a set of strings changes from process to process.
        chunk = chunk.select(list(dict.fromkeys(op.column for op in self.ops if op.column is not None)))
        chosen = self._chosen(chunk.times, arrays)
        if chosen is not None:
            chunk = chunk.take(chosen)
            arrays = {name: arrays[name].take(pa.array(chosen)) for name in self._read_names()}
            watermarks = watermarks if isinstance(watermarks, int) else watermarks[chosen]
        if len(chunk) == 0:
            return []
        key_arrays = [arrays[name] for name in self.key_names]
        if self._accept_sorted(chunk, key_arrays, scan, watermarks):
            return []
        keys = self.keys.encode(key_arrays, len(chunk))
        if self.in_order:
            return self._accept_in_order(chunk, keys, arrays, scan, watermarks)
        return self._accept_by_arrival(chunk, keys, scan, watermarks)

    def _read_names(self) -> set[str]:
        conditions = [name for expr in self.conditions for name in expr.columns()]
        return {*self.key_names, *conditions}

    def _chosen(self, times: Int64Array, arrays: Mapping[str, pa.Array]) -> Int64Array | None:
        """Which events pass the group's condition and begin, None for all."""
        keep: BoolArray | None = None
        if self.where is not None:
            keep = predicate_mask(self.where, arrays, len(times))
            self.totals.filtered += len(times) - int(keep.sum())
        if self.begin > NEVER:
            later = times >= self.begin
            self.totals.early += int((~later).sum() if keep is None else (keep & ~later).sum())
            keep = later if keep is None else keep & later
        return None if keep is None or keep.all() else np.flatnonzero(keep)

    def _accept_sorted(
        self, chunk: Chunk, key_arrays: list[pa.Array], scan: TimeScan, watermarks: Int64Array | int
    ) -> bool:
        """The straight way for what is simple; whether it was."""
        if self.in_order or self._gap is not None or not scan.in_order or scan.low < np.max(watermarks):
            return False
        keys = self.keys.direct(key_arrays)
        if keys is None:
            return False
        slices = self._edges.slices_between(scan.low, scan.high, chunk.times)
        lifted = lift_slices(self.ops, chunk, keys, slices)
        if lifted is not None:
            self._add(*lifted, self._entered(slices[0]))
            return True
        rows = cut_sorted(chunk.times, keys, slices)
        if rows is None:
            # New keys: number them, and look again.
            self.keys.encode(key_arrays, len(chunk))
            keys = self.keys.direct(key_arrays)
            rows = None if keys is None else cut_sorted(chunk.times, keys, slices)
        if rows is None:
            return False
        self._lift(rows, chunk, self._entered(slices[0]))
        return True

    def _accept_by_arrival(
        self, chunk: Chunk, keys: Int32Array, scan: TimeScan, watermarks: Int64Array | int
    ) -> list[Dropped]:
        slices = self._edges.slices_between(scan.low, scan.high, chunk.times)
        late = self._late(chunk.times, slices, scan, watermarks)
        rows = cut_by_arrival(
            chunk.times, keys, len(self.keys), slices, None if late is None else ~late, self._gap, scan.in_order
        )
        self._lift(rows, chunk, self._entered(slices[0]))
        if late is None:
            return []
        which = np.flatnonzero(late)
        return self._add_stragglers(chunk.take(which), keys[which], _at(watermarks, which))

    def _late(
        self, times: Int64Array, slices: tuple[Int64Array, Int64Array], scan: TimeScan, watermarks: Int64Array | int
    ) -> BoolArray | None:
        """Events of which some window was over before they came: their slice had ended, or their session could have."""
        highest = watermarks if isinstance(watermarks, int) else int(watermarks.max())
        if scan.low >= highest:
            return None
        behind = np.flatnonzero(times < watermarks)
        if len(behind) == 0:
            return None
        marks = _at(watermarks, behind)
        ends = slices[1][np.searchsorted(slices[0], times[behind], side="right") - 1]
        over = ends <= marks
        if self._gap is not None:
            over |= times[behind] < marks - self._gap
        if not over.any():
            return None
        late = np.zeros(len(times), np.bool_)
        late[behind[over]] = True
        return late

    def _accept_in_order(
        self,
        chunk: Chunk,
        keys: Int32Array,
        arrays: Mapping[str, pa.Array],
        scan: TimeScan,
        watermarks: Int64Array | int,
    ) -> list[Dropped]:
        markers = [predicate_mask(expr, arrays, len(chunk)) for expr in self.conditions]
        stretch = OrderedEvents(chunk, keys, markers)
        are_on_time = isinstance(watermarks, int) and scan.low >= watermarks
        late = np.zeros(0, np.bool_) if are_on_time else chunk.times < watermarks
        if not late.any():
            self.totals.clean += len(chunk)
            self._wait(stretch)
            return []
        which, rest = np.flatnonzero(late), np.flatnonzero(~late)
        self.totals.clean += len(rest)
        self._wait(stretch.take(rest))
        return self._add_stragglers(chunk.take(which), keys[which], _at(watermarks, which))

    def _wait(self, stretch: OrderedEvents) -> None:
        """Events on time wait until their order is final."""
        self.buffer.add(stretch)

    def _lift(self, rows: SlicedRows, chunk: Chunk, slice_count: int) -> None:
        if len(rows):
            self._add(rows, self._lifted(chunk, rows.of_event, len(rows)), slice_count)

    def _lifted(self, chunk: Chunk, of_event: Int32Array, row_count: int) -> dict[Op, PartialColumn]:
        """The partials of rows: event i adds to row ``of_event[i]``."""
        for name, values in chunk.columns.items():
            values.spread = self._spreads.get(name)
        partials = lift(self.ops, chunk, of_event, row_count)
        for op, column in partials.items():
            if op.kind == "sum" and op.column is not None and isinstance(column, SumColumn):
                self._spreads[op.column] = column.low, column.high
        return partials

    def _add(self, rows: SlicedRows, partials: dict[Op, PartialColumn], slice_count: int) -> None:
        counts = partials[COUNT]
        assert isinstance(counts, CountColumn)
        weights = counts.counts
        event_count = int(weights.sum())
        if not self.in_order:
            self.totals.clean += event_count
        if self._gap is not None:
            slice_count += self.work.pauses(rows, self._gap, len(self.keys))
        self.work.add(slice_count, event_count * len(self.ops))
        self.fixed.account(rows.first, weights)
        for session in self.sessions:
            session.account(rows.first, weights)
        outside = {id(walk): walk.outside(rows, weights) for walk in self.walks}
        for query in self.cut_queries:
            query.counts[OUTSIDE] += outside[id(query.walk)]
        self.store.append(block_of(rows, partials))

    def _entered(self, starts: Int64Array) -> int:
        """How many slices events enter now; what lies between the windows of a query that is alone is none."""
        alone = len(self.fixed.queries) == 1 and not self.sessions
        return self.work.enter(starts[self.fixed.covers(starts)] if alone else starts)

    def _add_stragglers(self, chunk: Chunk, keys: Int32Array, watermarks: Int64Array) -> list[Dropped]:
        dropped = []
        pairs = self.fixed.account_stragglers(chunk.times, watermarks)
        for number in np.unique(pairs[:, 0]).tolist():
            which = pairs[pairs[:, 0] == number, 1]
            dropped.append(Dropped(number, chunk.take(which), watermarks[which]))
        for session in self.sessions:
            which = session.account_stragglers(chunk.times, watermarks)
            dropped.append(Dropped(session.entry.number, chunk.take(which), watermarks[which]))
        strict: list[CutQuery | CountQuery] = [*self.cut_queries, *self.count_queries]
        for query in strict:
            which = query.account_stragglers(chunk.times)
            dropped.append(Dropped(query.entry.number, chunk.take(which), watermarks[which]))
        self.stragglers.add(chunk, keys, watermarks)
        self.work.add(0, len(chunk) * len(self.ops))
        return [one for one in dropped if len(one.chunk)]

    # --- windows ---

    def close(self, until: int) -> list[Closed]:
        """The group's watermark rises to ``until``: everything that this closes or revises."""
        # Not after closing: what closed is still named by the numbers of its keys.
        if len(self.keys) > max(KEYS_KEPT, 4 * (len(self.store) + len(self.stragglers))):
            self._forget_keys()
        after, self.watermark = self.watermark, until
        for stretch in self.buffer.release(until) if self.in_order else ():
            self._cut(stretch)
        if self._quiet(after, until):
            if self.store.wants_compaction():
                self._compact()
            return []
        view = self._view()
        pieces = self.fixed.close(view, after, until)
        for session in self.sessions:
            pieces.extend(session.close(view, after, until))
        for walk in self.walks:
            pieces.extend(walk.close(view, self.buffer, until))
        for counted in self.count_walks:
            totals = self.by_key.base if counted.by_key else np.array([self.position])
            pieces.extend(counted.close(view, totals))
        self.stragglers.seen()
        self._evict(view, until)
        return [piece for piece in pieces if len(piece)]

    def expected_rows(self, until: int) -> int:
        """About how many result rows an advance of the watermark to ``until`` gives."""
        return max(len(self.store), len(self.keys) * self.fixed.expected_windows(self.watermark, until))

    def _quiet(self, after: int, until: int) -> bool:
        """Whether nothing can close: only fixed windows, none of which ends now, and nobody came late."""
        return not (
            self.sessions or self.in_order or self.stragglers.new.any() or not self.fixed.nothing_closes(after, until)
        )

    def _cut(self, stretch: OrderedEvents) -> None:
        """Cut events whose order is final at everything: edges, positions, markers."""
        times, keys, key_count = stretch.chunk.times, stretch.keys, len(self.keys)
        starts, _ = self._edges.slices_between(int(times[0]), int(times[-1]), times)
        by_time = np.searchsorted(times, starts[1:])
        cuts = np.union1d(by_time, position_cuts(self._over_all, self.position, len(times)))
        key_cuts = [walk.on(stretch, key_count) for walk in self.walks]
        joined = np.concatenate(key_cuts) if key_cuts else None
        own = None if joined is None else KeyCuts.of(joined[:, 0], joined[:, 1], key_count)
        counting = self.by_key if len(self.by_key.counts) else None
        rows = cut_in_order(times, keys, key_count, cuts, own, counting, self._gap)
        assert rows.position is not None
        rows.position += self.position
        self.position += len(times)
        self._lift(rows, stretch.chunk, self._entered_in_order(starts, cuts, joined, rows))

    def _entered_in_order(
        self, starts: Int64Array, cuts: Int64Array, own_cuts: Int64Array | None, rows: SlicedRows
    ) -> int:
        """How many slices: one for each cut, and the one in which the first event lies unless it has been entered before."""
        count = len(cuts) + (0 if own_cuts is None else len(own_cuts))
        if rows.key_position is not None:
            count += position_cut_count(self.by_key.counts, rows.key_position)
        is_entered = len(cuts) > 0 and cuts[0] == 0 or self.work.enter(starts[:1]) == 0
        self.work.enter(starts)  # those behind the first begin at cuts: counted already
        return count + (not is_entered)

    def _view(self) -> View:
        found = self.store.sorted(len(self.keys))
        block, key_starts = (None, np.zeros(len(self.keys) + 1, np.int64)) if found is None else found
        return View(block, key_starts, self.keys.in_order(), self.stragglers, self.ops, self._template)

    def _evict(self, view: View, until: int) -> None:
        rows, stragglers = self.fixed.needed(view, until)
        for session in self.sessions:
            more = session.needed(view, until)
            rows, stragglers = rows | more[0], stragglers | more[1]
        if view.block is not None:
            for walk in self.walks:
                rows = rows | walk.needed(view)
            for counted in self.count_walks:
                rows = rows | counted.needed(view)
            self.store.keep(rows, len(self.keys))
        self.stragglers.keep(stragglers)
        self.fixed.forget(until)
        if self.store.wants_compaction():
            self._compact()

    def _forget_keys(self) -> None:
        """Forget keys that nothing refers to any more: streams have new ones for ever. Counts and open markers need theirs."""
        if self.in_order or self.fixed.remembers_keys:
            return
        used = [block.key for block in self.store.blocks()]
        used += [self.stragglers.keys, np.array(self.fixed.keys_in_use(), np.int32)]
        used += [np.array(session.history.keys_in_use(), np.int32) for session in self.sessions]
        numbers = self.keys.keep(np.unique(np.concatenate(used)).astype(np.int64))
        self.store.renumber(numbers)
        self.stragglers.renumber(numbers)
        self.fixed.renumber(numbers)
        for session in self.sessions:
            session.history.renumber(numbers)
        self.work.renumber(numbers, len(self.keys))

    def _compact(self) -> None:
        found = self.store.sorted(len(self.keys))
        if found is not None:
            block, key_starts = found
            separate = separations(
                block, key_starts, self._edges, self._gap, self.walks, self._over_all, self.by_key.counts
            )
            self.store.compact(separate, len(self.keys))

    # --- for the other half of an engine ---

    @property
    def edges(self) -> Edges:
        """Where events are cut for all queries together."""
        return self._edges

    @property
    def gap(self) -> int | None:
        """The smallest gap of sessions."""
        return self._gap

    def take_block(self) -> RowBlock | None:
        """All rows, those of one slice and key (with sessions: one chain) as one; they are no longer here."""
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
        self._add(rows, {op: block.partials[op] for op in self.ops}, 0)

    def add_late(self, chunk: Chunk, keys: Int32Array, watermarks: Int64Array) -> None:
        """Events of which some window was over before they came, as another half has found."""
        self._add_stragglers(chunk, keys, watermarks)
        # One that came after the end of its source, or of all, is counted and in no window; no window may look for it.
        self.stragglers.keep(self.stragglers.watermarks < FOREVER)

    def forget_unused_keys(self) -> None:
        if len(self.keys) > KEYS_KEPT and len(self.store) + len(self.stragglers) == 0:
            self._forget_keys()


def _at(watermarks: Int64Array | int, which: Int64Array) -> Int64Array:
    return np.full(len(which), watermarks) if isinstance(watermarks, int) else watermarks[which]
