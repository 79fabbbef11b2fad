"""From an Arrow batch to a chunk of well-formed events, with what is wrong set aside and named.

Columns are read without a copy wherever Arrow and NumPy agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.base.arrays import Int64Array, frozen
from headwater.base.arrow import integers_of, is_time_like, plain_array, plain_type
from headwater.engine.intake.chunk import Chunk, Values, steps_back
from headwater.language.schemas import type_kind
from headwater.language.times import TICK_NANOS, TIME_MAX


@dataclass(slots=True)
class TimeScan:
    """What one look over the times tells: the span and whether they ever step back."""

    low: int
    high: int
    in_order: bool


def scan_times(times: Int64Array) -> TimeScan:
    """Span and order of a batch's times (not empty).

    >>> scan_times(np.array([1, 3, 2]))
    TimeScan(low=1, high=3, in_order=False)
    """
    if steps_back(frozen(times, np.int64)) == 0:
        return TimeScan(int(times[0]), int(times[-1]), True)
    return TimeScan(int(times.min()), int(times.max()), False)


INT64 = pa.int64()
#: Times as ticks, reasons why some cannot be used, and the scan of them if all can.
Times: TypeAlias = tuple[Int64Array, dict[int, str], TimeScan | None]


def read_times(array: pa.Array, unit: str) -> Times:
    """The times of a batch as ticks, for each unusable one its row and the reason, and, if all are fine, their scan.

    >>> read_times(pa.array([5, None, 2**63 - 1]), "us")[1]
    {1: 'time is null', 2: 'time 9223372036854775807 is outside -2**62 .. 2**62'}
    """
    bad: dict[int, str] = {}
    if array.type == INT64 and array.null_count == 0 and len(array):
        times = array.to_numpy()
        scan = scan_times(times)
        if scan.low >= -TIME_MAX and scan.high <= TIME_MAX:
            return times, bad, scan
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        array = _ticks(array, unit)
    elif pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    elif not pa.types.is_integer(array.type):
        wrong = f"time is of type {array.type}, not an integer, a timestamp or a date"
        return np.zeros(len(array), np.int64), dict.fromkeys(range(len(array)), wrong), None
    if pa.types.is_uint64(array.type):
        array = pc.min_element_wise(array, pa.scalar(2**63 - 1, pa.uint64()), skip_nulls=False)
    if array.null_count:
        for row in np.flatnonzero(np.asarray(array.is_null())).tolist():
            bad.setdefault(row, "time is null")
        array = array.fill_null(0)
    times = np.ascontiguousarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False))
    if len(times) == 0:
        return times, bad, None
    scan = scan_times(times)
    if scan.low < -TIME_MAX or scan.high > TIME_MAX:
        for row in np.flatnonzero((times < -TIME_MAX) | (times > TIME_MAX)).tolist():
            bad.setdefault(row, f"time {times[row]} is outside -2**62 .. 2**62")
    return times, bad, None if bad else scan


def _ticks(array: pa.Array, unit: str) -> pa.Array:
    """Timestamps and dates as ticks, rounded down; what is beyond int64 becomes a time that is out of range.

    >>> _ticks(pa.array([-1, 1500], pa.timestamp("ns")), "us").to_pylist()
    [-1, 1]
    """
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"))
    from_nanos, to_nanos = TICK_NANOS[array.type.unit], TICK_NANOS[unit]
    counts = array.cast(pa.int64())
    values = np.asarray(counts.fill_null(0))
    if from_nanos < to_nanos:
        values = values // (to_nanos // from_nanos)
    elif from_nanos > to_nanos:
        factor = from_nanos // to_nanos
        fits = np.abs(values) <= TIME_MAX // factor
        values = np.where(fits, np.where(fits, values, 0) * factor, 2**63 - 1)
    return pa.array(values, mask=np.asarray(counts.is_null()))


def read_values(array: pa.Array) -> Values:
    """A column as NumPy arrays: int64, float64 or objects.

    >>> read_values(pa.array([1, None, 3])).valid
    array([ True, False,  True])
    """
    array = plain_array(array)
    type_ = array.type
    valid = None if array.null_count == 0 else np.asarray(array.is_valid())
    if pa.types.is_floating(type_):
        filled = array if valid is None else array.fill_null(0.0)
        data = np.ascontiguousarray(filled.to_numpy(zero_copy_only=False), np.float64)
        return Values(data, valid, type_)
    if pa.types.is_integer(type_) and not pa.types.is_uint64(type_) or is_time_like(type_):
        integers = integers_of(array)
        filled = integers if valid is None else integers.fill_null(0)
        return Values(np.ascontiguousarray(filled.to_numpy(zero_copy_only=False)), valid, type_)
    if pa.types.is_boolean(type_):
        filled = array if valid is None else array.fill_null(False)
        return Values(filled.cast(pa.int8()).to_numpy(zero_copy_only=False).astype(np.int64), valid, type_)
    if pa.types.is_uint64(type_):
        array = array.cast(pa.decimal128(20, 0))
    data = np.empty(len(array), object)
    data[:] = array.to_pylist()
    return Values(data, valid, array.type)


def conform(array: pa.Array, wanted: pa.DataType, name: str) -> tuple[pa.Array, dict[int, str]]:
    """``array`` in the type its column had before; what does not fit becomes null and is named.

    >>> conform(pa.array([1, 300]), pa.int8(), "load")[1]
    {1: "column 'load' is 300, not int8"}
    """
    if array.type == wanted:
        return array, {}
    if pa.types.is_dictionary(array.type) or pa.types.is_dictionary(wanted):
        return conform(plain_array(array), plain_type(wanted), name)
    if _kind(array.type) != _kind(wanted):
        # Text that happens to be a number is not one: what it means would depend on how it is written.
        rows = np.flatnonzero(np.asarray(array.is_valid())).tolist()
        return pa.nulls(len(array), wanted), {
            row: f"column {name!r} is {array[row].as_py()!r}, not {wanted}" for row in rows
        }
    if pa.types.is_integer(array.type) and pa.types.is_float64(wanted):
        return array.cast(wanted, safe=False), {}  # the nearest double, as everywhere
    try:
        return array.cast(wanted), {}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _conform_each(array, wanted, name)


def _kind(type_: pa.DataType) -> str | None:
    return "boolean" if pa.types.is_boolean(type_) else type_kind(type_)


def _conform_each(array: pa.Array, wanted: pa.DataType, name: str) -> tuple[pa.Array, dict[int, str]]:
    values, bad = [], {}
    for row, value in enumerate(array):
        try:
            values.append(value.cast(wanted).as_py())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            values.append(None)
            bad[row] = f"column {name!r} is {value.as_py()!r}, not {wanted}"
    return pa.array(values, wanted), bad


def plan_type(type_: pa.DataType, is_key: bool) -> pa.DataType:
    """The type in which a column of values is taken.

    Unsigned 64-bit integers do not fit int64 and are taken as decimals; a column without any value yet is taken for numbers, as
    a key for text, until it has one.
    """
    if pa.types.is_null(type_):
        return pa.string() if is_key else pa.float64()
    # Views cannot be taken apart by Arrow's kernels.
    if pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_binary_view(type_):
        return pa.binary()
    return pa.decimal128(20, 0) if pa.types.is_uint64(type_) and not is_key else type_


def columns_of(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
    return {name: batch.column(i) for i, name in enumerate(batch.schema.names)}


def without(rows: Mapping[int, str], length: int) -> Int64Array:
    """The rows of a batch that are not among ``rows``."""
    mask = np.ones(length, np.bool_)
    mask[list(rows)] = False
    return np.flatnonzero(mask)


@dataclass(slots=True)
class Events:
    """Well-formed events, as groups take them in, and the columns that were read. No time lies outside of the ``scan``.

    ``watermarks``: that of the event's source just before each event, or one number for all.
    """

    chunk: Chunk
    arrays: Mapping[str, pa.Array]
    scan: TimeScan
    watermarks: Int64Array | int

    def __len__(self) -> int:
        return len(self.chunk)

    @property
    def marks(self) -> Int64Array:
        """The watermark of each."""
        return np.full(len(self), self.watermarks) if isinstance(self.watermarks, int) else self.watermarks

    @property
    def are_on_time(self) -> bool:
        """Whether it is seen at once that no event is below its source's watermark."""
        return self.scan.low >= (self.watermarks if isinstance(self.watermarks, int) else int(self.watermarks.max()))

    def stretch(self, begin: int, end: int) -> Events:
        """Those from one place up to another, at least one, of events in order of time."""
        times = self.chunk.times
        arrays = {name: array.slice(begin, end - begin) for name, array in self.arrays.items()}
        watermarks = self.watermarks if isinstance(self.watermarks, int) else self.watermarks[begin:end]
        scan = TimeScan(int(times[begin]), int(times[end - 1]), True)
        return Events(self.chunk.take(slice(begin, end)), arrays, scan, watermarks)

    def take(self, rows: Int64Array, names: Iterable[str]) -> Events:
        """Those in these rows (ascending), with the columns of these names."""
        if len(rows) == len(self):
            return self
        indices = pa.array(rows)
        arrays = {name: self.arrays[name].take(indices) for name in names}
        watermarks = self.watermarks if isinstance(self.watermarks, int) else self.watermarks[rows]
        return Events(self.chunk.take(rows), arrays, self.scan, watermarks)
