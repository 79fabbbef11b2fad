"""How much work a group does: the slices it cuts and the calculations it executes, as the papers count them.

A slice counts once, when the stream first enters it, however many batches it comes in. A boundary that all keys share (an edge of
windows, a position) makes one slice; a boundary that a key has to itself (a marker, a pause) makes one slice of this key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.base.arrays import Int32Array, Int64Array
from headwater.base.snapshots import snapshot
from headwater.engine.slices.slicer import SlicedRows
from headwater.language.times import NEVER


@dataclass(slots=True)
class WorkCount:
    """Counts slices and calculations (executions of an operator on an event) as a group reports them; nothing depends on it.

    >>> work = WorkCount()
    >>> work.entered(np.array([0, 10])); work.entered(np.array([10, 20])); work.slice_count
    3
    """

    slice_count: int = 0
    calculation_count: int = 0
    _entered: int = NEVER  # the start of the latest slice that was counted
    _latest: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))  # the last event of each key, for pauses

    def forget(self) -> None:
        """Count from zero again."""
        self.slice_count = self.calculation_count = 0

    def entered(self, starts: Int64Array) -> None:
        """Events came that lie in these slices (sorted)."""
        self.slice_count += self._enter(starts)

    def _enter(self, starts: Int64Array) -> int:
        """How many of these slices the stream enters now."""
        new = len(starts) - int(np.searchsorted(starts, self._entered, side="right"))
        if new:
            self._entered = int(starts[-1])
        return new

    def cut(self, starts: Int64Array, cuts: Int64Array, own_count: int) -> None:
        """Events in order were cut: at places ``cuts`` for all keys, those at ``starts`` among them; and for single keys."""
        # One for each cut, and the slice in which the first event lies unless it has been entered before.
        is_entered = (len(cuts) > 0 and cuts[0] == 0) or self._enter(starts[:1]) == 0
        self._enter(starts)
        self.slice_count += len(cuts) + own_count + (not is_entered)

    def paused(self, rows: SlicedRows, gap: int, key_count: int) -> None:
        """Of these rows some follow a pause of their key, or are its first."""
        assert rows.last is not None
        self._latest = np.concatenate((self._latest, np.full(key_count - len(self._latest), NEVER)))
        order = np.lexsort((rows.first, rows.key))
        key, first, last = rows.key[order], rows.first[order], rows.last[order]
        before = self._latest[key]
        again = np.flatnonzero(key[1:] == key[:-1]) + 1
        before[again] = np.maximum(before[again], last[again - 1])
        np.maximum.at(self._latest, key, last)
        self.slice_count += int((first - gap > before).sum())

    def calculated(self, event_count: int, operator_count: int) -> None:
        """Events went through operators."""
        self.calculation_count += event_count * operator_count

    def renumber(self, numbers: Int32Array, key_count: int) -> None:
        """Keys have new numbers; -1: a key is forgotten."""
        latest = np.full(key_count, NEVER)
        kept = np.flatnonzero(numbers[: len(self._latest)] >= 0)
        latest[numbers[kept]] = self._latest[kept]
        self._latest = latest

    state, restore = snapshot("slice_count", "calculation_count", "_entered", "_latest")
