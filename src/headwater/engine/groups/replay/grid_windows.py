"""Windows on a grid, of times or of positions, over kept events: tumbling, sliding, bands and counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.jit import njit
from headwater.engine.groups.replay.kept import LONG_AGO, Formed, KeptEvents
from headwater.engine.slices.edges import fixed_spec, next_end, spec_table
from headwater.engine.windows.registered import Registered
from headwater.language.query import CONTEXT_SCOPES
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, CountWindow, Sliding


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


class FixedFormer:
    """Tumbling and sliding windows and bands that closed; with emit_empty each key's first window is remembered."""

    def __init__(self, entry: Registered) -> None:
        self._entry = entry
        self._first: dict[int, int] = {}

    def closes_nothing(self, after: int, until: int, held: int) -> bool:
        """Whether no window ends in (after, until]."""
        return until != FOREVER and next_end(spec_table([self._spec()]), after) > until

    def form(self, kept: KeptEvents, after: int, until: int) -> Formed:
        size, slide, _, _, stop = self._spec()
        lateness = int(self._entry.query.lateness)
        first, last = self._start_from(max(after, LONG_AGO) - lateness - size + 1), min(until - size, stop - 1)
        if self.fills:
            windows = self._filled(kept, first, after, until)
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

    @property
    def fills(self) -> bool:
        """Whether windows are emitted that hold nothing."""
        return self._entry.query.emit_empty and isinstance(self._entry.query.window, Sliding)

    def _spec(self) -> tuple[int, int, int, int, int]:
        window = self._entry.query.window
        assert isinstance(window, Sliding | Band)
        return fixed_spec(window, self._entry.begin, self._entry.stop)

    def _start_from(self, time: int) -> int:
        """The first start of a window at or after ``time``."""
        _, slide, offset, begin, _ = self._spec()
        return offset + -((offset - max(time, begin)) // slide) * slide

    def _filled(self, kept: KeptEvents, first: int, after: int, until: int) -> Int64Array:
        """All windows of each key from its first one on; at the end of the stream up to the last one with an event of any key."""
        size, slide, offset, _, stop = self._spec()
        self._remember_first(kept)
        limit = until - size
        if until == FOREVER:
            latest = int(kept.chunk.times.max()) if len(kept) else NEVER
            limit = max((latest - offset) // slide * slide + offset, max(after, LONG_AGO) - size)
        found = [np.empty((0, 5), np.int64)]
        for key, start in sorted(self._first.items()):
            low, high = int(kept.starts[key]), int(kept.starts[key + 1])
            # Not np.arange with a step: it counts in floats, too coarse for times at the ends of int64.
            begin = max(start, first)
            starts = begin + slide * np.arange(max((min(limit, stop - 1) - begin) // slide + 1, 0))
            lo, hi = (low + np.searchsorted(kept.chunk.times[low:high], starts + more) for more in (0, size))
            found.append(np.stack((np.full(len(starts), key), starts, starts + size, lo, hi), axis=1))
        return np.concatenate(found)

    def _remember_first(self, kept: KeptEvents) -> None:
        """The first window of each key that has a member: not an event whose own source had passed the window."""
        size, slide, offset, begin, stop = self._spec()
        times = kept.chunk.times
        open_from = times
        if kept.marks is not None:
            open_from = np.maximum(times, np.maximum(kept.marks, LONG_AGO) - int(self._entry.query.lateness))
        earliest = np.maximum(open_from - size + 1, begin)
        starts = offset + -((offset - earliest) // slide) * slide
        member = np.flatnonzero((starts <= times) & (starts < stop))
        for key in np.unique(kept.keys[member]).tolist():
            low, high = np.searchsorted(kept.keys[member], (key, key + 1))
            start = int(starts[member[low:high]].min())
            self._first[key] = min(start, self._first.get(key, start))

    def forget(self, kept: KeptEvents, needed: Int64Array) -> None:
        """Events before ``needed`` go; nothing else depends on them."""

    def state(self) -> Any:
        return [list(pair) for pair in self._first.items()]

    def restore(self, state: Any) -> None:
        self._first = dict(map(tuple, state))


class CountFormer:
    """Count windows. Of each key, ``passed`` events came before the kept ones, and ``done`` windows are out."""

    def __init__(self, entry: Registered) -> None:
        window = entry.query.window
        assert isinstance(window, CountWindow)
        self._entry = entry
        self._window = window
        self._passed: Int64Array = np.zeros(0, np.int64)
        self._done: Int64Array = np.zeros(0, np.int64)

    def closes_nothing(self, after: int, until: int, held: int) -> bool:
        """Whether no window can be full, even if all the events that are held had one key."""
        lacking = self._done * self._window.step + self._window.size - self._passed
        return held < min(self._window.size, int(lacking.min(initial=self._window.size)))

    def form(self, kept: KeptEvents, after: int, until: int) -> Formed:
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
        if self._entry.query.scope not in CONTEXT_SCOPES:
            self._done = closed
        is_closed = number < closed[key]
        return Formed(windows, windows[:, 2] - 1, is_closed, is_closed, needed).take(lo < hi)

    def _grow(self, key_count: int) -> None:
        more = np.zeros(key_count - len(self._passed), np.int64)
        self._passed, self._done = np.concatenate((self._passed, more)), np.concatenate((self._done, more))

    def form_all(self, kept: KeptEvents) -> Formed:
        """Every window that holds a kept event, those that are out too."""
        self._grow(kept.key_count)
        done, self._done = self._done, np.zeros_like(self._done)
        formed = self.form(kept, NEVER, NEVER)
        self._done = done
        return formed

    def forget(self, kept: KeptEvents, needed: Int64Array) -> None:
        """Count on past the events that go."""
        gone = kept.chunk.times < needed[kept.keys]
        self._passed = self._passed + np.bincount(kept.keys[gone], minlength=kept.key_count)

    def state(self) -> Any:
        return [self._passed, self._done]

    def restore(self, state: Any) -> None:
        self._passed, self._done = state[0].copy(), state[1].copy()
