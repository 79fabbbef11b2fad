"""The schedule of a leaf's events: each is due when its own time says, whether or not a reader is ready for it. No clock.

The schedule is the truth of a latency: a leaf that is behind hands over late what was due before, and the wait counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.edge.rates import FAR_NS, SECOND_NS
from headwater.errors import DataError, shown


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast event time passes: ``begin`` is due at once, and ``per_s`` units of time in each second.

    >>> Pace(begin=100, per_s=10).moments_ns(np.array([100, 105])).tolist()
    [0, 500000000]
    """

    begin: int
    per_s: float
    time: str = "time"

    def __post_init__(self) -> None:
        if not self.per_s > 0:
            raise DataError(f"per_s is {shown(self.per_s)}: give a rate above 0")

    def moments_ns(self, times: Int64Array) -> Int64Array:
        """When events of these times are due, in nanoseconds since the run began, whatever comes before them."""
        # Rounded up: no event is early.
        due = np.ceil((times - self.begin) * (SECOND_NS / self.per_s))
        # An event of the year 9999 is due at the end of all time: what is beyond 64 bits must not wrap around.
        return np.asarray(np.clip(due, -FAR_NS, FAR_NS).astype(np.int64))

    def schedule(self, batch: pa.RecordBatch) -> BatchSchedule:
        """When the events of a batch are due; one that is out of order comes with the one before it."""
        times = np.asarray(batch.column(self.time).cast(pa.int64()), np.int64)
        return BatchSchedule(np.maximum.accumulate(times), self)


@dataclass(frozen=True, slots=True)
class BatchSchedule:
    """When the events of one batch are due; ``times`` are in order.

    Only the moments that are asked for are worked out: no reader waits while those of a whole batch are.
    """

    times: Int64Array
    pace: Pace

    def due(self, elapsed_ns: int) -> int:
        """The number of events that are due by then."""
        ticks = self.pace.begin + int(elapsed_ns * self.pace.per_s / SECOND_NS)
        slack = 2 + abs(ticks) // 2**50  # of floats
        edges = np.clip([float(ticks - slack), float(ticks + slack)], -(2.0**62), 2.0**62).astype(np.int64)
        low, high = np.searchsorted(self.times, edges)
        near = self.pace.moments_ns(self.times[low:high])
        return int(low) + int(np.searchsorted(near, elapsed_ns, side="right"))

    def at_ns(self, place: int) -> int:
        """When the event at ``place`` is due."""
        return int(self.pace.moments_ns(self.times[place : place + 1])[0])
