"""The windows of kept events, formed anew at each step from where the last settled window ended.

Events are given sorted by key and, within a key, in their order. Each former answers with all windows they form, open ones too,
and says from which time on each key's events are still needed.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from headwater.engine.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.chunk import Chunk
from headwater.engine.cuts import UNLIMITED, Cutter
from headwater.engine.edges import closing_windows, fixed_spec, spec_table
from headwater.engine.registered import Registered
from headwater.errors import DataError
from headwater.times import FOREVER, NEVER
from headwater.windows import Band, Between, CountWindow, Custom, Punctuated, Session, Sliding

ALL_KEYS = -1
LONG_AGO = -(2**62)  # no event is earlier; lets durations be taken off without leaving int64


@dataclass(slots=True)
class Kept:
    """Kept events sorted by key, in order within a key. ``starts[k]:starts[k + 1]`` are those of key k."""

    chunk: Chunk
    keys: Int32Array
    starts: Int64Array
    markers: list[BoolArray]

    @property
    def key_count(self) -> int:
        return len(self.starts) - 1

    def range_of(self, key: int, start: int, end: int) -> tuple[int, int]:
        """The events of a key with start <= time < end; FOREVER is no end."""
        low, high = int(self.starts[key]), int(self.starts[key + 1])
        times = self.chunk.times[low:high]
        behind = high if end == FOREVER else low + int(np.searchsorted(times, end))
        return low + int(np.searchsorted(times, start)), behind


@dataclass(slots=True)
class Formed:
    """Windows as rows (key, start, end, lo, hi), sorted by (key, start).

    ``reach[i]``: the last time at which window i is active; ``closed[i]``: no event on time can change it; ``final[i]``: nor a
    late one. Events of key k before ``needed[k]`` are in no window that can still change.
    """

    windows: Int64Array
    reach: Int64Array
    closed: BoolArray
    final: BoolArray
    needed: Int64Array

    def take(self, mask: BoolArray) -> Formed:
        return Formed(self.windows[mask], self.reach[mask], self.closed[mask], self.final[mask], self.needed)


class Former(Protocol):
    """Forms the windows of one query. Windows that were final at ``after`` are left out."""

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
    return CustomFormer(entry) if isinstance(window, Custom) else CutFormer(entry)


class _Stateless:
    """A former that depends on the kept events alone."""

    def __init__(self, entry: Registered) -> None:
        self._entry = entry

    def forget(self, kept: Kept, needed: Int64Array) -> None:
        """Events before ``needed`` go; nothing else depends on them."""

    def state(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        assert state is None


class FixedFormer:
    """Tumbling and sliding windows and bands that closed; with emit_empty each key's first window is remembered."""

    def __init__(self, entry: Registered) -> None:
        self._entry = entry
        self._first: dict[int, int] = {}

    def form(self, kept: Kept, after: int, until: int) -> Formed:
        window, lateness = self._entry.query.window, self._entry.query.lateness
        assert isinstance(window, Sliding | Band)
        spec = spec_table([fixed_spec(window, self._entry.begin, self._entry.stop)])
        by_key = []
        for key in range(kept.key_count):
            times = kept.chunk.times[kept.starts[key] : kept.starts[key + 1]]
            by_key.append(closing_windows(spec, NEVER, until, np.unique(times))[:, 1])
        if self._entry.query.emit_empty and isinstance(window, Sliding):
            by_key = self._filled(by_key, window, after, until)
        found = [np.empty((0, 5), np.int64)]
        for key, starts in enumerate(by_key):
            low, high = int(kept.starts[key]), int(kept.starts[key + 1])
            times, ends = kept.chunk.times[low:high], starts + window.size
            lo, hi = low + np.searchsorted(times, starts), low + np.searchsorted(times, ends)
            found.append(np.stack((np.full(len(starts), key), starts, ends, lo, hi), axis=1))
        windows = np.concatenate(found)
        windows = windows[windows[:, 2] > max(after, LONG_AGO) - lateness]
        bound = until if until == FOREVER else until - lateness - window.size + 1
        closed, final = np.ones(len(windows), np.bool_), windows[:, 2] <= until - lateness
        return Formed(windows, windows[:, 2] - 1, closed, final, np.full(kept.key_count, bound))

    def _filled(self, by_key: list[Int64Array], window: Sliding, after: int, until: int) -> list[Int64Array]:
        """All windows of each key from its first one on; at the end of the stream up to the last one with an event."""
        last = max((int(starts[-1]) for starts in by_key if len(starts)), default=NEVER)
        limit = until - window.size if until != FOREVER else max(last, max(after, LONG_AGO) - window.size)
        filled = []
        for key, starts in enumerate(by_key):
            first = min(self._known(key, starts), default=None)
            if first is None:
                filled.append(starts)
                continue
            self._first[key] = first
            filled.append(np.arange(first, min(limit, self._entry.stop - 1) + 1, window.slide))
        return filled

    def _known(self, key: int, starts: Int64Array) -> list[int]:
        return [*starts[:1].tolist(), *([self._first[key]] if key in self._first else [])]

    def forget(self, kept: Kept, needed: Int64Array) -> None:
        """Events before ``needed`` go; nothing else depends on them."""

    def state(self) -> Any:
        return [list(pair) for pair in self._first.items()]

    def restore(self, state: Any) -> None:
        self._first = dict(map(tuple, state))


