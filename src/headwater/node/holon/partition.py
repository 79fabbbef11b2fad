"""The runner of a partition: its events in, deltas of its prefix out, none of which lies in two steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.intake.arrivals import times_of
from headwater.engine.intake.columns import without
from headwater.engine.tree.leaf import LeafHalf
from headwater.language.times import NEVER
from headwater.node.holon.executed_steps import written_part
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import StepGrid
from headwater.protocols.windowed_crdt import Prefix, PrefixDelta, Reach


class EventsHandler(Protocol):
    """What a user's function does with the events of a partition, besides what is declared."""

    @property
    def cut(self) -> int | None:
        """Batches end at multiples of this many events; None: anywhere."""
        ...

    def take(self, batch: pa.RecordBatch, offset: int) -> None:
        """The next events; they lie within one step."""
        ...

    def close(self, watermark: int) -> None:
        """A step is over: what is inserted from now on is not older than this."""
        ...

    def take_parts(self) -> list[bytes]:
        """What was inserted since the last time."""
        ...

    def take_rows(self) -> tuple[int, pa.Table | None]:
        """The rows that were yielded since the last time, and the index of the first of them."""
        ...

    @property
    def row_count(self) -> int:
        """How many rows were yielded so far."""
        ...

    def private(self) -> bytes:
        """All that the function has to know to go on from here."""
        ...


class PartitionRunner:
    """Runs one partition from where its prefix ends. Two runners of one partition, however their batches are cut, make deltas of
    which any applies to any prefix that ends where it begins.

    >>> import headwater as hw
    >>> from headwater.protocols.windowed_crdt import Version
    >>> table = SharedTable(0, (hw.query("q", hw.tumbling(10), n=hw.count()),), pa.schema({"time": pa.int64()}), disorder=0)
    >>> runner = PartitionRunner("p", table, StepGrid(10), Prefix(Version(1, 0, 0)))
    >>> [(delta.start, delta.end, delta.steps[1]) for delta in runner.take_in(0, pa.record_batch({"time": [1, 5, 12, 13]}))]
    [(0, 1, 0), (1, 3, 1)]
    >>> rest = runner.take_open()
    >>> rest.start, rest.end, rest.steps
    (3, 4, None)
    """

    def __init__(
        self, partition: str, table: SharedTable, grid: StepGrid, prefix: Prefix, handler: EventsHandler | None = None
    ) -> None:
        assert table.disorder is not None, "the watermark of a partition follows from its events"
        self.partition = partition
        self._grid, self._table, self._disorder = grid, table, table.disorder
        self._generation, self.decisions, self.start = prefix.version
        self._step = prefix.step
        reach = prefix.reach
        self._watermark, self._latest = reach.watermark, reach.latest
        self._half: LeafHalf = table.leaf_half(partition, partition, self.start, reach.watermark, reach.latest)
        self._handler = handler
        #: How many events were taken in, and those that wait until there are enough of them.
        self.index = self.start
        self._held: pa.RecordBatch | None = None
        #: Where the partition was decided to end.
        self._limit = None if prefix.limit is None else prefix.limit.index

    @property
    def next_offset(self) -> int:
        """The event that comes next."""
        return self.index + (0 if self._held is None else len(self._held))

    def take_in(self, offset: int, batch: pa.RecordBatch) -> Iterator[PrefixDelta]:
        """The next events; what was taken in before is passed over. Gives the deltas of the steps that end among them."""
        if offset > self.next_offset:
            what = f"events from {self.next_offset} on come next, not from {offset}"
            raise ValueError(f"partition {self.partition!r}: {what}")
        batch = batch.slice(self.next_offset - offset)
        if self._held is not None:
            batch, self._held = pa.concat_batches([self._held, batch]), None
        if self._limit is not None:
            batch = batch.slice(0, self._limit - self.index)
        highest, ends = self._look(batch)
        done = 0
        for end, time, step in ends:
            self._feed(batch.slice(done, end - done), time)
            done = end
            yield self._close(step)
        whole = self._whole(len(batch) - done)
        self._feed(batch.slice(done, whole), highest if done + whole == len(batch) else NEVER)
        if done + whole < len(batch):
            self._held = batch.slice(done + whole)
        # Others wait for what is there up to the limit, and nothing will come to close it.
        if self.index == self._limit and (rest := self.take_open()) is not None:
            yield rest

    def _whole(self, count: int) -> int:
        """How many of the next events can be handed over: where batches end at fixed places, those before the last."""
        cut = None if self._handler is None else self._handler.cut
        if cut is None or self.index + count == self._limit:
            return count
        return max((self.index + count) // cut * cut - self.index, 0)

    def _look(self, batch: pa.RecordBatch) -> tuple[int, list[tuple[int, int, int]]]:
        """The latest time among events, and where steps end: behind how many events, the time of the last of them, the step."""
        times, bad, scan = times_of(batch, self._table.time, self._table.unit)
        rows: Int64Array | None = None
        if scan is None:
            rows = without(bad, len(batch))
            times = times[rows]
        highest = (int(times.max()) if len(times) else NEVER) if scan is None else scan.high
        # Nearly every batch of a fast stream lies within a step.
        if highest == NEVER or self._grid.step_of(highest - self._disorder) <= self._step:
            return highest, []
        found = self._grid.crossings(times, self._disorder, self._watermark)
        places = [count - 1 for count, _ in found]
        ends = [(place if rows is None else int(rows[place])) + 1 for place in places]
        return highest, [(end, int(times[place]), step) for end, place, (_, step) in zip(ends, places, found)]

    def _feed(self, batch: pa.RecordBatch, latest: int) -> None:
        """Events of one step, none of them later than ``latest``."""
        if len(batch):
            self._half.take_in(self.partition, self.index, batch, None)
            if self._handler is not None:
                self._hand_over(batch, self._handler)
            self.index += len(batch)
        self._latest = max(self._latest, latest)
        self._watermark = max(self._watermark, latest - self._disorder) if latest > NEVER else self._watermark

    def _hand_over(self, batch: pa.RecordBatch, handler: EventsHandler) -> None:
        done, cut = 0, handler.cut
        while done < len(batch):
            at = self.index + done
            size = len(batch) - done if cut is None else min(len(batch) - done, cut - at % cut)
            handler.take(batch.slice(done, size), at)
            done += size

    def _close(self, step: int) -> PrefixDelta:
        """The delta with which the partition reaches a step."""
        low, self._step = self._step + 1, step
        if self._handler is not None:
            self._handler.close(self._grid.time_of(step))
        return self._delta((low, step))

    def take_rows(self) -> tuple[int, pa.Table | None]:
        """The rows that the function yielded for the events of the last delta, and the index of the first of them."""
        return (0, None) if self._handler is None else self._handler.take_rows()

    def take_open(self) -> PrefixDelta | None:
        """What came since the last delta; the step goes on."""
        return self._delta(None) if self.index > self.start else None

    def _delta(self, steps: tuple[int, int] | None) -> PrefixDelta:
        start, self.start = self.start, self.index
        _, parts = self._half.take()
        written = [written_part(self._table.number, part) for part in parts]
        handler = self._handler
        private = b"" if handler is None else handler.private()
        rows = 0 if handler is None else handler.row_count
        reach = Reach(self._watermark, self._latest, private, rows)
        inserted = [] if handler is None else handler.take_parts()
        version = self._generation, self.decisions
        return PrefixDelta(self.partition, *version, start, self.index, reach, (*written, *inserted), steps)
