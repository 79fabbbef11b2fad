"""The sink that a user means by what was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.errors import DataError
from headwater.language.places import is_format_name, is_table_name, local_path
from headwater.spark.streaming.sinks.folder import FolderSink
from headwater.spark.streaming.sinks.sink import ELSEWHERE, CallableSink, ConsoleSink, MemorySink, Sink


def sink_of(given: Any, name: str = "sink") -> Sink:
    """The sink for "memory", "console", a folder, a function of (rows, batch), or a sink itself."""
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


def _sink_folder(given: str | Path, name: str) -> Path:
    """The folder that is meant: what looks like a table's or a format's name would make one that nobody looks for."""
    if is_table_name(given):
        looks = "this looks like the name of a table, and rows are not written to tables"
    elif is_format_name(given):
        looks = "this is the name of a format, and a folder is written as Parquet"
    else:
        return local_path(name, given, ELSEWHERE)
    raise DataError(f"{name} is {given!r}: {looks}; {ELSEWHERE}; if a folder of this name is meant, give './{given}'")
