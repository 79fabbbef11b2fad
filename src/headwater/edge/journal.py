"""What a root has made durable: one file, only ever appended to, from which another process makes the root again.

An entry is on the disk before anything behind it is done, so it survives the process and the machine; `syncs=False` is for
measuring without a disk, and survives the process alone. An entry that was cut short is as if it had not been written.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headwater.edge.cluster.outcome import Emission
from headwater.logs.files import sync, sync_directory

#: The kind of an entry and its length.
HEADER = struct.Struct("<cQ")
RECORD, CHECKPOINT, EMISSION = b"r", b"c", b"e"


@dataclass
class JournalContents:
    """What is in a journal: the last checkpoint, the records behind it, and all rows, which others cannot make again."""

    checkpoint: bytes | None = None
    records: list[bytes] = field(default_factory=list)
    emissions: list[Emission] = field(default_factory=list)


class Journal:
    """The file in which a root keeps its records, checkpoints and rows.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal = Journal(Path(folder, "root"))
    ...     for kind, data in [(RECORD, b"1"), (CHECKPOINT, b"1"), (RECORD, b"2")]:
    ...         journal.add(kind, data)
    ...     journal.read()
    ...     journal.close()
    JournalContents(checkpoint=b'1', records=[b'2'], emissions=[])
    """

    def __init__(self, path: Path, syncs: bool = True) -> None:
        self._path = path
        self._syncs = syncs
        # Unbuffered: what was written is out of this process, whatever becomes of it.
        self._file = path.open("ab", buffering=0)
        if syncs:
            sync_directory(path.parent)

    def add(self, kind: bytes, data: bytes) -> None:
        """Append an entry; it is there when this returns."""
        view = memoryview(HEADER.pack(kind, len(data)) + data)
        while view:
            view = view[self._file.write(view) :]
        if self._syncs:
            sync(self._file.fileno())

    def emit(self, emission: Emission) -> None:
        """Append rows that came out."""
        self.add(EMISSION, pickle.dumps(emission))

    def read(self) -> JournalContents:
        """Everything that is needed to go on; what was cut short is cut off."""
        kept, end = JournalContents(), 0
        for kind, data, end in self._entries():  # noqa: B007 (the last one is where to go on)
            if kind == CHECKPOINT:
                kept.checkpoint, kept.records = data, []
            elif kind == RECORD:
                kept.records.append(data)
            else:
                kept.emissions.append(pickle.loads(data))
        self._file.truncate(end)
        return kept

    def _entries(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Kind, data and end of each whole entry."""
        with self._path.open("rb") as file:
            while len(header := file.read(HEADER.size)) == HEADER.size:
                kind, length = HEADER.unpack(header)
                data = file.read(length)
                if len(data) < length:
                    return
                yield kind, data, file.tell()

    def close(self) -> None:
        self._file.close()
