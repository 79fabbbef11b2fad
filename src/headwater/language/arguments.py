"""What a caller gives to the engine, checked before anything happens: one sentence with what, the value and the right form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from headwater.errors import DataError, QueryError, shown
from headwater.language.query import Query
from headwater.language.times import DURATION_MAX, FOREVER, NEVER, TICK_NANOS, duration, in_ticks

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


def check_time(name: str, value: Any) -> int:
    """A time in ticks: a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not NEVER <= value <= FOREVER:
        raise QueryError(f"{name} is {value!r}: give a time as a whole number of ticks that fits int64")
    return int(value)


def check_source(source: Any) -> str:
    if not isinstance(source, str):
        raise DataError(f"source is {source!r}: give its name as text")
    return source
