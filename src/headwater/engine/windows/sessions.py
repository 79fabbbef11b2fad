"""Sessions: chains of events joined where they touch, and what of them closes, grows and must be kept.

Rows of one key are chains of events at most the gap apart; a row's first and last time say all that
matters, so the order of arrival plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, RowArrays
from headwater.base.jit import njit
from headwater.base.snapshots import snapshot
from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.operator import COUNT
from headwater.engine.windows.assembler import Closed
from headwater.engine.windows.late import DROPPED, LATE, MEMBER, OUTSIDE
from headwater.engine.windows.registered import Registered
from headwater.engine.windows.revisions import Changes, Current, WindowHistory
from headwater.engine.windows.view import View
from headwater.language.times import NEVER
from headwater.language.windows import Session


@dataclass(slots=True)
class Sessions(RowArrays):
    """Sessions sorted by (key, start): bounds [start, end) with end = last event + gap; rows lo to hi of the block."""

    key: Int32Array
    start: Int64Array
    end: Int64Array
    lo: Int64Array
    hi: Int64Array


@njit
def _join(
    first: Int64Array,
    last: Int64Array,
    key_starts: Int64Array,
    gap: int,
    begin: int,
    key: Int32Array,
    start: Int64Array,
    end: Int64Array,
    lo: Int64Array,
    hi: Int64Array,
) -> int:
    count = 0
    for k in range(len(key_starts) - 1):
        reach = np.int64(0)
        opened = False
        for row in range(key_starts[k], key_starts[k + 1]):
            if first[row] < begin:
                continue
            if not opened or first[row] > reach:
                key[count] = k
                start[count] = first[row]
                lo[count] = row
                reach = last[row] + gap
                opened = True
                count += 1
            elif last[row] + gap > reach:
                reach = last[row] + gap
            end[count - 1] = reach
            hi[count - 1] = row + 1
    return count


def join_rows(first: Int64Array, last: Int64Array, key_starts: Int64Array, gap: int, begin: int) -> Sessions:
    """The sessions of rows sorted by (key, first). Rows before ``begin`` do not count."""
    size = len(first)
    key = np.empty(size, np.int32)
    start, end, lo, hi = (np.empty(size, np.int64) for _ in range(4))
    count = _join(first, last, key_starts, gap, begin, key, start, end, lo, hi)
    return Sessions(key[:count], start[:count], end[:count], lo[:count], hi[:count])


def chain(first: Int64Array, last: Int64Array, gap: int) -> Int64Array:
    """The rows, sorted by ``first`` and all of one key, at which a new session begins.

    >>> chain(np.array([0, 10, 30]), np.array([0, 12, 30]), 10)
    array([0, 2])
    """
    first, last = np.asarray(first, np.int64), np.asarray(last, np.int64)
    begin = int(first[0]) if len(first) else 0
    return join_rows(first, last, np.array([0, len(first)]), gap, begin).lo


class SessionWindows:
    """Sessions without a longest duration, which need no order: rows are chains, and chains join.

    An event can still reach a session until ``end + gap + lateness`` lies below the watermark; until then it is kept.
    """

    def __init__(self, entry: Registered, waiting: int = 0) -> None:
        """``waiting``: events that were seen before and are still to be accounted for: the query must not count them."""
        window = entry.query.window
        assert isinstance(window, Session)
        self.entry = entry
        self.gap = window.gap
        self.lateness = entry.query.lateness
        self.history = WindowHistory()
        self.counts = np.zeros(4, np.int64)
        self.counts[OUTSIDE] -= waiting
        self._kept: tuple[BoolArray, BoolArray] | None = None

    def account_stragglers(self, times: Int64Array, watermarks: Int64Array) -> Int64Array:
        """Count what each new straggler is to this query; returns the dropped ones."""
        before = times < self.entry.begin
        on_time = times >= watermarks - self.gap
        in_time = times >= watermarks - self.gap - self.lateness
        self.counts[OUTSIDE] += int(before.sum())
        self.counts[MEMBER] += int((on_time & ~before).sum())
        self.counts[LATE] += int((in_time & ~on_time & ~before).sum())
        dropped = np.flatnonzero(~in_time & ~before)
        self.counts[DROPPED] += len(dropped)
        return dropped

    def account(self, first: Int64Array, weights: Int64Array) -> None:
        if self.entry.begin != NEVER:
            self.counts[OUTSIDE] += int(weights[first < self.entry.begin].sum())

    def close(self, view: View, after: int, until: int) -> list[Closed]:
        stragglers = view.stragglers
        chosen = np.empty(0, np.int64)
        if len(stragglers):
            limit = np.maximum(stragglers.watermarks, NEVER + self.gap + self.lateness) - self.gap - self.lateness
            chosen = np.flatnonzero(view.straggler_times() >= limit)
        if len(chosen):
            block, key_starts, order = view.with_stragglers(chosen)
        elif view.block is not None:
            block, key_starts, order = view.block, view.key_starts, None
        else:
            return self._nothing(view)
        assert block.last is not None
        sessions = join_rows(block.first, block.last, key_starts, self.gap, self.entry.begin)
        self._remember_needed(view, sessions, chosen, order, until)
        settled_before = sessions.end < max(after, NEVER + self.gap + self.lateness) - self.gap - self.lateness
        holds = (sessions.end < until) & ~settled_before & (sessions.start < self.entry.stop)
        current = sessions.take(np.flatnonzero(holds))
        counts = block.partials[COUNT].combine_ranges(current.lo, current.hi)
        assert isinstance(counts, CountColumn)
        changes = self.history.compare(Current(current.key, current.start, current.end, counts.counts))
        settled = self.history.windows.end < until - self.gap - self.lateness
        self.history.forget(settled, until - 2 * self.gap - self.lateness)
        closed = current.take(changes.rows)
        return emitted(
            self.entry.number, closed.key, closed.start, closed.end, closed.lo, closed.hi, block.partials, changes
        )

    def _nothing(self, view: View) -> list[Closed]:
        self._kept = np.empty(0, np.bool_), np.zeros(len(view.stragglers), np.bool_)
        return []

    def _remember_needed(
        self, view: View, sessions: Sessions, chosen: Int64Array, order: Int64Array | None, until: int
    ) -> None:
        alive = sessions.end >= until - self.gap - self.lateness
        rows = 0 if view.block is None else len(view.block)
        size = rows + len(chosen)
        marks = np.zeros(size + 1, np.int64)
        np.add.at(marks, sessions.lo[alive], 1)
        np.add.at(marks, sessions.hi[alive], -1)
        kept = np.cumsum(marks[:-1]) > 0
        if order is not None:
            unsorted = np.empty(size, np.bool_)
            unsorted[order] = kept
            kept = unsorted
        kept_stragglers = np.zeros(len(view.stragglers), np.bool_)
        kept_stragglers[chosen] = kept[rows:]
        self._kept = kept[:rows], kept_stragglers

    def needed(self, view: View, watermark: int) -> tuple[BoolArray, BoolArray]:
        """Which rows and stragglers belong to a session that an event can still reach."""
        assert self._kept is not None
        return self._kept

    state, restore = snapshot("history", "counts")


def emitted(
    number: int,
    key: Int32Array | Int64Array,
    start: Int64Array,
    end: Int64Array,
    lo: Int64Array,
    hi: Int64Array,
    partials: Any,
    changes: Changes,
) -> list[Closed]:
    """The rows of changed windows of one query, those that are gone last."""
    count, gone = len(key), changes.gone
    if count + len(gone) == 0:
        return []
    replaces = dict(changes.replaces)
    revision = changes.revision
    if gone:
        lost = np.array(gone, np.int64)
        key = np.concatenate((key.astype(np.int64), lost[:, 0]))
        start, end = np.concatenate((start, lost[:, 1])), np.concatenate((end, lost[:, 2]))
        zeros = np.zeros(len(gone), np.int64)
        lo, hi = np.concatenate((lo, zeros)), np.concatenate((hi, zeros))
        revision = np.concatenate((revision, lost[:, 3]))
        for i, (_, lost_start, lost_end, number_gone) in enumerate(gone):
            replaces[count + i] = [(lost_start, lost_end, number_gone - 1)]
    query = np.full(len(key), number, np.int32)
    piece = Closed(query, start, end, key.astype(np.int32), lo, hi, partials, revision, replaces)
    piece.gone = count if gone else None
    return [piece]
