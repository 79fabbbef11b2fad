"""Where a load goes: a log, a folder of Parquet files, a socket, a function. Add one by writing a class with `opened`.

A target is a small description that travels to the sending process and is opened there. A batch is valid only during the call:
its memory is the queue's. Whoever keeps one copies it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.bench.common.workload import SECOND
from headwater.bench.load.schedule import SCHEMA
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
class CallTarget:
    """A function at the top of an importable module, which takes a batch."""

    function: Send

    @contextmanager
    def opened(self) -> Iterator[Send]:
        yield self.function


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


@dataclass(frozen=True, slots=True)
class ParquetTarget:
    """A folder that grows by one file for every ``file_s`` seconds of the schedule.

    A file gets its name when it is complete; before, it is hidden from Spark and from `hw.stream`. Times are timestamps in UTC,
    as Spark's own watermarks want them, or plain microseconds (``has_timestamps=False``).
    """

    path: Path | str
    file_s: float = 0.25
    has_timestamps: bool = True

    @contextmanager
    def opened(self) -> Iterator[Send]:
        files = _ParquetFiles(Path(self.path), round(self.file_s * SECOND), self.has_timestamps)
        yield files.add
        files.finish()


class _ParquetFiles:
    """Gathers batches until their file's time is over."""

    def __init__(self, folder: Path, file_us: int, has_timestamps: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._file_us = file_us
        time = pa.timestamp("us", tz="UTC") if has_timestamps else pa.int64()
        self._schema = SCHEMA.set(0, pa.field("time", time))
        self._number = 0
        self._writer: pq.ParquetWriter | None = None
        self._opened_us = 0

    def add(self, batch: pa.RecordBatch) -> None:
        first = batch.column("time")[0].as_py()
        if self._writer is not None and first - self._opened_us >= self._file_us:
            self.finish()
        if self._writer is None:
            self._opened_us = first
            self._writer = pq.ParquetWriter(self._hidden, self._schema, compression="none", use_dictionary=False)
        self._writer.write_batch(batch.cast(self._schema))

    @property
    def _hidden(self) -> Path:
        return self._folder / f".{self._number:08d}.parquet.tmp"

    def finish(self) -> None:
        """Complete the file at hand, if there is one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            os.replace(self._hidden, self._folder / f"{self._number:08d}.parquet")
            self._number += 1


@dataclass(frozen=True, slots=True)
class SocketTarget:
    """An Arrow stream over TCP to whoever listens at this address; a reader that is slow makes the sender wait."""

    port: int
    host: str = "127.0.0.1"

    @contextmanager
    def opened(self) -> Iterator[Send]:
        with socket.create_connection((self.host, self.port)) as connection:
            # Small batches leave at once; latency is what is measured.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Not `with`: closing a writer for an error would say that the stream has come to its end.
            out = connection.makefile("wb")
            writer = pa.ipc.new_stream(out, SCHEMA)

            def send(batch: pa.RecordBatch) -> None:
                writer.write_batch(batch)
                out.flush()

            yield send
            writer.close()
            out.close()
