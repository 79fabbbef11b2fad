"""What a machine keeps on its disk for its next life: the one place that decides what is synced before what.

A root has its last two checkpoints and the records behind them, other nodes the memory of an orderly end. Two, because the
older one and all records behind it lead to the same root: a checkpoint that cannot be read any more costs nothing but time.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from headwater.simulator.world.disk import Disk, DiskError

#: In front of each record: the checksum of the rest, and its length.
_HEADER = struct.Struct("<II")
_CHECKSUM_BYTES = 4
MEMORY = "memory"
CHECKPOINT, RECORDS = "checkpoint-{}", "records-{}"


@dataclass(slots=True)
class Storage:
    """The files of one machine. ``number`` is that of the last checkpoint; records behind it have the same."""

    disk: Disk = field(default_factory=Disk)
    number: int = 0

    def record(self, data: bytes) -> None:
        """Make a record durable."""
        name = RECORDS.format(self.number)
        self.disk.append(name, framed(data))
        self.disk.sync(name)

    def checkpoint(self, data: bytes) -> None:
        """Make a checkpoint durable, and begin the records behind it; the one before the last is not needed any more."""
        disk, number = self.disk, self.number + 1
        disk.remove("new")  # of a life that ended here
        disk.append("new", data)
        disk.sync("new")
        disk.append(RECORDS.format(number), b"")
        disk.rename("new", CHECKPOINT.format(number))
        disk.sync_folder()
        self.number = number
        for name in (CHECKPOINT, RECORDS):
            disk.remove(name.format(number - 2))

    def lives(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """The last checkpoint and the one before it, each with all records behind it."""
        files = self.disk.files
        numbers = [int(name.split("-")[1]) for name in files if name.startswith("checkpoint-")]
        self.number = max(numbers, default=0)
        # Of older ones a crash may have left some files.
        for number in sorted(numbers, reverse=True)[:2]:
            behind = [RECORDS.format(later) for later in range(number, self.number + 1)]
            records = [record for name in behind if name in files for record in entries(bytes(files[name].data))]
            yield bytes(files[CHECKPOINT.format(number)].data), records

    def remember(self, memory: bytes) -> bool:
        """Keep the memory of a node that ends; returns whether there was room for it."""
        try:
            self.disk.append(MEMORY, memory)
            self.disk.sync(MEMORY)
            self.disk.sync_folder()
        except DiskError:
            self.forget()
            return False
        return True

    def recall(self) -> bytes | None:
        """The memory of the last moment, once: later it is of no use."""
        file = self.disk.files.get(MEMORY)
        self.forget()
        return None if file is None else bytes(file.data)

    def forget(self) -> None:
        """There is no memory."""
        self.disk.remove(MEMORY)
        self.disk.sync_folder()


def framed(record: bytes) -> bytes:
    """A record with its length and a checksum of both, so that a torn one is known; zeros are no record.

    >>> list(entries(framed(b"one") + framed(b"two")[:-1] + bytes(20)))
    [b'one']
    """
    rest = _HEADER.pack(0, len(record))[_CHECKSUM_BYTES:] + record
    return zlib.crc32(rest).to_bytes(_CHECKSUM_BYTES, "little") + rest


def entries(data: bytes) -> Iterator[bytes]:
    """The whole records of a file: behind one that is torn nothing was ever done."""
    at = 0
    while at + _HEADER.size <= len(data):
        checksum, length = _HEADER.unpack_from(data, at)
        end = at + _HEADER.size + length
        if end > len(data) or zlib.crc32(memoryview(data)[at + _CHECKSUM_BYTES : end]) != checksum:
            return
        yield data[at + _HEADER.size : end]
        at = end
