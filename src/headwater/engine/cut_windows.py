"""Queries whose windows need the final order: markers, limited sessions, counts. They share the rows of their group."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from headwater.engine.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.assembler import Closed
from headwater.engine.cuts import Cutter
from headwater.engine.jit import njit
from headwater.engine.late import DROPPED, OUTSIDE
from headwater.engine.registered import Registered
from headwater.engine.reorder import ReorderBuffer, Stretch
from headwater.engine.slicer import Rows
from headwater.engine.view import View
from headwater.windows import Between, CountWindow, Punctuated, Session


class Walk:
    """A cutter that walks over a group's events for all queries of one window, and the windows that it has just ended."""

    def __init__(self, entry: Registered, conditions: list[int]) -> None:
        window = entry.query.window
        assert isinstance(window, Punctuated | Between | Session)
        self.window = window
        self.conditions = conditions  # which of the group's conditions are this window's markers
        self.cutter = Cutter(window, entry.begin)
        self.ended = np.empty((0, 4), np.int64)
        self._walked = [self.ended]

    def serves(self, other: Walk) -> bool:
        """Whether both come to the same windows."""
        alike = type(self.window) is type(other.window) and self.window.max_duration == other.window.max_duration
        return alike and (self.conditions, self.cutter.begin) == (other.conditions, other.cutter.begin)

    def on(self, stretch: Stretch, key_count: int) -> Int64Array:
        """Walk over released events; returns the cuts (key, time) that their rows need."""
        walked = self.cutter.walk(stretch.chunk.times, stretch.keys, key_count, self._markers(stretch))
        self._walked.append(walked.windows)
        return walked.cuts

    def _markers(self, stretch: Stretch) -> list[BoolArray]:
        return [stretch.markers[i] for i in self.conditions]

    def outside(self, rows: Rows, weights: Int64Array) -> int:
        """How many events of the rows just walked over lie in none of the windows, ended or open."""
        if not isinstance(self.window, Between):
            return 0
        return int(weights[~_inside(self.cutter, self._walked[-1], rows.key, rows.first)].sum())

    def waiting_outside(self, stretch: Stretch, key_count: int) -> int:
        """How many of the events that still wait lie in no window, as things stand."""
        if not isinstance(self.window, Between):
            return 0
        cutter = copy.deepcopy(self.cutter)
        windows = cutter.walk(stretch.chunk.times, stretch.keys, key_count, self._markers(stretch)).windows
        return int((~_inside(cutter, windows, stretch.keys, stretch.chunk.times)).sum())

    def close(self, key_count: int, buffer: ReorderBuffer, until: int) -> None:
        """All earlier events were walked over: ``ended`` are the windows that are over since the last time."""
        markers_now = np.empty(0, np.int64)
        if isinstance(self.window, Punctuated) and until >= self.cutter.begin:
            markers_now = buffer.keys_marked_at(until, self.conditions[0])
        self.cutter.grow(key_count)
        self.ended = np.concatenate((*self._walked, self.cutter.close(until, markers_now)))
        self._walked = []

    def needed(self, view: View) -> BoolArray:
        """Rows of windows that are open."""
        assert view.block is not None
        return view.block.first >= self.cutter.needed_from()[view.block.key]


class CutQuery:
    """A punctuated, between or limited session query without allowed lateness: the windows of its walk are its results."""

    def __init__(self, entry: Registered, walk: Walk) -> None:
        self.entry = entry
        self.walk = walk
        self.counts = np.zeros(4, np.int64)

    def close(self, view: View) -> list[Closed]:
        windows = self.walk.ended[self.walk.ended[:, 1] < self.entry.stop]
        if len(windows) == 0:
            return []
        key, start, end, range_end = windows.T
        lo, hi = view.ranges(key, start, range_end)
        query = np.full(len(windows), self.entry.number, np.int32)
        return [Closed(query, start, end, key.astype(np.int32), lo, hi, view.partials)]

    def account_stragglers(self, times: Int64Array) -> Int64Array:
        """Every straggler is late for a window of this kind, and none is allowed."""
        return drop_from(self.entry.begin, times, self.counts)

    def state(self) -> list[Any]:
        return [self.walk.cutter.state(), self.counts]

    def restore(self, state: list[Any]) -> None:
        self.walk.cutter.restore(state[0])
        self.counts = state[1].copy()


def drop_from(begin: int, times: Int64Array, counts: Int64Array) -> Int64Array:
    dropped = np.flatnonzero(times >= begin)
    counts[DROPPED] += len(dropped)
    counts[OUTSIDE] += len(times) - len(dropped)
    return dropped


def _inside(cutter: Cutter, windows: Int64Array, keys: Int32Array, times: Int64Array) -> BoolArray:
    """Which times lie in one of the windows or in the open one of their key."""
    inside = times >= cutter.needed_from()[keys]
    order = np.lexsort((windows[:, 1], windows[:, 0]))
    _mark_inside(windows[order], keys, times, inside)
    return inside


@njit
def _mark_inside(windows: Int64Array, keys: Int32Array, times: Int64Array, inside: BoolArray) -> None:
    """Rows whose time lies in a window (key, start, end, range end); windows are sorted and do not nest."""
    for i in range(len(keys)):
        low = 0
        high = len(windows)
        while low < high:
            middle = (low + high) // 2
            if windows[middle, 0] < keys[i] or (windows[middle, 0] == keys[i] and windows[middle, 3] <= times[i]):
                low = middle + 1
            else:
                high = middle
        if low < len(windows) and windows[low, 0] == keys[i] and windows[low, 1] <= times[i]:
            inside[i] = True


