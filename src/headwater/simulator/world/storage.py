"""What a machine keeps on its disk for its next life: the one place that decides what is synced before what.

A root has its last two checkpoints and the records behind them, other nodes the memory of an orderly end. Two, because the
older one and all records behind it lead to the same root: a checkpoint that cannot be read any more costs nothing but time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headwater.logs.entries import entries, framed
from headwater.simulator.world.disk import Disk, DiskError

RECORD = b"r"
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
        end = len(self.disk.files[name].data) if name in self.disk.files else 0
        self.disk.append(name, framed(RECORD, data, end, end))
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
            found = (entries(bytes(files[name].data), Path(name)) for name in behind if name in files)
            yield bytes(files[CHECKPOINT.format(number)].data), [one.data for some in found for one in some]

    def followed_bytes(self) -> int:
        """How many bytes of the last records another one follows: of these damage can be told from a torn end."""
        file = self.disk.files.get(RECORDS.format(self.number))
        ends = [] if file is None else [one.end for one in entries(bytes(file.data), Path(RECORDS.format(self.number)))]
        return ends[-2] if len(ends) > 1 else 0

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
