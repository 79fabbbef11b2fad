"""What a writer does before it appends: find what a crash left at the end of the newest segment, and cut it off.

A writer appends, so a crash can only leave the last record unfinished (and after a loss of power, without sync, wrong). A
record is torn if it is short or wrong, no whole record follows it, and no index promised it. It was never acknowledged
under a policy that syncs; it is cut off and reported. Anything else that is wrong is damage, and no repair hides it.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import NamedTuple

from headwater.logs import files
from headwater.logs.errors import DamageError
from headwater.logs.segments.layout import RECORD_LENGTH, RECORD_MAGIC, record
from headwater.logs.segments.segment import INDEX_SUFFIX, SUFFIX, Segment, read_header, stored_index


class Repair(NamedTuple):
    """A torn tail that was cut off: the file, where it ends now, and how many bytes were cut."""

    path: Path
    byte: int
    byte_count: int


def repair(directory: Path) -> Repair | None:
    """Make the partition fit to append to; called with its lock held. What was cut off, None if all was whole."""
    for leftover in directory.glob("*" + files.UNFINISHED):
        leftover.unlink(missing_ok=True)
    paths = sorted(directory.glob("*" + SUFFIX))
    _check_indexes(directory, paths)
    if not paths:
        return None
    newest = paths[-1]
    try:
        header = read_header(newest)
    except DamageError:
        if stored_index(newest) or _whole_record_after(newest, int(newest.stem), 0):
            raise
        header = None
    if header is None:
        return _remove(newest, is_only=len(paths) == 1)
    return _cut_torn_tail(Segment(newest, header))


def _check_indexes(directory: Path, paths: list[Path]) -> None:
    """Remove the indexes of segments that retention removed; one of a later segment tells that the segment is lost."""
    kept = {path.stem for path in paths}
    for index in sorted(directory.glob("*" + INDEX_SUFFIX)):
        if index.stem in kept:
            continue
        if not paths or index.stem > paths[0].stem:
            raise DamageError(index.with_suffix(SUFFIX), 0, "the segment is missing; its index is there")
        index.unlink()


def _remove(path: Path, *, is_only: bool) -> Repair:
    """Remove a segment whose header was never finished: no record can be in it."""
    if is_only and int(path.stem) > 0:
        # A writer makes the next segment before it lets the previous one go.
        raise DamageError(path, 0, "the header is not whole, and no segment before it is left")
    size = path.stat().st_size
    path.unlink()
    path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)
    files.sync_directory(path.parent)
    return Repair(path, 0, size)


def _cut_torn_tail(segment: Segment) -> Repair | None:
    with files.opened(segment.path, os.O_RDWR) as descriptor:
        end, offset_end = segment.index.end, segment.index.offset_end
        size = os.fstat(descriptor).st_size
        while end < size:
            found = record(files.read_at(descriptor, RECORD_LENGTH, end), segment.base, end)
            if (
                found is None
                or found.end > size
                or not _is_intact(descriptor, found.payload, found.length, found.checksum)
            ):
                break
            if found.offset != offset_end:
                raise DamageError(segment.path, end, f"the record begins at offset {found.offset}, not {offset_end}")
            end, offset_end = found.end, found.offset_end
        if end == size:
            return None
        # A header that is right tells where the next record would stand; a wrong one tells nothing.
        after = end + 1 if found is None else found.end
        if later := _whole_record_after(segment.path, segment.base, after):
            raise DamageError(segment.path, end, f"a record does not match its checksum, but one at byte {later} does")
        os.ftruncate(descriptor, end)
        files.sync(descriptor)
    return Repair(segment.path, end, size - end)


def _is_intact(descriptor: int, position: int, length: int, checksum: int) -> bool:
    return zlib.crc32(files.read_at(descriptor, length, position)) == checksum


def _whole_record_after(path: Path, base: int, position: int) -> int | None:
    """Where a record with right checksums stands at ``position`` or later; None if none does."""
    with files.opened(path) as descriptor:
        data = files.read_at(descriptor, max(0, os.fstat(descriptor).st_size - position), position)
    at = data.find(RECORD_MAGIC)
    while at >= 0:
        found = record(data[at : at + RECORD_LENGTH], base, position + at)
        if found is not None:
            rows = data[at + RECORD_LENGTH : at + RECORD_LENGTH + found.length]
            if len(rows) == found.length and zlib.crc32(rows) == found.checksum:
                return position + at
        at = data.find(RECORD_MAGIC, at + 1)
    return None
