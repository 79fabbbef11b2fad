"""Windows that events themselves open and close: markers, pairs of markers, and sessions of limited length.

A cutter walks the events of a group once, in their final order, and keeps per key what is open. It says which windows ended and
at which times rows must be cut so that every window is a range of whole rows. All cuts are times: events at a marker's own time
belong to the window it opens, also those that stand before it in the order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, frozen
from headwater.base.jit import njit
from headwater.base.snapshots import snapshot
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Between, Punctuated, Session

#: The limit of windows that have none.
UNLIMITED = 2**62


@dataclass(slots=True)
class CutWindows:
    """Windows that ended: rows (key, start, reported end, end of the range of member times), and cuts (key, time)."""

    windows: Int64Array
    cuts: Int64Array


@njit
def _marked_times(times: Int64Array, keys: Int32Array, markers: BoolArray, seen: Int64Array) -> BoolArray:
    """For each event whether its key has a marker at its time; a key's equal times follow one another: one look back does it."""
    out = np.empty(len(times), np.bool_)
    for i in range(len(times) - 1, -1, -1):
        if markers[i]:
            seen[keys[i]] = times[i]
        out[i] = seen[keys[i]] == times[i]
    return out


class CutsMade(NamedTuple):
    """Room for what a walk finds: windows and cuts, and how many there are of both."""

    windows: Int64Array
    cuts: Int64Array
    counts: Int64Array


@njit
def _put_window(made: CutsMade, key: int, start: int, end: int, range_end: int) -> None:
    place = made.counts[0]
    made.windows[place, 0] = key
    made.windows[place, 1] = start
    made.windows[place, 2] = end
    made.windows[place, 3] = range_end
    made.counts[0] += 1


@njit
def _put_cut(made: CutsMade, key: int, time: int) -> None:
    made.cuts[made.counts[1], 0] = key
    made.cuts[made.counts[1], 1] = time
    made.counts[1] += 1


@njit
def _latest_end(start: int, limit: int) -> int:
    """Where a window that opened at ``start`` ends at the latest. Never a difference of times: those may leave int64."""
    return FOREVER if limit == UNLIMITED else start + limit


@njit
def _punctuate(
    times: Int64Array, keys: Int32Array, marked: BoolArray, limit: int, opened: Int64Array, made: CutsMade
) -> None:
    for i in range(len(times)):
        k, time = keys[i], times[i]
        start = opened[k]
        if start != NEVER and time >= _latest_end(start, limit):
            _put_window(made, k, start, start + limit, start + limit)
            start = NEVER
        if start == NEVER or (marked[i] and start < time):
            if start != NEVER:
                _put_window(made, k, start, time, time)
            _put_cut(made, k, time)
            start = time
        opened[k] = start


@njit
def _pair(
    times: Int64Array, keys: Int32Array, starts: BoolArray, ends: BoolArray, limit: int, opened: Int64Array,
    latest: Int64Array, made: CutsMade,
) -> None:  # fmt: skip
    for i in range(len(times)):
        k, time = keys[i], times[i]
        start = opened[k]
        if start != NEVER and time >= _latest_end(start, limit):
            _put_window(made, k, start, start + limit, start + limit)
            _put_cut(made, k, start + limit)
            start = NEVER
        if start != NEVER and ends[i]:
            # Markers at one time may open and end a window of this one instant again and again: it is the same window.
            if start != time or latest[k] != time:
                _put_window(made, k, start, time, time + 1)
                _put_cut(made, k, time + 1)
            if start == time:
                latest[k] = time
            start = NEVER
        if start == NEVER and starts[i]:
            _put_cut(made, k, time)
            start = time
        opened[k] = start


@njit
def _chain(
    times: Int64Array, keys: Int32Array, gap: int, limit: int, opened: Int64Array, latest: Int64Array, made: CutsMade
) -> None:
    for i in range(len(times)):
        k, time = keys[i], times[i]
        start = opened[k]
        if start != NEVER and (time > latest[k] + gap or time >= _latest_end(start, limit)):
            _put_window(made, k, start, min(latest[k] + gap, _latest_end(start, limit)), latest[k] + 1)
            start = NEVER
        if start == NEVER:
            _put_cut(made, k, time)
            start = time
        opened[k] = start
        latest[k] = time


@njit
def _first_events(keys: Int32Array, wanted: BoolArray) -> Int64Array:
    """The first event of each key that is wanted and there."""
    out = np.empty(len(wanted), np.int64)
    count, missing = 0, wanted.copy()
    for i in range(len(keys)):
        if missing[keys[i]]:
            missing[keys[i]] = False
            out[count] = i
            count += 1
            if count == len(wanted):
                break
    return out[:count]


