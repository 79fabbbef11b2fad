"""When events are handed over: as fast as they are taken, or on a schedule that does not wait for anybody. No clock.

The schedule is the truth of a latency: a leaf that is behind hands over late what was due before, and the wait counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.edge.rates import FAR_NS, SECOND_NS
from headwater.errors import DataError, shown


class Schedule(Protocol):
    """When the events of one batch are due."""

    def due(self, elapsed_ns: int) -> int:
        """How many of them by then."""

    def at_ns(self, place: int) -> int:
        """When one of them is."""


class Pace(Protocol):
    """A schedule, in nanoseconds since the run began."""

    def due_ns(self, start: int, batch: pa.RecordBatch) -> Int64Array:
        """When each event of a batch is due, ascending; the first is at offset ``start``."""

    def schedule(self, start: int, batch: pa.RecordBatch) -> Schedule:
        """The same for whoever asks again and again."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Moments that were worked out before."""

    moments_ns: Int64Array

    def due(self, elapsed_ns: int) -> int:
        return int(np.searchsorted(self.moments_ns, elapsed_ns, side="right"))

    def at_ns(self, place: int) -> int:
        return int(self.moments_ns[place])


@dataclass(frozen=True, slots=True)
class Ascending:
    """Times in order: only those that are asked for are worked out, for nobody should wait while others are."""

    times: Int64Array
    pace: AtTimes

    def due(self, elapsed_ns: int) -> int:
        """Of times in order, the place behind the last that is due: found among the few that are near it."""
        ticks = self.pace.begin + int(elapsed_ns * self.pace.per_s / SECOND_NS)
        slack = 2 + abs(ticks) // 2**50  # of floats
        edges = np.clip([float(ticks - slack), float(ticks + slack)], -(2.0**62), 2.0**62).astype(np.int64)
        low, high = np.searchsorted(self.times, edges)
        return int(low) + Listed(self.pace.moments_ns(self.times[low:high])).due(elapsed_ns)

    def at_ns(self, place: int) -> int:
        return int(self.pace.moments_ns(self.times[place : place + 1])[0])


@dataclass(frozen=True, slots=True)
class AtRate:
    """So many events a second, evenly; the first at once.

    >>> AtRate(4).due_ns(2, pa.record_batch({"time": [7, 8]})).tolist()
    [500000000, 750000000]
    """

    events_per_s: float

    def __post_init__(self) -> None:
        if not self.events_per_s > 0:
            raise DataError(f"events_per_s is {shown(self.events_per_s)}: give a rate above 0")

    def due_ns(self, start: int, batch: pa.RecordBatch) -> Int64Array:
        offsets = np.arange(start, start + len(batch), dtype=np.float64)
        # Rounded up: no event is early.
        return np.ceil(offsets * (SECOND_NS / self.events_per_s)).astype(np.int64)

    def schedule(self, start: int, batch: pa.RecordBatch) -> Schedule:
        return Listed(self.due_ns(start, batch))


@dataclass(frozen=True, slots=True)
class AtTimes:
    """As the events' own times say: the time ``begin`` at once, and ``per_s`` units of it in each second.

    An event that is out of order comes with the one before it.

    >>> AtTimes(begin=100, per_s=10).due_ns(0, pa.record_batch({"time": [100, 105, 103]})).tolist()
    [0, 500000000, 500000000]
    """

    begin: int
    per_s: float
    time: str = "time"

    def __post_init__(self) -> None:
        if not self.per_s > 0:
            raise DataError(f"per_s is {shown(self.per_s)}: give a rate above 0")

    def due_ns(self, start: int, batch: pa.RecordBatch) -> Int64Array:
        return self.moments_ns(np.maximum.accumulate(self._times(batch)))

    def schedule(self, start: int, batch: pa.RecordBatch) -> Schedule:
        return Ascending(np.maximum.accumulate(self._times(batch)), self)

    def moments_ns(self, times: Int64Array) -> Int64Array:
        """When events of these times are due, whatever comes before them."""
        due = np.ceil((times - self.begin) * (SECOND_NS / self.per_s))
        # An event of the year 9999 is due at the end of all time: what is beyond 64 bits must not wrap around.
        return np.asarray(np.clip(due, -FAR_NS, FAR_NS).astype(np.int64))

    def _times(self, batch: pa.RecordBatch) -> Int64Array:
        return np.asarray(batch.column(self.time).cast(pa.int64()), np.int64)
