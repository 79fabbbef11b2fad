"""Times that are no integers, timestamps or dates: numbers since 1970 and ISO 8601 text, read as microseconds in UTC."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.base.arrays import Int64Array
from headwater.base.arrow import plain_array
from headwater.language.time_columns import UTC_MICROS, TimeColumn, wrong_type
from headwater.language.times import TICK_NANOS, TIME_MAX

#: Each group of digits, and what it is. Seconds and their parts may be missing, and so may the zone.
_ISO: Final = (
    r"^(?P<year>\d{4})-?(?P<month>\d{2})-?(?P<day>\d{2})"
    r"(?:[Tt ](?P<hour>\d{2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,](?P<part>\d+))?)?"
    r"(?P<zone>[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$"
)
ISO_FORM: Final = "ISO 8601 such as 2024-05-16T23:00:00.25+02:00"
#: Beyond this many microseconds (285 years) a float does not tell them apart.
FLOAT_MAX: Final = 2**53
_DAY: Final = 86_400_000_000
_MONTH_DAYS: Final = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def read_timestamps(array: pa.Array, column: TimeColumn) -> tuple[pa.Array, dict[int, str]]:
    """Times as timestamps in UTC, null where there is none, and of unreadable ones the rows and the reasons.

    >>> read_timestamps(pa.array([1.5, float("nan")]), TimeColumn("ts", "epoch", "s"))[1]
    {1: 'time is nan, not a number of s within the range of times'}
    """
    reason = None if column.reading == "arrival" or pa.types.is_null(array.type) else wrong_type(column, array.type)
    if reason is not None:
        return pa.nulls(len(array), UTC_MICROS), dict.fromkeys(range(len(array)), f"time: {reason}")
    array = plain_array(array)
    there = np.asarray(array.is_valid())
    if column.reading == "iso":
        micros, fine = _of_text(array)
        form = ISO_FORM
    else:
        unit = column.unit or "us"
        micros, fine = _of_floats(array, unit) if pa.types.is_floating(array.type) else _of_integers(array, unit)
        form = f"a number of {unit} within the range of times"
    bad = {row: f"time is {array[row].as_py()!r}, not {form}" for row in np.flatnonzero(there & ~fine).tolist()}
    return pa.array(micros, mask=~(there & fine)).cast(UTC_MICROS), bad


def _of_integers(array: pa.Array, unit: str) -> tuple[Int64Array, Any]:
    """Rounded down to microseconds."""
    if pa.types.is_uint64(array.type):
        array = pc.min_element_wise(array, pa.scalar(2**63 - 1, pa.uint64()), skip_nulls=False)
    values = np.asarray(array.cast(pa.int64()).fill_null(0))
    if unit == "ns":
        return values // 1_000, np.ones(len(values), np.bool_)
    factor = TICK_NANOS[unit] // 1_000
    fine = (values >= -(TIME_MAX // factor)) & (values <= TIME_MAX // factor)
    return np.where(fine, values, 0) * factor, fine


def _of_floats(array: pa.Array, unit: str) -> tuple[Int64Array, Any]:
    """The last microsecond that, as a float of the unit, is not above the value.

    Not the product rounded down: 1715900000.1 lies a little below what it is written as, in the microsecond before.
    """
    values = np.asarray(array.cast(pa.float64()).fill_null(0.0))
    tick = TICK_NANOS[unit]
    with np.errstate(invalid="ignore", over="ignore"):
        fine = np.abs(values) * (tick / 1_000) <= FLOAT_MAX
        values = np.where(fine, values, 0.0)
        micros = np.floor(values * (tick / 1_000))

    def as_floats(micros: Any) -> Any:
        return micros * 1_000.0 if unit == "ns" else micros / (tick // 1_000)

    micros += as_floats(micros + 1) <= values
    micros -= as_floats(micros) > values
    return micros.astype(np.int64), fine


def _of_text(array: pa.Array) -> tuple[Int64Array, Any]:
    parts = pc.extract_regex(array.cast(pa.string()).fill_null(""), _ISO)
    fine = np.asarray(parts.is_valid())

    def number(name: str, missing: str) -> Int64Array:
        texts = pc.struct_field(parts, name)
        texts = pc.if_else(pc.equal(pc.fill_null(texts, ""), ""), missing, texts)
        return np.asarray(texts.cast(pa.int64()))

    year, month, day = number("year", "1"), number("month", "1"), number("day", "1")
    hour, minute, second = number("hour", "0"), number("minute", "0"), number("second", "0")
    part = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.fill_null(pc.struct_field(parts, "part"), ""), 6, "0"), 0, 6)
    zone = pc.utf8_upper(pc.fill_null(pc.struct_field(parts, "zone"), ""))
    shift, is_zone = _zone_minutes(zone)
    fine &= (year >= 1) & (month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second < 60) & is_zone
    month = np.where((month >= 1) & (month <= 12), month, 1)
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    fine &= (day >= 1) & (day <= _MONTH_DAYS[month - 1] + (is_leap & (month == 2)))
    seconds = hour * 3_600 + (minute - shift) * 60 + second
    return _days(year, month, day) * _DAY + seconds * 1_000_000 + np.asarray(part.cast(pa.int64())), fine


def _zone_minutes(zone: pa.Array) -> tuple[Int64Array, Any]:
    """How far zones are ahead of UTC, and which can be."""
    digits = pc.utf8_rpad(pc.replace_substring_regex(zone, "[^0-9]", ""), 4, "0")
    hours = np.asarray(pc.utf8_slice_codeunits(digits, 0, 2).cast(pa.int64()))
    minutes = np.asarray(pc.utf8_slice_codeunits(digits, 2, 4).cast(pa.int64()))
    sign = np.where(np.asarray(pc.starts_with(zone, "-")), -1, 1)
    return sign * (hours * 60 + minutes), (hours < 24) & (minutes < 60)


def _days(year: Int64Array, month: Int64Array, day: Int64Array) -> Int64Array:
    """Days since 1970, as NumPy counts the months of its calendar."""
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    return months.astype("datetime64[D]").astype(np.int64) + day - 1
