"""Windows formed from kept events: on a grid of times or positions, or where events decide.

Those that events decide are formed anew at each step from where the last settled window ended. Behind the formers stands how
windows of several nodes become one: the i-th of each, those of equal bounds, or those that overlap (the readings of Disco).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.jit import njit
from headwater.base.snapshots import pairs, snapshot
from headwater.engine.groups.replay.kept import LONG_AGO, Formed, Former, KeptEvents
from headwater.engine.slices.edges import fixed_spec, next_end, spec_table
from headwater.engine.windows.empty_windows import check_empty, paced
from headwater.engine.windows.marker_walk import UNLIMITED, Cutter
from headwater.engine.windows.registered import Registered
from headwater.errors import DataError
from headwater.language.query import CONTEXT_SCOPES
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, Between, CountWindow, Custom, Punctuated, Session, Sliding

Parts = list[int]  # rows of the windows that are one


def former_of(entry: Registered) -> Former:
    window = entry.query.window
    if isinstance(window, Sliding | Band):
        return FixedFormer(entry)
    if isinstance(window, CountWindow):
        return CountFormer(entry)
    return CustomFormer(entry) if isinstance(window, Custom) else CutFormer(entry)


class CutFormer(Former):
    """Sessions, markers and pairs of markers: a fresh cutter walks over all kept events."""

    def form(self, kept: KeptEvents, after: int, until: int, is_paced: bool = False) -> Formed:
        entry, window = self.entry, self.entry.query.window
        assert isinstance(window, Session | Punctuated | Between)
        rows = self._walk(kept, window)
        gap = window.gap if isinstance(window, Session) else 0
        forced = np.zeros(len(rows), np.bool_)
        if window.max_duration is not None:
            forced = rows[:, 2] >= rows[:, 1] + window.max_duration
        reach = np.where(forced, rows[:, 2] - 1, rows[:, 2] - isinstance(window, Punctuated))
        reach[rows[:, 2] == FOREVER] = FOREVER
        closed = (reach < until) & (rows[:, 2] < FOREVER)
        ranges = np.array([kept.range_of(k, s, e) for k, s, _, e in rows.tolist()], np.int64).reshape(-1, 2)
        # A late event reaches back to the watermark less lateness and gap; what ended before is settled.
        back = entry.query.lateness + gap
        until = max(until, LONG_AGO)
        final = closed & (rows[:, 3] + gap <= (until if until == FOREVER else until - back))
        needed = np.full(kept.key_count, until if until == FOREVER else until - back)
        np.minimum.at(needed, rows[~final, 0], rows[~final, 1])
        formed = Formed(np.concatenate((rows[:, :3], ranges), axis=1), reach, closed, final, needed)
        if not isinstance(window, Between):
            return formed
        # What was final before is gone with its events; only pairs of markers may share events with a window that is not.
        return formed.take(~closed | (rows[:, 3] > max(after, LONG_AGO) - back))

    def _walk(self, kept: KeptEvents, window: Session | Punctuated | Between) -> Int64Array:
        """Rows (key, start, end, range end) of all windows, the open ones with the end they would have."""
        cutter = Cutter(window, self.entry.begin)
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
        return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


class CustomFormer(Former):
    """A user's cuts. Per key the function's state before the kept events, and the start of the window open there."""

    def __init__(self, entry: Registered) -> None:
        super().__init__(entry)
        self.states: dict[int, Any] = {}
        self.opened: dict[int, int] = {}

    def form(self, kept: KeptEvents, after: int, until: int, is_paced: bool = False) -> Formed:
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
        # What was final before is gone with its events: a cut that only later events tell is never mistaken for an old one.
        return Formed(windows, np.where(ends < FOREVER, ends - 1, ends), closed, final, needed)

    def _starts(self, kept: KeptEvents, key: int, low: int, high: int) -> list[int]:
        """Where the windows of a key begin: at the open one or the first event, then at each cut."""
        first = self.opened.get(key, int(kept.chunk.times[low]))
        cuts = self._cuts(kept, key, low, high)[0] if low < high else []
        if key not in self.opened and cuts and cuts[0] <= first:
            return cuts
        return [first, *(cut for cut in cuts if cut > first)]

    def _live(self, kept: KeptEvents, key: int, until: int) -> tuple[int, int]:
        """The kept events of a key below ``until`` that the query sees."""
        return kept.range_of(key, self.entry.begin, until)

    def _cuts(self, kept: KeptEvents, key: int, low: int, high: int) -> tuple[list[int], Any]:
        """What the function says of the events low to high of one key, from its state before them."""
        window = self.entry.query.window
        assert isinstance(window, Custom)
        columns = {name: values.data[low:high] for name, values in kept.chunk.columns.items()}
        columns["time"] = kept.chunk.times[low:high]
        # A copy: the function may change its state in place, and these events will be walked again.
        cuts, state = window.load()(columns, copy.deepcopy(self.states.get(key)))
        times = [int(cut) for cut in cuts]
        if any(later <= earlier for earlier, later in pairwise(times)):
            raise DataError(
                f"query {self.entry.query.name!r}: its window function gave the cuts {times}: each must be above the one before"
            )
        return times, state

    def forget(self, kept: KeptEvents, needed: Int64Array) -> None:
        """Events before ``needed``, the start of a window, go: take the function's state past them."""
        for key, bound in enumerate(needed.tolist()):
            low, high = self._live(kept, key, bound)
            if low < high:
                _, self.states[key] = self._cuts(kept, key, low, high)
                self.opened[key] = bound

    state, restore = snapshot(pairs("states"), pairs("opened"))