class CutFormer(_Stateless):
    """Sessions, markers and pairs of markers: a fresh cutter walks over all kept events."""

    def form(self, kept: Kept, after: int, until: int) -> Formed:
        entry, window = self._entry, self._entry.query.window
        assert isinstance(window, Session | Punctuated | Between)
        rows, cutter = self._walk(kept, window)
        gap = window.gap if isinstance(window, Session) else 0
        limit = window.max_duration or UNLIMITED
        forced = rows[:, 2] - rows[:, 1] >= limit
        reach = np.where(forced, rows[:, 2] - 1, rows[:, 2] - isinstance(window, Punctuated))
        reach[rows[:, 2] == FOREVER] = FOREVER
        closed = (reach < until) & (rows[:, 2] < FOREVER)
        ranges = np.array([kept.range_of(k, s, e) for k, s, _, e in rows.tolist()], np.int64).reshape(-1, 2)
        # A late event reaches back to the watermark less lateness and gap; what ended before is settled.
        back = entry.query.lateness + gap
        until = max(until, LONG_AGO)
        final = closed & (rows[:, 3] + gap <= (until if until == FOREVER else until - back))
        needed = np.minimum(cutter.needed_from(), until if until == FOREVER else until - back)
        np.minimum.at(needed, rows[~final, 0], rows[~final, 1])
        formed = Formed(np.concatenate((rows[:, :3], ranges), axis=1), reach, closed, final, needed)
        settled = closed & (rows[:, 3] + gap <= max(after, LONG_AGO) - back)
        return formed.take(~settled & (rows[:, 1] < entry.stop))

    def _walk(self, kept: Kept, window: Session | Punctuated | Between) -> tuple[Int64Array, Cutter]:
        """Rows (key, start, end, range end) of all windows, the open ones with the end they would have."""
        cutter = Cutter(window, self._entry.begin)
        cutter.grow(kept.key_count)
        rows = cutter.walk(kept.chunk.times, kept.keys, kept.key_count, kept.markers).windows
        keys = np.flatnonzero(cutter.opened != NEVER)
        start = cutter.opened[keys]
        end = np.full(len(keys), FOREVER) if cutter.limit == UNLIMITED else start + cutter.limit
        behind = end.copy()
        if isinstance(window, Session):
            behind = cutter.latest[keys] + 1
            end = np.minimum(end, cutter.latest[keys] + window.gap)
        rows = np.concatenate((rows, np.stack((keys, start, end, behind), axis=1)))
        return rows[np.lexsort((rows[:, 1], rows[:, 0]))], cutter


