"""Rows as a segment log."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.language.places import local_path
from headwater.logs import Log
from headwater.logs.errors import ConflictError
from headwater.logs.reader import PartitionReader
from headwater.logs.writer import PartitionWriter
from headwater.spark.streaming.sinks.claim import Claim
from headwater.spark.streaming.sinks.sink import ELSEWHERE, Sink
from headwater.spark.streaming.sinks.timeline import Claimant, SinkError, other_rows

#: The column that says of which batch a row is.
BATCH = "batch"
_WAY_OUT = "give another log"
#: Who has which log open in this process: a stream that Spark ended by itself, or that failed, may not have closed its sink. Not
#: weakly: a sink that is forgotten leaves its lock behind.
_OPEN: dict[Path, LogSink] = {}


class LogSink(Sink):
    """A segment log of one partition. Each row has its batch in the column ``batch``, by which a repeated batch is known.

    The partition is open from the first rows to `close`: opening looks at all its segments, a batch at none.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = local_path("sink", path, ELSEWHERE).absolute()
        self._log = Log.create(self.path, partition_count=1)
        self._claim: Claim | None = None
        self._writer: PartitionWriter | None = None
        self._last: int | None = None
        self._writing = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Through Spark Connect it is pickled, before it writes anything."""
        return {**self.__dict__, "_writing": None, "_writer": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {**state, "_writing": threading.RLock()}

    def open(self, stream: Claimant) -> None:
        """Called before the first batch: from now on the log is this stream's."""
        self.close()
        self._last = self._last_batch()
        self._claim = Claim(self.path, stream, self._last, self._counts, _WAY_OUT)

    def write(self, batch: int, rows: pa.Table) -> None:
        with self._writing:
            self._write(batch, rows)

    def _write(self, batch: int, rows: pa.Table) -> None:
        last = self._last_batch() if self._last is None else self._last
        if not len(rows) and batch > last:
            self._last = last
            return
        try:
            self._append(batch, rows.append_column(BATCH, pa.array([batch] * len(rows), pa.int64())))
        except ConflictError as error:
            self.close()
            raise other_rows(self.path, batch, str(error), _WAY_OUT) from error
        except BaseException:
            self.close()  # whoever writes next looks what became of it
            raise

    def close(self) -> None:
        with self._writing:
            writer, self._writer, self._last = self._writer, None, None
            if _OPEN.get(self.path) is self:
                del _OPEN[self.path]
            if writer is not None:
                writer.close()

    def _append(self, batch: int, rows: pa.Table) -> None:
        if self._writer is None:
            if (other := _OPEN.get(self.path)) is not None:
                other.close()
            self._writer = self._log.writer(0)
            _OPEN[self.path] = self
            # Nobody else writes from here on.
            self._last = self._last_batch()
        assert self._last is not None
        at, parts = self._writer.end, rows.combine_chunks().to_batches()
        if batch <= self._last:
            at = self._begin_of(batch, self._writer.end, parts)
        elif self._claim is not None:
            self._claim.hold(self._last)
        # Rows that are there already are compared and passed over, the rest is appended.
        for part in parts:
            self._writer.append(part, at)
            at += len(part)
        self._last = max(self._last, batch)

    def _begin_of(self, batch: int, end: int, parts: Sequence[pa.RecordBatch]) -> int:
        """Where the rows of a batch begin that was written before: all of them, or the first parts, if a crash came between."""
        reader = self._reader()
        begin = _first_of(reader, batch, end)
        held = _first_of(reader, batch + 1, end) - begin
        *some, count = accumulate(map(len, parts), initial=0)
        if held != count and (held not in some or not held or batch != self._last):
            raise other_rows(self.path, batch, f"{held} instead of {count}", _WAY_OUT)
        return begin

    def _reader(self) -> PartitionReader:
        reader = self._log.reader(0)
        reader.refresh()
        return reader

    def _last_batch(self) -> int:
        reader = self._reader()
        return _batch_at(reader, reader.end - 1) if reader.end > reader.start else -1

    def _counts(self, batches: Mapping[int, int]) -> dict[int, int]:
        """How many rows batches have, without those that retention may have cut."""
        reader = self._reader()
        end, first = reader.end, _batch_at(reader, reader.start)
        begin = {batch: _first_of(reader, batch, end) for each in batches for batch in (each, each + 1)}
        return {batch: begin[batch + 1] - begin[batch] for batch in batches if batch > first}


def _first_of(reader: PartitionReader, batch: int, end: int) -> int:
    """The offset of the first row of this batch or a later one: batches go up in the log."""
    low, high = reader.start, end
    while low < high:
        middle = (low + high) // 2
        if _batch_at(reader, middle) < batch:
            low = middle + 1
        else:
            high = middle
    return low


def _batch_at(reader: PartitionReader, offset: int) -> int:
    (stored,) = reader.rows(offset, offset + 1)
    if BATCH not in stored.batch.schema.names:
        raise SinkError(
            f"{reader.directory}: this log has rows that no stream wrote, without a column {BATCH!r}; {_WAY_OUT}"
        )
    return int(stored.batch.column(BATCH)[0].as_py())
