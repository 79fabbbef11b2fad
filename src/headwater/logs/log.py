"""The partitioned log: a directory with one directory per partition, and a small file that says what it is.

readings/log.json
readings/00000/0000000000000000000.segment, ...index, ...
readings/00001/...
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from headwater.errors import DataError, shown
from headwater.language.places import local_path
from headwater.logs import files
from headwater.logs.errors import DamageError
from headwater.logs.fsync import FsyncPolicy
from headwater.logs.reader import PartitionReader
from headwater.logs.writer import SEGMENT_BYTES, PartitionWriter

VERSION = 1
PARTITIONS_MAX = 100_000
_SETTINGS = "log.json"
_FORM = "a log is a folder of this machine"


class Log:
    """A replayable log of Arrow batches on disk, in partitions 0 to ``partition_count - 1``.

    >>> import pyarrow as pa, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> log = Log.create(Path(directory.name) / "readings", partition_count=2, time="time")
    >>> batch = pa.record_batch({"time": [10, 20, 30], "watts": [1.5, 2.5, 3.5]})
    >>> with log.writer(0) as writer:
    ...     writer.append(batch, 0), writer.append(batch, 0), writer.acknowledged  # The second changes nothing.
    (3, 0, 3)
    >>> reader = log.reader(0)
    >>> [(stored.offset, stored.batch.column("watts").to_pylist()) for stored in reader.read(1)]
    [(1, [2.5, 3.5])]
    >>> reader.offset_of_time(15)  # From here on, no event at 15 or later is missed.
    0
    >>> directory.cleanup()
    """

    def __init__(self, path: Path, partition_count: int, time: str | None) -> None:
        self.path = path
        self.partition_count = partition_count
        self.time = time

    @classmethod
    def create(cls, path: Path | str, *, partition_count: int = 1, time: str | None = None) -> Log:
        """A new log; ``time`` names the column of event times to index. An existing log of equal settings is opened."""
        if not 1 <= partition_count <= PARTITIONS_MAX:
            raise DataError(f"partition_count is {shown(partition_count)}: give 1 to {PARTITIONS_MAX}")
        log = cls(local_path("path", path, _FORM), partition_count, time)
        log.path.mkdir(parents=True, exist_ok=True)
        try:
            files.create(log.path / _SETTINGS, log._settings())
        except FileExistsError:
            present = cls.open(path)
            if (present.partition_count, present.time) != (partition_count, time):
                raise DataError(
                    f"{present.path}: the log is there already with {present.partition_count} partitions and the time column"
                    f" {shown(present.time)}, not with {partition_count} and {shown(time)}"
                ) from None
        return log

    @classmethod
    def open(cls, path: Path | str) -> Log:
        """An existing log."""
        folder = local_path("path", path, _FORM)
        settings = folder / _SETTINGS
        try:
            data = settings.read_bytes()
        except FileNotFoundError:
            raise DataError(f"{path}: there is no log here; Log.create makes one") from None
        try:
            tree: Any = json.loads(data)
            version = tree["headwater_log"]
            log = cls(folder, tree["partition_count"], tree["time"])
        except (ValueError, KeyError, TypeError):
            raise DamageError(settings, 0, "these are not the settings of a log") from None
        if version != VERSION:
            raise DamageError(
                settings, 0, f"the log has version {shown(version)}; this release reads version {VERSION}"
            )
        if log._settings() != data:
            raise DamageError(settings, 0, "the settings of the log do not match their checksum")
        return log

    def _settings(self) -> bytes:
        tree = {"headwater_log": VERSION, "partition_count": self.partition_count, "time": self.time}
        checksum = zlib.crc32(json.dumps(tree).encode())
        return (json.dumps({**tree, "checksum": checksum}) + "\n").encode()

    def _directory(self, partition: int) -> Path:
        if not 0 <= partition < self.partition_count:
            raise DataError(f"{self.path}: partition {shown(partition)} is not one of 0 to {self.partition_count - 1}")
        return self.path / f"{partition:05d}"

    def writer(
        self,
        partition: int,
        *,
        fsync: FsyncPolicy | str = "always",
        segment_bytes: int = SEGMENT_BYTES,
        take_over: bool = False,
    ) -> PartitionWriter:
        """The one writer of a partition; LockedError while another has it. See `PartitionWriter`.

        ``fsync`` says what `acknowledged` promises (`headwater.logs.fsync`), ``segment_bytes`` when a new segment begins,
        ``take_over`` that a writer on another machine is known to be dead (`headwater.logs.lock`).
        """
        directory = self._directory(partition)
        if not directory.exists():
            directory.mkdir(exist_ok=True)
            files.sync_directory(self.path)
        return PartitionWriter(directory, time=self.time, fsync=fsync, segment_bytes=segment_bytes, take_over=take_over)

    def reader(self, partition: int) -> PartitionReader:
        """A reader of a partition; any number may read at once, also while the writer appends."""
        return PartitionReader(self._directory(partition), time=self.time)

    def verify(self) -> int:
        """Read every partition and check it; the number of rows."""
        return sum(self.reader(partition).verify() for partition in range(self.partition_count))