class CountQuery:
    """A count window query. ``done`` is how many of its windows are out: one number, or one per key."""

    def __init__(self, entry: Registered) -> None:
        window = entry.query.window
        assert isinstance(window, CountWindow)
        self.entry = entry
        self.window = window
        self.by_key = window.per == "key"
        self.done = np.zeros(0 if self.by_key else 1, np.int64)
        self.counts = np.zeros(4, np.int64)

    def close(self, view: View, totals: Int64Array) -> list[Closed]:
        """Full windows: all of the positions up to ``totals`` (in all, or per key) are final."""
        if len(self.done) < len(totals):
            self.done = np.concatenate((self.done, np.zeros(len(totals) - len(self.done), np.int64)))
        size, step = self.window.size, self.window.step
        full = np.maximum((totals - self.entry.origin - size) // step + 1, 0)
        fresh = np.maximum(full - self.done, 0)
        owner = np.repeat(np.arange(len(totals)), fresh)
        if len(owner) == 0 or view.block is None:
            return []
        place = np.arange(len(owner)) - np.repeat(np.cumsum(fresh) - fresh, fresh)
        start = self.entry.origin + (self.done[owner] + place) * step
        self.done = np.maximum(self.done, full)
        piece = self._by_key(view, owner, start) if self.by_key else self._over_all(view, start)
        assert piece.first_time is not None
        return [piece.take(np.flatnonzero(piece.first_time < self.entry.stop))]

    def _by_key(self, view: View, key: Int64Array, start: Int64Array) -> Closed:
        block = view.block
        assert block is not None and block.key_position is not None and block.last is not None
        lo, hi = np.empty_like(start), np.empty_like(start)
        _position_ranges(block.key_position, view.key_starts, key, start, start + self.window.size, lo, hi)
        query = np.full(len(start), self.entry.number, np.int32)
        # Rows of a key are in order, so the last row of a window ends last.
        return Closed(
            query, start, start + self.window.size, key.astype(np.int32), lo, hi, view.partials,
            first_time=block.first[lo], last_time=block.last[hi - 1],
        )  # fmt: skip

    def _over_all(self, view: View, start: Int64Array) -> Closed:
        block = view.block
        assert block is not None and block.position is not None and block.last is not None
        end = start + self.window.size
        order = np.argsort(block.position, kind="stable")
        position, last = block.position[order], np.maximum.accumulate(block.last[order])
        first_time = block.first[order][np.searchsorted(position, start)]
        last_time = last[np.searchsorted(position, end) - 1]
        keys = view.keys_in_order
        window, key = np.repeat(np.arange(len(start)), len(keys)), np.tile(keys, len(start))
        lo, hi = np.empty(len(key), np.int64), np.empty(len(key), np.int64)
        _position_ranges(block.position, view.key_starts, key, start[window], end[window], lo, hi)
        there = np.flatnonzero(lo < hi)
        window = window[there]
        query = np.full(len(window), self.entry.number, np.int32)
        return Closed(
            query, start[window], end[window], key[there].astype(np.int32), lo[there], hi[there], view.partials,
            first_time=first_time[window], last_time=last_time[window],
        )  # fmt: skip

    def needed(self, view: View) -> BoolArray:
        """Rows at or after the first position of the next window."""
        block = view.block
        assert block is not None
        if self.by_key:
            assert block.key_position is not None
            done = np.zeros(len(view.keys_in_order), np.int64)
            done[: len(self.done)] = self.done
            needed: BoolArray = block.key_position >= self.entry.origin + done[block.key] * self.window.step
            return needed
        assert block.position is not None
        return np.asarray(block.position >= self.entry.origin + self.done[0] * self.window.step)

    def account_stragglers(self, times: Int64Array) -> Int64Array:
        return drop_from(self.entry.begin, times, self.counts)

    def outside(self, totals: Int64Array) -> int:
        """How many positions so far fall between windows (a step larger than the size)."""
        size, step = self.window.size, self.window.step
        if step <= size:
            return 0
        before = np.minimum(totals, self.entry.origin)
        totals = totals - before
        return int((before + (totals // step) * (step - size) + np.maximum(totals % step - size, 0)).sum())

    def state(self) -> list[Any]:
        return [self.done, self.counts]

    def restore(self, state: list[Any]) -> None:
        self.done, self.counts = state[0].copy(), state[1].copy()


@njit
def _position_ranges(
    position: Int64Array,
    key_starts: Int64Array,
    keys: Int64Array,
    starts: Int64Array,
    ends: Int64Array,
    lo: Int64Array,
    hi: Int64Array,
) -> None:
    for i in range(len(keys)):
        low, high = key_starts[keys[i]], key_starts[keys[i] + 1]
        lo[i] = low + np.searchsorted(position[low:high], starts[i])
        hi[i] = low + np.searchsorted(position[low:high], ends[i])


def count_table(queries: list[CountQuery]) -> Int64Array:
    """Rows (size, step, origin) for the slicer."""
    return np.array([(q.window.size, q.window.step, q.entry.origin) for q in queries], np.int64).reshape(-1, 3)
