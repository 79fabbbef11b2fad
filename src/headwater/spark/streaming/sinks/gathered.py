"""Rows that wait in the checkpoint until there are enough for a file: each batch a file, written before the batch is done."""

from __future__ import annotations

from pathlib import Path

from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.logs import files
from headwater.spark.streaming.sinks.batch_files import BatchRows
from headwater.spark.streaming.sinks.timeline import SinkError

_SUFFIX = ".rows"
_TARGET = "folder"


class GatheredRows:
    """What waits for the sink ``target``: batches above ``written``, which has its file, up to ``done``, the last that is done.

    Rows that are in a file were only not removed yet. Those of a batch that is not done wait as well: whoever was paused in the
    midst of it may wake and end it, and whoever runs it again keeps the same.
    """

    def __init__(self, folder: Path, target: Path, *, written: int, done: int) -> None:
        self._folder = folder
        self._target = target
        self.parts: list[BatchRows] = []
        self.forget(written)
        self.catch_up(done + 1)

    def catch_up(self, batch: int) -> None:
        """Take in what waits of the batches before this one, which are done: others may have done some."""
        last = self.parts[-1].batch if self.parts else self._written
        for each in _batches(self._folder):
            if last < each < batch:
                planned_ns, rows = from_bytes(self._place(each).read_bytes())
                self.parts.append(BatchRows(each, planned_ns, table_from_bytes(rows)))

    def keep(self, part: BatchRows) -> None:
        """Rows that are to wait; afterwards they would survive a loss of power."""
        if not self.parts:
            files.make_folder(self._folder)
            files.replace(self._folder / _TARGET, str(self._target).encode())
        files.replace(self._place(part.batch), to_bytes([part.planned_ns, table_to_bytes(part.rows)]))
        files.sync_directory(self._folder)
        self.parts.append(part)

    def forget(self, written: int) -> None:
        """Everything up to this batch is in a file, also what a life before this one kept of the last."""
        for batch in _batches(self._folder):
            if batch <= written:
                files.remove(self._place(batch))
        self._written, self.parts = written, []

    def _place(self, batch: int) -> Path:
        return self._folder / f"{batch:012d}{_SUFFIX}"


def check_target(folder: Path, target: Path | None, done: int) -> None:
    """Refuse another sink while rows of batches that are done wait for a folder."""
    waiting = [batch for batch in _batches(folder) if batch <= done]
    if waiting and (meant := (folder / _TARGET).read_text()) != str(target):
        raise SinkError(
            f"rows of batches {waiting[0]} to {waiting[-1]} are gathered for the folder {meant} and not written there yet: start"
            " the stream with this sink and stop it, and then give the other"
        )


def _batches(folder: Path) -> list[int]:
    return sorted(int(place.stem) for place in folder.glob(f"*{_SUFFIX}") if place.stem.isdigit())
