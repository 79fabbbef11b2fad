"""Queries whose windows markers cut: they need the final order and share the rows of their group."""

from __future__ import annotations

import copy
from typing import Generic, Protocol, TypeVar

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.jit import njit
from headwater.base.snapshots import snapshot
from headwater.engine.intake.reorder import OrderedEvents, ReorderBuffer
from headwater.engine.slices.slicer import SlicedRows
from headwater.engine.windows.assembler import Closed, for_each_query
from headwater.engine.windows.late import DROPPED, OUTSIDE
from headwater.engine.windows.marker_walk import Cutter
from headwater.engine.windows.registered import Registered
from headwater.engine.windows.view import View
from headwater.language.windows import Between, Punctuated, Session


class HasEntries(Protocol):
    """A walk that serves several queries."""

    entries: list[Registered]


W = TypeVar("W", bound=HasEntries)


class Walk:
    """A cutter that walks over a group's events for all queries of one window."""

    def __init__(self, entry: Registered, conditions: list[int]) -> None:
        window = entry.query.window
        assert isinstance(window, Punctuated | Between | Session)
        self.window = window
        self.conditions = conditions  # which of the group's conditions are this window's markers
        self.cutter = Cutter(window, entry.begin)
        self.entries: list[Registered] = []
        self.walked: list[Int64Array] = []  # windows that ended on the way and were not closed yet

    def serves(self, other: Walk) -> bool:
        """Whether both walks find the same windows."""
        alike = type(self.window) is type(other.window) and self.window.max_duration == other.window.max_duration
        return alike and (self.conditions, self.cutter.begin) == (other.conditions, other.cutter.begin)

    def on(self, stretch: OrderedEvents, key_count: int) -> Int64Array:
        """Walk over released events; returns the cuts (key, time) that their rows need."""
        walked = self.cutter.walk(stretch.chunk.times, stretch.keys, key_count, self._markers(stretch))
        self.walked.append(walked.windows)
        return walked.cuts

    def _markers(self, stretch: OrderedEvents) -> list[BoolArray]:
        return [stretch.markers[i] for i in self.conditions]

    def outside(self, rows: SlicedRows, weights: Int64Array) -> int:
        """How many events of the rows just walked over lie in none of the windows, ended or open."""
        if not isinstance(self.window, Between):
            return 0
        return int(weights[~_inside(self.cutter, self.walked[-1], rows.key, rows.first)].sum())

    def waiting_outside(self, stretch: OrderedEvents, key_count: int) -> int:
        """How many of the events that still wait lie in no window, as things stand."""
        if not isinstance(self.window, Between):
            return 0
        cutter = copy.deepcopy(self.cutter)
        windows = cutter.walk(stretch.chunk.times, stretch.keys, key_count, self._markers(stretch)).windows
        return int((~_inside(cutter, windows, stretch.keys, stretch.chunk.times)).sum())

    def close(self, view: View, buffer: ReorderBuffer, until: int) -> list[Closed]:
        """The windows that ended since the last call, for each query; all events below ``until`` were walked over."""
        markers_now = np.empty(0, np.int64)
        if isinstance(self.window, Punctuated) and until >= self.cutter.begin:
            markers_now = buffer.keys_marked_at(until, self.conditions[0])
        self.cutter.grow(len(view.keys_in_order))
        windows = np.concatenate((*self.walked, self.cutter.close(until, markers_now)))
        self.walked = []
        key, start, end, range_end = windows.T
        lo, hi = view.ranges(key, start, range_end)
        query = np.zeros(len(windows), np.int32)
        ended = Closed(query, start, end, key.astype(np.int32), lo, hi, view.partials)
        return for_each_query(ended, self.entries, start)

    def needed(self, view: View) -> BoolArray:
        """Which rows belong to windows that are open."""
        assert view.block is not None
        return view.block.first >= self.cutter.needed_from()[view.block.key]


class WalkQuery(Generic[W]):
    """A query whose windows need the final order and take no late events: its walk has the windows, it keeps account."""

    def __init__(self, entry: Registered, walk: W) -> None:
        self.entry = entry
        self.walk = walk
        walk.entries.append(entry)
        self.counts = np.zeros(4, np.int64)

    def account_stragglers(self, times: Int64Array) -> Int64Array:
        """Count the stragglers, all of which are too late; returns those that windows of the query would have held."""
        dropped = np.flatnonzero(times >= self.entry.begin)
        self.counts[DROPPED] += len(dropped)
        self.counts[OUTSIDE] += len(times) - len(dropped)
        return dropped


class CutQuery(WalkQuery[Walk]):
    """A punctuated, between or limited session query without allowed lateness."""

    state, restore = snapshot("walk.cutter", "counts", "walk.walked")


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
