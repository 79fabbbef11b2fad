"""The engine on record batches and plain numbers: push, advance watermarks, take tables.

It holds any number of queries over any number of sources. It does no I/O and reads no clock: what comes out is a function of the
calls that went in, and a snapshot restored goes on as if nothing had happened. What users give and take is converted around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.families import Family
from headwater.engine.intake.arrivals import Arrivals, each_offset, read_columns, times_of
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import Times, TimeScan, read_values
from headwater.engine.intake.keys import NODE_KEY
from headwater.engine.intake.watermarks import Source
from headwater.engine.progress import Progress
from headwater.errors import DataError
from headwater.language.arguments import check_source
from headwater.language.times import FOREVER, NEVER

#: Within a long push, results are made as soon as they would fill about this many cells: while all is still in the cache, and
#: before arrays grow so large that the system hands out fresh memory for each.
CELLS_HELD = 1 << 23
#: Or when this many rows of results have come together.
RESULTS_HELD = 1 << 18
#: Or when this many rows of partials wait to be combined.
ROWS_HELD = 1 << 16
#: Columns of a result besides the aggregates.
BASE_COLUMNS = 8


class Core(Progress):
    """Window queries over live streams of record batches, in one process.

    >>> import headwater as hw
    >>> core = Core([hw.query("load", hw.tumbling(10), total=hw.sum("load"))])
    >>> core.push([pa.record_batch({"time": [1, 5, 12], "load": [1.0, 2.0, 4.0]})])
    >>> core.advance(10)
    >>> core._take()[0].select(["window_start", "window_end", "total"]).to_pylist()
    [{'window_start': 0, 'window_end': 10, 'total': 3.0}]
    """

    def push(
        self,
        batches: Iterable[pa.RecordBatch],
        source: str = "",
        offset: int | Int64Array | None = None,
        node: str = "",
    ) -> None:
        """Take in events of one source, in any order.

        ``offset`` is that of the first event (default: one after the last), or one per event; events that were accepted
        before are passed over. ``node`` names the source's home when the source is first seen.
        """
        offset = check_offset(offset)
        origin = self._watermarks.source(check_source(source), node)
        origin.node = origin.node or node
        self._watermarks.resume(source)
        for batch in batches:
            first = origin.next_offset if offset is None else offset
            if not isinstance(first, int) and len(first) < len(batch):
                raise DataError(
                    f"source {source!r}: there are fewer offsets than events; give one for each, or the first one"
                )
            self._push_batch(batch, origin, source, first if isinstance(first, int) else first[: len(batch)])
            if offset is not None:
                offset = offset + len(batch) if isinstance(offset, int) else offset[len(batch) :]
            if self._holds_much():
                self._emit()
        self._emit()

    def push_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take in all events there will ever be, as one source: what no later event can change comes out on the way.

        The same rows as one `push` and `flush`, without holding all partials until the end.
        """
        batches = list(batches)
        times = [times_of(batch, self._time, self._unit) for batch in batches]
        # For each batch the earliest time behind it; unknown if something is wrong with a time.
        lows = [FOREVER if scan is None else scan.low for _, _, scan in times]
        behind = [*reversed([NEVER, *itertools.accumulate(reversed(lows[1:]), min)])]
        known_times = all(scan is not None for _, _, scan in times)
        origin = self._watermarks.source("")
        for batch, known, low in zip(batches, times, behind, strict=False):
            self._push_batch(batch, origin, "", origin.next_offset, known)
            if known_times:
                self._watermarks.raise_source("", low)
            if self._holds_much():
                self._emit()
        self.flush()

    def _push_batch(
        self,
        batch: pa.RecordBatch,
        origin: Source,
        source: str,
        offsets: Int64Array | int,
        known: Times | None = None,
    ) -> None:
        """``offsets``: that of the first event, or one per event; ``known``: its times, if they were read before."""
        if len(batch) and (offsets if isinstance(offsets, int) else offsets[0]) < origin.next_offset:
            offsets = each_offset(offsets, len(batch))
            fresh = offsets >= origin.next_offset
            self._repeated += len(batch) - int(fresh.sum())
            batch, offsets = batch.filter(pa.array(fresh)), offsets[fresh]
        if len(batch) == 0:
            return
        self._check(batch.schema)
        arrays, misfits = read_columns(batch, self._registry.needed, self._registry.types)
        times, timeless, scan = times_of(batch, self._time, self._unit) if known is None else known
        events = Arrivals(batch, offsets, arrays, times, scan, timeless, misfits)
        # Nothing has changed so far: a batch that is refused can be put right and pushed again.
        self._set_aside(events, source)
        origin.next_offset = events.next_offset
        events = events.timed()
        if events.scan is not None:
            self._accept(events, events.scan, origin, source)

    def _check(self, schema: pa.Schema) -> None:
        """Refuse queries that do not fit the columns, before anything is taken in."""
        self._registry.check(schema)

    def _set_aside(self, events: Arrivals, source: str) -> None:
        """Count and keep the events that some query cannot use, each once with its first reason."""
        bad = events.bad()
        if not bad:
            return
        rows, places = sorted(bad), each_offset(events.offsets, len(events))
        if self._strict:
            raise DataError(
                f"source {source!r}, offset {places[rows[0]]}: {bad[rows[0]]} (strict; {len(rows)} such events in this batch)"
            )
        self._registry.timeless += len(events.timeless)
        self._malformed += len(rows)
        self._side.malformed(events.batch, rows, [bad[row] for row in rows], source, places[rows])

    def _accept(self, events: Arrivals, scan: TimeScan, origin: Source, source: str) -> None:
        """Take in events, all with a time, and let the source's watermark follow."""
        before, chunk = self._placed(events, scan, origin)
        self._deal_out(events, scan, chunk, before, source)
        self._watermarks.saw(origin, scan.low, scan.high)

    def _deal_out(self, events: Arrivals, scan: TimeScan, chunk: Chunk, before: Int64Array | int, source: str) -> None:
        """Give events to every family; ``before``: their source's watermark before each."""
        queries = self._registry
        for family in self._takers(events, chunk, before):
            family.prepare(queries.types)
            for dropped in family.accept(chunk, events.arrays, scan, before, events.misfits):
                name = queries.query_names[dropped.query]
                self._side.dropped(events.batch, chunk.offsets, dropped, name, source)

    def _takers(self, events: Arrivals, chunk: Chunk, before: Int64Array | int) -> Iterable[Family]:
        """The families that take these events in."""
        return self._registry.families.values()

    def _placed(self, events: Arrivals, scan: TimeScan, origin: Source) -> tuple[Int64Array | int, Chunk]:
        """The source's watermark before each event, and the events with their places of birth and values."""
        marks, queries = self._watermarks, self._registry
        times, arrays = events.times, events.arrays
        before: Int64Array | int = origin.watermark
        # While times never step back, the watermark that they imply never passes the next one.
        if not (scan.in_order and scan.low >= origin.watermark):
            before = marks.before_each(origin, times)
        columns = {name: read_values(arrays[name]) for name in queries.value_columns if name in arrays}
        if queries.by_node:
            arrays[NODE_KEY] = pa.DictionaryArray.from_arrays(np.zeros(len(times), np.int32), [origin.node])
        return before, Chunk(times, events.offsets, origin.number, marks.names, columns)

    def _holds_much(self) -> bool:
        """Whether it is time, within a long push, to make results of what has closed."""
        until = self._watermarks.group
        families = [family for family in self._registry.families.values() if family.watermark < until]
        rows = sum(family.expected_rows(until) for family in families)
        cells = rows * (BASE_COLUMNS + len(self._registry.layout.aggregates))
        return cells > CELLS_HELD or rows > RESULTS_HELD or sum(family.row_count for family in families) > ROWS_HELD


def check_offset(offset: Any) -> int | Int64Array | None:
    """
    >>> check_offset(np.int64(3)), check_offset(None), check_offset([4, 6])
    (3, None, array([4, 6]))
    """
    if offset is None or type(offset) is int:
        return offset
    if isinstance(offset, int | np.integer) and not isinstance(offset, bool):
        return int(offset)
    offsets = np.asarray(offset)
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or (np.diff(offsets.astype(np.int64)) <= 0).any():
        raise DataError(
            "offset: give the first event's offset, or one whole number per event, each above the one before"
        )
    return offsets.astype(np.int64)
