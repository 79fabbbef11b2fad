"""Appends to one partition: the only writer it has, with rows in their place exactly once.

Opening takes the lock and the next epoch, then repairs what a crash left (`repair.py`). Rows have offsets 0, 1, 2, ... in the
order of their first append. A caller that does not know whether its last append counted appends it again at the same offset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import pyarrow as pa

from headwater.errors import DataError, shown
from headwater.language.times import FOREVER, NEVER
from headwater.logs import files
from headwater.logs.epoch import WriterEpoch
from headwater.logs.errors import ConflictError, GapError, WriterStoppedError
from headwater.logs.fsync import FsyncPolicy
from headwater.logs.holds import holds
from headwater.logs.lock import WriterLock
from headwater.logs.reader import PartitionReader
from headwater.logs.segments.layout import SegmentHeader
from headwater.logs.segments.mark import MARK_SUFFIX
from headwater.logs.segments.repair import Repair, repair, was_closed_well
from headwater.logs.segments.rows import first_difference, time_span
from headwater.logs.segments.segment import SegmentAppender

LOGGER = logging.getLogger("headwater.logs")
LOCK = "writer.lock"
SEGMENT_BYTES = 64 << 20


class PartitionWriter:
    """The one writer of a partition; see `Log.writer`. For one thread; close it, or use it in a `with`."""

    def __init__(
        self,
        directory: Path,
        *,
        log_id: bytes,
        clock: Callable[[], int],
        time: str | None = None,
        fsync: FsyncPolicy | str = "always",
        segment_bytes: int = SEGMENT_BYTES,
        take_over: bool = False,
    ) -> None:
        self.directory = directory
        self.time = time
        self.fsync = fsync if isinstance(fsync, FsyncPolicy) else FsyncPolicy(fsync)  # type: ignore[arg-type]
        self.segment_bytes = segment_bytes
        self._log_id = log_id
        self._clock = clock
        self._appender: SegmentAppender | None = None
        self._stopped: str | None = None
        self._waiting_since: int | None = None  # The arrival of the oldest unsafe rows.
        #: The torn tail that was cut off on opening, if there was one.
        self.repaired: Repair | None = None
        self._held = PartitionReader(directory, time=time, log_id=log_id, unpublished=True)
        with ExitStack() as opening:
            self._lock = WriterLock(directory / LOCK, take_over=take_over)
            opening.callback(self._lock.release)
            # Before the segments: what a writer that is fenced by this adds to them later is not acknowledged.
            self._epoch = WriterEpoch(directory)
            opening.callback(self._epoch.close)
            self._held.segments, self.repaired = repair(directory, log_id)
            files.sync_directory(directory)  # who created the newest may have died before its name was safe
            self._held.refresh()
            self._open_newest()
            opening.pop_all()
        self._durable = self._published = self.end
        if self.repaired:
            LOGGER.warning(
                "%s: %d bytes behind byte %d were no whole record and were cut off; rows go on at offset %d",
                self.repaired.path, self.repaired.byte_count, self.repaired.byte, self.end
            )  # fmt: skip

    def _open_newest(self) -> None:
        for segment in self._held.segments[:-1]:
            segment.save_index()
        # Else the next append begins a segment: whoever has this one open must not write between records of this writer.
        if self._held.segments and was_closed_well(self._held.segments[-1]):
            self._appender = SegmentAppender.opened(self._held.segments[-1], self._epoch.number)

    @property
    def start(self) -> int:
        """The oldest offset held."""
        return self._held.start

    @property
    def end(self) -> int:
        """The offset of the next row: everything below is written, and survives the death of this process."""
        return self._held.end

    @property
    def durable(self) -> int:
        """Everything below this offset would survive a loss of power."""
        return self._durable

    @property
    def acknowledged(self) -> int:
        """Rows below this offset are kept as the policy promises; see the table in `headwater.logs.fsync`."""
        return self._published

    def append(self, batch: pa.RecordBatch, offset: int | None = None, *, arrival_ns: int | None = None) -> int:
        """Append the rows at ``offset`` (without it: at the end); the number of rows that were new.

        Idempotent: rows whose offsets are there already are compared and passed over, the rest is appended. ConflictError
        if they differ, GapError if ``offset`` lies beyond the end; then nothing was written. Offsets that retention
        dropped cannot be compared and are passed over. ``arrival_ns``: when the rows arrived, in nanoseconds since 1970; now,
        by the writer's clock, if it is not given. Rows that are there already keep theirs.

        A batch whose schema differs from the previous one's begins a new segment; metadata of the schema does not count.
        """
        self._check_running()
        at = self.end if offset is None else offset
        arrived_ns = self._clock() if arrival_ns is None else arrival_ns
        if at < 0 or not NEVER <= arrived_ns <= FOREVER:
            raise DataError(
                f"{self.directory}: give an offset of 0 or more and an arrival within int64, not {at} and {arrived_ns}"
            )
        if at > self.end:
            raise GapError(f"{self.directory}: an append at offset {at} would leave a gap after the end, {self.end}")
        held = min(self.end - at, batch.num_rows)
        self._check_same(batch.slice(0, held), at)
        rows = batch.slice(held)
        if rows.num_rows:
            span = time_span(rows, self.time)
            with self._stopping_on_error():
                self._write(rows, arrived_ns, span)
        return int(rows.num_rows)

    def _check_same(self, batch: pa.RecordBatch, offset: int) -> None:
        """Compare rows with what is held at their offsets."""
        start, stop = max(offset, self.start), offset + batch.num_rows
        if start >= stop:
            return
        for stored in self._held.rows(start, stop):
            given = batch.slice(stored.offset - offset, stored.batch.num_rows)
            if difference := first_difference(stored.batch, given):
                raise ConflictError(
                    f"{self.directory}: other rows are already held from offset {stored.offset} on: {difference} differs"
                )

    def _write(self, batch: pa.RecordBatch, arrival_ns: int, span: tuple[int, int]) -> None:
        appender = self._fitting(batch.schema)
        schema = appender.segment.schema
        appender.append(pa.RecordBatch.from_arrays(batch.columns, schema=schema), arrival_ns, span)
        if self._waiting_since is None:
            self._waiting_since = arrival_ns
        if self.fsync.is_due(appender.size - appender.synced, arrival_ns - self._waiting_since):
            self._sync(appender)
        elif self.fsync.mode == "never":
            self._publish(appender)

    def _fitting(self, schema: pa.Schema) -> SegmentAppender:
        """The newest segment if it has room and this schema, else a new one."""
        appender = self._appender
        is_empty = appender is not None and not len(appender.segment.index)
        if appender and appender.segment.schema.equals(schema) and (is_empty or appender.size < self.segment_bytes):
            return appender
        if appender:
            self._sync(appender)
            appender.seal()
        return self._begin_segment(schema)

    def _begin_segment(self, schema: pa.Schema) -> SegmentAppender:
        last = self._held.segments[-1] if self._held.segments else None
        is_in_place = last is not None and not len(last.index)
        if last and is_in_place:
            # Still empty, and the new one has its name: it makes room.
            self._held.segments.pop()
            files.remove(last.index_path)
            files.remove(last.path.with_suffix(MARK_SUFFIX))
        base = last.offset_end if last else 0
        header = SegmentHeader(base, schema.serialize().to_pybytes(), self._log_id, self._epoch.number)
        self._epoch.check()
        self._appender = fresh = SegmentAppender.created(self.directory, header, in_place=is_in_place)
        if last and not is_in_place:
            files.remove(last.path.with_suffix(MARK_SUFFIX))
        self._held.segments.append(fresh.segment)
        self._waiting_since = None
        return fresh

    def sync(self) -> None:
        """Make everything appended so far safe from a loss of power, and publish it."""
        self._check_running()
        if self._appender and self._durable < self.end:
            with self._stopping_on_error():
                self._sync(self._appender)

    def _sync(self, appender: SegmentAppender) -> None:
        appender.sync()
        self._publish(appender)
        self._durable = self.end
        self._waiting_since = None

    def _publish(self, appender: SegmentAppender) -> None:
        """Acknowledge everything appended, after the last look whether this is still the newest writer."""
        self._epoch.check()
        appender.publish()
        self._published = self.end

    def retain(
        self,
        *,
        byte_count_max: int | None = None,
        offset_min: int | None = None,
        arrival_ns_min: int | None = None,
        despite_holds: bool = False,
    ) -> int:
        """Drop the oldest segments that any of the bounds lets go; the new `start`.

        ``byte_count_max``: while the files are larger than this in all. ``offset_min``: rows below it are not needed.
        ``arrival_ns_min``: rows that arrived before it are not needed. Whole segments go, oldest first, never the newest,
        and none whose rows a reader holds (`Log.hold`), unless ``despite_holds``.
        """
        self._check_running()
        self._epoch.check()
        segments = self._held.segments
        byte_count = sum(segment.index.end for segment in segments)
        held = FOREVER if despite_holds else min(holds(self.directory).values(), default=FOREVER)
        start = self.start
        while len(segments) > 1 and segments[0].offset_end <= held:
            segment = segments[0]
            is_too_much = byte_count_max is not None and byte_count > byte_count_max
            is_passed = offset_min is not None and segment.offset_end <= offset_min
            is_old = arrival_ns_min is not None and segment.index.arrival_max < arrival_ns_min
            if not (is_too_much or is_passed or is_old):
                break
            # The segment first: an index without one below the start is swept up on opening.
            files.remove(segment.path)
            files.remove(segment.index_path)
            segments.pop(0)
            byte_count -= segment.index.end
        if self.start > start:
            files.sync_directory(self.directory)
        return self.start

    def close(self) -> None:
        """Sync, save the index and let the lock go; a second call does nothing."""
        if self._stopped == "was closed":
            return
        try:
            if self._appender and self._stopped is None:
                self._sync(self._appender)
                self._appender.seal()
        finally:
            if self._appender:
                self._appender.close()
            self._stopped = "was closed"
            self._epoch.close()
            self._lock.release()

    def _check_running(self) -> None:
        if self._stopped is not None:
            raise WriterStoppedError(f"{self.directory}: the writer {self._stopped}; open the partition again")

    @contextmanager
    def _stopping_on_error(self) -> Iterator[None]:
        """Stop the writer at the first error while it writes.

        After half a record, nothing may be appended behind it; and after a failed sync the kernel may have forgotten which
        bytes were unsafe, so a second sync that succeeds would prove nothing. Whoever opens the partition next cuts the one
        off and writes the others again (`repair.py`).
        """
        try:
            yield
        except BaseException as error:
            self._stopped = f"stopped after an error ({shown(error)})"
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
