"""One segment file: read it record by record, whole records only, or append to it.

What was promised to be there is there: bytes below the mark that do not match their checksum, or are missing, are damage, an
error and never rows. Above the mark the first record that is not whole ends what can be read: it is being written, or a crash
has torn it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from headwater.errors import DataError
from headwater.logs import files
from headwater.logs.errors import DamageError, FencedError
from headwater.logs.segments import layout
from headwater.logs.segments.index import SegmentIndex
from headwater.logs.segments.mark import MARK_SUFFIX, MarkFile, here, read_mark

SUFFIX = ".segment"
INDEX_SUFFIX = ".index"


class Stored(NamedTuple):
    """Rows as they stand in the log: the offset of the first, when they arrived (None in version 1), and the rows."""

    offset: int
    arrival_ns: int | None
    batch: pa.RecordBatch

    def arrivals(self) -> pa.Array:
        """When each row arrived: nanoseconds since 1970 as int64. DataError for rows of version 1, which does not tell."""
        if self.arrival_ns is None:
            raise DataError(
                f"rows from offset {self.offset} on have no arrival times: they were appended to a log of version 1"
            )
        return pa.repeat(pa.scalar(self.arrival_ns, pa.int64()), len(self.batch))


def segment_path(directory: Path, base: int) -> Path:
    """The file of the segment that begins at offset ``base``; names sort as offsets do.

    >>> segment_path(Path("p"), 1000).name
    '0000000000000001000.segment'
    """
    return directory / f"{base:019d}{SUFFIX}"


def segment_paths(directory: Path) -> list[Path]:
    """The segment files of a partition by offset; none if the folder is not there yet."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    # Not Path.glob: a reader that follows a writer does this for each batch.
    return [directory / name for name in sorted(names) if name.endswith(SUFFIX)]


def stored_index(path: Path) -> SegmentIndex | None:
    """The index that was saved for a segment; None if there is none, or a damaged one."""
    try:
        return SegmentIndex.from_bytes(path.with_suffix(INDEX_SUFFIX).read_bytes())
    except FileNotFoundError:
        return None


def read_header(path: Path, log_id: bytes) -> layout.SegmentHeader:
    """The header of a segment file of this log."""
    with files.opened(path) as descriptor:
        start = files.read_at(descriptor, layout.HEADER_LENGTH, 0)
        # Never more than the file has: a damaged length must not ask for gigabytes.
        length = min(layout.header_length(start), os.fstat(descriptor).st_size)
        header = layout.segment_header(files.read_at(descriptor, length, 0), path)
    if path.stem != f"{header.base:019d}":
        raise DamageError(path, 8, f"the segment begins at offset {header.base}, not at that of its name")
    if header.version > 1 and header.log_id != log_id:
        raise DamageError(path, 0, f"the segment belongs to the log {header.log_id.hex()}, this one is {log_id.hex()}")
    return header


class Sight(NamedTuple):
    """How far to look into a segment.

    Bytes below ``promised`` are whole records, or damaged; above, up to ``limit``, the first record that is not whole ends it.
    ``is_settled``: nobody is writing.
    """

    promised: int
    limit: int
    is_settled: bool


