"""Reads one partition, also while its writer appends, in this process or another.

A reader takes no lock and writes nothing. It sees whole records only, in order, without gaps, and of these what the writer has
published (`headwater.logs.fsync`). Retention may take the oldest segments away from under it, and a loss of power the newest
rows: each is an error that says so and never a silent jump.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, zip_longest
from pathlib import Path

from headwater.errors import DataError
from headwater.logs.errors import DamageError, OffsetError, RegressError
from headwater.logs.segments.index import SegmentIndex
from headwater.logs.segments.layout import NO_LOG
from headwater.logs.segments.segment import Segment, Stored, in_force, segment_paths


class PartitionReader:
    """The rows of one partition by offset; see `Log.reader`. For one thread."""

    def __init__(
        self, directory: Path, *, time: str | None = None, log_id: bytes = NO_LOG, unpublished: bool = False
    ) -> None:
        self.directory = directory
        self.time = time
        self.segments: list[Segment] = []
        self._log_id = log_id
        self._unpublished = unpublished

    @property
    def start(self) -> int:
        """The oldest offset held, as of the last look at the files."""
        return self.segments[0].base if self.segments else 0

    @property
    def end(self) -> int:
        """The offset after the newest row, as of the last look at the files."""
        return self.segments[-1].offset_end if self.segments else 0

    def refresh(self) -> int:
        """Look at the files again; the new `end`."""
        while not self._refreshed():
            pass
        return self.end

    def _refreshed(self) -> bool:
        """One look; False if retention removed a file during it."""
        # Not the empty ones: a writer may make an empty segment again, with another schema.
        known = {segment.path: segment for segment in self.segments if len(segment.index)}
        seen = self.end
        try:
            found = [known.get(path) or Segment(path, self._log_id) for path in segment_paths(self.directory)]
            segments = in_force(found)
            for segment, following in zip_longest(segments, segments[1:]):
                stop = following.base if following else None
                if stop is not None and segment.path in known and segment.offset_end > stop:
                    raise self._regress(seen, stop)
                segment.refresh(stop, unpublished=self._unpublished)
        except FileNotFoundError:
            return False
        for segment, following in pairwise(segments):
            if segment.offset_end != following.base:
                raise DamageError(following.path, 0, f"rows from offset {segment.offset_end} on are missing before it")
        end = segments[-1].offset_end if segments else 0
        if end < seen:
            raise self._regress(seen, end)
        self.segments = segments
        return True

    def _regress(self, seen: int, end: int) -> RegressError:
        return RegressError(
            f"{self.directory}: the log went back: rows up to offset {seen} were seen, but only those below {end} are left"
            " (it was restored or made again, or a loss of power took rows that were not synced)"
        )

    @property
    def has_arrivals(self) -> bool:
        """Whether all rows held tell when they arrived (`Stored.arrivals`), as of the last look; those of version 1 do not."""
        return all(segment.header.version > 1 for segment in self.segments)

    def read(self, start: int | None = None, stop: int | None = None) -> Iterator[Stored]:
        """The rows of offsets [start, stop) that are there now, in batches as they were appended.

        Without ``start`` from the oldest, without ``stop`` to the newest. To follow a writer, call again with the offset
        after the last row. OffsetError for a start that the partition does not hold.
        """
        end = self.refresh()
        first = self.start if start is None else start
        if not self.start <= first <= end:
            raise OffsetError(
                f"{self.directory}: offset {first} is not held; the partition holds [{self.start}, {end})"
            )
        return self.rows(first, end if stop is None else min(stop, end))

    def rows(self, start: int, stop: int) -> Iterator[Stored]:
        """The rows of [start, stop), which were there at the last look at the files."""
        # The segments as they are now: a later look must not make the rows of dropped ones disappear silently.
        return self._rows(list(self.segments), start, stop)

    def _rows(self, segments: list[Segment], start: int, stop: int) -> Iterator[Stored]:
        for segment in segments:
            if segment.base < stop and start < segment.offset_end:
                try:
                    yield from segment.read(max(start, segment.base), stop)
                except FileNotFoundError:
                    self.refresh()
                    raise OffsetError(
                        f"{self.directory}: offset {max(start, segment.base)} was dropped; the oldest is {self.start}"
                    ) from None

    def offset_of_time(self, time: int) -> int:
        """The offset from which to read every row whose event time is ``time`` or later; the end if there is none.

        Rows of earlier times may follow it too: time orders records roughly, offsets order them exactly.
        """
        if self.time is None:
            raise DataError(f"{self.directory}: the log was created without a time column to index")
        return self._first(lambda index: index.at_time(time))

    def offset_of_arrival(self, arrival_ns: int) -> int:
        """The offset from which to read every row that arrived at ``arrival_ns`` or later; the end if none did."""
        return self._first(lambda index: index.at_arrival(arrival_ns))

    def _first(self, number_in: Callable[[SegmentIndex], int]) -> int:
        end = self.refresh()
        for segment in self.segments:
            number = number_in(segment.index)
            if number < len(segment.index):
                return segment.index.offsets[number]
        return end

    def verify(self) -> int:
        """Read everything and check it; the number of rows. DamageError names the first byte that is wrong."""
        return sum(stored.batch.num_rows for stored in self.read())
