"""Rows as Parquet files of a folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headwater.errors import DataError
from headwater.language.arguments import check_real_time
from headwater.language.places import local_path
from headwater.logs import files
from headwater.spark.streaming.sinks.batch_files import WAY_OUT, BatchFiles, BatchRows
from headwater.spark.streaming.sinks.claim import Claim
from headwater.spark.streaming.sinks.gathered import GatheredRows
from headwater.spark.streaming.sinks.sink import ELSEWHERE, Sink
from headwater.spark.streaming.sinks.timeline import Claimant

#: Rows that wait are written before they take more memory than this, whatever the time.
GATHERED_BYTES_MAX = 256 << 20


class FolderSink(Sink):
    """A Parquet file for each batch that has rows: ``batch-000000000007.parquet``. Written at once or not at all.

    With ``every="1 min"`` a file has the rows of all batches that were planned within about so long, and is named after the first
    and the last of them. Until then they wait in the checkpoint, where they are as safe; whoever stops or flushes the stream
    has them all in files.
    """

    def __init__(self, path: str | Path, *, every: object = None) -> None:
        self.path = local_path("sink", path, ELSEWHERE).absolute()
        self.every_ns = 0 if every is None else check_real_time("every", every)
        files.make_folder(self.path)
        self._stream: Claimant | None = None
        self._claim: Claim | None = None
        self._files: BatchFiles | None = None
        self._gathered: GatheredRows | None = None

    def open(self, stream: Claimant) -> None:
        """Called before the first batch: from now on the folder is this stream's."""
        self._stream, self._files = stream, BatchFiles(self.path)
        self._claim = Claim(self.path, stream, self._files.last, self._files.counts, WAY_OUT)
        self._gathered = self._waiting()

    def write(self, batch: int, rows: pa.Table) -> None:
        self.write_at(batch, rows, 0)

    def write_at(self, batch: int, rows: pa.Table, planned_ns: int, is_last: bool = False) -> int | None:
        """Write the rows of a batch, or let them wait; when those that wait are due, None if none do.

        ``is_last``: the stream ends with this batch. Nobody could start it again to write what waits, so nothing does.
        """
        held = self._files = self._files or BatchFiles(self.path)
        if batch <= held.last:
            held.check_same(batch, rows)
            files.sync_directory(self.path)  # whoever wrote it may have died before it did
            return None
        new = [BatchRows(batch, planned_ns, rows)] if len(rows) else []
        if self._gathered is not None and self.every_ns:
            self._gathered.catch_up(batch)
        waiting = self._gathered.parts if self._gathered else []
        if waiting and new and not waiting[-1].rows.schema.equals(rows.schema):
            # A file has one schema.
            self._put(waiting)
            waiting = []
        parts = [*waiting, *new]
        if not parts:
            return None
        due_ns = parts[0].planned_ns + self.every_ns
        if is_last or planned_ns >= due_ns or sum(part.rows.nbytes for part in parts) > GATHERED_BYTES_MAX:
            self._put(parts)
            return None
        if self._gathered is None:
            raise DataError("every is for a folder sink that hw.stream has opened: rows wait in its checkpoint")
        if new:
            self._gathered.keep(new[0])
        return due_ns

    def close(self) -> None:
        """Rows that wait are written, those of batches that are done."""
        if self.every_ns and self._claim is not None and self._claim.is_held:
            self._files = BatchFiles(self.path)
            self._gathered = self._waiting()
            if self._gathered is not None and self._gathered.parts:
                self._put(self._gathered.parts)

    def _waiting(self) -> GatheredRows | None:
        stream, held = self._stream, self._files
        if stream is None or stream.waiting is None or held is None:
            return None
        return GatheredRows(stream.waiting, self.path, written=held.last, done=stream.done())

    def _put(self, parts: list[BatchRows]) -> None:
        assert self._files is not None
        if self._claim is not None:
            self._claim.hold(self._files.last)
        self._files.write(parts)
        if self._gathered is not None:
            self._gathered.forget(parts[-1].batch)
