"""Windows that events decide, over kept events: formed anew at each step from where the last settled window ended."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.engine.groups.replay.grid_windows import CountFormer, FixedFormer
from headwater.engine.groups.replay.kept import LONG_AGO, Formed, Former, KeptEvents
from headwater.engine.windows.marker_walk import UNLIMITED, Cutter
from headwater.engine.windows.registered import Registered
from headwater.errors import DataError
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, Between, CountWindow, Custom, Punctuated, Session, Sliding


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

    def forget(self, kept: KeptEvents, needed: Int64Array) -> None:
        """Events before ``needed`` go; nothing else depends on them."""

    def state(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        assert state is None


class CutFormer(_Stateless):
    """Sessions, markers and pairs of markers: a fresh cutter walks over all kept events."""

    def form(self, kept: KeptEvents, after: int, until: int) -> Formed:
        entry, window = self._entry, self._entry.query.window
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
        return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


@dataclass(slots=True)
class CustomFormer:
    """A user's cuts. Per key the function's state before the kept events, and the start of the window open there."""

    entry: Registered
    states: dict[int, Any] = field(default_factory=dict)
    opened: dict[int, int] = field(default_factory=dict)

    def form(self, kept: KeptEvents, after: int, until: int) -> Formed:
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

    def state(self) -> Any:
        return [[[k, v] for k, v in self.states.items()], [[k, v] for k, v in self.opened.items()]]

    def restore(self, state: Any) -> None:
        self.states, self.opened = dict(map(tuple, state[0])), dict(map(tuple, state[1]))
