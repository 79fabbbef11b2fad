"""Where a load goes: a segment log, or nowhere. Add a target by writing a class with `opened`.

A target is a small description that travels to the sending process and is opened there. A batch is valid only during the call:
its memory is the queue's. Whoever keeps one copies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from headwater.logs import Log
from headwater.logs.writer import SEGMENT_BYTES

#: Takes a batch of time, key and value; returns when it is out of this process's hands.
Send = Callable[[pa.RecordBatch], object]


class Target(Protocol):
    """Something that events can be sent to."""

    def opened(self) -> AbstractContextManager[Send]:
        """Called once, in the sending process, before the schedule begins."""


@dataclass(frozen=True, slots=True)
class NoTarget:
    """Nowhere: what the driver itself can do."""

    @contextmanager
    def opened(self) -> Iterator[Send]:
        yield len


@dataclass(frozen=True, slots=True)
class LogTarget:
    """A log of segments, as `hw.read` and `hw.stream` read it.

    Each batch is cut into as many runs as there are partitions: all partitions are as far as the schedule to within one slot,
    and each is sorted by time. Rows are synced only when a segment is full, since a load is not kept; larger segments (in bytes)
    are synced less often, and take a fresh reader longer to open.
    """

    path: Path | str
    partition_count: int = 1
    segment_bytes: int = SEGMENT_BYTES

    @contextmanager
    def opened(self) -> Iterator[Send]:
        log = Log.create(self.path, partition_count=self.partition_count, time="time")
        with ExitStack() as stack:
            writers = [
                stack.enter_context(log.writer(number, fsync="never", segment_bytes=self.segment_bytes))
                for number in range(log.partition_count)
            ]

            def send(batch: pa.RecordBatch) -> None:
                for writer, run in zip(writers, runs_of(batch, len(writers))):
                    if run.num_rows:
                        writer.append(run, arrival=run.column("time")[-1].as_py())

            yield send


def runs_of(batch: pa.RecordBatch, count: int) -> list[pa.RecordBatch]:
    """A batch cut into so many runs of nearly equal length.

    >>> batch = pa.record_batch({"time": [1, 2, 3, 4, 5]})
    >>> [run["time"].to_pylist() for run in runs_of(batch, 2)]
    [[1, 2], [3, 4, 5]]
    """
    cuts = [number * batch.num_rows // count for number in range(count + 1)]
    return [batch.slice(cut, following - cut) for cut, following in pairwise(cuts)]
