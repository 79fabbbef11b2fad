"""Which column types Spark SQL treats exactly as headwater does, and event times as integer ticks in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from headwater.language.times import TICK_NANOS, TIME_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Metadata of a column of text that does not compare as its bytes.
COLLATED = {b"collation": b"not by bytes"}
_DAY_NANOS = 86_400_000_000_000


def quoted(name: str) -> str:
    """A column's name as SQL writes it.

    >>> quoted("a.b"), quoted("a`b")
    ('`a.b`', '`a``b`')
    """
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def is_plain(field: pa.Field) -> bool:
    """Equal and ordered by its bytes, if it is text."""
    return not (field.metadata and b"collation" in field.metadata)


def is_narrow(type_: pa.DataType) -> bool:
    """An integer whose sums need no second half: below 2**31 of them fit 64 bits."""
    return bool(pt.is_integer(type_)) and type_.bit_width <= 32


def is_fixed_width(type_: pa.DataType) -> bool:
    """Spark keeps the smallest and largest of these in place; of others it sorts all rows."""
    return not (pt.is_string(type_) or pt.is_binary(type_))


def can_be_least(field: pa.Field) -> bool:
    """Spark's order of these values is headwater's."""
    tests = (pt.is_integer, pt.is_floating, pt.is_boolean, pt.is_string, pt.is_binary, pt.is_date, pt.is_timestamp)
    return is_plain(field) and (any(test(field.type) for test in tests) or bool(pt.is_decimal128(field.type)))


def ticks(field: pa.Field, unit: str) -> tuple[str, str] | None:
    """The time of an event as SQL, and the condition that it has one; None if Spark cannot say it exactly.

    >>> ticks(pa.field("at", pa.timestamp("us", "UTC")), "us")[0]
    'unix_micros(`at`)'
    """
    column, type_ = quoted(field.name), field.type
    if pt.is_integer(type_):
        time = column if type_ == pa.int64() else f"CAST({column} AS BIGINT)"
        return time, _within(time, TIME_MAX) if type_.bit_width == 64 else f"{column} IS NOT NULL"
    if pt.is_date(type_):
        return _scaled(f"CAST(unix_date({column}) AS BIGINT)", _DAY_NANOS, unit)
    if pt.is_timestamp(type_) and type_.tz is not None:
        return _scaled(f"unix_micros({column})", TICK_NANOS["us"], unit)
    return None


def _scaled(count: str, nanos: int, unit: str) -> tuple[str, str]:
    """A count of units of ``nanos`` nanoseconds in ticks, rounded down."""
    tick = TICK_NANOS[unit]
    if nanos == tick:
        return count, _within(count, TIME_MAX)
    if nanos < tick:
        return floor_div(count, tick // nanos), f"{count} IS NOT NULL"
    factor = nanos // tick
    fits = _within(count, TIME_MAX // factor)
    return f"CASE WHEN {fits} THEN {count} * {factor}L END", fits


def _within(number: str, limit: int) -> str:
    return f"{number} BETWEEN -{limit}L AND {limit}L"


def floor_div(number: str, divisor: int) -> str:
    """Rounded down, also below zero, where SQL's ``div`` rounds up.

    >>> floor_div("t", 10)
    'CASE WHEN t >= 0L THEN t div 10L ELSE (t + 1L) div 10L - 1L END'
    """
    if divisor == 1:
        return number
    return f"CASE WHEN {number} >= 0L THEN {number} div {divisor}L ELSE ({number} + 1L) div {divisor}L - 1L END"


def functions_of(frame: DataFrame) -> Any:
    """Spark's functions for this kind of session: a process may have a classic one and one through Connect at once."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect import functions as remote

        return remote
    from pyspark.sql import functions

    return functions


def window_of(frame: DataFrame) -> Any:
    """Spark's `Window` for this kind of session."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.window import Window as Remote

        return Remote
    from pyspark.sql import Window

    return Window
