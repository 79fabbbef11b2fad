"""A group of one query that keeps its events: windows are formed from them at each step, and what is new or changed is emitted.

This is the way for windows that no slice can serve: late markers that move bounds, copies that count once per window, windows cut
by a user's function. It is also the plainest way there is (events wait in a buffer until their window ends and are aggregated
then, once for each window), and so the baseline `cebuffer` of the papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.snapshots import rows, snapshot
from headwater.engine.groups.baselines.work import WorkCount
from headwater.engine.groups.replay.formers import former_of, unite
from headwater.engine.groups.replay.kept import Formed, KeptEvents, ReplayBuffer
from headwater.engine.groups.replay.members import OWN_KEY, Pairs, Sayings, members, numbered, time_spans
from headwater.engine.groups.single import SingleGroup
from headwater.engine.groups.windows import columns_read, operators
from headwater.engine.intake.chunk import Chunk, Values
from headwater.engine.intake.columns import Events
from headwater.engine.intake.keys import KeyTable, node_key
from headwater.engine.intake.predicates import mask as predicate_mask
from headwater.engine.intake.reorder import OrderedEvents
from headwater.engine.intake.widening import Widening, widen_chunks
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import lift
from headwater.engine.windows.assembler import Closed
from headwater.engine.windows.late import LATE, MEMBER, Dropped, standing
from headwater.engine.windows.registered import Registered
from headwater.engine.windows.revisions import Current, WindowHistory
from headwater.engine.windows.sessions import emitted
from headwater.language.query import CONTEXT_SCOPES, Query
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, Between, CountWindow, Custom, Punctuated, Sliding


class ReplayGroup(SingleGroup):
    """One query over kept events."""

    def __init__(self, entry: Registered, keys: tuple[str, ...]) -> None:
        super().__init__(entry, keys)
        self.work = WorkCount()
        query = entry.query
        names = window_key_names(query, keys)
        self._window_keys = self.keys if names == keys else KeyTable(names)  # what windows are formed by, not results
        self._former = former_of(entry)
        self._history = WindowHistory()
        self._sayings = Sayings()
        self._buffer = ReplayBuffer()
        # The watermark at which windows were formed last: steps that close nothing are left out.
        self._formed_at: int | None = None
        self._reaches_back = False
        self._ops: list[Op] = []
        self._columns: list[str] = []
        self._settled_outside = np.zeros(2, np.int64)
        self._matches_nodes = query.scope in CONTEXT_SCOPES
        #: Whether a window holds events of several keys and becomes one result for each.
        self._splits = _counts_all(query) and bool(query.keys)

    def prepare(self, types: Mapping[str, pa.DataType]) -> None:
        if not self._ops:
            query = self.entry.query
            self._ops = operators(types, query)
            read = {*columns_read(self._ops), query.distinct}
            read |= query.columns() if isinstance(query.window, Custom) else set()
            self._columns = sorted(name for name in read if name is not None)

    def retype(self, changes: Mapping[str, Widening], types: Mapping[str, pa.DataType]) -> None:
        """Columns have grown, and with them those of the events that are kept."""
        self.keys.retype(changes)
        if self._window_keys is not self.keys:
            self._window_keys.retype(changes)
        widen_chunks((stretch.chunk for stretch in self._buffer.stretches), changes)

    # --- events ---

    def accept(self, events: Events) -> list[Dropped]:
        """Keep the events that some window can still take; returns those that are too late."""
        conditions = [name for expr in self.entry.query.window.conditions() for name in expr.columns()]
        names = {*self._window_keys.names, *self.key_names, *conditions}
        events = self.passing(replace(events, chunk=events.chunk.select(self._columns)), names)
        if len(events) == 0:
            return []
        what, dropped = self.accounts.classify(self.entry, events)
        if what is None:
            self._keep(events, None)
            return []
        kept = events.take(np.flatnonzero((what == MEMBER) | (what == LATE)), names)
        if len(kept):
            self._keep(kept, kept.marks)
        return dropped

    def _keep(self, events: Events, marks: Int64Array | None) -> None:
        chunk, arrays = events.chunk, events.arrays
        keys = self._window_keys.encode([arrays[name] for name in self._window_keys.names], len(chunk))
        if self._splits:
            own = self.keys.encode([arrays[name] for name in self.key_names], len(chunk))
            chunk.columns[OWN_KEY] = Values(own.astype(np.int64), None, pa.int64())
        markers = [predicate_mask(expr, arrays, len(chunk)) for expr in self.entry.query.window.conditions()]
        self._buffer.add(OrderedEvents(chunk, keys, markers), marks)
        self._reaches_back |= bool((chunk.times < self.watermark).any())

    # --- windows ---

    def expected_rows(self, until: int) -> int:
        """About how many result rows an advance of the watermark to ``until`` gives: certainly not more than this."""
        return self.row_count()

    def owes(self, until: int) -> bool:
        return self._former.fills and self.watermark < until

    def reach(self, until: int) -> int:
        if not self._buffer.stretches:
            return until
        return self._former.reach(self.watermark, until, self._buffer.sorted(len(self._window_keys)))

    def close(self, until: int, is_paced: bool = False) -> list[Closed]:
        before, self.watermark = self.watermark, until
        after = before if self._formed_at is None else self._formed_at
        if not self._buffer.stretches or self._is_quiet(after, until):
            return []
        self._formed_at = until
        self._reaches_back = False
        kept = self._buffer.sorted(len(self._window_keys))
        formed, ranges = self._form(kept, after, until, is_paced)
        pieces = self._emit(kept, formed, ranges)
        self._forget(kept, formed)
        return pieces

    def _is_quiet(self, after: int, until: int) -> bool:
        """Whether no window ends now and no event came for one that has ended: buffers are read when they end, not before."""
        is_touched = self._reaches_back or self._matches_nodes
        return not is_touched and self._former.closes_nothing(after, until, len(self._buffer))

    def _form(self, kept: KeptEvents, after: int, until: int, is_paced: bool) -> tuple[Formed, Int64Array]:
        """The windows and rows (window, lo, hi): the events that lie in them."""
        formed = self._former.form(kept, NEVER if self._matches_nodes else after, until, is_paced)
        if self._matches_nodes:
            formed, ranges = unite(formed, self.entry.query.scope, self._owners(), until)
            formed.needed = np.full(kept.key_count, NEVER)
            formed.closed &= self._lives(formed)
            return formed, ranges
        formed = formed.take(self._lives(formed))
        rows = np.arange(len(formed.windows))
        return formed, np.column_stack((rows, formed.windows[:, 3:]))

    def _lives(self, formed: Formed) -> BoolArray:
        """Which windows began before the query stops; positions do not tell, so count windows are looked at elsewhere."""
        if isinstance(self.entry.query.window, CountWindow):
            return np.ones(len(formed.windows), np.bool_)
        return formed.windows[:, 1] < self.entry.stop

    def _owners(self) -> Int64Array:
        """For each key of a node's windows the key, without the node, under which results leave."""
        columns = self._window_keys.columns()[1:]
        return self.keys.encode(columns, len(self._window_keys)).astype(np.int64)

    def _emit(self, kept: KeptEvents, formed: Formed, ranges: Int64Array) -> list[Closed]:
        """The closed windows that are new or changed; only their events go through the operators."""
        entry = self.entry
        first, last = time_spans(kept.chunk.times, ranges, len(formed.windows))
        if isinstance(entry.query.window, CountWindow):
            # Positions say nothing about the time: a query that is running out looks at the first event of a window.
            formed.closed &= first < entry.stop
        pairs = members(entry.query, kept, formed, ranges[formed.closed[ranges[:, 0]]])
        origin = np.arange(len(formed.windows))
        if self._splits:
            formed, origin, pairs = self._split(kept, formed, pairs)
        pairs = pairs.first_copies(kept.chunk, entry.query.distinct)
        filled = (pairs.counts(len(formed.windows)) > 0) | self._former.fills
        rows = np.flatnonzero(formed.closed & filled)
        windows = formed.windows[rows]
        order = np.lexsort((windows[:, 2], windows[:, 1], windows[:, 0]))
        rows, windows = rows[order], windows[order]
        content = self._contents(kept.chunk, pairs, rows, len(filled))
        current = Current(windows[:, 0].astype(np.int32), windows[:, 1], windows[:, 2], content)
        changes = self._history.compare(current)
        chosen = rows[changes.rows]
        if not self._matches_nodes:
            self._history.forget(formed.final[rows], int(formed.needed.min()) if len(formed.needed) else NEVER)
        self._sayings.keep(self._history.windows.content)
        self._count_slices(formed.windows[chosen[changes.revision == 0]])
        events, row, count = _events_of(kept.chunk, pairs, chosen, len(formed.windows))
        self.work.calculated(len(events), len(self._ops))
        partials = lift(self._ops, events, row, count)
        places = np.arange(len(chosen))
        key, start, end = formed.windows[chosen, :3].T
        pieces = emitted(entry.number, key, start, end, places, places + 1, partials, changes)
        for piece in pieces if isinstance(entry.query.window, CountWindow) else ():
            piece.first_time, piece.last_time = first[origin[chosen]], last[origin[chosen]]
        return pieces

    def _contents(self, chunk: Chunk, pairs: Pairs, rows: Int64Array, size: int) -> Int64Array:
        """A number for each of these windows that differs from before exactly where it has changed.

        Between the same bounds events only come and never go, so their number tells, but where other copies may count or other
        nodes be united.
        """
        if not self._may_emit_again:
            return np.zeros(len(rows), np.int64)
        counts = pairs.counts(size)[rows]
        if not (self._matches_nodes or self.entry.query.distinct is not None):
            return counts
        return self._sayings.numbers(
            self.entry.query, lift(self._ops, *_events_of(chunk, pairs, rows, size)), counts, chunk
        )

    @property
    def _may_emit_again(self) -> bool:
        """Whether a window that was emitted may be formed once more, and must be known again if nothing changed."""
        query = self.entry.query
        is_once = isinstance(query.window, CountWindow) or (
            isinstance(query.window, Sliding | Band) and query.lateness == 0
        )
        return self._matches_nodes or not is_once

    def _split(self, kept: KeptEvents, formed: Formed, pairs: Pairs) -> tuple[Formed, Int64Array, Pairs]:
        """One window for each of its keys, the window each is made of, and the pairs with these windows."""
        key_count = len(self.keys)
        own = kept.chunk.columns[OWN_KEY].data[pairs.event]
        codes, row = numbered(pairs.window * key_count + own, len(formed.windows) * key_count)
        split = formed.take(codes // key_count)
        split.windows[:, 0] = codes % key_count
        return split, codes // key_count, Pairs(row, pairs.event)

    def _count_slices(self, windows: Int64Array) -> None:
        """A window is a slice of its own; one that all keys share counts once."""
        shared = isinstance(self.entry.query.window, Sliding | Band) or _counts_all(self.entry.query)
        self.work.slice_count += len(np.unique(windows[:, 1])) if shared else len(windows)

    def _forget(self, kept: KeptEvents, formed: Formed) -> None:
        """Let go of the events that no window can ask for again."""
        gone = kept.chunk.times < formed.needed[kept.keys]
        if gone.any():
            self._settled_outside += self._count_outside(kept, gone)
            self._former.forget(kept, formed.needed)
            self._buffer.forget(formed.needed)

    # --- accounts and snapshots ---

    def _count_outside(self, kept: KeptEvents, chosen: BoolArray) -> Int64Array:
        """Of the chosen events outside of all windows: how many were taken for members, and how many for late members."""
        if not _leaves_out(self.entry):
            return np.zeros(2, np.int64)
        marks = np.full(len(kept), NEVER) if kept.marks is None else kept.marks
        what = standing(self.entry, kept.chunk.times, marks)
        outside = self._outside(kept) & chosen
        return np.array([(outside & (what == MEMBER)).sum(), (outside & (what == LATE)).sum()], np.int64)

    def _outside(self, kept: KeptEvents) -> BoolArray:
        """Which events lie in no window, open or closed, as things stand."""
        window, formed = self.entry.query.window, self._former.form_all(kept)
        ranges = formed.windows[self._lives(formed), 3:]
        edges = np.zeros(len(kept) + 1, np.int64)
        np.add.at(edges, ranges[:, 0], 1)
        np.add.at(edges, ranges[:, 1], -1)
        outside: BoolArray = np.cumsum(edges[:-1]) == 0
        if isinstance(window, Punctuated) and not window.include_markers:
            outside |= kept.markers[0]
        return outside

    def row_count(self) -> int:
        return len(self._buffer)

    def counters(self, number: int) -> dict[str, int]:
        never_in = self._settled_outside.copy()
        if self._buffer.stretches:
            kept = self._buffer.sorted(len(self._window_keys))
            never_in += self._count_outside(kept, np.ones(len(kept), np.bool_))
        return self.accounts.counters(int(never_in.sum()), int(never_in[1]))

    state, _restore = snapshot(
        {
            "keys": ["keys", "_window_keys"],
            "watermark": "watermark",
            "former": "_former",
            "history": "_history",
            "stretches": rows("_buffer.stretches", OrderedEvents),
            "marks": "_buffer.marks",
            "formed_at": "_formed_at",
            "reaches_back": "_reaches_back",
            "counts": "accounts.counts",
            "settled_outside": "_settled_outside",
            "numbers": [
                "accounts.seen",
                "accounts.filtered",
                "work.slice_count",
                "work.calculation_count",
                "_sayings",
            ],
        }
    )

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        self.prepare(types)
        self._restore(state)
        if len(state["numbers"]) == 4:
            # A release told windows apart by hashes. Unless events came since for windows that are out, none has changed.
            self._history.overlook(is_unchanged=not self._reaches_back)


def window_key_names(query: Query, keys: tuple[str, ...]) -> tuple[str, ...]:
    """What windows are formed by: keys and, in front, the node where windows of several nodes are matched.

    Positions over all events are counted by no key, only for each node by itself.
    """
    if _counts_all(query):
        return () if query.scope == "global" else (node_key(query.home),)
    return (node_key(query.home), *keys) if query.scope in CONTEXT_SCOPES else keys


def _events_of(chunk: Chunk, pairs: Pairs, chosen: Int64Array, size: int) -> tuple[Chunk, Int32Array, int]:
    """The events of the chosen windows, which of these each is in, and how many windows they are."""
    row = np.full(size, -1, np.int32)
    row[chosen] = np.arange(len(chosen))
    row, event = row[pairs.window], pairs.event
    if (row < 0).any():
        row, event = row[row >= 0], event[row >= 0]
    return chunk.take(event), row, len(chosen)


def _counts_all(query: Query) -> bool:
    return isinstance(query.window, CountWindow) and query.window.per == "all"


def _leaves_out(entry: Registered) -> bool:
    """Whether an event that a query accepts may still be in none of its windows."""
    window = entry.query.window
    if isinstance(window, Sliding | Band):
        return False
    if isinstance(window, CountWindow):
        return window.step > window.size
    return (
        isinstance(window, Between)
        or entry.stop != FOREVER
        or (isinstance(window, Punctuated) and not window.include_markers)
    )
