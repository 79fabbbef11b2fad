"""The bytes of a segment file, version 1: a header with the schema, then records, each with checksums of its own.

    segment = header, Arrow schema message, record, record, ...
    record  = header, Arrow IPC messages of one batch (its dictionaries, then its columns)

Without the headers a segment is one Arrow IPC stream; schema plus any one record is a stream as well, which is how a record
is read alone. Everything is little-endian and a multiple of 8 bytes long.

A record's header is checked together with the place where it stands. So bytes that look like a record inside a user's
column, or a block that the disk put elsewhere, are never taken for one.
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
VERSION = 1

_HEADER = struct.Struct("<4sHHqIII")  # magic, version, reserved, base offset, schema's length and checksum, reserved
_CHECKSUM = struct.Struct("<I")
_RECORD = struct.Struct("<4sI")  # magic, checksum of the fields and of the place
_FIELDS = struct.Struct("<IIqqqqq")  # payload's checksum, rows, offset, length, arrival, earliest time, latest time
_PLACE = struct.Struct("<qq")
HEADER_LENGTH = _HEADER.size + _CHECKSUM.size
RECORD_LENGTH = _RECORD.size + _FIELDS.size
#: What Arrow writes at the end of a stream; a record leaves it out.
_STREAM_END_LENGTH = 8


class SegmentHeader(NamedTuple):
    """What the first bytes of a segment say."""

    base: int
    schema_bytes: bytes

    @property
    def length(self) -> int:
        """Where the first record begins."""
        return HEADER_LENGTH + len(self.schema_bytes)

    def to_bytes(self) -> bytes:
        """The header as it stands in the file."""
        fields = _HEADER.pack(MAGIC, VERSION, 0, self.base, len(self.schema_bytes), zlib.crc32(self.schema_bytes), 0)
        return fields + _CHECKSUM.pack(zlib.crc32(fields)) + self.schema_bytes


class RecordHeader(NamedTuple):
    """The header of one record: which rows it holds, when they came, the span of their times, and where it stands."""

    position: int
    checksum: int
    row_count: int
    offset: int
    length: int
    arrival: int
    time_min: int
    time_max: int

    @property
    def payload(self) -> int:
        """Where the Arrow messages begin."""
        return self.position + RECORD_LENGTH

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.payload + self.length

    @property
    def offset_end(self) -> int:
        """The offset after its last row."""
        return self.offset + self.row_count

    def to_bytes(self, base: int) -> bytes:
        """The header as it stands in the segment of this base offset."""
        fields = _FIELDS.pack(*self[1:])
        return _RECORD.pack(RECORD_MAGIC, _placed_checksum(fields, base, self.position)) + fields


def _placed_checksum(fields: bytes, base: int, position: int) -> int:
    return zlib.crc32(fields, zlib.crc32(_PLACE.pack(base, position)))


def segment_header(data: bytes, path: Path) -> SegmentHeader | None:
    """The header at the beginning of ``data``; None if the bytes end before it does, DamageError if it is wrong.

    >>> data = SegmentHeader(7, b"a schema").to_bytes()
    >>> segment_header(data, Path("7.segment")).base, segment_header(data[:-1], Path("7.segment"))
    (7, None)
    """
    if len(data) < HEADER_LENGTH:
        return None
    magic, version, _, base, length, checksum, _ = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise DamageError(path, 0, f"a segment begins with {MAGIC!r}, this file with {magic!r}")
    if version != VERSION:
        raise DamageError(path, 4, f"the segment has version {version}; this release reads version {VERSION}")
    # Checked apart from the schema: a wrong length must not look like a header that is still being written.
    if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != zlib.crc32(data[: _HEADER.size]):
        raise DamageError(path, 0, "the header does not match its checksum")
    schema_bytes = data[HEADER_LENGTH : HEADER_LENGTH + length]
    if len(schema_bytes) < length:
        return None
    if zlib.crc32(schema_bytes) != checksum:
        raise DamageError(path, HEADER_LENGTH, "the schema does not match its checksum")
    return SegmentHeader(base, schema_bytes)


def header_length(data: bytes) -> int:
    """How many bytes `segment_header` needs, as far as the first ``HEADER_LENGTH`` of them tell."""
    return HEADER_LENGTH + (int(_HEADER.unpack_from(data)[4]) if len(data) >= HEADER_LENGTH else 0)


def record(data: bytes, base: int, position: int) -> RecordHeader | None:
    """The record whose header ``data`` is, at ``position`` of the segment of ``base``; None if it is no header.

    >>> header = RecordHeader(80, 0, 2, 10, 64, arrival=0, time_min=1, time_max=5).to_bytes(base=10)
    >>> record(header, 10, 80).offset_end
    12
    >>> record(header, 10, 88) is None  # The same bytes at another place.
    True
    """
    if len(data) < RECORD_LENGTH:
        return None
    magic, checksum = _RECORD.unpack_from(data)
    fields = data[_RECORD.size : RECORD_LENGTH]
    if magic != RECORD_MAGIC or checksum != _placed_checksum(fields, base, position):
        return None
    return RecordHeader(position, *_FIELDS.unpack(fields))


def payload(batch: pa.RecordBatch) -> memoryview:
    """The Arrow messages of one batch, without the schema before them and the end mark behind them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream = memoryview(sink.getvalue()).cast("B")
    # Not the bytes in the segment's header: another release of Arrow may have written the same schema differently.
    return stream[batch.schema.serialize().size : -_STREAM_END_LENGTH]


def batch_of(stream: pa.Buffer) -> pa.RecordBatch:
    """The one batch of a stream made of a schema and the payload of a record."""
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_next_batch()
