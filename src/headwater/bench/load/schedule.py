"""When every event of a load is due, and what is in it: pure arithmetic, no clock.

The schedule is the truth of a measurement. An event's time is the moment at which it is due, whenever it is really made or sent;
so a system that falls behind, or a driver that does, shows as latency and as a queue and is never forgiven by a later stamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.bench.common.workload import KEY_COUNT, SECOND, SEED, Floats
from headwater.errors import DataError, shown

#: What every batch of a load has; times are microseconds.
SCHEMA = pa.schema([("time", pa.int64()), ("key", pa.int64()), ("value", pa.float64())])
#: Bytes of one event.
EVENT_BYTES = 24


@dataclass(frozen=True, slots=True)
class Schedule:
    """``rate`` events a second for so many ``seconds``, evenly from ``begin_us`` on (microseconds of the wall clock).

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
        """All that will ever be due."""
        return self.due(self.end_us)

    def due(self, now_us: int) -> int:
        """How many events have a time below ``now_us``."""
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

    def window_ends(self, size_us: int, slide_us: int | None = None, *, warm_up_s: float = 0.0) -> Int64Array:
        """The ends of all windows, aligned to 0, that lie whole in the schedule and end after the warm-up.

        >>> Schedule(rate=1, seconds=4, begin_us=500_000).window_ends(1_000_000).tolist()
        [2000000, 3000000, 4000000]
        """
        slide = slide_us or size_us
        first = max(self.begin_us + size_us, self.begin_us + round(warm_up_s * SECOND))
        # The k-th window starts at k * slide.
        number = -(-(first - size_us) // slide)
        return np.arange(number * slide + size_us, self.end_us + 1, slide, dtype=np.int64)


@dataclass(frozen=True)
class Content:
    """Keys and values by the event's number: a block of random ones, over and over.

    Made before the clock runs, so that a second of events costs a copy and not a second of random numbers; and a pure function
    of the seed, so that any result can be checked.

    >>> content = Content(key_count=3, block=4)
    >>> first, later = content.keys(0, 4), content.keys(2, 10)
    >>> later.tolist() == [*first[2:], *first, *first[:2]]
    True
    """

    key_count: int = KEY_COUNT
    seed: int = SEED
    block: int = field(default=1 << 18)

    @cached_property
    def _keys(self) -> Int64Array:
        return np.random.default_rng([self.seed, 0]).integers(0, self.key_count, self.block, dtype=np.int64)

    @cached_property
    def _values(self) -> Floats:
        return np.random.default_rng([self.seed, 1]).standard_normal(self.block)

    def keys(self, first: int, stop: int) -> Int64Array:
        """Of events ``[first, stop)``."""
        return self._keys[np.arange(first, stop) % self.block]

    def values(self, first: int, stop: int) -> Floats:
        """Of events ``[first, stop)``."""
        return self._values[np.arange(first, stop) % self.block]

    def copy_to(self, first: int, keys: Int64Array, values: Floats) -> None:
        """Write what events from ``first`` on have into arrays: in whole stretches, several times as fast as one by one."""
        done = 0
        while done < len(keys):
            at = (first + done) % self.block
            count = min(len(keys) - done, self.block - at)
            keys[done : done + count] = self._keys[at : at + count]
            values[done : done + count] = self._values[at : at + count]
            done += count


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be sent: so many events a second, for so long, of so many keys; handed over every ``slot_us``."""

    rate: int
    seconds: float
    key_count: int = KEY_COUNT
    seed: int = SEED
    #: The latency of the driver itself against its cost.
    slot_us: int = 5_000

    def scheduled(self, begin_us: int = 0) -> Schedule:
        """The load from a moment on."""
        return Schedule(self.rate, self.seconds, begin_us)

    @property
    def content(self) -> Content:
        return Content(self.key_count, self.seed)


def batch_of(times: Int64Array, keys: Int64Array, values: Floats) -> pa.RecordBatch:
    """Arrays as a batch over the same memory."""
    return pa.RecordBatch.from_arrays([pa.array(times), pa.array(keys), pa.array(values)], schema=SCHEMA)


def events_of(schedule: Schedule, content: Content, first: int, stop: int) -> pa.RecordBatch:
    """Events ``[first, stop)`` of a schedule, whenever they are wanted.

    >>> events_of(Schedule(rate=2, seconds=5), Content(), 1, 3)["time"].to_pylist()
    [500000, 1000000]
    """
    return batch_of(schedule.times(first, stop), content.keys(first, stop), content.values(first, stop))
