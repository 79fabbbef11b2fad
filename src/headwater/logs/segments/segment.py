"""One segment file: read it record by record, whole records only, or append to it.

Bytes that are missing at the end of the newest segment are bytes that are not written yet: a reader stops before them.
Bytes that are there and do not match their checksum are damage, wherever they stand: an error, never rows.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from headwater.logs import files
from headwater.logs.errors import DamageError
from headwater.logs.segments import layout
from headwater.logs.segments.index import SegmentIndex

SUFFIX = ".segment"
INDEX_SUFFIX = ".index"


class Stored(NamedTuple):
    """Rows as they stand in the log: the offset of the first, when they arrived, and the rows."""

    offset: int
    arrival: int
    batch: pa.RecordBatch


def segment_path(directory: Path, base: int) -> Path:
    """The file of the segment that begins at offset ``base``; names sort as offsets do.

    >>> segment_path(Path("p"), 1000).name
    '0000000000000001000.segment'
    """
    return directory / f"{base:019d}{SUFFIX}"


def stored_index(path: Path) -> SegmentIndex | None:
    """The index that was saved for a segment; None if there is none, or a damaged one."""
    try:
        return SegmentIndex.from_bytes(path.with_suffix(INDEX_SUFFIX).read_bytes())
    except FileNotFoundError:
        return None


def read_header(path: Path) -> layout.SegmentHeader | None:
    """The header of a segment file; None while it is not wholly there."""
    with files.opened(path) as descriptor:
        start = files.read_at(descriptor, layout.HEADER_LENGTH, 0)
        # Never more than the file has: a damaged length must not ask for gigabytes.
        length = min(layout.header_length(start), os.fstat(descriptor).st_size)
        header = layout.segment_header(files.read_at(descriptor, length, 0), path)
    if header is None and (index := stored_index(path)):
        raise DamageError(path, length, f"the file ends here, but it was closed with {index.end} bytes")
    if header is not None and path.stem != f"{header.base:019d}":
        raise DamageError(path, 8, f"the segment begins at offset {header.base}, not at that of its name")
    return header


class Segment:
    """What is known of one segment file so far: its schema and the index of its whole records."""

    def __init__(self, path: Path, header: layout.SegmentHeader) -> None:
        self.path = path
        self.base = header.base
        self.header = header
        self.schema = pa.ipc.read_schema(pa.py_buffer(header.schema_bytes))
        self.index, self.is_indexed = self._stored_index()

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

    def refresh(self, *, is_sealed: bool) -> None:
        """Add to the index the records that were written since; a sealed segment must end with a whole one."""
        with files.opened(self.path) as descriptor:
            while found := self._next(descriptor, is_sealed):
                self.index.add(found)
                self.is_indexed = False
            size = os.fstat(descriptor).st_size
        if is_sealed and size != self.index.end:
            raise DamageError(self.path, self.index.end, f"{size - self.index.end} bytes here are no whole record")

    def _next(self, descriptor: int, is_sealed: bool) -> layout.RecordHeader | None:
        """The header of the next record, None if it is not wholly there."""
        position = self.index.end
        while True:
            data = files.read_at(descriptor, layout.RECORD_LENGTH, position)
            size = os.fstat(descriptor).st_size
            found = layout.record(data, self.base, position)
            whole = found is not None and found.end <= size
            # While this looked, a new writer may have cut a torn record off and begun another: look again.
            if not is_sealed and data != files.read_at(descriptor, layout.RECORD_LENGTH, position):
                continue
            if found is None and len(data) == layout.RECORD_LENGTH:
                raise DamageError(self.path, position, "the header of a record does not match its checksum")
            if found is not None and found.offset != self.offset_end:
                raise DamageError(
                    self.path, position, f"the record begins at offset {found.offset}, not {self.offset_end}"
                )
            return found if whole else None

    def read(self, start: int, stop: int) -> Iterator[Stored]:
        """The rows of offsets [start, stop), which the index knows, record by record."""
        with files.opened(self.path) as descriptor:
            number = self.index.at_offset(start)
            while number < len(self.index) and self.index.offsets[number] < stop:
                yield _cut(self.stored(descriptor, self.index.positions[number]), start, stop)
                number += 1

    def stored(self, descriptor: int, position: int) -> Stored:
        """The record at ``position``, whose checksums are both right."""
        found = layout.record(files.read_at(descriptor, layout.RECORD_LENGTH, position), self.base, position)
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
        return Stored(found.offset, found.arrival, batch)

    def save_index(self) -> None:
        """Write the index to its file; every byte it covers is on disk before."""
        if not self.is_indexed:
            files.replace(self.index_path, self.index.to_bytes())
            self.is_indexed = True


def _cut(stored: Stored, start: int, stop: int) -> Stored:
    """The rows of [start, stop) among these."""
    skipped = max(0, start - stored.offset)
    count = min(stop, stored.offset + stored.batch.num_rows) - stored.offset - skipped
    return Stored(stored.offset + skipped, stored.arrival, stored.batch.slice(skipped, count))


class SegmentAppender:
    """Appends records to the newest segment. Only the holder of the partition's lock has one."""

    def __init__(self, segment: Segment, descriptor: int) -> None:
        self.segment = segment
        self._descriptor = descriptor
        self.synced = segment.index.end  #: Bytes below this would survive a loss of power.

    @classmethod
    def created(cls, directory: Path, base: int, schema: pa.Schema) -> SegmentAppender:
        """A new, empty segment; FileExistsError if there is one that begins at this offset."""
        path = segment_path(directory, base)
        header = layout.SegmentHeader(base, schema.serialize().to_pybytes())
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            files.write_all(descriptor, header.to_bytes())
            files.sync(descriptor)
            files.sync_directory(directory)
            return cls(Segment(path, header), descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def opened(cls, segment: Segment) -> SegmentAppender:
        """An existing segment, after repair."""
        appender = cls(segment, os.open(segment.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC))
        # The process that wrote these bytes may have died before they were safe; from here on they are.
        appender.sync()
        return appender

    @property
    def size(self) -> int:
        """The length of the file in bytes."""
        return self.segment.index.end

    def append(self, batch: pa.RecordBatch, arrival: int, span: tuple[int, int]) -> None:
        """Write one record and index it; ``batch`` has the segment's schema."""
        index = self.segment.index
        data = layout.payload(batch)
        found = layout.RecordHeader(
            index.end, zlib.crc32(data), batch.num_rows, index.offset_end, len(data), arrival, *span
        )
        files.write_all(self._descriptor, found.to_bytes(self.segment.base))
        files.write_all(self._descriptor, data)
        index.add(found)
        self.segment.is_indexed = False

    def sync(self) -> None:
        """Return when everything appended would survive a loss of power."""
        files.sync(self._descriptor)
        self.synced = self.size

    def seal(self) -> None:
        """Make everything safe, save the index and close the file."""
        self.sync()
        self.segment.save_index()
        self.close()

    def close(self) -> None:
        """Close the file as it is; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
