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
from headwater.spark.streaming.sinks.gathered import GatheredRows, Gathering
from headwater.spark.streaming.sinks.sink import ELSEWHERE, Sink
from headwater.spark.streaming.sinks.timeline import Claimant

#: Rows that wait are written before they take more memory than this, whatever the time.
GATHERED_BYTES_MAX = 256 << 20


class FolderSink(Sink):
    """A Parquet file for each batch that has rows: ``batch-000000000007.parquet``. Written at once or not at all.

    With ``every="1 min"`` a file has the rows of all batches that were planned within about so long, and is named after the first
    and the last of them. Until then they wait in the checkpoint, where they are as safe; whoever stops or flushes the stream
    has them all in files. How a batch is written, the directive before it has said: a driver that was replaced, and its
    successor with another ``every``, do the same.
    """

    def __init__(self, path: str | Path, *, every: object = None) -> None:
        self.path = local_path("sink", path, ELSEWHERE).absolute()
        self.every_ns = 0 if every is None else check_real_time("every", every)
        files.make_folder(self.path)
        self._claim: Claim | None = None
        self._files: BatchFiles | None = None
        self._gathered: GatheredRows | None = None

    def open(self, stream: Claimant) -> None:
        """Called before the first batch: from now on the folder is this stream's."""
        self._files = BatchFiles(self.path)
        self._claim = Claim(self.path, stream, self._files.last, self._files.counts, WAY_OUT)
        self._gathered = stream.gathered

    def write(self, batch: int, rows: pa.Table) -> None:
        if self.every_ns:
            raise DataError("every is for a folder sink that is given to hw.stream itself: rows wait in its checkpoint")
        self._write(batch, rows)

    def _write(self, batch: int, rows: pa.Table) -> None:
        held = self._files = self._files or BatchFiles(self.path)
        if batch <= held.last:
            held.check_same(batch, rows)
            files.sync_directory(self.path)  # whoever wrote it may have died before it did
        elif len(rows):
            self._put([BatchRows(batch, 0, rows)])

    @property
    def starts_gathering(self) -> bool:
        """Whether the first batch of a new stream is gathered."""
        return bool(self.every_ns)

    def write_after(self, said: Gathering | None, batch: int, rows: pa.Table, planned_ns: int) -> Gathering | None:
        """Write the rows of a batch, or let them wait, as was said after the one before; what is to be said after this one."""
        if said is not None and said.is_due:
            self.put_out(said)
        if said is None or not said.goes_on:
            self._write(batch, rows)
            return Gathering(True) if self.every_ns else None
        waiting = self._waiting(said)
        new = [BatchRows(batch, planned_ns, rows)] if len(rows) else []
        if waiting and new and not waiting[-1].rows.schema.equals(rows.schema):
            # A file has one schema.
            self.put_out(said)
            waiting = []
        parts = [*waiting, *new]
        if not parts:
            return Gathering(True) if self.every_ns else None
        last = said.name, said.hash
        if new:
            assert self._gathered is not None
            last = self._gathered.keep(new[0], said if waiting else None, self.path)
        due_ns = parts[0].planned_ns + self.every_ns
        is_due = planned_ns >= due_ns or sum(part.rows.nbytes for part in parts) > GATHERED_BYTES_MAX
        return Gathering(bool(self.every_ns), *last, None if is_due else due_ns)

    def put_out(self, said: Gathering | None) -> None:
        """Make files of all rows that wait after a batch that is done; of those that are in files already, none."""
        while waiting := self._waiting(said):
            assert self._gathered is not None
            self._gathered.end(waiting)

    def _waiting(self, said: Gathering | None) -> list[BatchRows]:
        """Rows that wait; of those for which it was agreed where their file ends, it is made."""
        if self._gathered is None:
            return []
        ended, waiting = self._gathered.found(said)
        if ended:
            self._put(ended)
            self._gathered.forget(ended)
        return waiting

    def _put(self, parts: list[BatchRows]) -> None:
        assert self._files is not None
        if self._claim is not None:
            self._claim.hold(self._files.last)
        self._files.write(parts)
