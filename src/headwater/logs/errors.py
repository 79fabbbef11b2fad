"""What can go wrong with a log, each in one sentence that names the file, and the byte or offset in it."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import DataError, FormatError, HeadwaterError


class DamageError(FormatError):
    """Bytes of a log that are not what was written: flipped, cut off, missing, or of an unknown version.

    >>> print(DamageError(Path("0.segment"), 80, "the record does not match its checksum"))
    0.segment, byte 80: the record does not match its checksum
    """

    def __init__(self, path: Path, byte: int, what: str) -> None:
        super().__init__(f"{path}, byte {byte}: {what}")
        self.path = path
        self.byte = byte


class GapError(DataError):
    """An append that would leave offsets without rows between the end of the partition and itself."""


class ConflictError(DataError):
    """An append of other rows at offsets that the partition already holds."""


class OffsetError(DataError):
    """A read at an offset that the partition does not hold: no longer, after retention, or not yet."""


class RegressError(DataError):
    """The log ends before rows that were read from it, or other rows have their offsets now: it went back."""


class LockedError(HeadwaterError):
    """The partition has a writer already, or one that may still live on another machine."""


class FencedError(HeadwaterError):
    """Another writer has opened the partition since: whatever this one wrote last is not acknowledged."""


class WriterStoppedError(HeadwaterError):
    """The writer was closed, or stopped after an error; opening the partition again repairs what it left."""
