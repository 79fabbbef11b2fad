"""Which events are in which count window: found without the engine, by putting the events of all leaves in order.

The order is (time, source as bytes, offset). A slice of time in which no window begins or ends only adds to what was before it;
the others are sorted. A window is identified by the sum of its members, which are random numbers of 39 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrays import Int64Array
from headwater.bench.deco.workload import DecoWorkload, true_sum


@dataclass(frozen=True)
class TrueWindows:
    """One row per full window of a stream, in order."""

    starts: Int64Array
    size: int
    members: Int64Array
    first_times: Int64Array
    last_times: Int64Array
    #: By window and leaf: the offset behind the last event that is before the window's begin, and before its end.
    from_offsets: Int64Array
    to_offsets: Int64Array

    def __len__(self) -> int:
        return len(self.starts)


class WindowTruth:
    """Finds the true windows of a workload, which is given to it slice by slice.

    >>> workload = DecoWorkload(leaves=2, window=100, windows=3, change=0.5)
    >>> windows = true_windows(workload)
    >>> windows.starts.tolist(), (windows.to_offsets - windows.from_offsets).sum(axis=1).tolist()
    ([0, 100, 200], [100, 100, 100])
    """

    def __init__(self, workload: DecoWorkload) -> None:
        self.workload = workload
        # Every position at which a window begins or ends.
        self._cuts = np.arange(workload.events // workload.window + 1, dtype=np.int64) * workload.window
        # Leaves in the order of their names as bytes: a stable sort by time then keeps it.
        self._ranks = sorted(range(workload.leaves), key=lambda leaf: workload.name(leaf).encode())
        # Sums from the begin may pass 64 bits; differences, which are those of windows, stay right.
        self._sums = np.zeros(len(self._cuts), np.uint64)
        self._before = np.zeros(len(self._cuts), np.int64)
        self._after = np.zeros(len(self._cuts), np.int64)
        self._offsets = np.zeros((len(self._cuts), workload.leaves), np.int64)
        self._slice = 0
        self._position = 0
        self._sum = np.zeros(1, np.uint64)
        self._last_time = 0

    def add(self, batches: list[pa.RecordBatch]) -> None:
        """Take the next slice: the events of every leaf in it, by the leaf's number."""
        count = sum(map(len, batches))
        low, high = np.searchsorted(self._cuts, [self._position, self._position + count])
        # A cut at the very end has its first event in a later slice, which comes back to it.
        low_end = int(np.searchsorted(self._cuts, self._position + count, side="right"))
        if count and low < low_end:
            self._cut(batches, int(low), int(high), low_end)
        for batch in batches:
            self._sum += batch["member"].to_numpy().sum().astype(np.uint64)
        if count:
            self._last_time = max(int(batch["time"][-1].as_py()) for batch in batches if len(batch))
        self._position += count
        self._slice += 1

    def _cut(self, batches: list[pa.RecordBatch], low: int, high: int, low_end: int) -> None:
        times = np.concatenate([batches[leaf]["time"].to_numpy() for leaf in self._ranks])
        members = np.concatenate([batches[leaf]["member"].to_numpy() for leaf in self._ranks])
        whose = np.repeat(self._ranks, [len(batches[leaf]) for leaf in self._ranks])
        order = np.argsort(times, kind="stable")
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(members[order])]).astype(np.uint64)
        begin = self.workload.offsets[self._slice]
        for place in range(low, low_end):
            at = int(self._cuts[place]) - self._position
            self._sums[place] = (self._sum + sums[at])[0]
            self._offsets[place] = begin + np.bincount(whose[order[:at]], minlength=len(batches))
            self._before[place] = times[order[at - 1]] if at else self._last_time
            if place < high:
                self._after[place] = times[order[at]]

    def windows(self) -> TrueWindows:
        """The true windows; all slices were added."""
        if self._slice != self.workload.slices:
            raise RuntimeError(
                f"{self._slice} of {self.workload.slices} slices were added: the windows are not known yet"
            )
        sums = np.diff(self._sums).astype(np.int64)
        times = self._after[:-1], self._before[1:]
        return TrueWindows(self._cuts[:-1], self.workload.window, sums, *times, self._offsets[:-1], self._offsets[1:])


def true_windows(workload: DecoWorkload) -> TrueWindows:
    """The windows of a whole workload."""
    truth = WindowTruth(workload)
    for number in range(workload.slices):
        truth.add([workload.batch(leaf, number) for leaf in range(workload.leaves)])
    return truth.windows()


def right_windows(rows: pa.Table, truth: TrueWindows) -> NDArray[np.bool_]:
    """For each true window whether there is just one row of it that has its events, first and last, and their exact sum.

    The rows have ``n`` (a count), ``member`` and, if it was asked, ``value`` (sums). A row of no true window is an error.
    """
    right = np.zeros(len(truth), bool)
    if not rows.num_rows:
        return right
    # Nodes emit positions as bounds; users see them under their own name.
    names = (
        ("position_start", "position_end") if "position_start" in rows.column_names else ("window_start", "window_end")
    )
    starts, ends = (rows[name].to_numpy() for name in names)
    places = np.searchsorted(truth.starts, starts)
    known = (places < len(truth)) & (truth.starts[np.minimum(places, len(truth) - 1)] == starts)
    if not known.all() or (ends - starts != truth.size).any():
        strange = [(int(start), int(end)) for start, end in zip(starts, ends)][:5]
        raise RuntimeError(
            f"rows of windows that there are not, among {strange}: {len(truth)} of {truth.size} were asked"
        )
    counts, members = rows["n"].to_pylist(), rows["member"].to_pylist()
    firsts, lasts = rows["first_time"].to_pylist(), rows["last_time"].to_pylist()
    values = rows["value"].to_pylist() if "value" in rows.column_names else None
    for row, place in enumerate(places.tolist()):
        expected = int(truth.members[place])
        same = counts[row] == truth.size and members[row] == expected
        same = same and (firsts[row], lasts[row]) == (truth.first_times[place], truth.last_times[place])
        if same and values is not None:
            same = values[row] == true_sum(truth.size, expected)
        right[place] = same
    right[np.bincount(places, minlength=len(truth)) != 1] = False
    return right


def right_sums(rows: pa.Table, truth: TrueWindows) -> NDArray[np.bool_]:
    """For each true window whether there is just one row of it that has the exact sum of its values."""
    starts = rows["window_start"].to_pylist() if rows.num_rows else []
    found = dict(zip(starts, rows["value"].to_pylist())) if starts else {}
    if len(found) < len(starts):
        raise RuntimeError("some windows have two rows")
    sums = (true_sum(truth.size, members) for members in truth.members.tolist())
    return np.array([found.get(start) == total for start, total in zip(truth.starts.tolist(), sums)], bool)


def shared_events(counts: Int64Array, truth: TrueWindows) -> int:
    """The number of events in their true window, given how many of each leaf each window took: as the paper measures.

    A leaf's events are in its windows in order, so offsets say which they are.

    >>> workload = DecoWorkload(leaves=2, window=100, windows=3, change=0.5)
    >>> windows = true_windows(workload)
    >>> shared_events(windows.to_offsets - windows.from_offsets, windows)
    300
    """
    ends = np.cumsum(counts, axis=0)
    begins = ends - counts
    low = np.maximum(begins, truth.from_offsets[: len(counts)])
    high = np.minimum(ends, truth.to_offsets[: len(counts)])
    return int(np.maximum(high - low, 0).sum())
