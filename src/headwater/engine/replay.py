"""A group of one query that keeps its events: windows are formed from them anew at each step, and what changed is emitted.

This is the way for windows that no slice can serve: late markers that move bounds, copies that count once per window, windows cut
by a user's function. It is also the plainest way there is (a buffer per window, aggregated at its end), and the baseline
`cebuffer` of the papers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.engine.aggregates import operators_of
from headwater.engine.arrays import BoolArray, Int64Array
from headwater.engine.assembler import Closed
from headwater.engine.chunk import Chunk, source_ranks
from headwater.engine.group import Dropped
from headwater.engine.intake import TimeScan
from headwater.engine.keys import NODE_KEY, KeyTable
from headwater.engine.late import DROPPED, LATE, MEMBER, OUTSIDE
from headwater.engine.op import Op
from headwater.engine.operators import lift
from headwater.engine.predicates import mask as predicate_mask
from headwater.engine.registered import Registered
from headwater.engine.reorder import Stretch, concat_stretches
from headwater.engine.replay_windows import LONG_AGO, CountFormer, Formed, Former, Kept, former_of
from headwater.engine.revisions import Current, WindowHistory
from headwater.engine.scopes import unite
from headwater.engine.session_windows import COUNT, emitted
from headwater.engine.standing import standing
from headwater.expressions import Expr
from headwater.query import CONTEXT_SCOPES
from headwater.times import FOREVER, NEVER
from headwater.windows import Band, CountWindow, Custom, Punctuated, Session, Sliding

_MIX = np.uint64(0x9E3779B97F4A7C15)


class ReplayGroup:
    """One query over kept events."""

    def __init__(self, keys: tuple[str, ...], where: Expr | None) -> None:
        self.key_names = keys
        self.where = where
        self.keys = KeyTable(keys)
        self._window_keys = self.keys  # with the node in front where windows of several nodes are matched
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
        self._columns: list[str] = []
        self._settled_outside = np.zeros(2, np.int64)

    def queries(self) -> list[Registered]:
        return [] if self._entry is None else [self._entry]

    def register(self, entries: Iterable[Registered]) -> None:
        for entry in entries:
            self._entry = entry
            self._former = former_of(entry)
            if self._matches_nodes:
                self._window_keys = KeyTable((NODE_KEY, *self.key_names))

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
        query = self._entry.query
        read = {op.column for op in self._ops} | {query.distinct} | (query.columns() if isinstance(query.window, Custom) else set())
        self._columns = sorted(name for name in read if name is not None)

    # --- events ---

    def accept(
        self, chunk: Chunk, arrays: Mapping[str, pa.Array], scan: TimeScan, watermarks: Int64Array | int
    ) -> list[Dropped]:
        if self._entry is None:
            return []
        query = self._entry.query
        self._seen += len(chunk)
        chunk = chunk.select(self._columns)
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
            keys = self._window_keys.encode([taken[name] for name in self._window_keys.names], len(kept))
            markers = [predicate_mask(expr, taken, len(kept)) for expr in query.window.conditions()]
            self._stretches.append(Stretch(chunk.take(kept), keys, markers))
            self._marks = np.concatenate((self._marks, marks[kept]))
        return [Dropped(self._entry.number, chunk.take(lost), marks[lost])] if len(lost) else []

    def _read_names(self) -> set[str]:
        assert self._entry is not None
        conditions = [name for expr in self._entry.query.window.conditions() for name in expr.columns()]
        return {*self._window_keys.names, *conditions}

    # --- windows ---

    def close(self, until: int) -> list[Closed]:
        after, self.watermark = self.watermark, until
        if not self._stretches or self._former is None or self._entry is None:
            return []
        kept = self._sorted()
        formed, ranges = self._form(kept, self._former, after, until)
        window_of, event = self._members(kept, formed, ranges)
        size = len(formed.windows)
        self.slice_count += size
        self.calculation_count += len(event) * len(self._ops)
        partials = lift(self._ops, kept.chunk.take(event), window_of.astype(np.int32), size)
        filled = formed.closed & (self._entry.query.emit_empty | (np.bincount(window_of, minlength=size) > 0))
        times = _time_spans(kept.chunk.times, ranges, size)
        contents = _contents(kept.chunk, window_of, event, size)
        pieces = self._emit(formed, np.flatnonzero(filled), contents, times, partials)
        self._forget(kept, formed)
        return pieces

    def _form(self, kept: Kept, former: Former, after: int, until: int) -> tuple[Formed, Int64Array]:
        """The windows and rows (window, lo, hi): the events that lie in them."""
        assert self._entry is not None
        formed = former.form(kept, NEVER if self._matches_nodes else after, until)
        if self._matches_nodes:
            formed, ranges = unite(formed, self._entry.query.scope, self._owners(), until)
            formed.needed = np.full(kept.key_count, NEVER)
            return formed, ranges
        rows = np.arange(len(formed.windows))
        return formed, np.column_stack((rows, formed.windows[:, 3:]))

    @property
    def _matches_nodes(self) -> bool:
        return self._entry is not None and self._entry.query.scope in CONTEXT_SCOPES

    def _owners(self) -> Int64Array:
        """For each key of a node's windows the key, without the node, under which results leave."""
        columns = self._window_keys.columns()[1:]
        return self.keys.encode(columns, len(self._window_keys)).astype(np.int64)

    def _sorted(self) -> Kept:
        """All kept events, by key and in order within a key."""
        stretch = concat_stretches(self._stretches)
        order = stretch.chunk.in_order()
        if order is not None:
            stretch, self._marks = stretch.take(order), self._marks[order]
        by_key = np.argsort(stretch.keys, kind="stable")
        stretch, self._marks = stretch.take(by_key), self._marks[by_key]
        self._stretches = [stretch]
        starts = np.searchsorted(stretch.keys, np.arange(len(self._window_keys) + 1)).astype(np.int64)
        return Kept(stretch.chunk, stretch.keys, starts, stretch.markers)

    def _members(self, kept: Kept, formed: Formed, ranges: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Pairs (window, event): who counts in which window."""
        assert self._entry is not None
        query = self._entry.query
        lengths = ranges[:, 2] - ranges[:, 1]
        window_of = np.repeat(ranges[:, 0], lengths)
        event = np.arange(len(window_of)) - np.repeat(np.cumsum(lengths) - lengths - ranges[:, 1], lengths)
        chosen = np.ones(len(event), np.bool_)
        if isinstance(query.window, Sliding | Band):
            # The window must not have ended for the event's own source, allowed lateness included.
            chosen &= formed.windows[window_of, 2] > np.maximum(self._marks[event], LONG_AGO) - query.lateness
        if isinstance(query.window, Punctuated) and not query.window.include_markers:
            chosen &= ~kept.markers[0][event]
        window_of, event = window_of[chosen], event[chosen]
        if query.distinct is not None:
            first = _first_copies(kept.chunk, query.distinct, window_of, event)
            window_of, event = window_of[first], event[first]
        return window_of, event

    def _emit(
        self,
        formed: Formed,
        rows: Int64Array,
        contents: Int64Array,
        times: tuple[Int64Array, Int64Array],
        partials: Mapping[Op, Any],
    ) -> list[Closed]:
        assert self._entry is not None
        windows = formed.windows[rows]
        order = np.lexsort((windows[:, 2], windows[:, 1], windows[:, 0]))
        rows, windows = rows[order], windows[order]
        current = Current(windows[:, 0].astype(np.int32), windows[:, 1], windows[:, 2], contents[rows])
        changes = self._history.compare(current)
        chosen = rows[changes.rows]
        key, start, end = formed.windows[chosen, :3].T
        pieces = emitted(self._entry.number, key, start, end, chosen, chosen + 1, partials, changes)
        for piece in pieces if isinstance(self._entry.query.window, CountWindow) else ():
            piece.first_time, piece.last_time = times[0][chosen], times[1][chosen]
        if not self._matches_nodes:
            self._history.forget(formed.final[rows], int(formed.needed.min()) if len(formed.needed) else NEVER)
        return pieces

    def _forget(self, kept: Kept, formed: Formed) -> None:
        """Let go of the events that no window can ask for again."""
        assert self._former is not None
        gone = kept.chunk.times < formed.needed[kept.keys]
        if not gone.any():
            return
        self._settled_outside += self._count_outside(kept, gone)
        self._former.forget(kept, formed.needed)
        left = np.flatnonzero(~gone)
        self._marks = self._marks[left]
        stretch = Stretch(kept.chunk, kept.keys, kept.markers).take(left)
        self._stretches = [stretch] if len(left) else []

    def _outside(self, kept: Kept) -> BoolArray:
        """Which events lie in no window, open or closed, as things stand."""
        assert self._entry is not None and self._former is not None
        window = self._entry.query.window
        if isinstance(window, Sliding | Band):
            return np.zeros(len(kept.keys), np.bool_)
        former = copy.deepcopy(self._former)
        if isinstance(former, CountFormer):
            former.done = {}
        ranges = former.form(kept, NEVER, NEVER).windows[:, 3:]
        edges = np.zeros(len(kept.keys) + 1, np.int64)
        np.add.at(edges, ranges[:, 0], 1)
        np.add.at(edges, ranges[:, 1], -1)
        outside = np.cumsum(edges[:-1]) == 0
        if isinstance(window, Punctuated) and not window.include_markers:
            outside |= kept.markers[0]
        return outside

    def _count_outside(self, kept: Kept, chosen: BoolArray) -> Int64Array:
        """Of the chosen events outside of all windows: how many were taken for members, and how many for late members."""
        assert self._entry is not None
        what = standing(self._entry, kept.chunk.times, self._marks)
        outside = self._outside(kept) & chosen
        return np.array([(outside & (what == MEMBER)).sum(), (outside & (what == LATE)).sum()], np.int64)

    # --- accounts and snapshots ---

    def row_count(self) -> int:
        return sum(len(stretch) for stretch in self._stretches)

    def counters(self, number: int) -> dict[str, int]:
        outside, late, dropped = (int(self._counts[i]) for i in (OUTSIDE, LATE, DROPPED))
        never_in = self._settled_outside.copy()
        if self._stretches:
            kept = self._sorted()
            never_in += self._count_outside(kept, np.ones(len(kept.keys), np.bool_))
        outside, late = outside + int(never_in.sum()), late - int(never_in[1])
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
            "keys": [self.keys.state(), self._window_keys.state()],
            "watermark": self.watermark,
            "former": None if self._former is None else self._former.state(),
            "history": self._history.state(),
            "stretches": [[s.chunk, s.keys, s.markers] for s in self._stretches],
            "marks": self._marks,
            "counts": self._counts,
            "settled_outside": self._settled_outside,
            "numbers": [self._seen, self._filtered, self.slice_count, self.calculation_count],
        }

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        self.prepare(types)
        self.keys.restore(state["keys"][0])
        self._window_keys.restore(state["keys"][1])
        self.watermark = state["watermark"]
        if self._former is not None:
            self._former.restore(state["former"])
        self._history.restore(state["history"])
        self._stretches = [Stretch(*parts) for parts in state["stretches"]]
        self._marks, self._counts = state["marks"], state["counts"]
        self._settled_outside = state["settled_outside"]
        self._seen, self._filtered, self.slice_count, self.calculation_count = state["numbers"]


def _first_copies(chunk: Chunk, name: str, window_of: Int64Array, event: Int64Array) -> Int64Array:
    """The pairs in which the event is the first of its id in the window, in order; null is an id like others."""
    values = chunk.columns[name]
    data = values.data.astype(str) if values.data.dtype == object else values.data
    ids = np.unique(data, return_inverse=True)[1].astype(np.int64)
    if values.valid is not None:
        ids = np.where(values.valid, ids, len(ids))
    order = np.lexsort((chunk.offsets[event], _ranks(chunk)[event], chunk.times[event], ids[event], window_of))
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(window_of[order]) != 0) | (np.diff(ids[event][order]) != 0)
    return np.sort(order[first])


def _ranks(chunk: Chunk) -> Int64Array:
    return source_ranks(chunk.source_names)[chunk.source_ids]


def _time_spans(times: Int64Array, ranges: Int64Array, size: int) -> tuple[Int64Array, Int64Array]:
    """The first and the last time of each window's events."""
    first, last = np.full(size, FOREVER), np.full(size, NEVER)
    filled = ranges[ranges[:, 1] < ranges[:, 2]]
    np.minimum.at(first, filled[:, 0], times[filled[:, 1]])
    np.maximum.at(last, filled[:, 0], times[filled[:, 2] - 1])
    return first, last


def _contents(chunk: Chunk, window_of: Int64Array, event: Int64Array, size: int) -> Int64Array:
    """A number per window that changes with its members: the sum of a hash of their places of birth."""
    source = chunk.source_ids[event].astype(np.uint64)
    birth = (chunk.offsets[event].astype(np.uint64) + (source << np.uint64(40)) + np.uint64(1)) * _MIX
    birth ^= birth >> np.uint64(29)
    total = np.zeros(size, np.uint64)
    np.add.at(total, window_of, birth * _MIX)
    return total.view(np.int64)
