"""The history of what a query has emitted: it numbers revisions and says which windows they replace.

Windows whose bounds depend on events can move when late events come: sessions grow together, a late marker splits a window.
A history holds the emitted windows that can still change. Each step it is told the windows that hold now and answers which to
emit: new ones, changed ones, and those that no longer hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, RowArrays
from headwater.base.jit import njit
from headwater.base.snapshots import pairs, snapshot

Bounds = tuple[int, int, int]  # (start, end, revision)


@dataclass(slots=True)
class Current(RowArrays):
    """Windows that hold now, sorted by (key, start, end). ``content``, from 0 on, differs where a window is not as it was."""

    key: Int32Array
    start: Int64Array
    end: Int64Array
    content: Int64Array


@dataclass(slots=True)
class Changes:
    """What to emit: ``rows`` of the current windows with their revisions, what they replace, and windows that are gone."""

    rows: Int64Array
    revision: Int64Array
    replaces: dict[int, list[Bounds]]  # by place in ``rows``
    gone: list[tuple[int, int, int, int]]  # (key, start, end, revision that says so)


#: Contents that are not known: taken for those of now, or for others.
UNCHANGED, CHANGED = -1, -2
#: The columns of `Current`.
Lists: TypeAlias = tuple[Int32Array, Int64Array, Int64Array, Int64Array]


@njit
def _match(a: Lists, b: Lists) -> tuple[BoolArray, BoolArray, Int64Array]:
    """Walk two sorted lists side by side: what of each stands in both, and where the other has the windows of the first."""
    a_key, a_start, a_end, a_content = a
    b_key, b_start, b_end, b_content = b
    a_same, b_same = np.zeros(len(a_key), np.bool_), np.zeros(len(b_key), np.bool_)
    a_twin = np.full(len(a_key), -1)
    i = 0
    j = 0
    while i < len(a_key) and j < len(b_key):
        if a_key[i] != b_key[j]:
            behind = a_key[i] < b_key[j]
        elif a_start[i] != b_start[j]:
            behind = a_start[i] < b_start[j]
        elif a_end[i] != b_end[j]:
            behind = a_end[i] < b_end[j]
        else:
            same = a_content[i] == b_content[j] or b_content[j] == UNCHANGED
            a_same[i] = same
            b_same[j] = same
            a_twin[i] = j
            i += 1
            j += 1
            continue
        if behind:
            i += 1
        else:
            j += 1
    return a_same, b_same, a_twin


class WindowHistory:
    """The emitted windows of one query that late events can still change."""

    def __init__(self) -> None:
        empty = np.empty(0, np.int64)
        self._windows = Current(np.empty(0, np.int32), empty, empty, empty)
        self._revision = empty
        self._past: dict[tuple[int, int, int], int] = {}

    def __len__(self) -> int:
        return len(self._windows)

    def compare(self, now: Current) -> Changes:
        """Take ``now`` as what holds from here on; returns what changed."""
        old = self._windows
        lists = [(windows.key, windows.start, windows.end, windows.content) for windows in (now, old)]
        same, old_same, twin = _match(*lists)
        rows = np.flatnonzero(~same)
        revision = np.zeros(len(now), np.int64)
        revision[same] = self._revision[twin[same]]
        replaces: dict[int, list[Bounds]] = {}
        gone: list[tuple[int, int, int, int]] = []
        if not old_same.all() or self._past:
            replaces, gone = self._revise(now, rows, twin, np.flatnonzero(~old_same), revision)
        self._windows, self._revision = now, revision
        return Changes(rows, revision[rows], replaces, gone)

    def _revise(
        self, now: Current, rows: Int64Array, twin: Int64Array, old_rows: Int64Array, revision: Int64Array
    ) -> tuple[dict[int, list[Bounds]], list[tuple[int, int, int, int]]]:
        """Number the changed windows. Few change, so this goes window by window."""
        changed_twins = {int(j) for j in twin[rows] if j >= 0}
        vanished: dict[int, list[Bounds]] = {}
        for j in old_rows.tolist():
            if j not in changed_twins:
                bounds = (int(self._windows.start[j]), int(self._windows.end[j]), int(self._revision[j]))
                vanished.setdefault(int(self._windows.key[j]), []).append(bounds)
        replaces: dict[int, list[Bounds]] = {}
        replaced: set[tuple[int, Bounds]] = set()
        for place, row in enumerate(rows.tolist()):
            key, start, end = int(now.key[row]), int(now.start[row]), int(now.end[row])
            if twin[row] >= 0:
                revision[row] = self._revision[twin[row]] + 1
                continue
            over = [b for b in vanished.get(key, ()) if _overlap(b[0], b[1], start, end)]
            replaced.update((key, b) for b in over)
            earlier = [b[2] for b in over]
            if (key, start, end) in self._past:
                earlier.append(self._past.pop((key, start, end)))
            revision[row] = 1 + max(earlier) if earlier else 0
            if over:
                replaces[place] = over
        gone = []
        for key, windows in vanished.items():
            for bounds in windows:
                start, end, number = bounds
                orphan = (key, bounds) not in replaced
                self._past[key, start, end] = number + orphan
                if orphan:
                    gone.append((key, start, end, number + 1))
        return replaces, gone

    def forget(self, settled: BoolArray, before: int) -> None:
        """Drop windows that can no longer change, and what vanished before ``before``."""
        if settled.any():
            self._windows = self._windows.take(np.flatnonzero(~settled))
            self._revision = self._revision[~settled]
        if self._past:
            self._past = {window: number for window, number in self._past.items() if window[2] >= before}

    def overlook(self, is_unchanged: bool) -> None:
        """What windows hold is not known here: at the next look they are as they were, or none of them is."""
        self._windows.content = np.full(len(self._windows), UNCHANGED if is_unchanged else CHANGED)

    def keys_in_use(self) -> list[int]:
        return [*np.unique(self._windows.key).tolist(), *(key for key, _, _ in self._past)]

    def renumber(self, numbers: Int32Array) -> None:
        """Keys have new numbers: key k is now ``numbers[k]``. Windows stay sorted by key."""
        renumbered = replace(self._windows, key=numbers[self._windows.key])
        order = np.lexsort((renumbered.end, renumbered.start, renumbered.key))
        self._windows, self._revision = renumbered.take(order), self._revision[order]
        self._past = {(int(numbers[key]), start, end): n for (key, start, end), n in self._past.items()}

    @property
    def windows(self) -> Current:
        return self._windows

    state, restore = snapshot(
        "_windows.key", "_windows.start", "_windows.end", "_windows.content", "_revision", pairs("_past")
    )


def _overlap(start: int, end: int, other_start: int, other_end: int) -> bool:
    """Whether [start, end) and [other_start, other_end) share a time; a window of one instant overlaps what holds it."""
    return start < max(other_end, other_start + 1) and other_start < max(end, start + 1)