@dataclass(slots=True)
class Cutter:
    """The walk of one query. ``opened[k]`` is the start of key k's open window or NEVER.

    ``latest[k]`` is, for sessions, the time of its last event; for pairs of markers that of its last window of one instant.
    """

    window: Punctuated | Between | Session
    begin: int = NEVER
    opened: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    latest: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def limit(self) -> int:
        return UNLIMITED if self.window.max_duration is None else self.window.max_duration

    def grow(self, key_count: int) -> None:
        missing = key_count - len(self.opened)
        if missing > 0:
            self.opened = np.concatenate((self.opened, np.full(missing, NEVER)))
            self.latest = np.concatenate((self.latest, np.full(missing, NEVER)))

    def walk(self, times: Int64Array, keys: Int32Array, key_count: int, markers: list[BoolArray]) -> CutWindows:
        """Walk on over the next events, each key's in order. ``markers``: which events match the window's conditions."""
        self.grow(key_count)
        if self.begin > NEVER and (times < self.begin).any():
            later = times >= self.begin
            times, keys, markers = times[later], keys[later], [marker[later] for marker in markers]
        if self.limit == UNLIMITED and not isinstance(self.window, Session):
            # Without a limit only markers count, and the first event of a key.
            chosen = self._decisive(keys, markers)
            times, keys, markers = times[chosen], keys[chosen], [marker[chosen] for marker in markers]
        n = len(times)
        # An event ends at most two windows (one by its limit, one by a marker) and asks for at most three cuts.
        made = CutsMade(np.empty((2 * n, 4), np.int64), np.empty((3 * n, 2), np.int64), np.zeros(2, np.int64))
        if isinstance(self.window, Punctuated):
            marked = _marked_times(times, keys, markers[0], np.full(key_count, NEVER))
            _punctuate(times, keys, marked, self.limit, self.opened, made)
        elif isinstance(self.window, Between):
            _pair(times, keys, markers[0], markers[1], self.limit, self.opened, self.latest, made)
        else:
            _chain(times, keys, self.window.gap, self.limit, self.opened, self.latest, made)
        window_count, cut_count = made.counts.tolist()
        return CutWindows(made.windows[:window_count].copy(), made.cuts[:cut_count].copy())

    def _decisive(self, keys: Int32Array, markers: list[BoolArray]) -> Int64Array:
        """The events that can open or end a window."""
        if isinstance(self.window, Between):
            return np.flatnonzero(markers[0] | markers[1])
        if (self.opened != NEVER).all():
            return np.flatnonzero(markers[0])
        return np.union1d(np.flatnonzero(markers[0]), _first_events(frozen(keys, np.int32), self.opened == NEVER))

    def close(self, watermark: int, markers_now: Int64Array) -> Int64Array:
        """Windows that end by the watermark alone, after all earlier events were walked.

        ``markers_now``: keys with a marker exactly at the watermark: it ends a punctuated window although it is not walked yet.
        """
        parts = [np.empty((0, 4), np.int64)]
        is_open = self.opened != NEVER
        if isinstance(self.window, Session):
            ended = is_open & (self.latest < watermark - self.window.gap)
            ends = self.latest + self.window.gap
            if self.limit < UNLIMITED:
                ended |= is_open & (self.opened <= watermark - self.limit)
                ends = np.minimum(ends, self.opened + self.limit)
            ends = ends[ended]
            parts.append(self._ended(ended, ends, self.latest[ended] + 1))
        elif self.limit < UNLIMITED:
            ended = is_open & (self.opened <= watermark - self.limit)
            ends = self.opened[ended] + self.limit
            parts.append(self._ended(ended, ends, ends))
        if isinstance(self.window, Punctuated) and len(markers_now):
            marked = np.zeros(len(self.opened), bool)
            marked[markers_now] = True
            ended = marked & (self.opened != NEVER) & (self.opened < watermark)
            ends = np.full(int(ended.sum()), watermark)
            parts.append(self._ended(ended, ends, ends))
            self.opened[marked] = watermark
        return np.concatenate(parts)

    def _ended(self, ended: BoolArray, ends: Int64Array, range_ends: Int64Array) -> Int64Array:
        keys = np.flatnonzero(ended)
        windows = np.stack((keys, self.opened[ended], ends, range_ends), axis=1)
        self.opened[ended] = NEVER
        return windows

    def needed_from(self) -> Int64Array:
        """For each key the earliest time whose rows are still needed."""
        return np.where(self.opened == NEVER, FOREVER, self.opened)

    state, restore = snapshot("begin", "opened", "latest")
