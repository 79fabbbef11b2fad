"""Count windows of a group: positions in the final order, over all events or for each key; they share the rows of their group."""

from __future__ import annotations

import numpy as np

from headwater.base.arrays import BoolArray, Int64Array
from headwater.base.snapshots import snapshot
from headwater.engine.operators.ragged import spread
from headwater.engine.windows.assembler import Closed, for_each_query
from headwater.engine.windows.markers import WalkQuery
from headwater.engine.windows.registered import Registered
from headwater.engine.windows.view import View, ranges_by_key
from headwater.language.windows import CountWindow


class CountWalk:
    """The windows of all queries that count alike. ``done`` is how many are out: one number, or one per key."""

    def __init__(self, entry: Registered) -> None:
        window = entry.query.window
        assert isinstance(window, CountWindow)
        self.window = window
        self.origin = entry.origin
        self.by_key = window.per == "key"
        self.done = np.zeros(0 if self.by_key else 1, np.int64)
        self.entries: list[Registered] = []

    def serves(self, other: CountWalk) -> bool:
        """Whether both walks find the same windows."""
        return (self.window, self.origin) == (other.window, other.origin)

    def close(self, view: View, totals: Int64Array) -> list[Closed]:
        """The windows that are full now; all positions up to ``totals`` (in all, or per key) are final."""
        if len(self.done) < len(totals):
            self.done = np.concatenate((self.done, np.zeros(len(totals) - len(self.done), np.int64)))
        size, step = self.window.size, self.window.step
        full = np.maximum((totals - self.origin - size) // step + 1, 0)
        fresh = np.maximum(full - self.done, 0)
        owner = np.repeat(np.arange(len(totals)), fresh)
        if len(owner) == 0 or view.block is None:
            return []
        start = self.origin + spread(self.done, fresh) * step
        self.done = np.maximum(self.done, full)
        piece = self._by_key(view, owner, start) if self.by_key else self._over_all(view, start)
        assert piece.first_time is not None
        return for_each_query(piece, self.entries, piece.first_time)

    def _by_key(self, view: View, key: Int64Array, start: Int64Array) -> Closed:
        block = view.block
        assert block is not None and block.key_position is not None and block.last is not None
        lo, hi = ranges_by_key(block.key_position, view.key_starts, key, start, start + self.window.size)
        query = np.zeros(len(start), np.int32)
        # Rows of several leaves overlap: the last one need not end last.
        last_time = np.maximum.reduceat(np.append(block.last, 0), np.stack((lo, hi), 1).ravel())[::2]
        return Closed(
            query, start, start + self.window.size, key.astype(np.int32), lo, hi, view.partials,
            first_time=block.first[lo], last_time=last_time,
        )  # fmt: skip

    def _over_all(self, view: View, start: Int64Array) -> Closed:
        block = view.block
        assert block is not None and block.position is not None and block.last is not None
        end = start + self.window.size
        order = np.argsort(block.position, kind="stable")
        position, last = block.position[order], np.maximum.accumulate(block.last[order])
        # Rows of several leaves overlap: the first one need not begin first.
        first = np.minimum.accumulate(block.first[order][::-1])[::-1]
        first_time = first[np.searchsorted(position, start)]
        last_time = last[np.searchsorted(position, end) - 1]
        window, key, lo = self._windows_of_rows(view, start)
        _, hi = ranges_by_key(block.position, view.key_starts, key, start[window], end[window])
        query = np.zeros(len(window), np.int32)
        return Closed(
            query, start[window], end[window], key.astype(np.int32), lo, hi, view.partials,
            first_time=first_time[window], last_time=last_time[window],
        )  # fmt: skip

    def _windows_of_rows(self, view: View, start: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """For each window and key that has rows: window, key and the first of the rows; by window, then as keys are listed.

        Found from the rows, each of which lies in few windows: windows times keys may be far more than there are events.
        """
        block = view.block
        assert block is not None and block.position is not None
        size, step = self.window.size, self.window.step
        # A row lies in the windows [from_, to) of those that close, and both rise along the rows of a key.
        since = block.position - int(start[0])
        to = np.clip(since // step + 1, 0, len(start))
        from_ = np.clip((since - size) // step + 1, 0, len(start))
        follows = np.flatnonzero(block.key[1:] == block.key[:-1]) + 1
        from_[follows] = np.maximum(from_[follows], to[follows - 1])
        fresh = np.maximum(to - from_, 0)
        window, row = spread(from_, fresh), np.repeat(np.arange(len(fresh)), fresh)
        rank = np.empty(len(view.keys_in_order), np.int64)
        rank[view.keys_in_order] = np.arange(len(rank))
        order = np.lexsort((rank[block.key[row]], window))
        return window[order], block.key[row[order]].astype(np.int64), row[order]

    def needed(self, view: View) -> BoolArray:
        """Which rows are at or after the first position of the next window."""
        block = view.block
        assert block is not None
        if self.by_key:
            assert block.key_position is not None
            done = np.zeros(len(view.keys_in_order), np.int64)
            done[: len(self.done)] = self.done
            needed: BoolArray = block.key_position >= self.origin + done[block.key] * self.window.step
            return needed
        assert block.position is not None
        return np.asarray(block.position >= self.origin + self.done[0] * self.window.step)

    def outside(self, totals: Int64Array) -> int:
        """How many positions so far fall between windows (a step larger than the size)."""
        size, step = self.window.size, self.window.step
        if step <= size:
            return 0
        before = np.minimum(totals, self.origin)
        totals = totals - before
        return int((before + (totals // step) * (step - size) + np.maximum(totals % step - size, 0)).sum())


class CountQuery(WalkQuery[CountWalk]):
    """A count window query."""

    state, restore = snapshot("walk.done", "counts")


def count_table(walks: list[CountWalk]) -> Int64Array:
    """Rows (size, step, origin) for the slicer."""
    return np.array([(w.window.size, w.window.step, w.origin) for w in walks], np.int64).reshape(-1, 3)