class Segment:
    """What is known of one segment file so far: its schema and the index of its whole records."""

    def __init__(self, path: Path, log_id: bytes) -> None:
        self.path = path
        self.header = read_header(path, log_id)
        self.base = self.header.base
        self.schema = pa.ipc.read_schema(pa.py_buffer(self.header.schema_bytes))
        self.index, self.is_indexed = self._stored_index()
        self._mark_path = path.with_suffix(MARK_SUFFIX)

    @property
    def index_path(self) -> Path:
        """The file that keeps the index."""
        return self.path.with_suffix(INDEX_SUFFIX)

    @property
    def offset_end(self) -> int:
        """The offset after the last row."""
        return self.index.offset_end

    def _stored_index(self) -> tuple[SegmentIndex, bool]:
        """The index from its file, or an empty one; and whether it came from the file."""
        fresh = SegmentIndex(self.base, self.header.length)
        index = stored_index(self.path)
        if index is None or index.base != self.base:
            return fresh, False
        size = self.path.stat().st_size
        if size < index.end:
            raise DamageError(self.path, size, f"the file ends here, but it was closed with {index.end} bytes")
        return index, True

    def refresh(self, stop: int | None = None, *, unpublished: bool = False) -> None:
        """Add to the index the records that were published since (or written at all).

        ``stop``: the offset at which the next segment begins. What stands behind it was written by a writer that had been
        fenced, and never acknowledged.
        """
        if stop is not None and self.offset_end >= stop:
            self.index.cut(stop)
            return
        with files.opened(self.path) as descriptor:
            size = os.fstat(descriptor).st_size
            while self.index.end > size:  # What was known is no longer there.
                self.index.cut(self.index.offsets[-1])
            # The mark after the size: who finds none knows that these bytes were not written by one who writes still.
            sight = Sight(size, size, True) if stop is not None else self._sight(size, unpublished)
            self.look(descriptor, sight, stop)

    def _sight(self, size: int, unpublished: bool) -> Sight:
        mark = read_mark(self._mark_path)
        if mark is None or mark.is_over(here()):
            return Sight(mark.durable if mark else 0, size, True)
        return Sight(mark.published, size if unpublished else mark.published, False)

    def look(self, descriptor: int, sight: Sight, stop: int | None = None) -> int:
        """Index the whole records that are in sight; the byte below which everything is known to be synced."""
        promised = max(sight.promised, self.index.end if self.is_indexed else 0)
        while self.index.end < max(sight.limit, promised) and (stop is None or self.offset_end < stop):
            found = self._next(descriptor, promised, sight)
            if found is None:
                break
            self.index.add(found)
            self.is_indexed = False
            promised = max(promised, found.synced)
        return promised

    def _next(self, descriptor: int, promised: int, sight: Sight) -> layout.RecordHeader | None:
        """The header of the next record; None if it is not whole and need not be."""
        position = self.index.end
        found = layout.record(files.read_at(descriptor, self.header.record_length, position), self.header, position)
        if found is not None and found.offset != self.offset_end:
            raise DamageError(self.path, position, f"the record begins at offset {found.offset}, not {self.offset_end}")
        is_there = found is not None and found.end <= max(sight.limit, promised)
        # What was promised is checked when it is read.
        if found is not None and is_there and (found.end <= promised or is_intact(descriptor, found)):
            return found
        if position < promised:
            what = "does not match its checksum" if found is None else "is not wholly there"
            raise DamageError(self.path, position, f"the header of a record {what}, though it was synced")
        # A header that is right tells where the next record would stand; a wrong one tells nothing.
        after = position + 1 if found is None else found.end
        if sight.is_settled and (later := synced_later(descriptor, self.header, after, position)):
            raise DamageError(
                self.path, position, f"a record is not whole, though one at byte {later} says that it was"
            )
        return None

    def read(self, start: int, stop: int) -> Iterator[Stored]:
        """The rows of offsets [start, stop), which the index knows, record by record."""
        with files.opened(self.path) as descriptor:
            number = self.index.at_offset(start)
            while number < len(self.index) and self.index.offsets[number] < stop:
                yield _cut(self.stored(descriptor, self.index.positions[number]), start, stop)
                number += 1

    def stored(self, descriptor: int, position: int) -> Stored:
        """The record at ``position``, whose checksums are both right."""
        found = layout.record(files.read_at(descriptor, self.header.record_length, position), self.header, position)
        if found is None:
            raise DamageError(self.path, position, "the header of a record does not match its checksum")
        # Not a map of the file: a file that is cut short under a map kills the process that reads it.
        prefix = self.header.schema_bytes
        stream = pa.allocate_buffer(len(prefix) + found.length)
        view = memoryview(stream).cast("B")
        view[: len(prefix)] = prefix
        count = files.read_into(descriptor, view[len(prefix) :], found.payload)
        if count < found.length:
            raise DamageError(self.path, found.payload + count, "the file ends inside a record")
        if zlib.crc32(view[len(prefix) :]) != found.checksum:
            raise DamageError(self.path, position, "the rows of a record do not match their checksum")
        batch = layout.batch_of(stream)
        assert batch.num_rows == found.row_count
        return Stored(found.offset, found.arrival if self.header.version > 1 else None, batch)

    def save_index(self) -> None:
        """Write the index to its file; every byte it covers is on disk before."""
        if not self.is_indexed:
            files.replace(self.index_path, self.index.to_bytes())
            self.is_indexed = True


def in_force(segments: list[Segment]) -> list[Segment]:
    """Those that were not made by a writer after a newer one had begun."""
    newest = accumulate((segment.header.epoch for segment in segments), max)
    return [segment for segment, epoch in zip(segments, newest) if segment.header.epoch == epoch]


