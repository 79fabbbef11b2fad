"""The windows of kept events, formed anew at each step from where the last settled window ended.

Events are given sorted by key and, within a key, in their order. Each former answers with rows (key, start, reported end, first
event, event behind the last) and says from which time on each key's events are still needed.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from headwater.engine.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.chunk import Chunk
from headwater.engine.cuts import Cutter
from headwater.engine.edges import closing_windows, fixed_spec, spec_table
from headwater.engine.registered import Registered
from headwater.errors import DataError
from headwater.times import FOREVER, NEVER
from headwater.windows import Band, CountWindow, Custom, Punctuated, Session, Sliding


ALL_KEYS = -1
LONG_AGO = -(2**62)  # no event is earlier; lets durations be taken off without leaving int64


@dataclass(slots=True)
class Kept:
    """Kept events sorted by key, in order within a key. ``starts[k]:starts[k + 1]`` are those of key k."""

    chunk: Chunk
    keys: Int32Array
    starts: Int64Array
    markers: list[BoolArray]

    def range_of(self, key: int, start: int, end: int) -> tuple[int, int]:
        low, high = int(self.starts[key]), int(self.starts[key + 1])
        times = self.chunk.times[low:high]
        lo, hi = np.searchsorted(times, (start, end))
        return low + int(lo), low + int(hi)


@dataclass(slots=True)
class Formed:
    """Windows as rows (key, start, end, lo, hi); ``final[i]``: no event can change window i any more.

    Per key: events before ``needed`` are in no window to come; ``open_from`` is where the open window starts, FOREVER if none.
    """

    windows: Int64Array
    final: BoolArray
    needed: Int64Array
    open_from: Int64Array


def _none_open(kept: Kept) -> Int64Array:
    return np.full(len(kept.starts) - 1, FOREVER)


class Former(Protocol):
    def form(self, kept: Kept, after: int, until: int) -> Formed: ...
    def forget(self, kept: Kept, needed: Int64Array) -> None: ...
    def state(self) -> Any: ...
    def restore(self, state: Any) -> None: ...


def former_of(entry: Registered) -> Former:
    window = entry.query.window
    if isinstance(window, Sliding | Band):
        return FixedFormer(entry)
    if isinstance(window, CountWindow):
        return CountFormer(entry)
    if isinstance(window, Custom):
        return CustomFormer(entry)
    return CutFormer(entry)


class _Stateless:
    def forget(self, kept: Kept, needed: Int64Array) -> None:
        """Events before ``needed`` go; nothing else depends on them."""

    def state(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        assert state is None


class FixedFormer(_Stateless):
    def __init__(self, entry: Registered) -> None:
        self._entry = entry

    def form(self, kept: Kept, after: int, until: int) -> Formed:
        entry = self._entry
        window, lateness = entry.query.window, entry.query.lateness
        assert isinstance(window, Sliding | Band)
        spec = spec_table([fixed_spec(window, entry.begin, entry.stop)])
        found = [np.empty((0, 5), np.int64)]
        for key in range(len(kept.starts) - 1):
            low, high = int(kept.starts[key]), int(kept.starts[key + 1])
            times = kept.chunk.times[low:high]
            rows = closing_windows(spec, NEVER, until, np.unique(times))
            lo, hi = low + np.searchsorted(times, rows[:, 1]), low + np.searchsorted(times, rows[:, 2])
            found.append(np.stack((np.full(len(rows), key), rows[:, 1], rows[:, 2], lo, hi), axis=1))
        windows = np.concatenate(found)
        windows = windows[windows[:, 2] > max(after, LONG_AGO) - lateness]
        bound = until if until == FOREVER else until - lateness - window.size + 1
        return Formed(windows, windows[:, 2] <= until - lateness, np.full(len(kept.starts) - 1, bound), _none_open(kept))


class CutFormer(_Stateless):
    """Sessions, markers and pairs of markers: a fresh cutter walks over all kept events."""

    def __init__(self, entry: Registered) -> None:
        self._entry = entry

    def form(self, kept: Kept, after: int, until: int) -> Formed:
        window = self._entry.query.window
        assert not isinstance(window, Sliding | Band | CountWindow | Custom)
        key_count = len(kept.starts) - 1
        cutter = Cutter(window, self._entry.begin)
        cutter.grow(key_count)
        found = [np.empty((0, 4), np.int64)]
        for key in range(key_count):
            low = int(kept.starts[key])
            high = int(kept.starts[key + 1]) if until == FOREVER else kept.range_of(key, NEVER, until)[1]
            stretch = slice(low, high)
            keys, markers = np.full(high - low, key, np.int32), [marker[stretch] for marker in kept.markers]
            found.append(cutter.walk(kept.chunk.times[stretch], keys, key_count, markers).windows)
        found.append(cutter.close(until, self._marked_at(kept, until)))
        rows = np.concatenate(found)
        gap = window.gap if isinstance(window, Session) else 0
        settled = rows[:, 3] + gap <= max(after, LONG_AGO) - self._entry.query.lateness - gap
        rows = rows[~settled & (rows[:, 1] < self._entry.stop)]
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        ranges = np.array([kept.range_of(k, s, e) for k, s, _, e in rows.tolist()], np.int64).reshape(-1, 2)
        windows = np.concatenate((rows[:, :3], ranges), axis=1)
        limit = until if until == FOREVER else until - self._entry.query.lateness - gap
        final = rows[:, 3] + gap <= limit
        needed = np.minimum(cutter.needed_from(), limit)
        np.minimum.at(needed, rows[~final, 0], rows[~final, 1])
        return Formed(windows, final, needed, cutter.needed_from())

    def _marked_at(self, kept: Kept, until: int) -> Int64Array:
        """Keys with a marker exactly at the watermark, which ends a punctuated window."""
        if not isinstance(self._entry.query.window, Punctuated) or until < self._entry.begin:
            return np.empty(0, np.int64)
        return np.unique(kept.keys[(kept.chunk.times == until) & kept.markers[0]]).astype(np.int64)


@dataclass(slots=True)
class CustomFormer:
    """A user's cuts. Per key the function's state before the kept events, and the start of the window open there."""

    entry: Registered
    states: dict[int, Any] = field(default_factory=dict)
    opened: dict[int, int] = field(default_factory=dict)

    def form(self, kept: Kept, after: int, until: int) -> Formed:
        window = self.entry.query.window
        assert isinstance(window, Custom)
        rows, needed = [], []
        limit = until if until == FOREVER else until - self.entry.query.lateness
        for key in range(len(kept.starts) - 1):
            low, high = self._live(kept, key, until)
            opened = self.opened.get(key, int(kept.chunk.times[low]) if low < high else None)
            earliest = limit
            for cut in self._cuts(kept, key, low, high)[0] if low < high else ():
                if opened is not None and cut > opened:
                    if cut <= until - window.closes_after:
                        rows.append((key, opened, cut, *kept.range_of(key, opened, cut)))
                    if cut + window.closes_after > limit:
                        earliest = min(earliest, opened)
                    opened = cut
            needed.append(min(earliest, limit if opened is None else opened))
        windows = np.array(rows, np.int64).reshape(-1, 5)
        settled = windows[:, 2] + window.closes_after <= max(after, LONG_AGO) - self.entry.query.lateness
        windows = windows[~settled & (windows[:, 1] < self.entry.stop)]
        final = windows[:, 2] <= (limit if until == FOREVER else limit - window.closes_after)
        return Formed(windows, final, np.array(needed, np.int64), _none_open(kept))

    def _cuts(self, kept: Kept, key: int, low: int, high: int) -> tuple[list[int], Any]:
        """What the function says of the events low to high of one key, from its state before them."""
        window = self.entry.query.window
        assert isinstance(window, Custom)
        columns = {"time": kept.chunk.times[low:high]}
        columns |= {name: values.data[low:high] for name, values in kept.chunk.columns.items()}
        # A copy: the function may change its state in place, and these events will be walked again.
        cuts, state = window.load()(columns, copy.deepcopy(self.states.get(key)))
        times = [int(cut) for cut in cuts]
        if any(later <= earlier for earlier, later in zip(times, times[1:], strict=False)):
            raise DataError(f"query {self.entry.query.name!r}: its window function gave cuts {times}: each must be after the last")
        return times, state

    def forget(self, kept: Kept, needed: Int64Array) -> None:
        """Events before ``needed``, the start of a window, go: take the function's state past them."""
        for key, bound in enumerate(needed.tolist()):
            low, high = self._live(kept, key, bound)
            if low < high:
                _, self.states[key] = self._cuts(kept, key, low, high)
                self.opened[key] = bound

    def _live(self, kept: Kept, key: int, until: int) -> tuple[int, int]:
        """The kept events of a key below ``until`` that the query sees."""
        high = int(kept.starts[key + 1])
        return kept.range_of(key, self.entry.begin, NEVER)[0], high if until == FOREVER else kept.range_of(key, NEVER, until)[1]

    def state(self) -> Any:
        return [[[k, v] for k, v in self.states.items()], [[k, v] for k, v in self.opened.items()]]

    def restore(self, state: Any) -> None:
        self.states, self.opened = dict(map(tuple, state[0])), dict(map(tuple, state[1]))


