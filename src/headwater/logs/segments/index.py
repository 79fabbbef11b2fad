"""Where each record of a segment stands, searched by offset, by arrival and by event time.

The index of a segment is kept in memory and, when the segment is sealed or its writer closes, in a small file beside it.
That file saves a scan, and it is a promise: the bytes it covers were on disk before it was written, so a segment that is
shorter has lost records. A file that is missing or damaged is made again from the segment.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from bisect import bisect_left, bisect_right

import numpy as np

from headwater.language.times import NEVER
from headwater.logs.segments.layout import RecordHeader

MAGIC = b"HWLI"
VERSION = 1
_HEADER = struct.Struct("<4sHHIIqqq")  # magic, version, reserved, checksum, number of records, base, end, end offset
_CHECKED = 12  # The checksum covers everything behind it.


class SegmentIndex:
    """The records of one segment in order.

    Arrivals and times are kept as running maxima, which are sorted even where clocks stepped back and events are out of
    order: the first record at or above t is the first that can matter to a reader from t on.

    >>> index = SegmentIndex(base=10, end=80)
    >>> index.add(RecordHeader(80, 0, 2, 10, 64, arrival=5, time_min=1, time_max=9, payload=136))
    >>> index.add(RecordHeader(200, 0, 1, 12, 64, arrival=7, time_min=3, time_max=3, payload=256))
    >>> index.at_offset(11), index.at_offset(12), index.at_time(4), index.at_arrival(6), index.offset_end
    (0, 1, 0, 1, 13)
    >>> index.cut(12)
    >>> len(index), index.end, index.offset_end
    (1, 200, 12)
    """

    def __init__(self, base: int, end: int) -> None:
        self.base = base
        self.end = end  #: Where the next record will begin.
        self.offset_end = base
        self.positions = array("q")
        self.offsets = array("q")
        self.arrivals = array("q")
        self.times = array("q")

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, record: RecordHeader) -> None:
        """Take the next record; it begins where the previous one ended."""
        assert record.position == self.end and record.offset == self.offset_end
        self.positions.append(record.position)
        self.offsets.append(record.offset)
        self.arrivals.append(max(record.arrival, self.arrival_max))
        self.times.append(max(record.time_max, self.time_max))
        self.end = record.end
        self.offset_end = record.offset_end

    def cut(self, offset: int) -> None:
        """Forget the records from the one on that begins at ``offset``."""
        number = bisect_left(self.offsets, offset)
        if number < len(self):
            self.end, self.offset_end = self.positions[number], self.offsets[number]
            for column in (self.positions, self.offsets, self.arrivals, self.times):
                del column[number:]

    @property
    def arrival_max(self) -> int:
        """The latest arrival of all records."""
        return self.arrivals[-1] if self.arrivals else NEVER

    @property
    def time_max(self) -> int:
        """The largest event time of all records."""
        return self.times[-1] if self.times else NEVER

    def at_offset(self, offset: int) -> int:
        """The number of the record that holds ``offset``, which lies in this segment."""
        return bisect_right(self.offsets, offset) - 1

    def at_arrival(self, arrival: int) -> int:
        """The number of the first record that came at ``arrival`` or later; the number of records if none did."""
        return bisect_left(self.arrivals, arrival)

    def at_time(self, time: int) -> int:
        """The number of the first record with an event at ``time`` or later; the number of records if there is none."""
        return bisect_left(self.times, time)

    def to_bytes(self) -> bytes:
        """The index as a file, with a checksum."""
        columns = (self.positions, self.offsets, self.arrivals, self.times)
        body = b"".join(np.asarray(column).astype("<i8").tobytes() for column in columns)
        fields = _HEADER.pack(MAGIC, VERSION, 0, 0, len(self), self.base, self.end, self.offset_end)
        rest = fields[_CHECKED:] + body
        return fields[: _CHECKED - 4] + struct.pack("<I", zlib.crc32(rest)) + rest

    @classmethod
    def from_bytes(cls, data: bytes) -> SegmentIndex | None:
        """The index of such a file; None if it is damaged or of another version, for it can be made again.

        >>> data = SegmentIndex(base=10, end=80).to_bytes()
        >>> SegmentIndex.from_bytes(data).end, SegmentIndex.from_bytes(data[:-1])
        (80, None)
        """
        if len(data) < _HEADER.size:
            return None
        magic, version, reserved, checksum, count, base, end, offset_end = _HEADER.unpack_from(data)
        if (magic, version, reserved, checksum) != (MAGIC, VERSION, 0, zlib.crc32(data[_CHECKED:])):
            return None
        index = cls(base, end)
        index.offset_end = offset_end
        columns = np.frombuffer(data, "<i8", 4 * count, _HEADER.size).astype(np.int64).reshape(4, count)
        for column, values in zip((index.positions, index.offsets, index.arrivals, index.times), columns):
            column.frombytes(values.tobytes())
        return index
