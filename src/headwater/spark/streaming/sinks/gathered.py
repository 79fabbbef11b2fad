"""Rows that wait in the checkpoint until there are enough for a file: each batch a file, written before the batch is done."""

from __future__ import annotations

from collections.abc import Mapping
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

    A batch that is not done will run again, so what it left is void; and rows that are in a file were only not removed yet.
    """

    def __init__(self, folder: Path, target: Path, *, written: int, done: int) -> None:
        self._folder = folder
        self._target = target
        self.parts: list[BatchRows] = []
        for batch in _batches(folder):
            if written < batch <= done:
                planned_ns, rows = from_bytes(self._place(batch).read_bytes())
                self.parts.append(BatchRows(batch, planned_ns, table_from_bytes(rows)))
            else:
                files.remove(self._place(batch))

    def keep(self, part: BatchRows) -> None:
        """Rows that are to wait; afterwards they would survive a loss of power."""
        if not self.parts:
            files.make_folder(self._folder)
            files.replace(self._folder / _TARGET, str(self._target).encode())
        files.replace(self._place(part.batch), to_bytes([part.planned_ns, table_to_bytes(part.rows)]))
        files.sync_directory(self._folder)
        self.parts.append(part)

    def forget(self) -> None:
        """All of them are in a file."""
        for part in self.parts:
            files.remove(self._place(part.batch))
        self.parts = []

    def _place(self, batch: int) -> Path:
        return self._folder / f"{batch:012d}{_SUFFIX}"


def check_targets(gathered: Path, targets: Mapping[Path, Path | None], done: int) -> None:
    """Refuse other sinks while rows of batches that are done wait for a folder; ``targets``: by where rows wait for them."""
    for folder in sorted(gathered.iterdir()) if gathered.is_dir() else ():
        waiting = [batch for batch in _batches(folder) if batch <= done]
        if waiting and (meant := (folder / _TARGET).read_text()) != str(targets.get(folder)):
            raise SinkError(
                f"rows of batches {waiting[0]} to {waiting[-1]} are gathered for the folder {meant} and not written there yet:"
                " start the stream with this sink and stop it, and then give the other"
            )


def _batches(folder: Path) -> list[int]:
    return sorted(int(place.stem) for place in folder.glob(f"*{_SUFFIX}") if place.stem.isdigit())