@dataclass(slots=True)
class CustomFormer:
    """A user's cuts. Per key the function's state before the kept events, and the start of the window open there."""

    entry: Registered
    states: dict[int, Any] = field(default_factory=dict)
    opened: dict[int, int] = field(default_factory=dict)

    def form(self, kept: Kept, after: int, until: int) -> Formed:
        window, lateness = self.entry.query.window, self.entry.query.lateness
        assert isinstance(window, Custom)
        limit = until if until == FOREVER else until - lateness
        rows, needed = [], np.full(kept.key_count, limit)
        for key in range(kept.key_count):
            low, high = self._live(kept, key, until)
            behind = int(kept.starts[key + 1])
            if low == behind:
                continue
            starts = self._starts(kept, key, low, high)
            for start, end in zip(starts, [*starts[1:], FOREVER], strict=True):
                rows.append((key, start, end, *kept.range_of(key, start, end)))
                if end == FOREVER or end + window.closes_after > limit:
                    needed[key] = min(needed[key], start)
        windows = np.array(rows, np.int64).reshape(-1, 5)
        ends = windows[:, 2]
        closed = (ends < FOREVER) & (ends <= until - window.closes_after)
        final = closed & (ends <= (limit if until == FOREVER else limit - window.closes_after))
        settled = closed & (ends <= max(after, LONG_AGO) - lateness - window.closes_after)
        formed = Formed(windows, np.where(ends < FOREVER, ends - 1, ends), closed, final, needed)
        return formed.take(~settled & (windows[:, 1] < self.entry.stop))

    def _starts(self, kept: Kept, key: int, low: int, high: int) -> list[int]:
        """Where the windows of a key begin: at the open one or the first event, then at each cut."""
        first = self.opened.get(key, int(kept.chunk.times[low]))
        cuts = self._cuts(kept, key, low, high)[0] if low < high else []
        if key not in self.opened and cuts and cuts[0] <= first:
            return cuts
        return [first, *(cut for cut in cuts if cut > first)]

    def _live(self, kept: Kept, key: int, until: int) -> tuple[int, int]:
        """The kept events of a key below ``until`` that the query sees."""
        return kept.range_of(key, self.entry.begin, until)

    def _cuts(self, kept: Kept, key: int, low: int, high: int) -> tuple[list[int], Any]:
        """What the function says of the events low to high of one key, from its state before them."""
        window = self.entry.query.window
        assert isinstance(window, Custom)
        columns = {name: values.data[low:high] for name, values in kept.chunk.columns.items()}
        columns["time"] = kept.chunk.times[low:high]
        # A copy: the function may change its state in place, and these events will be walked again.
        cuts, state = window.load()(columns, copy.deepcopy(self.states.get(key)))
        times = [int(cut) for cut in cuts]
        if any(later <= earlier for earlier, later in zip(times, times[1:], strict=False)):
            raise DataError(
                f"query {self.entry.query.name!r}: its window function gave the cuts {times}: each must be above the one before"
            )
        return times, state

    def forget(self, kept: Kept, needed: Int64Array) -> None:
        """Events before ``needed``, the start of a window, go: take the function's state past them."""
        for key, bound in enumerate(needed.tolist()):
            low, high = self._live(kept, key, bound)
            if low < high:
                _, self.states[key] = self._cuts(kept, key, low, high)
                self.opened[key] = bound

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
        # Over all events: in the scopes that match nodes each node counts for itself.
        by_key = self.window.per == "key" or self.entry.query.scope != "global"
        if by_key:
            groups = [(k, np.arange(kept.starts[k], kept.starts[k + 1])) for k in range(kept.key_count)]
        else:
            order = kept.chunk.in_order()
            groups = [(ALL_KEYS, np.arange(len(kept.keys)) if order is None else order)]
        rows: list[tuple[int, ...]] = []
        needed = np.full(kept.key_count, until)
        for name, order in groups:
            order = order[int(np.searchsorted(kept.chunk.times[order], self.entry.begin)) :]
            following = self._windows(name, order, kept, until, rows)
            # Events at the same time as the next window's first one stay too: position tells them apart, not time.
            bound = int(kept.chunk.times[order[following]]) if following < len(order) else until
            needed[slice(None) if name == ALL_KEYS else name] = min(bound, until)
        table = np.array(sorted(rows), np.int64).reshape(-1, 6)
        closed = table[:, 5] == 1
        return Formed(table[:, :5], table[:, 2] - 1, closed, closed, needed)

    def _windows(
        self, name: int, order: Int64Array, kept: Kept, until: int, rows: list[tuple[int, ...]]
    ) -> int:
        """All windows over the events ``order``; returns where among them the first one that is not closed begins."""
        size, step = self.window.size, self.window.step
        base, number = self.passed.get(name, 0), self.done.get(name, 0)
        while number * step < base + len(order):
            start = number * step - base
            members = order[start : start + size]
            closed = len(members) == size and int(kept.chunk.times[members[-1]]) < until
            for key in np.unique(kept.keys[members]).tolist():
                # Sorted by key and in order within a key, the members of one key are neighbours.
                mine = members[kept.keys[members] == key]
                rows.append((key, number * step, number * step + size, int(mine[0]), int(mine[-1]) + 1, int(closed)))
            number += 1
            if closed and self.entry.query.scope == "global":
                self.done[name] = number
        return max(self.done.get(name, 0) * step - base, 0)

    def forget(self, kept: Kept, needed: Int64Array) -> None:
        """Count on past the events that go."""
        gone = (kept.chunk.times < needed[kept.keys]) & (kept.chunk.times >= self.entry.begin)
        names = kept.keys[gone].tolist() if self.window.per == "key" else [ALL_KEYS] * int(gone.sum())
        for name in names:
            self.passed[name] = self.passed.get(name, 0) + 1

    def state(self) -> Any:
        return [[list(pair) for pair in self.passed.items()], [list(pair) for pair in self.done.items()]]

    def restore(self, state: Any) -> None:
        self.passed, self.done = dict(map(tuple, state[0])), dict(map(tuple, state[1]))
