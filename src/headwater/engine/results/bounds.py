"""Which type the times of a stream have in what comes out: that of the column that they came in."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from headwater.language.query import Query
from headwater.language.time_columns import UTC_MICROS, time_column
from headwater.language.times import TICK_NANOS
from headwater.language.windows import Band, Custom

TICKS: Final = pa.int64()
#: From the coarsest to the finest.
_UNITS: Final = ("s", "ms", "us", "ns")
#: Bounds of longer windows are in microseconds: counted in nanoseconds, int64 ends in the year 2262.
_NANOS_MAX: Final = 1 << 61


def shown_time(time: str, schema: pa.Schema | None) -> pa.DataType:
    """The type of the times of a stream whose events have this schema; int64 as long as that is unknown.

    >>> shown_time("at", pa.schema([("at", pa.date32())])), shown_time("time", None)
    (TimestampType(timestamp[us]), DataType(int64))
    """
    column = time_column(time)
    if not column.is_plain:
        return UTC_MICROS
    index = -1 if schema is None else schema.get_field_index(time)
    return TICKS if schema is None or index < 0 else shown_type(schema.field(index).type)


def shown_type(column: pa.DataType) -> pa.DataType:
    """The type in which times of such a column are shown: a timestamp with its zone and unit, or integers."""
    if pt.is_timestamp(column):
        return column
    return pa.timestamp("us") if pt.is_date(column) else TICKS


def finer(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Of two types the one whose unit is finer, in the zone of the first.

    >>> finer(pa.timestamp("s", "UTC"), pa.timestamp("ms"))
    TimestampType(timestamp[ms, tz=UTC])
    """
    if not (pt.is_timestamp(one) and pt.is_timestamp(other)):
        return one
    return pa.timestamp(max(one.unit, other.unit, key=_UNITS.index), one.tz)


def bounds_type(times: pa.DataType, queries: Iterable[Query], unit: str) -> pa.DataType:
    """The type of the bounds of these queries' windows: that of the times, finer where a bound would not be whole.

    ``unit``: of the stream's ticks. Decided by what is asked alone, so that no event can change it.

    >>> from headwater.language.aggregations import count
    >>> from headwater.language.query import query
    >>> from headwater.language.windows import tumbling
    >>> bounds_type(pa.timestamp("s"), [query("n", tumbling("250 ms"), n=count())], "us")
    TimestampType(timestamp[ms])
    """
    if not pt.is_timestamp(times):
        return times
    is_coarse = TICK_NANOS[times.unit] > TICK_NANOS[unit]
    if not is_coarse and times.unit != "ns":
        return times
    step, longest = _lengths(queries, unit)
    if times.unit == "ns":
        return pa.timestamp("us" if longest > _NANOS_MAX and step % 1_000 == 0 else "ns", times.tz)
    units = _UNITS[_UNITS.index(times.unit) :]
    return pa.timestamp(next(unit for unit in units if step % TICK_NANOS[unit] == 0), times.tz)


def _lengths(queries: Iterable[Query], unit: str) -> tuple[int, int]:
    """In nanoseconds, the longest step of which all lengths of windows are multiples, and the longest of them."""
    tick = TICK_NANOS[unit]
    step = longest = 0
    for query in queries:
        window = query.window.resolved(unit, query.name)
        # A user's function may cut at any tick.
        lengths = [1] if isinstance(window, Custom) else [getattr(window, name) or 0 for name in window.durations]
        if isinstance(window, Band):
            lengths.append(window.start)
        step = gcd(step, *lengths)
        longest = max([longest, *map(abs, lengths)])
    return step * tick, longest * tick
