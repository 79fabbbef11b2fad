"""The bytes of a segment file, version 2: a header with the schema, then records, each with checksums of its own.

    segment = header, Arrow schema message, record, record, ...
    record  = header, Arrow IPC messages of one batch (its dictionaries, then its columns)

Without the headers a segment is one Arrow IPC stream; schema plus any one record is a stream as well, which is how a record
is read alone. Everything is little-endian and a multiple of 8 bytes long.

A record's header is checked together with the log to which it belongs and the place where it stands. So bytes that look like
a record inside a user's column, or a block that the disk put elsewhere or kept of another log, are never taken for one.

Version 1 is read: it has neither identity nor epochs, its arrivals are of a unit that only its writer knew, and a record of it
is taken to say that everything before it was synced.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from headwater.logs.errors import DamageError

MAGIC = b"HWLG"
RECORD_MAGIC = b"HWRC"
VERSION = 2

_HEADER = struct.Struct("<4sHHqIII")  # magic, version, reserved, base offset, schema's length and checksum, reserved
_IDENTITY = struct.Struct("<16sq")  # From version 2 on: the log, and the epoch of the writer that made the segment.
_CHECKSUM = struct.Struct("<I")
_RECORD = struct.Struct("<4sI")  # magic, checksum of the fields and of the place
_FIELDS = struct.Struct("<IIqqqqq")  # payload's checksum, rows, offset, length, arrival, earliest time, latest time
_WRITTEN = struct.Struct("<qq")  # From version 2 on: the writer's epoch, and below which byte everything was synced.
_PLACE = struct.Struct("<qq")
#: The longest header without its schema, and the longest of a record.
HEADER_LENGTH = _HEADER.size + _IDENTITY.size + _CHECKSUM.size
RECORD_LENGTH = _RECORD.size + _FIELDS.size + _WRITTEN.size
#: What Arrow writes at the end of a stream; a record leaves it out.
_STREAM_END_LENGTH = 8
#: The identity of a log of version 1.
NO_LOG = bytes(16)


class SegmentHeader(NamedTuple):
    """What the first bytes of a segment say."""

    base: int
    schema_bytes: bytes
    log_id: bytes = NO_LOG
    epoch: int = 0
    version: int = VERSION

    @property
    def length(self) -> int:
        """Where the first record begins."""
        return _fixed_length(self.version) + len(self.schema_bytes)

    @property
    def record_length(self) -> int:
        """How long the header of a record is."""
        return RECORD_LENGTH if self.version > 1 else RECORD_LENGTH - _WRITTEN.size

    def to_bytes(self) -> bytes:
        """The header as it stands in the file."""
        fields = _HEADER.pack(
            MAGIC, self.version, 0, self.base, len(self.schema_bytes), zlib.crc32(self.schema_bytes), 0
        )
        if self.version > 1:
            fields += _IDENTITY.pack(self.log_id, self.epoch)
        return fields + _CHECKSUM.pack(zlib.crc32(fields)) + self.schema_bytes


class RecordHeader(NamedTuple):
    """The header of one record: which rows it holds, when they came, the span of their times, who wrote it, and where it stands.

    ``synced``: when it was written, every byte of the segment below this one would have survived a loss of power.
    """

    position: int
    checksum: int
    row_count: int
    offset: int
    length: int
    arrival: int
    time_min: int
    time_max: int
    epoch: int = 0
    synced: int = 0
    payload: int = 0  #: Where the Arrow messages begin.

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.payload + self.length

    @property
    def offset_end(self) -> int:
        """The offset after its last row."""
        return self.offset + self.row_count

    def to_bytes(self, segment: SegmentHeader) -> bytes:
        """The header as it stands in a segment."""
        fields = _FIELDS.pack(*self[1:8])
        if segment.version > 1:
            fields += _WRITTEN.pack(self.epoch, self.synced)
        return _RECORD.pack(RECORD_MAGIC, _placed_checksum(fields, segment, self.position)) + fields


def _fixed_length(version: int) -> int:
    return HEADER_LENGTH if version > 1 else HEADER_LENGTH - _IDENTITY.size


def _placed_checksum(fields: bytes, segment: SegmentHeader, position: int) -> int:
    of_log = zlib.crc32(segment.log_id) if segment.version > 1 else 0
    return zlib.crc32(fields, zlib.crc32(_PLACE.pack(segment.base, position), of_log))


def segment_header(data: bytes, path: Path) -> SegmentHeader:
    """The header at the beginning of ``data``; DamageError if it is wrong or not wholly there.

    >>> data = SegmentHeader(7, b"a schema", epoch=3).to_bytes()
    >>> header = segment_header(data, Path("7.segment"))
    >>> header.base, header.epoch, header.length == len(data)
    (7, 3, True)
    """
    if len(data) < _HEADER.size:
        raise DamageError(path, len(data), "the file ends inside the header of the segment")
    magic, version, _, base, length, checksum, _ = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise DamageError(path, 0, f"a segment begins with {MAGIC!r}, this file with {magic!r}")
    if version not in (1, VERSION):
        raise DamageError(path, 4, f"the segment has version {version}; this release reads up to version {VERSION}")
    begin = _fixed_length(version)
    schema_bytes = data[begin : begin + length]
    # Checked apart from the schema: a wrong length is no sign that the file is short.
    fixed = begin - _CHECKSUM.size
    if len(data) >= begin and _CHECKSUM.unpack_from(data, fixed)[0] != zlib.crc32(data[:fixed]):
        raise DamageError(path, 0, "the header does not match its checksum")
    if len(schema_bytes) < length:
        raise DamageError(path, len(data), "the file ends inside the header of the segment")
    if zlib.crc32(schema_bytes) != checksum:
        raise DamageError(path, begin, "the schema does not match its checksum")
    log_id, epoch = _IDENTITY.unpack_from(data, _HEADER.size) if version > 1 else (NO_LOG, 0)
    return SegmentHeader(base, schema_bytes, log_id, epoch, version)


def header_length(data: bytes) -> int:
    """How many bytes `segment_header` needs, as far as the first ``HEADER_LENGTH`` of them tell."""
    return HEADER_LENGTH + (int(_HEADER.unpack_from(data)[4]) if len(data) >= _HEADER.size else 0)


def record(data: bytes, segment: SegmentHeader, position: int) -> RecordHeader | None:
    """The record whose header ``data`` begins with, at ``position`` of a segment; None if it is no header.

    >>> segment = SegmentHeader(10, b"a schema", b"a log's identity")
    >>> header = RecordHeader(80, 0, 2, 10, 64, arrival=0, time_min=1, time_max=5, epoch=3, synced=80).to_bytes(segment)
    >>> found = record(header, segment, 80)
    >>> found.offset_end, found.synced, found.end - found.payload
    (12, 80, 64)
    >>> record(header, segment, 88) is None  # The same bytes at another place,
    True
    >>> record(header, segment._replace(log_id=b"of another log!!"), 80) is None  # or in another log.
    True
    """
    length = segment.record_length
    if len(data) < length:
        return None
    magic, checksum = _RECORD.unpack_from(data)
    fields = data[_RECORD.size : length]
    if magic != RECORD_MAGIC or checksum != _placed_checksum(fields, segment, position):
        return None
    written = _WRITTEN.unpack_from(fields, _FIELDS.size) if segment.version > 1 else (0, position)
    return RecordHeader._make((position, *_FIELDS.unpack_from(fields), *written, position + length))


def payload(batch: pa.RecordBatch, schema_length: int) -> memoryview:
    """The Arrow messages of one batch, without the schema before them (so long) and the end mark behind them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream = memoryview(sink.getvalue()).cast("B")
    return stream[schema_length:-_STREAM_END_LENGTH]


def batch_of(stream: pa.Buffer) -> pa.RecordBatch:
    """The one batch of a stream made of a schema and the payload of a record."""
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_next_batch()
