"""What a caller gives to the engine, checked before anything happens: one sentence with what, the value and the right form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from headwater.errors import DataError, QueryError, shown
from headwater.language.query import Query
from headwater.language.time_columns import time_column, time_type
from headwater.language.times import DURATION_MAX, FOREVER, NEVER, TICK_NANOS, TIME_MAX, Nanos, duration, in_ticks

#: How far the time of an event may be ahead of its arrival in a stream that says nothing else.
DAY = duration("1 d")

_QUERIES_FORM = "give one query made with hw.query(...), or a list of them; hw.load(path) reads a file of queries"


def check_queries(queries: Any) -> list[Query]:
    """The queries as a list, if they all are queries.

    >>> check_queries(["load"])
    Traceback (most recent call last):
    headwater.errors.QueryError: queries hold 'load': give queries made with hw.query(...)
    """
    given = data_kind(queries)
    if given is not None or isinstance(queries, str | Mapping):
        raise QueryError(f"queries is {given or shown(queries)}: {_QUERIES_FORM}")
    listed = [queries] if isinstance(queries, Query) else list(queries) if isinstance(queries, Iterable) else [queries]
    for query in listed:
        if not isinstance(query, Query):
            raise QueryError(f"queries hold {query!r}: give queries made with hw.query(...)")
    return listed


def data_kind(given: object) -> str | None:
    """What an object is, in words, if it holds events or leads to them; so that it gets to the right door.

    >>> import pyarrow as pa
    >>> data_kind(pa.table({"a": [1]})), data_kind("events/2026"), data_kind(3)
    ('an Arrow Table', None, None)
    """
    module, name = type(given).__module__.partition(".")[0], type(given).__qualname__
    makers = {"pyspark": "Spark", "pandas": "pandas", "polars": "Polars", "pyarrow": "Arrow"}
    if module not in makers or isinstance(given, Query):
        return None
    if name == "SparkSession":
        return "a SparkSession"
    return f"{'an' if module == 'pyarrow' else 'a'} {makers[module]} {name}"


def check_real_time(name: str, value: object) -> int:
    """Nanoseconds by the clock, which has no ticks that a plain number could mean.

    >>> check_real_time("idle", "2 s")
    2000000000
    >>> check_real_time("idle", 2)
    Traceback (most recent call last):
    headwater.errors.QueryError: idle is 2: write a duration with its unit, such as '2 s'
    """
    length = duration(value)
    if length != 0 and not isinstance(length, Nanos):
        raise QueryError(f"{name} is {value!r}: write a duration with its unit, such as '{value} s'")
    return in_ticks(length, "ns")


def check_unit(unit: str) -> str:
    if unit not in TICK_NANOS:
        raise QueryError(f"unit is {unit!r}: give one of {', '.join(map(repr, TICK_NANOS))}")
    return unit


def check_disorder(disorder: object, unit: str) -> int | None:
    """The disorder bound in ticks; None: there is none.

    >>> check_disorder("2 s", "ms"), check_disorder(None, "us")
    (2000, None)
    """
    if disorder is None:
        return None
    ticks = in_ticks(duration(disorder), unit)
    if not 0 <= ticks <= DURATION_MAX:
        raise QueryError(f"disorder is {disorder!r}: give a duration of 0 or more, at most 2**61 ticks, such as '2 s'")
    return ticks


def check_ahead(ahead_max: object, time: str, schema: pa.Schema, unit: str) -> int | None:
    """How many ticks a time may be ahead of its event's arrival; None: any.

    "auto" is one day, but any for integers: nobody has said that these count from 1970.

    >>> check_ahead("auto", "at", pa.schema([("at", pa.timestamp("s"))]), "s"), check_ahead("1 h", "at", pa.schema([]), "s")
    (86400, 3600)
    """
    if time_column(time).reading == "arrival" or ahead_max is None:
        return None
    if ahead_max == "auto":
        return None if pt.is_integer(time_type(time, schema)) else in_ticks(DAY, unit)
    ticks = in_ticks(duration(ahead_max), unit)
    if not 0 <= ticks <= DURATION_MAX:
        raise QueryError(f"ahead_max is {ahead_max!r}: give a duration of 0 or more such as '1 h', or None for any")
    return ticks


def check_now(now: object) -> int:
    """A time of arrival in microseconds since 1970.

    >>> check_now(datetime(1970, 1, 1, 0, 0, 1)), check_now(5)
    (1000000, 5)
    """
    if isinstance(now, datetime):
        aware = now if now.tzinfo is not None else now.replace(tzinfo=UTC)
        return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(now, bool) or not isinstance(now, int | np.integer) or not -TIME_MAX <= now <= TIME_MAX:
        raise DataError(f"now is {now!r}: give when the events arrived, as a datetime or in microseconds since 1970")
    return int(now)


def check_time(name: str, value: Any) -> int:
    """A time in ticks: a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not NEVER <= value <= FOREVER:
        raise QueryError(f"{name} is {value!r}: give a time as a whole number of ticks that fits int64")
    return int(value)


def check_source(source: Any) -> str:
    if not isinstance(source, str):
        raise DataError(f"source is {source!r}: give its name as text")
    return source
