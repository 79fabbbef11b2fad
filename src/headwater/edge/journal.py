"""What a root has made durable: one file, only ever appended to, from which another process makes the root again.

An entry is on the disk before anything behind it is done, so it survives the process and the machine; `syncs=False` is for
measuring without a disk, and survives the process alone. An entry that was never finished is as if it had not been written, one
that the disk has changed is an error (`logs/entries.py`). Journals of older releases, without checksums, are written anew.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headwater.edge.cluster.outcome import Emission
from headwater.logs.entries import FramedEntry, entries, framed
from headwater.logs.files import replace, sync, sync_directory

RECORD, CHECKPOINT, EMISSION = b"r", b"c", b"e"
#: The kind of an entry and its length, as older releases have it; their first byte is none of today's.
_OLD_HEADER = struct.Struct("<cQ")


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
        _renew(path)
        # Unbuffered: what was written is out of this process, whatever becomes of it.
        self._file = path.open("ab", buffering=0)
        self._end = path.stat().st_size
        if syncs:
            sync_directory(path.parent)

    def add(self, kind: bytes, data: bytes) -> None:
        """Append an entry; it is there when this returns."""
        entry = framed(kind, data, self._end, self._end if self._syncs else 0)
        view = memoryview(entry)
        while view:
            view = view[self._file.write(view) :]
        self._end += len(entry)
        if self._syncs:
            sync(self._file.fileno())

    def emit(self, emission: Emission) -> None:
        """Append rows that came out."""
        self.add(EMISSION, pickle.dumps(emission))

    def read(self) -> JournalContents:
        """Everything that is needed to go on; what was never finished is cut off, and what was damaged is an error."""
        kept, end = JournalContents(), 0
        for kind, data, end in entries(self._path.read_bytes(), self._path):  # noqa: B007 (the last one is where to go on)
            if kind == CHECKPOINT:
                kept.checkpoint, kept.records = data, []
            elif kind == RECORD:
                kept.records.append(data)
            else:
                kept.emissions.append(pickle.loads(data))
        self._file.truncate(end)
        self._end = end
        if self._syncs:
            sync(self._file.fileno())
        return kept

    def close(self) -> None:
        self._file.close()


def _renew(path: Path) -> None:
    """Write a journal of an older release anew, with checksums."""
    old = path.read_bytes() if path.exists() else b""
    if old[:1] not in (RECORD, CHECKPOINT, EMISSION):
        return
    renewed = bytearray()
    for kind, data, _ in _old_entries(old):
        renewed += framed(kind, data, len(renewed), len(renewed))
    replace(path, bytes(renewed))


def _old_entries(file: bytes) -> Iterator[FramedEntry]:
    """The entries of an older release, up to one that was cut short."""
    place = 0
    while place + _OLD_HEADER.size <= len(file):
        kind, length = _OLD_HEADER.unpack_from(file, place)
        begin, place = place + _OLD_HEADER.size, place + _OLD_HEADER.size + length
        if place > len(file):
            return
        yield FramedEntry(kind, file[begin:place], place)