@njit
def _occupied(
    times: Int64Array, key_starts: Int64Array, size: int, slide: int, first: int, last: int, out: Int64Array
) -> int:
    """Rows (key, start, end, lo, hi) of the windows that start at first, first + slide, ... up to last and hold an event.

    Only counts when ``out`` is empty.
    """
    count = 0
    for key in range(len(key_starts) - 1):
        low, high = key_starts[key], key_starts[key + 1]
        start = first
        while start <= last:
            lo = low + np.searchsorted(times[low:high], start)
            if lo == high:
                break
            if times[lo] >= start + size:
                # Jump over the windows that end before the next event.
                start += ((times[lo] - start - size) // slide + 1) * slide
                continue
            if len(out) > 0:
                out[count, 0] = key
                out[count, 1] = start
                out[count, 2] = start + size
                out[count, 3] = lo
                out[count, 4] = lo + np.searchsorted(times[lo:high], start + size)
            count += 1
            start += slide
    return count


class FixedFormer(Former):
    """Tumbling and sliding windows and bands that closed; with emit_empty each key's first window is remembered."""

    def __init__(self, entry: Registered) -> None:
        super().__init__(entry)
        self.fills = bool(entry.query.emit_empty) and isinstance(entry.query.window, Sliding)
        self._first: dict[int, int] = {}

    def closes_nothing(self, after: int, until: int, held: int) -> bool:
        return until != FOREVER and next_end(spec_table([self._spec()]), after) > until

    def form(self, kept: KeptEvents, after: int, until: int, is_paced: bool = False) -> Formed:
        size, slide, _, _, stop = self._spec()
        lateness = int(self.entry.query.lateness)
        first, last = self._start_from(max(after, LONG_AGO) - lateness - size + 1), min(until - size, stop - 1)
        if self.fills:
            windows = self._filled(kept, first, after, until, is_paced)
        else:
            arguments = (kept.chunk.times, kept.starts, size, slide, first, last)
            windows = np.empty((_occupied(*arguments, np.empty((0, 5), np.int64)), 5), np.int64)
            if len(windows):
                _occupied(*arguments, windows)
        needed = until if until == FOREVER else self._start_from(until - lateness - size + 1)
        final = windows[:, 2] <= until - lateness
        return Formed(
            windows, windows[:, 2] - 1, np.ones(len(windows), np.bool_), final, np.full(kept.key_count, needed)
        )

    def _spec(self) -> tuple[int, int, int, int, int]:
        window = self.entry.query.window
        assert isinstance(window, Sliding | Band)
        return fixed_spec(window, self.entry.begin, self.entry.stop)

    def _start_from(self, time: int) -> int:
        """The first start of a window at or after ``time``."""
        _, slide, offset, begin, _ = self._spec()
        return offset + -((offset - max(time, begin)) // slide) * slide

    def _filled(self, kept: KeptEvents, first: int, after: int, until: int, is_paced: bool) -> Int64Array:
        """All windows of each key from its first one on; at the end of the stream up to the last one with an event of any key."""
        size, slide, _, _, stop = self._spec()
        self._first = self._firsts(kept)
        found = [np.empty((0, 5), np.int64)]
        last = min(self._limit(kept, after, until), stop - 1)
        shown = [(key, range(max(start, first), last + 1, slide)) for key, start in sorted(self._first.items())]
        if not is_paced:
            check_empty(self.entry.query, shown, len(kept))
        for key, start in sorted(self._first.items()):
            low, high = int(kept.starts[key]), int(kept.starts[key + 1])
            # Not np.arange with a step: it counts in floats, too coarse for times at the ends of int64.
            begin = max(start, first)
            starts = begin + slide * np.arange(max((last - begin) // slide + 1, 0))
            lo, hi = (low + np.searchsorted(kept.chunk.times[low:high], starts + more) for more in (0, size))
            found.append(np.stack((np.full(len(starts), key), starts, starts + size, lo, hi), axis=1))
        return np.concatenate(found)

    def reach(self, after: int, until: int, kept: KeptEvents) -> int:
        firsts = self._firsts(kept).values() if self.fills else ()
        if not firsts:
            return until
        size, slide, _, _, stop = self._spec()
        end = min(self._limit(kept, after, until), stop - 1) + size
        return paced(after, until, slide, max(kept.key_count, 1), min(firsts) + size, end)

    def _limit(self, kept: KeptEvents, after: int, until: int) -> int:
        """The last start of a window without events; at the end of the stream that of the last event of any key."""
        size, slide, offset, _, _ = self._spec()
        if until != FOREVER:
            return until - size
        latest = int(kept.chunk.times.max()) if len(kept) else NEVER
        return max((latest - offset) // slide * slide + offset, max(after, LONG_AGO) - size)

    def _firsts(self, kept: KeptEvents) -> dict[int, int]:
        """The first window of each key that has a member: not an event whose own source had passed the window."""
        size, slide, offset, begin, stop = self._spec()
        times, firsts = kept.chunk.times, self._first.copy()
        open_from = times
        if kept.marks is not None:
            open_from = np.maximum(times, np.maximum(kept.marks, LONG_AGO) - int(self.entry.query.lateness))
        earliest = np.maximum(open_from - size + 1, begin)
        starts = offset + -((offset - earliest) // slide) * slide
        member = np.flatnonzero((starts <= times) & (starts < stop))
        for key in np.unique(kept.keys[member]).tolist():
            low, high = np.searchsorted(kept.keys[member], (key, key + 1))
            start = int(starts[member[low:high]].min())
            firsts[key] = min(start, firsts.get(key, start))
        return firsts

    state, restore = snapshot(pairs("_first"))


class CountFormer(Former):
    """Count windows. Of each key, ``passed`` events came before the kept ones, and ``done`` windows are out."""

    def __init__(self, entry: Registered) -> None:
        super().__init__(entry)
        assert isinstance(entry.query.window, CountWindow)
        self._window = entry.query.window
        self._passed: Int64Array = np.zeros(0, np.int64)
        self._done: Int64Array = np.zeros(0, np.int64)

    def closes_nothing(self, after: int, until: int, held: int) -> bool:
        """Whether no window can be full, even if all the events that are held had one key."""
        lacking = self._done * self._window.step + self._window.size - self._passed
        return held < min(self._window.size, int(lacking.min(initial=self._window.size)))

    def form(self, kept: KeptEvents, after: int, until: int, is_paced: bool = False) -> Formed:
        self._grow(kept.key_count)
        size, step, times, starts = self._window.size, self._window.step, kept.chunk.times, kept.starts
        held, passed = np.diff(starts), self._passed
        settled = passed + np.bincount(kept.keys[times < until], minlength=kept.key_count)
        closed = np.maximum(self._done, (settled - size) // step + 1)
        fresh = np.maximum(-(-(passed + held) // step) - self._done, 0)
        key = np.repeat(np.arange(kept.key_count), fresh)
        number = np.arange(len(key)) - np.repeat(np.cumsum(fresh) - fresh - self._done, fresh)
        lo, hi = (starts[key] + np.clip(number * step + more - passed[key], 0, held[key]) for more in (0, size))
        windows = np.stack((key, number * step, number * step + size, lo, hi), axis=1)
        # Events at the same time as the next window's first one stay too: position tells them apart, not time.
        following = starts[:-1] + np.maximum(closed * step - passed, 0)
        needed = np.full(kept.key_count, until)
        waiting = np.flatnonzero(following < starts[1:])
        needed[waiting] = np.minimum(times[following[waiting]], until)
        if self.entry.query.scope not in CONTEXT_SCOPES:
            self._done = closed
        is_closed = number < closed[key]
        return Formed(windows, windows[:, 2] - 1, is_closed, is_closed, needed).take(lo < hi)

    def _grow(self, key_count: int) -> None:
        more = np.zeros(key_count - len(self._passed), np.int64)
        self._passed, self._done = np.concatenate((self._passed, more)), np.concatenate((self._done, more))

    def form_all(self, kept: KeptEvents) -> Formed:
        self._grow(kept.key_count)
        done, self._done = self._done, np.zeros_like(self._done)
        formed = self.form(kept, NEVER, NEVER)
        self._done = done
        return formed

    def forget(self, kept: KeptEvents, needed: Int64Array) -> None:
        """Count on past the events that go."""
        gone = kept.chunk.times < needed[kept.keys]
        self._passed = self._passed + np.bincount(kept.keys[gone], minlength=kept.key_count)

    state, restore = snapshot("_passed", "_done")


def unite(formed: Formed, scope: str, owner: Int64Array, until: int) -> tuple[Formed, Int64Array]:
    """One window for all its parts. ``owner[k]`` is the key, without the node, of window key k.

    Returns the united windows, keyed by owner, and rows (united window, lo, hi) of their members. A united window waits for its
    open parts; at the end of the stream an unfinished part is none at all.
    """
    if until == FOREVER:
        formed = formed.take(formed.closed)
    keys = owner[formed.windows[:, 0]]
    united: list[Parts] = []
    for key in np.unique(keys).tolist():
        united.extend(_PARTS[scope](formed, np.flatnonzero(keys == key)))
    rows = [_union(formed, int(keys[parts[0]]), parts) for parts in united]
    members = [(i, *formed.windows[part, 3:].tolist()) for i, parts in enumerate(united) for part in parts]
    table = np.array(rows, np.int64).reshape(-1, 7)
    # Another node may add its part at any time, so nothing is ever final.
    final = np.zeros(len(table), np.bool_)
    whole = Formed(table[:, :5], table[:, 5], table[:, 6] == 1, final, formed.needed)
    return whole, np.array(members, np.int64).reshape(-1, 3)


def _union(formed: Formed, key: int, parts: Parts) -> tuple[int, ...]:
    """A row of a window, without events of its own: these are in its parts. Behind it, its reach and whether it is closed."""
    windows = formed.windows[parts]
    reach, closed = int(formed.reach[parts].max()), bool(formed.closed[parts].all())
    return key, int(windows[:, 1].min()), int(windows[:, 2].max()), 0, 0, reach, int(closed)


def _ordinal(formed: Formed, rows: Int64Array) -> Iterator[Parts]:
    by_node = [rows[formed.windows[rows, 0] == node] for node in np.unique(formed.windows[rows, 0])]
    for number in range(max(map(len, by_node), default=0)):
        yield [int(windows[number]) for windows in by_node if number < len(windows)]


def _matched(formed: Formed, rows: Int64Array) -> Iterator[Parts]:
    together: dict[tuple[int, ...], Parts] = {}
    for row in rows.tolist():
        together.setdefault(tuple(formed.windows[row, 1:3].tolist()), []).append(row)
    yield from together.values()


def _overlap(formed: Formed, rows: Int64Array) -> Iterator[Parts]:
    chain: Parts = []
    reach = 0
    for row in sorted(rows.tolist(), key=lambda row: int(formed.windows[row, 1])):
        if chain and formed.windows[row, 1] > reach:
            yield chain
            chain = []
        reach = max(reach, int(formed.reach[row])) if chain else int(formed.reach[row])
        chain.append(row)
    if chain:
        yield chain


_PARTS: dict[str, Callable[[Formed, Int64Array], Iterator[Parts]]] = {
    "ordinal": _ordinal,
    "matched": _matched,
    "overlap": _overlap,
}
