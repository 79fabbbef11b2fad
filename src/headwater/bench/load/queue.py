"""The queue between the process that makes events on schedule and the one that sends them: a ring in shared memory.

One writer, one reader, each with a count of events that only it moves. A full ring makes the writer wait, and nothing is lost
by that: events keep the times of their schedule, and the queue is judged by the schedule and not by what lies in here.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.bench.common.workload import Floats
from headwater.bench.load.schedule import EVENT_BYTES, Content, Schedule, batch_of


@dataclass
class Queue:
    """Made by the host, handed to both processes; each calls `attach` before anything else."""

    capacity: int
    name: str
    #: Counts of events since the beginning. Their locks are what makes the arrays visible before the count.
    made: Any
    sent: Any

    @classmethod
    def create(cls, context: SpawnContext, capacity: int) -> tuple[Queue, SharedMemory]:
        """A queue for so many events, and the memory that the host must close and unlink."""
        memory = SharedMemory(create=True, size=max(capacity * EVENT_BYTES, mmap.PAGESIZE))
        return cls(capacity, memory.name, context.Value("q", 0), context.Value("q", 0)), memory

    def attach(self) -> QueueEnd:
        """This process's view of the memory."""
        return QueueEnd(self, SharedMemory(self.name))


class QueueEnd:
    """The queue as one of the two processes holds it."""

    def __init__(self, queue: Queue, memory: SharedMemory) -> None:
        self._capacity = queue.capacity
        self._made = queue.made
        self._sent = queue.sent
        self._memory = memory
        # One column after the other, eight bytes each; SharedMemory may be larger than asked for.
        columns = np.ndarray((3, queue.capacity), np.int64, memory.buf)
        self._times: Int64Array = columns[0]
        self._keys: Int64Array = columns[1]
        self._values: Floats = columns[2].view(np.float64)

    @property
    def made(self) -> int:
        with self._made.get_lock():
            return int(self._made.value)

    @property
    def sent(self) -> int:
        with self._sent.get_lock():
            return int(self._sent.value)

    def put(self, schedule: Schedule, content: Content, stop: int) -> bool:
        """Make events up to number ``stop`` as far as there is room; whether all of them found a place."""
        first = self.made
        last = min(stop, self.sent + self._capacity)
        while first < last:
            at = first % self._capacity
            count = min(last - first, self._capacity - at)
            self._times[at : at + count] = schedule.times(first, first + count)
            content.copy_to(first, self._keys[at : at + count], self._values[at : at + count])
            first += count
        with self._made.get_lock():
            self._made.value = first
        return first == stop

    def take(self, events_max: int) -> pa.RecordBatch | None:
        """The oldest events, at most so many, in the queue's own memory; None if there are none. `done` gives it back."""
        first = self.sent
        at = first % self._capacity
        count = min(self.made - first, self._capacity - at, events_max)
        if not count:
            return None
        stretch = slice(at, at + count)
        return batch_of(self._times[stretch], self._keys[stretch], self._values[stretch])

    def done(self, count: int) -> None:
        """So many events of the last `take` are sent: their memory may be used again."""
        with self._sent.get_lock():
            self._sent.value += count

    def close(self) -> None:
        """Let the memory go; batches of it must be gone by now."""
        del self._times, self._keys, self._values
        self._memory.close()
