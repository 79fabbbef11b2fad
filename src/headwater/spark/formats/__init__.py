"""Files of events, format by format: the columns of one, and its events as Arrow batches in the order of their offsets.

Only columns that are asked for are read. Whatever is wrong with a file, the error names it, and the place in it if that is known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from headwater.engine.intake.arrival_columns import with_arrivals
from headwater.errors import DataError, HeadwaterError
from headwater.language.schemas import refuse_doubled, type_kind
from headwater.language.time_columns import ARRIVAL
from headwater.spark.formats import csv_lines, ipc, json_lines, parquet, streams
from headwater.spark.formats.file_range import Batches, FileRange, Format, Passed, Wanted, sentence
from headwater.spark.formats.folder_columns import filled, folder_scalars
from headwater.spark.formats.text import text_format

__all__ = [
    "FORMATS",
    "Batches",
    "FileRange",
    "Format",
    "Passed",
    "Wanted",
    "batches",
    "check_kinds",
    "checked",
    "named",
    "row_count",
    "schema_of",
    "stamped",
    "without_arrivals",
]

T = TypeVar("T")

FORMATS: dict[str, Format] = {
    "parquet": parquet.FORMAT,
    "arrow": ipc.FORMAT,
    "csv": text_format(csv_lines.CsvLines, ".csv"),
    "json": text_format(json_lines.JsonLines, ".json", ".jsonl", ".ndjson"),
    "log": streams.LOG,
    "generated": streams.GENERATED,
}


def schema_of(kind: str, place: str) -> pa.Schema | None:
    """The columns of a file's events; None if it is so empty that it does not say."""
    schema = named(kind, place, FORMATS[kind].schema)
    if schema is None:
        return None
    refuse_doubled(schema.names, place)
    return schema.remove_metadata()


def row_count(kind: str, place: str) -> int:
    """How many events a file holds, where it says so."""
    parts = FORMATS[kind].parts
    assert parts is not None, "only asked of formats that tell it"
    return sum(named(kind, place, parts))


def named(kind: str, place: str, read: Callable[[str], T]) -> T:
    """What is read of a file; errors name the file."""
    try:
        return read(place)
    except HeadwaterError as error:
        if str(error).startswith(place):
            raise
        raise DataError(f"{place}: {error}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{place}: this is no {kind} file that can be read: {sentence(error)}") from error


def batches(kind: str, piece: FileRange, wanted: Wanted) -> Batches:
    """The events of a piece."""
    if piece.root is not None:
        wanted = replace(wanted, root=piece.root)
    plain = wanted if FORMATS[kind].stores_arrivals else without_arrivals(wanted)
    for place in piece.places:
        found = checked(kind, place, plain, FORMATS[kind].read(place, plain, piece.groups))
        yield from found if plain is wanted else stamped(found, os.stat(place).st_mtime_ns)


def without_arrivals(wanted: Wanted) -> Wanted:
    """What is asked of a file itself, at least one column: when its events arrived, the file's status tells."""
    if ARRIVAL not in wanted.columns:
        return wanted
    return replace(wanted, columns=[name for name in wanted.columns if name != ARRIVAL] or wanted.schema.names[:1])


def stamped(found: Batches, mtime_ns: int) -> Batches:
    """The events of a file that was last changed then: they have arrived with it."""
    for batch in found:
        yield with_arrivals(batch, mtime_ns // 1_000) if isinstance(batch, pa.RecordBatch) else batch


def checked(kind: str, place: str, wanted: Wanted, found: Batches) -> Batches:
    """Batches of a reader, checked for the columns that are asked for."""
    count = 0
    said = folder_scalars(place, wanted.root, wanted.schema)
    said = {name: value for name, value in said.items() if name in wanted.columns}
    try:
        for batch in filled(found, said) if said else found:
            if isinstance(batch, pa.RecordBatch):
                missing = [name for name in wanted.columns if name not in batch.schema.names]
                if missing:
                    raise DataError(f"{place}: there is no column {missing[0]!r}, which other files have")
                if count == 0 and FORMATS[kind].has_types:
                    check_kinds(place, batch.schema, wanted.schema, wanted.columns)
                count += len(batch)
            else:
                count += batch.count
            yield batch
    except HeadwaterError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{place}: broken behind row {count}: {sentence(error)}") from error


def check_kinds(place: str, schema: pa.Schema, others: pa.Schema, columns: Iterable[str]) -> None:
    """Refuse a file in which a column holds another kind of values than elsewhere: it is not one event that is wrong."""
    for name in columns:
        here, there = schema.field(name).type, others.field(name).type
        if type_kind(here) != type_kind(there) and not pa.types.is_null(here) and not pa.types.is_null(there):
            raise DataError(f"{place}: column {name!r} holds {here}, but {there} in other files")
