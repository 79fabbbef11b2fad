"""Entries of a file that is only ever appended to: each with checksums, such that a torn one is told from a damaged one.

An entry says below which byte everything was synced when it was written. One that is not whole, with nothing behind it that says
it was synced, was never finished: nothing that depends on it was ever done. If something behind it does say so, the disk has
changed it, and whoever went on without it would have forgotten what others were told. Only the last entry of a file has nothing
behind it: if the disk changes that one, it is taken for torn.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from headwater.logs.errors import DamageError

#: Before each entry, and the checksum of what follows of its header and of the place where it stands.
_MAGIC = b"HWJE"
_HEAD = struct.Struct("<4sI")
_FIELDS = struct.Struct("<cQQI")  # kind, length, synced, checksum of the data
_PLACE = struct.Struct("<Q")
HEADER_BYTES = _HEAD.size + _FIELDS.size


class FramedEntry(NamedTuple):
    """A whole entry: what it is, what it holds, and where the next one begins."""

    kind: bytes
    data: bytes
    end: int


class _Header(NamedTuple):
    kind: bytes
    length: int
    synced: int
    checksum: int


def framed(kind: bytes, data: bytes, place: int, synced: int) -> bytes:
    """An entry of this kind (one byte) for this place in its file; everything below ``synced`` would survive a loss of power.

    >>> file = framed(b"r", b"one", 0, 0)
    >>> file += framed(b"r", b"two", len(file), len(file))
    >>> [entry.data for entry in entries(file[:-1], Path("root"))]
    [b'one']
    >>> [entry.data for entry in entries(b"?" + file[1:], Path("root"))]
    Traceback (most recent call last):
    headwater.logs.errors.DamageError: root, byte 0: this entry was synced and is not what was written; the disk has changed it:
        restore the file from a copy
    """
    fields = _FIELDS.pack(kind, len(data), synced, zlib.crc32(data))
    return _HEAD.pack(_MAGIC, zlib.crc32(_PLACE.pack(place) + fields)) + fields + data


def entries(file: bytes, path: Path) -> Iterator[FramedEntry]:
    """The whole entries of a file, up to one that was never finished; damage is an error that names ``path``."""
    place = 0
    while place < len(file):
        header = _header_at(file, place)
        data = b"" if header is None else file[place + HEADER_BYTES : place + HEADER_BYTES + header.length]
        if header is None or len(data) < header.length or zlib.crc32(data) != header.checksum:
            _refuse_damage(file, place, path)
            return
        place += HEADER_BYTES + header.length
        yield FramedEntry(header.kind, data, place)


def _header_at(file: bytes, place: int) -> _Header | None:
    """The header that stands here, None if it is not whole."""
    if len(file) < place + HEADER_BYTES:
        return None
    magic, checksum = _HEAD.unpack_from(file, place)
    fields = file[place + _HEAD.size : place + HEADER_BYTES]
    if magic != _MAGIC or zlib.crc32(_PLACE.pack(place) + fields) != checksum:
        return None
    return _Header(*_FIELDS.unpack(fields))


def _refuse_damage(file: bytes, place: int, path: Path) -> None:
    """An entry is not whole: refuse it if one behind it says that it was synced."""
    behind = file.find(_MAGIC, place + 1)
    while behind >= 0:
        header = _header_at(file, behind)
        if header is not None and header.synced > place:
            what = "this entry was synced and is not what was written; the disk has changed it: restore the file from a copy"
            raise DamageError(path, place, what)
        behind = file.find(_MAGIC, behind + 1)