class CountFormer:
    """Count windows over kept events: ``passed`` events came before the kept ones; ``done`` windows are out."""

    def __init__(self, entry: Registered) -> None:
        window = entry.query.window
        assert isinstance(window, CountWindow)
        self.entry = entry
        self.window = window
        self.passed: dict[int, int] = {}
        self.done: dict[int, int] = {}

    def form(self, kept: Kept, after: int, until: int) -> Formed:
        key_count = len(kept.starts) - 1
        if self.window.per == "key":
            groups = [(k, np.arange(kept.starts[k], kept.starts[k + 1])) for k in range(key_count)]
        else:
            order = kept.chunk.in_order()
            groups = [(ALL_KEYS, np.arange(len(kept.keys)) if order is None else order)]
        rows, needed = [], np.full(key_count, until)
        for name, order in groups:
            times = kept.chunk.times[order]
            order = order[self._seen(times, until)]
            start, windows = self._windows(name, order, kept)
            rows.extend(windows)
            # Events at the same time as the next window's first one stay too: they are told apart by position, not by time.
            bound = int(kept.chunk.times[order[start]]) if start < len(order) else until
            needed[slice(None) if name == ALL_KEYS else name] = bound
        windows = np.array(rows, np.int64).reshape(-1, 5)
        return Formed(windows, np.ones(len(windows), np.bool_), needed, _none_open(kept))

    def _seen(self, times: Int64Array, until: int) -> slice:
        low = int(np.searchsorted(times, self.entry.begin))
        return slice(low, None if until == FOREVER else int(np.searchsorted(times, until)))

    def _windows(self, name: int, order: Int64Array, kept: Kept) -> tuple[int, list[tuple[int, int, int, int, int]]]:
        """Full windows over the events ``order``, and where the next one begins among them."""
        size, step = self.window.size, self.window.step
        base, rows = self.passed.get(name, 0), []
        while self.done.get(name, 0) * step + size <= base + len(order):
            start = self.done.get(name, 0) * step
            members = order[start - base : start - base + size]
            for key in np.unique(kept.keys[members]).tolist():
                # Sorted by key and in order within a key, the members of one key are neighbours.
                mine = members[kept.keys[members] == key]
                rows.append((key, start, start + size, int(mine[0]), int(mine[-1]) + 1))
            self.done[name] = self.done.get(name, 0) + 1
        return max(self.done.get(name, 0) * step - base, 0), rows

    def forget(self, kept: Kept, needed: Int64Array) -> None:
        """Count on past the events that go."""
        gone = (kept.chunk.times < needed[kept.keys]) & (kept.chunk.times >= self.entry.begin)
        if self.window.per == "key":
            for key in np.unique(kept.keys[gone]).tolist():
                self.passed[key] = self.passed.get(key, 0) + int((kept.keys[gone] == key).sum())
        else:
            self.passed[ALL_KEYS] = self.passed.get(ALL_KEYS, 0) + int(gone.sum())

    def state(self) -> Any:
        return [[list(pair) for pair in self.passed.items()], [list(pair) for pair in self.done.items()]]

    def restore(self, state: Any) -> None:
        self.passed, self.done = dict(map(tuple, state[0])), dict(map(tuple, state[1]))