def _cut(stored: Stored, start: int, stop: int) -> Stored:
    """The rows of [start, stop) among these."""
    skipped = max(0, start - stored.offset)
    count = min(stop, stored.offset + stored.batch.num_rows) - stored.offset - skipped
    return Stored(stored.offset + skipped, stored.arrival_ns, stored.batch.slice(skipped, count))


def is_intact(descriptor: int, found: layout.RecordHeader) -> bool:
    """Whether the rows of a record are those that were written."""
    rows = files.read_at(descriptor, found.length, found.payload)
    return len(rows) == found.length and zlib.crc32(rows) == found.checksum


def synced_later(descriptor: int, header: layout.SegmentHeader, position: int, byte: int) -> int | None:
    """Where a whole record stands at ``position`` or later that says that ``byte`` was synced before it; None if none does."""
    data = files.read_at(descriptor, max(0, os.fstat(descriptor).st_size - position), position)
    at = data.find(layout.RECORD_MAGIC)
    while at >= 0:
        found = layout.record(data[at : at + header.record_length], header, position + at)
        if found is not None and found.synced > byte and is_intact(descriptor, found):
            return position + at
        at = data.find(layout.RECORD_MAGIC, at + 1)
    return None


class SegmentAppender:
    """Appends records to the newest segment. Only the holder of the partition's lock has one.

    For a segment that is new, or that was closed well: one whose writer died may still have it open, and would write between
    the records of another.
    """

    def __init__(self, segment: Segment, descriptor: int, epoch: int) -> None:
        self.segment = segment
        self._descriptor = descriptor
        self._epoch = epoch
        self._mark: MarkFile | None = None
        # Not the bytes in the segment's header: another release of Arrow may have written the same schema differently.
        self._schema_length = segment.schema.serialize().size
        self.synced = segment.index.end  #: Bytes below this would survive a loss of power.

    @classmethod
    def created(cls, directory: Path, header: layout.SegmentHeader, *, in_place: bool) -> SegmentAppender:
        """A new, empty segment, there at once or not at all; FileExistsError if one begins at this offset.

        ``in_place``: of an empty one, which is not to be missed for a moment: its name says where offsets go on.
        """
        path = segment_path(directory, header.base)
        with files.unfinished(path, header.to_bytes()) as place:
            (files.rename if in_place else files.link)(place, path)
        files.sync_directory(directory)
        return cls.opened(Segment(path, header.log_id), header.epoch)

    @classmethod
    def opened(cls, segment: Segment, epoch: int) -> SegmentAppender:
        """A segment that was closed well."""
        return cls(segment, os.open(segment.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC), epoch)

    @property
    def size(self) -> int:
        """The length of the file in bytes."""
        return self.segment.index.end

    def append(self, batch: pa.RecordBatch, arrival_ns: int, span: tuple[int, int]) -> None:
        """Write one record and index it; ``batch`` has the segment's schema."""
        if self._mark is None:
            self._mark = self._marked()
        header, index = self.segment.header, self.segment.index
        data = layout.payload(batch, self._schema_length)
        rows = batch.num_rows, index.offset_end, len(data), arrival_ns, *span
        payload = index.end + header.record_length
        found = layout.RecordHeader(index.end, zlib.crc32(data), *rows, self._epoch, self.synced, payload)
        files.write_all(self._descriptor, found.to_bytes(header), data)
        index.add(found)
        self.segment.is_indexed = False

    def _marked(self) -> MarkFile:
        try:
            mark = MarkFile(self.segment.path, self._epoch)
        except FileExistsError:
            raise FencedError(
                f"{self.segment.path}: another writer has begun to append to it, though only one may; open the partition again"
            ) from None
        mark.publish(self.synced, self.synced)
        return mark

    def sync(self) -> None:
        """Return when everything appended would survive a loss of power."""
        if self.synced < self.size:
            files.sync(self._descriptor)
            self.synced = self.size

    def publish(self) -> None:
        """Let readers see everything appended."""
        if self._mark is not None:
            self._mark.publish(self.synced, self.size)

    def seal(self) -> None:
        """Save the index, which takes the place of the mark, and close the file; everything is synced."""
        assert self.synced == self.size
        self.segment.save_index()
        if self._mark is not None:
            self._mark.remove()
        self.close()

    def close(self) -> None:
        """Close the file as it is; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            if self._mark is not None:
                self._mark.close()
