"""The mark beside a segment that is being written: what of it is safe, and what readers may see.

The writer makes it before its first record and takes it away when it closes the segment: a mark that is there says that
nobody has closed this segment well. It is written in place after each sync (under "never": after each append), and never
synced itself, so a loss of power may leave an older one, or none that is whole. What it says is still true then, only not
all that is true; what the headers of records say about syncs survives with them.
"""

from __future__ import annotations

import os
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from headwater.logs import files
from headwater.logs.lock import Owner

MARK_SUFFIX = ".mark"
_MAGIC = b"HWM2"
_FIELDS = struct.Struct("<qqqII")  # epoch, durable, published, host, boot
_HEAD = struct.Struct("<4sI")
LENGTH = _HEAD.size + _FIELDS.size


class Boot(NamedTuple):
    """A machine from one start to the next, by checksums of its name and of what its kernel calls this time."""

    host: int
    boot: int


@cache
def here() -> Boot:
    """Where this process runs."""
    owner = Owner.present()
    return Boot(zlib.crc32(owner.host.encode()), zlib.crc32(owner.boot.encode()))


class SegmentMark(NamedTuple):
    """Bytes below ``durable`` were synced, readers may see those below ``published``; and where the writer runs."""

    epoch: int
    durable: int
    published: int
    host: int = 0
    boot: int = 0

    def is_over(self, present: Boot) -> bool:
        """Whether the writer's machine was started again since: what is on its disk now can no longer vanish.

        >>> mark = SegmentMark(epoch=1, durable=80, published=80, host=5, boot=6)
        >>> mark.is_over(Boot(5, 6)), mark.is_over(Boot(5, 7)), mark.is_over(Boot(8, 7))
        (False, True, False)
        """
        return self.host == present.host and self.boot != present.boot

    def to_bytes(self) -> bytes:
        """The mark as a file."""
        fields = _FIELDS.pack(*self)
        return _HEAD.pack(_MAGIC, zlib.crc32(fields)) + fields

    @classmethod
    def from_bytes(cls, data: bytes) -> SegmentMark | None:
        """The mark of such a file; None if it is not whole.

        >>> mark = SegmentMark(epoch=3, durable=80, published=200)
        >>> SegmentMark.from_bytes(mark.to_bytes()) == mark, SegmentMark.from_bytes(mark.to_bytes()[:-1])
        (True, None)
        """
        if len(data) != LENGTH:
            return None
        magic, checksum = _HEAD.unpack_from(data)
        fields = data[_HEAD.size :]
        return cls(*_FIELDS.unpack(fields)) if (magic, checksum) == (_MAGIC, zlib.crc32(fields)) else None


def read_mark(path: Path) -> SegmentMark | None:
    """The mark in a file; None if there is none, or none that is whole."""
    try:
        with files.opened(path) as descriptor:
            # Twice: the writer may be about to write it.
            for _ in range(2):
                if mark := SegmentMark.from_bytes(files.read_at(descriptor, LENGTH, 0)):
                    return mark
    except FileNotFoundError:
        pass
    return None


class MarkFile:
    """The mark of the segment that this writer appends to; FileExistsError if another one has begun to."""

    def __init__(self, segment: Path, epoch: int) -> None:
        self._path = segment.with_suffix(MARK_SUFFIX)
        self._epoch = epoch
        self._descriptor = files.make(self._path)

    def publish(self, durable: int, published: int) -> None:
        """Tell readers, and whoever opens the partition next."""
        files.write_at(self._descriptor, SegmentMark(self._epoch, durable, published, *here()).to_bytes(), 0)

    def remove(self) -> None:
        """The segment was closed well."""
        files.remove(self._path)

    def close(self) -> None:
        """Leave it as it is; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
