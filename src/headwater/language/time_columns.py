"""Which column says when events were, and how its values are read.

A time column is named by its name, and holds integers in the stream's unit, timestamps or dates. What else tells a time is named
by a reading: `epoch`, `iso` or `arrival`. A reading travels as text, wherever the name of a column would: through files of
queries, frames and checkpoints.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import pyarrow as pa
import pyarrow.types as pt

from headwater.errors import Problem, QueryError
from headwater.language.times import TICK_NANOS

#: The column in which a host puts when events arrived, as microseconds since 1970. No column of data begins so.
ARRIVAL: Final = "\0\0arrival"
#: And the latest time that each may have, in ticks: what is later is too far ahead.
LIMIT: Final = "\0\0limit"
#: What `epoch`, `iso` and `arrival` give.
UTC_MICROS: Final = pa.timestamp("us", "UTC")

Reading = Literal["plain", "epoch", "iso", "arrival"]
_READING: Final = re.compile(r"hw\.(epoch|iso|arrival)(\(.*\))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A column and how times are read from it; ``unit``: that of the numbers of an epoch."""

    name: str
    reading: Reading = "plain"
    unit: str = ""

    @property
    def is_plain(self) -> bool:
        return self.reading == "plain"


def epoch(column: str, unit: str) -> str:
    """The time of an event is a number, whole or not, of seconds (``"s"``), ``"ms"``, ``"us"`` or ``"ns"`` since 1970 in UTC.

    Both become microseconds: an integer is rounded down, a float becomes the last microsecond that, as a float of this unit, is
    not above it. So 1715900000.1 s is 100,000 microseconds behind the full second, as it is written.

    >>> import headwater as hw
    >>> events = pa.table({"ts": [1715900000.1, 1715900000.25, 1715900009.5]})
    >>> rows = hw.run(events, hw.query("n", hw.tumbling("5 s"), n=hw.count()), time=hw.epoch("ts", "s"))
    >>> rows["n"].column("n").to_pylist()
    [2, 1]
    """
    if unit not in TICK_NANOS:
        raise QueryError(f"unit is {unit!r}: an epoch counts one of {', '.join(map(repr, TICK_NANOS))} since 1970")
    return f"hw.epoch({_checked(column)!r}, {unit!r})"


def iso(column: str) -> str:
    """The time of an event is text by ISO 8601, such as ``2024-05-16T23:00:00.25+02:00``; without a zone it is in UTC.

    >>> iso("at")
    "hw.iso('at')"
    """
    return f"hw.iso({_checked(column)!r})"


def arrival() -> str:
    """The time of an event is when it arrived, as it was stored with the event: the same whenever the event is read."""
    return "hw.arrival()"


def _checked(column: object) -> str:
    if not isinstance(column, str):
        raise QueryError(f"column is {column!r}: give the name of the column that holds the times")
    return column


@lru_cache(maxsize=256)
def time_column(time: str) -> TimeColumn:
    """What the text says: the name of a column, or a reading of one.

    >>> time_column("at"), time_column(epoch("ts", "s"))
    (TimeColumn(name='at', reading='plain', unit=''), TimeColumn(name='ts', reading='epoch', unit='s'))
    """
    found = _READING.fullmatch(time)
    if found is None:
        return TimeColumn(time)
    if found[1] == "arrival":
        return TimeColumn(ARRIVAL, "arrival")
    given = ast.literal_eval(found[2])
    return TimeColumn(given, "iso") if isinstance(given, str) else TimeColumn(given[0], "epoch", given[1])


def time_type(time: str, schema: pa.Schema) -> pa.DataType:
    """The type of the times: of a plain column its own, of a reading timestamps of microseconds in UTC.

    >>> time_type("at", pa.schema([("at", pa.date32())])), time_type(epoch("at", "s"), pa.schema([("at", pa.float64())]))
    (DataType(date32[day]), TimestampType(timestamp[us, tz=UTC]))
    """
    column = time_column(time)
    return schema.field(column.name).type if column.is_plain else UTC_MICROS


def time_problems(time: str, types: Mapping[str, pa.DataType]) -> Iterator[Problem]:
    """What keeps a column that is there from telling the times of events, and what to write instead."""
    column = time_column(time)
    held = types.get(column.name)
    if held is None or column.reading == "arrival":
        return
    reason = wrong_type(column, held)
    if reason is not None:
        yield Problem("time", column.name if column.is_plain else time, reason)


def wrong_type(column: TimeColumn, held: pa.DataType) -> str | None:
    """Why values of this type are no times, with the reading that takes them.

    >>> wrong_type(TimeColumn("ts"), pa.float64())
    "event times are integers, timestamps or dates, the column holds double; write time=hw.epoch('ts', 's') if they are seconds"
    """
    if pt.is_null(held):
        return None  # a batch without any time says nothing about those that follow
    is_text = _is_text(held)
    match column.reading:
        case "plain":
            if pt.is_integer(held) or pt.is_timestamp(held) or pt.is_date(held):
                return None
            hint = f"; write time={epoch(column.name, 's')} if they are seconds" if pt.is_floating(held) else ""
            hint = f"; write time={iso(column.name)} if it is ISO 8601" if is_text else hint
            return f"event times are integers, timestamps or dates, the column holds {held}{hint}"
        case "epoch":
            if pt.is_integer(held) or pt.is_floating(held):
                return None
            hint = iso(column.name) if is_text else repr(column.name)
            return f"an epoch is a number, the column holds {held}; write time={hint}"
        case "iso":
            hint = repr(column.name) if pt.is_timestamp(held) or pt.is_date(held) else epoch(column.name, "s")
            return None if is_text else f"ISO 8601 is text, the column holds {held}; write time={hint}"
    return None


def _is_text(held: pa.DataType) -> bool:
    if pt.is_dictionary(held):
        return _is_text(held.value_type)
    return bool(pt.is_string(held) or pt.is_large_string(held) or pt.is_string_view(held))
