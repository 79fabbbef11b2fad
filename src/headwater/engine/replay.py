"""A group of one query that keeps its events: windows are formed from them anew at each step, and what changed is emitted.

This is the way for windows that no slice can serve: late markers that move bounds, copies that count once per window, windows cut
by a user's function. It is also the plainest way there is (a buffer per window, aggregated at its end), and the baseline
`cebuffer` of the papers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.engine.aggregates import operators_of
from headwater.engine.arrays import BoolArray, Int64Array
from headwater.engine.assembler import Closed
from headwater.engine.chunk import Chunk
from headwater.engine.group import Dropped
from headwater.engine.intake import TimeScan
from headwater.engine.keys import KeyTable
from headwater.engine.late import DROPPED, LATE, MEMBER, OUTSIDE
from headwater.engine.op import Op
from headwater.engine.operators import lift
from headwater.engine.predicates import mask as predicate_mask
from headwater.engine.registered import Registered
from headwater.engine.reorder import Stretch, concat_stretches
from headwater.engine.replay_windows import Former, Formed, Kept, former_of
from headwater.engine.revisions import Current, WindowHistory
from headwater.engine.session_windows import COUNT, emitted
from headwater.engine.standing import standing
from headwater.expressions import Expr
from headwater.times import NEVER
from headwater.windows import Band, Between, CountWindow, Punctuated, Sliding

_MIX = np.uint64(0x9E3779B97F4A7C15)


class ReplayGroup:
    """One query over kept events."""

    def __init__(self, keys: tuple[str, ...], where: Expr | None) -> None:
        self.key_names = keys
        self.where = where
        self.keys = KeyTable(keys)
        self.watermark = NEVER
        self.slice_count = 0
        self.calculation_count = 0
        self._entry: Registered | None = None
        self._former: Former | None = None
        self._history = WindowHistory()
        self._stretches: list[Stretch] = []
        self._marks: Int64Array = np.empty(0, np.int64)
        self._counts = np.zeros(4, np.int64)
        self._seen = 0
        self._filtered = 0
        self._ops: list[Op] = []
        self._outside_settled = 0

    def queries(self) -> list[Registered]:
        return [] if self._entry is None else [self._entry]

    def register(self, entries: Iterable[Registered]) -> None:
        for entry in entries:
            self._entry = entry
            self._former = former_of(entry)

    def unregister(self, number: int) -> None:
        self._entry, self._former, self._stretches = None, None, []

    def changed(self) -> None:
        """The entry is shared: nothing to work out anew."""

    def prepare(self, types: Mapping[str, pa.DataType]) -> None:
        if self._entry is None or self._ops:
            return
        wanted = dict.fromkeys([COUNT])
        for _, aggregation in self._entry.query.aggregates:
            column_type = None if aggregation.column is None else types.get(aggregation.column, pa.float64())
            wanted.update(dict.fromkeys(operators_of(aggregation, column_type)))
        self._ops = list(wanted)

    # --- events ---

    def accept(
        self, chunk: Chunk, arrays: Mapping[str, pa.Array], scan: TimeScan, watermarks: Int64Array | int
    ) -> list[Dropped]:
        if self._entry is None:
            return []
        query = self._entry.query
        self._seen += len(chunk)
        chunk = chunk.select([*query.columns(), *getattr(query.window, "columns", ())])
        marks = np.full(len(chunk), watermarks) if isinstance(watermarks, int) else watermarks
        kept = np.arange(len(chunk))
        if self.where is not None:
            kept = np.flatnonzero(predicate_mask(self.where, arrays, len(chunk)))
            self._filtered += len(chunk) - len(kept)
        what = standing(self._entry, chunk.times[kept], marks[kept])
        self._counts += np.bincount(what, minlength=4)
        lost = kept[what == DROPPED]
        kept = kept[(what == MEMBER) | (what == LATE)]
        if len(kept):
            taken = {name: arrays[name].take(pa.array(kept)) for name in self._read_names()}
            keys = self.keys.encode([taken[name] for name in self.key_names], len(kept))
            markers = [predicate_mask(expr, taken, len(kept)) for expr in query.window.conditions()]
            self._stretches.append(Stretch(chunk.take(kept), keys, markers))
            self._marks = np.concatenate((self._marks, marks[kept]))
        return [Dropped(self._entry.number, chunk.take(lost), marks[lost])] if len(lost) else []

    def _read_names(self) -> set[str]:
        assert self._entry is not None
        conditions = [name for expr in self._entry.query.window.conditions() for name in expr.columns()]
        return {*self.key_names, *conditions}

    # --- windows ---

    def close(self, until: int) -> list[Closed]:
        after, self.watermark = self.watermark, until
        if not self._stretches or self._former is None or self._entry is None:
            return []
        kept = self._sorted()
        formed = self._former.form(kept, after, until)
        window_of, event = self._members(kept, formed)
        size = len(formed.windows)
        self.slice_count += size
        self.calculation_count += len(event) * len(self._ops)
        partials = lift(self._ops, kept.chunk.take(event), window_of.astype(np.int32), size)
        filled = np.bincount(window_of, minlength=size) > 0
        pieces = self._emit(kept, formed, np.flatnonzero(filled), _content(kept.chunk, window_of, event, size), partials)
        self._forget(kept, formed, until)
        return pieces

    def _sorted(self) -> Kept:
        """All kept events, by key and in order within a key."""
        stretch = concat_stretches(self._stretches)
        order = stretch.chunk.in_order()
        if order is not None:
            stretch, self._marks = stretch.take(order), self._marks[order]
        by_key = np.argsort(stretch.keys, kind="stable")
        stretch, self._marks = stretch.take(by_key), self._marks[by_key]
        self._stretches = [stretch]
        starts = np.searchsorted(stretch.keys, np.arange(len(self.keys) + 1)).astype(np.int64)
        return Kept(stretch.chunk, stretch.keys, starts, stretch.markers)

    def _members(self, kept: Kept, formed: Formed) -> tuple[Int64Array, Int64Array]:
        """Pairs (window, event): who counts in which window."""
        assert self._entry is not None
        query = self._entry.query
        lo, hi = formed.windows[:, 3], formed.windows[:, 4]
        lengths = hi - lo
        window_of = np.repeat(np.arange(len(lo)), lengths)
        event = np.arange(len(window_of)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + lo[window_of]
        chosen = np.ones(len(event), np.bool_)
        if isinstance(query.window, Sliding | Band):
            # The window must not have ended for the event's own source, allowed lateness included.
            chosen &= formed.windows[window_of, 2] > np.maximum(self._marks[event], -(2**62)) - query.lateness
        if isinstance(query.window, Punctuated) and not query.window.include_markers:
            chosen &= ~kept.markers[0][event]
        window_of, event = window_of[chosen], event[chosen]
        if query.distinct is not None:
            first = self._first_copies(kept, query.distinct, window_of, event)
            window_of, event = window_of[first], event[first]
        return window_of, event

    @staticmethod
    def _first_copies(kept: Kept, name: str, window_of: Int64Array, event: Int64Array) -> Int64Array:
        """The pairs in which the event is the first of its id in the window; null ids are all different."""
        values = kept.chunk.columns[name]
        data = values.data.astype(str) if values.data.dtype == object else values.data
        ids = np.unique(data, return_inverse=True)[1].astype(np.int64)
        if values.valid is not None:
            ids = np.where(values.valid, ids, len(ids) + np.arange(len(ids)))
        order = np.lexsort((event, ids[event], window_of))
        w, i = window_of[order], ids[event][order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (np.diff(w) != 0) | (np.diff(i) != 0)
        return np.sort(order[first])

    def _emit(
        self, kept: Kept, formed: Formed, rows: Int64Array, content: Int64Array, partials: Mapping[Op, Any]
    ) -> list[Closed]:
        assert self._entry is not None
        windows = formed.windows[rows]
        order = np.lexsort((windows[:, 2], windows[:, 1], windows[:, 0]))
        rows, windows = rows[order], windows[order]
        current = Current(windows[:, 0].astype(np.int32), windows[:, 1], windows[:, 2], content[rows])
        changes = self._history.compare(current)
        final = formed.final[rows]
        chosen = rows[changes.rows]
        key, start, end = formed.windows[chosen, :3].T
        pieces = emitted(self._entry.number, key, start, end, chosen, chosen + 1, partials, changes)
        for piece in pieces if isinstance(self._entry.query.window, CountWindow) else ():
            lo, hi = formed.windows[chosen, 3], formed.windows[chosen, 4]
            piece.first_time, piece.last_time = kept.chunk.times[lo], kept.chunk.times[hi - 1]
        before = int(formed.needed.min()) if len(formed.needed) else NEVER
        self._history.forget(final, before)
        return pieces

    def _forget(self, kept: Kept, formed: Formed, until: int) -> None:
        """Let go of the events that no window can ask for again."""
        assert self._former is not None and self._entry is not None
        keep = kept.chunk.times >= formed.needed[kept.keys]
        if isinstance(self._entry.query.window, Between):
            self._count_outside(kept, formed, ~keep)
        if keep.all():
            return
        self._former.forget(kept, formed.needed)
        left = np.flatnonzero(keep)
        self._marks = self._marks[left]
        stretch = Stretch(kept.chunk, kept.keys, kept.markers).take(left)
        self._stretches = [stretch] if len(left) else []

    def _count_outside(self, kept: Kept, formed: Formed, gone: BoolArray) -> None:
        """Events outside of all pairs of markers; of those that are still kept the number may change."""
        inside = np.zeros(len(kept.keys) + 1, np.int64)
        np.add.at(inside, formed.windows[:, 3], 1)
        np.add.at(inside, formed.windows[:, 4], -1)
        outside = np.cumsum(inside[:-1]) == 0
        outside &= kept.chunk.times < formed.open_from[kept.keys]
        self._outside_settled += int((outside & gone).sum())
        self._counts[OUTSIDE] = self._outside_settled + int((outside & ~gone).sum())

    # --- accounts and snapshots ---

    def row_count(self) -> int:
        return sum(len(stretch) for stretch in self._stretches)

    def counters(self, number: int) -> dict[str, int]:
        outside, late, dropped = (int(self._counts[i]) for i in (OUTSIDE, LATE, DROPPED))
        member = self._seen - self._filtered - outside - late - dropped
        return {
            "in": self._seen,
            "filtered": self._filtered,
            "outside": outside,
            "member": member,
            "late": late,
            "dropped": dropped,
        }

    def state(self) -> dict[str, Any]:
        return {
            "keys": self.keys.state(),
            "watermark": self.watermark,
            "former": None if self._former is None else self._former.state(),
            "history": self._history.state(),
            "stretches": [[s.chunk, s.keys, s.markers] for s in self._stretches],
            "marks": self._marks,
            "counts": self._counts,
            "numbers": [self._seen, self._filtered, self._outside_settled, self.slice_count, self.calculation_count],
        }

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        self.prepare(types)
        self.keys.restore(state["keys"])
        self.watermark = state["watermark"]
        if self._former is not None:
            self._former.restore(state["former"])
        self._history.restore(state["history"])
        self._stretches = [Stretch(*parts) for parts in state["stretches"]]
        self._marks, self._counts = state["marks"], state["counts"]
        self._seen, self._filtered, self._outside_settled, self.slice_count, self.calculation_count = state["numbers"]


def _content(chunk: Chunk, window_of: Int64Array, event: Int64Array, size: int) -> Int64Array:
    """A number per window that changes with its members: the sum of a hash of their places of birth."""
    source = chunk.source_ids[event].astype(np.uint64)
    birth = (chunk.offsets[event].astype(np.uint64) + (source << np.uint64(40)) + np.uint64(1)) * _MIX
    birth ^= birth >> np.uint64(29)
    total = np.zeros(size, np.uint64)
    np.add.at(total, window_of, birth * _MIX)
    return total.view(np.int64)

