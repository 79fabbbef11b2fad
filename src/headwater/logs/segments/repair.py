"""What a writer does before it appends: make sure of what its predecessor left at the end of the newest segment.

A segment that was closed well has an index and no mark. Any other is gone through from its last mark on. Damage below what is
known to be synced is an error, and no repair hides it. Above, the first record that is not whole is cut off with all that
follows: pages of unsynced records may have reached the disk in any order. What is whole is written again before it is synced,
for after a sync that failed the kernel may hold these bytes for clean though they are on no disk.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from headwater.logs import files
from headwater.logs.errors import DamageError
from headwater.logs.lock import FULL
from headwater.logs.segments.mark import MARK_SUFFIX, read_mark
from headwater.logs.segments.segment import INDEX_SUFFIX, SUFFIX, Segment, Sight, in_force, segment_paths

_COPY_BYTES = 1 << 20


class Repair(NamedTuple):
    """A torn tail that was cut off: the file, where it ends now, and how many bytes were cut."""

    path: Path
    byte: int
    byte_count: int


def repair(directory: Path, log_id: bytes) -> tuple[list[Segment], Repair | None]:
    """Make the partition whole; called with its lock held. Its segments, and what was cut off, None if all was whole."""
    for leftover in directory.glob("*" + files.UNFINISHED):
        files.remove(leftover)
    segments = _without_fenced([Segment(path, log_id) for path in segment_paths(directory)])
    _sweep(directory, [segment.path for segment in segments])
    return segments, _mend(segments[-1]) if segments else None


def was_closed_well(segment: Segment) -> bool:
    """Whether nobody can have the newest segment open to append to it."""
    return segment.header.version > 1 and segment.is_indexed and not segment.path.with_suffix(MARK_SUFFIX).exists()


def _without_fenced(segments: list[Segment]) -> list[Segment]:
    """Remove segments that a writer made after a newer one had begun: nothing in them was acknowledged."""
    kept = in_force(segments)
    for segment in segments:
        if segment not in kept:
            files.remove(segment.index_path)
            files.remove(segment.path)
    return kept


def _sweep(directory: Path, paths: list[Path]) -> None:
    """Remove marks of sealed segments and indexes of dropped ones; one of a later segment tells that the segment is lost."""
    for mark in directory.glob("*" + MARK_SUFFIX):
        if not paths or mark.stem != paths[-1].stem:
            files.remove(mark)
    kept = {path.stem for path in paths}
    for index in sorted(directory.glob("*" + INDEX_SUFFIX)):
        if index.stem in kept:
            continue
        if not paths or index.stem > paths[0].stem:
            raise DamageError(index.with_suffix(SUFFIX), 0, "the segment is missing; its index is there")
        files.remove(index)


def _mend(segment: Segment) -> Repair | None:
    """Cut a torn tail off, and make the rest safe."""
    with files.opened(segment.path, os.O_RDWR) as descriptor:
        size = os.fstat(descriptor).st_size
        mark = read_mark(segment.path.with_suffix(MARK_SUFFIX))
        promised = max(mark.durable if mark else 0, segment.index.end if segment.is_indexed else 0)
        if size < promised:
            raise DamageError(segment.path, size, f"the file ends here, but {promised} bytes of it were synced")
        synced = segment.look(descriptor, Sight(promised, size, True))
        end = segment.index.end
        if size == end and segment.is_indexed:
            return None
        if end < size:
            files.truncate(descriptor, end)
        for position in range(max(synced, segment.header.length), end, _COPY_BYTES):
            files.write_at(descriptor, files.read_at(descriptor, min(_COPY_BYTES, end - position), position), position)
        files.sync(descriptor)
    if mark:
        with files.opened(segment.path.with_suffix(MARK_SUFFIX), os.O_RDWR) as descriptor:
            # It may have published what is lost; and it stays, to say that this segment was not closed well.
            files.write_at(descriptor, mark._replace(durable=end, published=end).to_bytes(), 0)
    _save_index(segment)
    return Repair(segment.path, end, size - end) if end < size else None


def _save_index(segment: Segment) -> None:
    """If there is room: on a full disk a partition can be opened all the same, and retention makes some."""
    try:
        segment.save_index()
    except OSError as error:
        if error.errno not in FULL:
            raise
