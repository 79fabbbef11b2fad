"""The sink that a user means by what was given."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from headwater.errors import DataError
from headwater.language.places import is_format_name, is_table_name, local_path
from headwater.spark.streaming.sinks.folder import FolderSink
from headwater.spark.streaming.sinks.per_query import REST, SinkPerQuery
from headwater.spark.streaming.sinks.sink import ELSEWHERE, CallableSink, ConsoleSink, MemorySink, Sink


def sink_of(given: Any, name: str = "sink") -> Sink:
    """The sink for "memory", "console", a folder, a function of (rows, batch), a sink itself, or several by query."""
    if isinstance(given, Mapping):
        return _sink_per_query(given, name)
    if given == "memory":
        return MemorySink()
    if given == "console":
        return ConsoleSink()
    if hasattr(given, "write") and hasattr(given, "close"):
        sink: Sink = given
        return sink
    if isinstance(given, str | Path):
        return FolderSink(_sink_folder(given, name))
    if callable(given):
        return CallableSink(given)
    raise DataError(f"{name} is {given!r}: give a folder, 'memory', 'console', a function of (rows, batch), or a sink")


def _sink_per_query(given: Mapping[Any, Any], name: str) -> SinkPerQuery:
    if name == "aside":
        raise DataError(f"aside is {given!r}: events that are in no result go to one sink; give one")
    if not given or not all(isinstance(query, str) for query in given):
        raise DataError(f"{name} is {given!r}: give a sink for each query by its name, {name}={{'load': 'load/'}}")
    for (one, first), (other, second) in combinations(given.items(), 2):
        is_text = isinstance(first, str | Path) and first not in ("memory", "console")
        if first is second and not isinstance(first, str) or is_text and first == second:
            raise DataError(
                f"{name} is the same for queries {one!r} and {other!r}, whose rows have other columns: give each its own, or one"
                f" under {REST!r} for all that have none, with the name of the query in each row"
            )
    return SinkPerQuery({query: sink_of(each, f"{name}[{query!r}]") for query, each in given.items()})


def _sink_folder(given: str | Path, name: str) -> Path:
    """The folder that is meant: what looks like a table's or a format's name would make one that nobody looks for."""
    if is_table_name(given):
        looks = f"this looks like the name of a table, which is given as hw.to_table({given!r})"
    elif is_format_name(given):
        looks = "this is the name of a format, and a folder is written as Parquet"
    else:
        return local_path(name, given, ELSEWHERE)
    raise DataError(f"{name} is {given!r}: {looks}; {ELSEWHERE}; if a folder of this name is meant, give './{given}'")
