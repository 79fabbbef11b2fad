"""When every event of a load is due, and what is in it: pure arithmetic, no clock.

The schedule is the truth of a measurement. An event's time is the moment at which it is due, whenever it is really made or sent;
so a system that falls behind, or a driver that does, shows as latency and as a queue and is never forgiven by a later stamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Float64Array, Int64Array
from headwater.bench.common.workload import KEY_COUNT, SECOND, SEED
from headwater.errors import DataError, shown

#: The columns of every batch of a load; times are microseconds.
SCHEMA = pa.schema([("time", pa.int64()), ("key", pa.int64()), ("value", pa.float64())])


@dataclass(frozen=True, slots=True)
class Schedule:
    """``rate`` events a second for ``seconds``, evenly from ``begin_us`` on (microseconds of the wall clock).

    >>> schedule = Schedule(rate=4, seconds=1, begin_us=1_000_000)
    >>> schedule.events, schedule.times(0, 4).tolist()
    (4, [1000000, 1250000, 1500000, 1750000])
    >>> [schedule.due(now) for now in (0, 1_000_000, 1_000_001, 1_500_000, 9_000_000)]
    [0, 0, 1, 2, 4]
    """

    rate: int
    seconds: float
    begin_us: int = 0

    def __post_init__(self) -> None:
        if self.rate < 1:
            raise DataError(f"rate is {shown(self.rate)}: give 1 event per second or more")
        if self.seconds <= 0:
            raise DataError(f"seconds is {shown(self.seconds)}: give a time above 0")

    @property
    def end_us(self) -> int:
        """Every event is due before this moment."""
        return self.begin_us + round(self.seconds * SECOND)

    @property
    def events(self) -> int:
        """The number of events in the whole schedule."""
        return self.due(self.end_us)

    def due(self, now_us: int) -> int:
        """The number of events with a time below ``now_us``."""
        passed = min(now_us, self.end_us) - self.begin_us
        # Rounded up: the event at the very beginning is due as soon as any time has passed.
        return -(-max(passed, 0) * self.rate // SECOND)

    def times(self, first: int, stop: int) -> Int64Array:
        """The times of events ``[first, stop)``, in microseconds.

        From the second in which each begins: a product with the event's number would leave int64 after a long time.
        """
        base, ahead = divmod(first, self.rate)
        return (
            self.begin_us + base * SECOND + np.arange(ahead, ahead + stop - first, dtype=np.int64) * SECOND // self.rate
        )

    def slots(self, slot_us: int) -> Iterator[tuple[int, int]]:
        """The moments at which events are handed over, and up to which event: every ``slot_us``, the last at the end.

        >>> list(Schedule(rate=1_000, seconds=0.012).slots(5_000))
        [(5000, 5), (10000, 10), (12000, 12)]
        """
        for moment in range(self.begin_us + slot_us, self.end_us + slot_us, slot_us):
            at_us = min(moment, self.end_us)
            yield at_us, self.due(at_us)

    def window_ends(self, size_us: int, *, warm_up_s: float = 0.0, tail_s: float = 0.0) -> list[int]:
        """The ends of all tumbling windows, aligned to 0, that lie whole in the schedule, between warm-up and tail.

        A window closes only with a later event of every partition: the tail leaves out those whose row may never come.

        >>> Schedule(rate=1, seconds=4, begin_us=500_000).window_ends(1_000_000)
        [2000000, 3000000, 4000000]
        """
        first = max(self.begin_us + size_us, self.begin_us + round(warm_up_s * SECOND))
        return list(range(-(-first // size_us) * size_us, self.end_us - round(tail_s * SECOND) + 1, size_us))


@dataclass(frozen=True)
class Content:
    """Keys and values by the event's number: a block of random ones, over and over.

    Made before the clock runs, so that a second of events costs a copy and not a second of random numbers; and a pure function
    of the seed, so that any result can be checked.

    >>> first, later = Content(block=4).columns(0, 4), Content(block=4).columns(2, 10)
    >>> [later[i].tolist() == [*first[i][2:], *first[i], *first[i][:2]] for i in range(2)]
    [True, True]
    """

    seed: int = SEED
    block: int = 1 << 18

    @cached_property
    def _block(self) -> tuple[Int64Array, Float64Array]:
        keys, values = (np.random.default_rng([self.seed, column]) for column in range(2))
        return keys.integers(0, KEY_COUNT, self.block, dtype=np.int64), values.standard_normal(self.block)

    def columns(self, first: int, stop: int) -> tuple[Int64Array, Float64Array]:
        """The keys and the values of events ``[first, stop)``."""
        places = np.arange(first, stop) % self.block
        keys, values = self._block
        return keys[places], values[places]


def events_of(schedule: Schedule, content: Content, first: int, stop: int) -> pa.RecordBatch:
    """Events ``[first, stop)`` of a schedule as a batch.

    >>> events_of(Schedule(rate=2, seconds=5), Content(), 1, 3)["time"].to_pylist()
    [500000, 1000000]
    """
    return pa.record_batch([schedule.times(first, stop), *content.columns(first, stop)], schema=SCHEMA)
