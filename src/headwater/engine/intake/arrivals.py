"""A batch as it came in: the columns that queries read, the times, and what is wrong with single events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.intake.columns import Times, TimeScan, columns_of, conform, read_times, scan_times, without
from headwater.engine.intake.time_readings import read_timestamps
from headwater.language.time_columns import LIMIT, TimeColumn, time_column
from headwater.language.times import FOREVER

#: Columns of texts that could not be read are named after their column with this in front; no column of data begins so.
UNREAD = "\0"
UNREAD_LINE = "\0\0"
REASON = pa.struct([("reason", pa.string()), ("text", pa.string())])


def unread_values(batch: pa.RecordBatch, name: str) -> dict[int, str]:
    """The rows whose value in a column could not be read, each with its text.

    >>> batch = pa.record_batch({"load": [1.5, None], "\\0load": [None, "many"]})
    >>> unread_values(batch, "load")
    {1: 'many'}
    """
    return _there(batch, UNREAD + name)


def unread_lines(batch: pa.RecordBatch) -> dict[int, str]:
    """The rows that hold no event (a line that is no JSON, for example), each with the reason."""
    return {row: each["reason"] for row, each in _there(batch, UNREAD_LINE).items()}


def _there(batch: pa.RecordBatch, name: str) -> dict[int, Any]:
    if name not in batch.schema.names:
        return {}
    column = batch.column(name)
    rows = np.flatnonzero(np.asarray(column.is_valid())).tolist()
    return dict(zip(rows, column.take(pa.array(rows, pa.int64())).to_pylist(), strict=True))


def as_it_came(event: dict[str, Any]) -> dict[str, Any]:
    """An event for the side output, with the texts that could not be read in their places.

    >>> as_it_came({"time": 1, "load": None, "\\0load": "many"})
    {'time': 1, 'load': 'many'}
    """
    line = event.get(UNREAD_LINE)
    if line is not None:
        return {"line": line["text"]}
    texts = {name.removeprefix(UNREAD): value for name, value in event.items() if name.startswith(UNREAD)}
    plain = {name: value for name, value in event.items() if not name.startswith(UNREAD)}
    return plain | {name: text for name, text in texts.items() if text is not None and name in plain}


@dataclass(slots=True)
class Arrivals:
    """The events of one source in a batch, their columns read and checked.

    ``offsets``: that of the first event, or one per event. ``timeless``: rows without a usable time, each with the reason;
    ``misfits``: per column the rows whose value does not fit. ``scan`` is None while some time cannot be used.
    """

    batch: pa.RecordBatch
    offsets: Int64Array | int
    arrays: dict[str, pa.Array]
    times: Int64Array
    scan: TimeScan | None
    timeless: dict[int, str]
    misfits: dict[str, dict[int, str]]

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def next_offset(self) -> int:
        """The offset behind the last event; there is at least one event."""
        return self.offsets + len(self) if isinstance(self.offsets, int) else int(self.offsets[-1]) + 1

    def bad(self) -> dict[int, str]:
        """The rows that some query cannot use, each with its first reason."""
        found = dict(self.timeless)
        for wrong in self.misfits.values():
            found = wrong | found
        return found

    def timed(self) -> Arrivals:
        """The events with a usable time."""
        return self.take(without(self.timeless, len(self))) if self.timeless else self

    def take(self, kept: Int64Array) -> Arrivals:
        """The events in the rows ``kept``, all of which have a usable time."""
        times, rows = self.times[kept], pa.array(kept)
        place = {int(row): i for i, row in enumerate(kept)} if self.misfits else {}
        return Arrivals(
            self.batch.take(rows),
            each_offset(self.offsets, len(self))[kept],
            {name: array.take(rows) for name, array in self.arrays.items()},
            times,
            scan_times(times) if len(times) else None,
            {},
            {
                name: {place[row]: why for row, why in wrong.items() if row in place}
                for name, wrong in self.misfits.items()
            },
        )


def times_of(batch: pa.RecordBatch, time: str, unit: str) -> Times:
    """The times of a batch, what is wrong with them, and their scan if nothing is."""
    column = time_column(time)
    name = column.name
    if name in batch.schema.names:
        times, bad, scan = _read(batch.column(name), column, unit)
        texts = unread_values(batch, name).items()
        unread = {row: f"time is {text!r}, not {batch.schema.field(name).type}" for row, text in texts}
        unread |= unread_lines(batch) | _too_far(batch, times, bad, scan)
        return (times, bad | unread, None) if unread else (times, bad, scan)
    missing = f"time column {name!r} is missing"
    return np.zeros(len(batch), np.int64), dict.fromkeys(range(len(batch)), missing), None


def _too_far(batch: pa.RecordBatch, times: Int64Array, bad: Mapping[int, str], scan: TimeScan | None) -> dict[int, str]:
    """The rows whose times are further ahead than their arrival allows."""
    if LIMIT not in batch.schema.names or not len(batch):
        return {}
    limits = np.asarray(batch.column(LIMIT).fill_null(FOREVER))
    if scan is not None and scan.high <= limits.min():
        return {}
    return {
        row: f"time {times[row]} is too far ahead: with its arrival and ahead_max it is at most {limits[row]}"
        for row in np.flatnonzero(times > limits).tolist()
        if row not in bad
    }


def _read(array: pa.Array, column: TimeColumn, unit: str) -> Times:
    if column.is_plain:
        return read_times(array, unit)
    stamps, unreadable = read_timestamps(array, column)
    times, bad, scan = read_times(stamps, unit)
    return times, bad | unreadable, scan


def read_columns(
    batch: pa.RecordBatch, names: Iterable[str], types: Mapping[str, pa.DataType]
) -> tuple[dict[str, pa.Array], dict[str, dict[int, str]]]:
    """The columns that queries read, in the types they had from the start, and per column which events do not fit."""
    there = columns_of(batch)
    arrays: dict[str, pa.Array] = {}
    misfits: dict[str, dict[int, str]] = {}
    for name in names:
        if name in there:
            arrays[name], wrong = conform(there[name], types[name], name)
            texts = unread_values(batch, name).items()
            wrong |= {row: f"column {name!r} is {text!r}, not {types[name]}" for row, text in texts}
        else:
            arrays[name] = pa.nulls(len(batch), types[name])
            wrong = dict.fromkeys(range(len(batch)), f"column {name!r} is missing")
        if wrong:
            misfits[name] = wrong
    return arrays, misfits


def each_offset(offsets: Int64Array | int, length: int) -> Int64Array:
    """The offset of every event, given that of the first or all of them.

    >>> each_offset(3, 2).tolist()
    [3, 4]
    """
    return np.arange(offsets, offsets + length, dtype=np.int64) if isinstance(offsets, int) else offsets
