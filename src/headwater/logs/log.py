"""The partitioned log: a directory with one directory per partition, and a small file that says what it is.

readings/log.json
readings/00000/0000000000000000000.segment, ...index, ...mark, ...epoch, writer.lock, holds/...
readings/00001/...
"""

from __future__ import annotations

import json
import time as clocks
import uuid
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headwater.errors import DataError, shown
from headwater.language.places import local_path
from headwater.logs import files
from headwater.logs import holds as held
from headwater.logs.errors import DamageError
from headwater.logs.fsync import FsyncPolicy
from headwater.logs.lock import WriterLock
from headwater.logs.reader import PartitionReader
from headwater.logs.segments.layout import NO_LOG
from headwater.logs.writer import LOCK, SEGMENT_BYTES, PartitionWriter

VERSION = 2
PARTITIONS_MAX = 100_000
_SETTINGS = "log.json"
_FORM = "a log is a folder of this machine"


class Log:
    """A replayable log of Arrow batches on disk, in partitions 0 to ``partition_count - 1``.

    ``id`` tells it from every other log, also from one that was made later in its place; a log of version 1 has none.

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

    def __init__(self, path: Path, partition_count: int, time: str | None, id: str | None) -> None:
        self.path = path
        self.partition_count = partition_count
        self.time = time
        self.id = id

    @classmethod
    def create(
        cls, path: Path | str, *, partition_count: int = 1, time: str | None = None, id: str | None = None
    ) -> Log:
        """A new log; ``time`` names the column of event times to index. An existing log of equal settings is opened.

        ``id``: 32 hexadecimal digits, a new UUID by default.
        """
        if not 1 <= partition_count <= PARTITIONS_MAX:
            raise DataError(f"partition_count is {shown(partition_count)}: give 1 to {PARTITIONS_MAX}")
        made = uuid.uuid4().hex if id is None else uuid.UUID(id).hex
        log = cls(local_path("path", path, _FORM), partition_count, time, made)
        files.make_folder(log.path)
        try:
            files.create(log.path / _SETTINGS, log._settings())
        except FileExistsError:
            log = cls.open(path)
            if (log.partition_count, log.time) != (partition_count, time):
                raise DataError(
                    f"{log.path}: the log is there already with {log.partition_count} partitions and the time column"
                    f" {shown(log.time)}, not with {partition_count} and {shown(time)}"
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
            log = cls(folder, tree["partition_count"], tree["time"], tree.get("id"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DamageError(settings, 0, "these are not the settings of a log") from None
        if version not in (1, VERSION):
            raise DamageError(
                settings, 0, f"the log has version {shown(version)}; this release reads up to version {VERSION}"
            )
        if log.version != version or log._settings() != data:
            raise DamageError(settings, 0, "the settings of the log do not match their checksum")
        return log

    @property
    def version(self) -> int:
        """The version of its settings; segments of version 1 may be left in a log of version 2."""
        return 1 if self.id is None else VERSION

    def _settings(self) -> bytes:
        identity = {} if self.id is None else {"id": self.id}
        tree = {
            "headwater_log": self.version,
            **identity,
            "partition_count": self.partition_count,
            "time": self.time,
        }
        checksum = zlib.crc32(json.dumps(tree).encode())
        return (json.dumps({**tree, "checksum": checksum}) + "\n").encode()

    @property
    def _id_bytes(self) -> bytes:
        return NO_LOG if self.id is None else bytes.fromhex(self.id)

    def upgrade(self) -> Log:
        """Give a log of version 1 an identity, so that it can be written; what is in it stays as it is.

        LockedError while anybody writes it.
        """
        if self.id is not None:
            return self
        with ExitStack() as stack:
            for partition in range(self.partition_count):
                directory = self._directory(partition)
                files.make_folder(directory)
                stack.callback(WriterLock(directory / LOCK).release)
            log = Log(self.path, self.partition_count, self.time, uuid.uuid4().hex)
            files.replace(self.path / _SETTINGS, log._settings())
            files.sync_directory(self.path)
        return log

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
        clock: Callable[[], int] = clocks.time_ns,
    ) -> PartitionWriter:
        """The one writer of a partition; LockedError while another has it. See `PartitionWriter`.

        ``fsync`` says what `acknowledged` promises (`headwater.logs.fsync`), ``segment_bytes`` when a new segment begins,
        ``take_over`` that a writer on another machine is known to be dead (`headwater.logs.lock`), ``clock`` the nanoseconds
        since 1970 at which rows arrive that are appended without.
        """
        directory = self._directory(partition)
        if self.id is None:
            raise DataError(
                f"{self.path}: the log has version 1, which is read but no longer written; `headwater upgrade {self.path}`"
                f" makes it version {VERSION}"
            )
        files.make_folder(directory)
        return PartitionWriter(
            directory,
            log_id=self._id_bytes,
            clock=clock,
            time=self.time,
            fsync=fsync,
            segment_bytes=segment_bytes,
            take_over=take_over,
        )

    def reader(self, partition: int, *, unpublished: bool = False) -> PartitionReader:
        """A reader of a partition; any number may read at once, also while the writer appends.

        ``unpublished``: also rows that are written but not yet synced, which a loss of power may take away again.
        """
        directory = self._directory(partition)
        return PartitionReader(directory, time=self.time, log_id=self._id_bytes, unpublished=unpublished)

    def hold(self, partition: int, name: str, offset: int) -> None:
        """Keep rows from ``offset`` on from retention, for the reader of this name; it moves its hold as it goes on."""
        held.hold(self._directory(partition), name, offset)

    def release(self, partition: int, name: str) -> None:
        """Hold nothing for this name any more."""
        held.release(self._directory(partition), name)

    def holds(self, partition: int) -> dict[str, int]:
        """What each name holds."""
        return held.holds(self._directory(partition))

    def verify(self) -> int:
        """Read every partition and check it; the number of rows."""
        return sum(self.reader(partition).verify() for partition in range(self.partition_count))
