"""How far a generator has come by now: the sizes of its blocks so far, and how many of its events are due.

To know how many events a block has it must be generated once, here; workers generate those they read again. The sizes can be
kept in a file, so that a restart goes on where it was.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.errors import DataError, shown
from headwater.logs.files import replace
from headwater.spark.streaming.inputs.generator_blocks import blocks_of

NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_NEVER = -(1 << 63)


class GeneratorProgress:
    """One generator. ``end``: so many of its events are there. ``kept``: the file for the sizes of its blocks."""

    def __init__(self, place: str, time: str, unit: str, kept: Path | None = None) -> None:
        self._place = place
        self._blocks = blocks_of(place)
        self._time = time
        self._tick_ns = NANOSECONDS[unit]
        self._kept = kept
        #: For each block that was counted, the offset at its end and the largest time up to there.
        self._ends: list[int] = []
        self._times: list[int] = []
        self._kept_count = 0
        self._is_whole = False
        self._planned: int | None = None
        self.end = 0
        self._restore()

    @property
    def is_done(self) -> bool:
        """Whether all events are there."""
        return self._is_whole and self.end == self._known

    @property
    def begin_ns(self) -> int | None:
        """When the generator begins: as it says itself, else with its first event; None if there is none."""
        if self._blocks.start is not None:
            return self._blocks.start * self._tick_ns
        first = self._blocks.block(0)
        times = [] if first is None else self._highest(first).tolist()
        return next((time for time in times if time != _NEVER), None)

    def go_on(self, count: int) -> None:
        """At least so many more events, as soon as those that are there have been asked for, or if nobody has asked yet."""
        if self._planned is not None and self._planned < self.end:
            return
        self.end = self._known
        enough = self.end + count
        while self.end < enough and self._learn():
            self.end = self._known
        self._keep()

    def reveal_until(self, now_ns: int) -> None:
        """All events up to the first one whose time, or that of one before it, has not come."""
        # Largest times so far do not fall: blocks that are over come before those that are not.
        while (over := bisect_right(self._times, now_ns)) == len(self._times) and self._learn():
            pass
        end = self._ends[over - 1] if over else 0
        if over < len(self._ends):
            block = self._blocks.block(over)
            assert block is not None, "it was there when it was counted"
            highest = np.maximum(self._highest(block), self._times[over - 1] if over else _NEVER)
            end += int(np.searchsorted(highest, now_ns, side="right"))
        # A clock may be put back, but what was there stays there.
        self.end = max(self.end, end)
        self._keep()

    def stretches(self, start: int, end: int) -> Iterator[dict[str, Any]]:
        """How to read the events [start, end): block by block."""
        while self._known < end:
            if not self._learn():
                raise DataError(
                    f"generator {shown(self._place)} ends at {self._known}, but {end} events of it were read before"
                )
        self._planned = max(end, self._planned or 0)
        self.end = max(self.end, end)
        for block in range(bisect_right(self._ends, start), len(self._ends)):
            first = self._ends[block - 1] if block else 0
            if first >= end:
                return
            rows, skip = self._ends[block] - first, max(start - first, 0)
            count = min(end - first, rows) - skip
            if count:
                yield {"place": self._place, "block": block, "skip": skip, "count": count, "rows": rows}

    @property
    def _known(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _learn(self) -> bool:
        """Count one more block; False: there is none."""
        block = None if self._is_whole else self._blocks.block(len(self._ends))
        if block is not None:
            before = self._times[-1] if self._times else _NEVER
            self._times.append(max(before, int(self._highest(block)[-1])) if len(block) else before)
            self._ends.append(self._known + len(block))
        self._is_whole = block is None or len(self._ends) == self._blocks.count
        return block is not None

    def _highest(self, block: pa.RecordBatch) -> NDArray[np.int64]:
        """For each event the largest time up to it, in nanoseconds; a missing time is no time."""
        if self._time not in block.schema.names:
            raise DataError(
                f"generator {shown(self._place)}: there is no column {self._time!r} that says when events are"
            )
        column = block.column(self._time)
        tick = NANOSECONDS[column.type.unit] if pa.types.is_timestamp(column.type) else self._tick_ns
        times = pc.fill_null(pc.multiply_checked(column.cast(pa.int64()), tick), _NEVER)
        return np.asarray(np.maximum.accumulate(times.to_numpy(zero_copy_only=False)))

    def _restore(self) -> None:
        if self._kept is None or not self._kept.exists():
            return
        data: dict[str, Any] = json.loads(self._kept.read_text(encoding="utf-8"))
        if data["place"] == self._place:
            self._ends, self._times, self._is_whole = data["ends"], data["times"], data["is_whole"]
            self._kept_count = len(self._ends)

    def _keep(self) -> None:
        if self._kept is None or self._kept_count == len(self._ends):
            return
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        data = {"place": self._place, "ends": self._ends, "times": self._times, "is_whole": self._is_whole}
        replace(self._kept, json.dumps(data).encode())
        self._kept_count = len(self._ends)
