"""Files of events, format by format: the columns of one, and its events as Arrow batches in the order of their offsets.

Only columns that are asked for are read. Whatever is wrong with a file, the error names it, and the place in it if that is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.errors import DataError, HeadwaterError
from headwater.logs import Log
from headwater.own import load_path

#: Events of one batch: enough to forget what a batch costs, few enough for the cache.
BATCH_EVENTS = 1 << 20
#: Text is parsed in blocks of so many bytes.
BLOCK_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Piece:
    """One source, or with ``groups`` a stretch of one: row groups [first, last) of a Parquet file.

    ``source`` names it among all, ``home`` the file it is of; ``size`` in bytes says how much work it is.
    """

    source: str
    home: str
    place: str
    size: int
    groups: tuple[int, int] | None = None


Columns = Sequence[str]
#: Reads the columns of a piece; the schema says of which types they are where the file itself does not.
Read = Callable[[Piece, Columns, pa.Schema], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Format:
    """How files of one kind are known by their names, and read."""

    suffixes: tuple[str, ...]
    schema: Callable[[str], pa.Schema | None]
    read: Read


def schema_of(kind: str, place: str) -> pa.Schema | None:
    """The columns of a file's events; None if it is so empty that it does not say."""
    try:
        return FORMATS[kind].schema(place)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{place}: this is no {kind} file that can be read: {_sentence(error)}") from error


def batches(kind: str, piece: Piece, columns: Columns, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The events of a piece."""
    count = 0
    try:
        for batch in FORMATS[kind].read(piece, columns, schema):
            missing = [name for name in columns if name not in batch.schema.names]
            if missing:
                raise DataError(f"{piece.place}: there is no column {missing[0]!r}, which other files have")
            yield batch
            count += len(batch)
    except HeadwaterError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{piece.place}: broken behind row {count}: {_sentence(error)}") from error


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())


# --- Parquet ---


def _parquet_schema(place: str) -> pa.Schema:
    from pyarrow import parquet

    return parquet.read_schema(place, memory_map=True)


def _parquet(piece: Piece, columns: Columns, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    with parquet.ParquetFile(piece.place, memory_map=True) as file:
        first, last = piece.groups or (0, file.metadata.num_row_groups)
        present = [name for name in columns if name in file.schema_arrow.names]
        for group in range(first, last):
            try:
                # One thread: each task has one core.
                yield from file.iter_batches(BATCH_EVENTS, row_groups=[group], columns=present, use_threads=False)
            except (pa.ArrowException, OSError) as error:
                byte = file.metadata.row_group(group).column(0).file_offset or _group_start(file, group)
                raise DataError(f"{piece.place}, row group {group}, byte {byte}: {_sentence(error)}") from error


def _group_start(file: Any, group: int) -> int:
    column = file.metadata.row_group(group).column(0)
    return int(column.dictionary_page_offset or column.data_page_offset)


def row_groups(place: str) -> list[int]:
    """The bytes of each row group of a Parquet file."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(place, memory_map=True)
    return [metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)]


# --- Arrow IPC ---


def _open_ipc(place: str, columns: Columns | None = None) -> Any:
    """The batches of an IPC file or stream, mapped into memory rather than read."""
    if Path(place).stat().st_size == 0:
        return None
    source = pa.memory_map(place)
    try:
        reader: Any = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)
    if columns is not None:
        wanted = [reader.schema.get_field_index(name) for name in columns if name in reader.schema.names]
        source.seek(0)
        reader = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False))
    return reader


def _ipc_schema(place: str) -> pa.Schema | None:
    reader = _open_ipc(place)
    return None if reader is None else reader.schema


def _ipc(piece: Piece, columns: Columns, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    reader = _open_ipc(piece.place, columns)
    if reader is None:
        return
    count = getattr(reader, "num_record_batches", None)
    each = reader if count is None else map(reader.get_batch, range(count))
    for batch in each:
        yield from _of_size(batch.select([name for name in columns if name in batch.schema.names]))


def _of_size(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(batch), BATCH_EVENTS):
        yield batch.slice(start, BATCH_EVENTS)


# --- text ---


def _csv(place: str, columns: Columns | None = None, schema: pa.Schema | None = None) -> Any:
    from pyarrow import csv

    types = {} if schema is None else {field.name: _in_text(field.type) for field in schema}
    convert = csv.ConvertOptions(include_columns=columns, column_types=types)
    # As Spark reads it: nothing at all is null, two quotes are an empty text.
    convert.null_values, convert.strings_can_be_null, convert.quoted_strings_can_be_null = [""], True, False
    options = csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
    return csv.open_csv(_text(place), read_options=options, convert_options=convert)


def _json(place: str, columns: Columns | None = None, schema: pa.Schema | None = None) -> Any:
    from pyarrow import json as lines

    parse = None
    if schema is not None and columns is not None:
        wanted = pa.schema([(name, _in_text(schema.field(name).type)) for name in columns if name in schema.names])
        parse = lines.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    options = lines.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
    return lines.open_json(_text(place), read_options=options, parse_options=parse)


def _in_text(type_: pa.DataType) -> pa.DataType:
    """A column that had no value where the types were looked for is read as text."""
    return pa.string() if pa.types.is_null(type_) else type_


def _text(place: str) -> Any:
    return pa.input_stream(place, compression="gzip" if place.endswith(".gz") else None)


def _is_empty(place: str) -> bool:
    with _text(place) as stream:
        return len(stream.read(1)) == 0


def _text_format(open_text: Callable[..., Any], *suffixes: str) -> Format:
    def schema(place: str) -> pa.Schema | None:
        return None if _is_empty(place) else open_text(place).schema

    def read(piece: Piece, columns: Columns, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if not _is_empty(piece.place):
            yield from open_text(piece.place, columns, schema)

    return Format((*suffixes, *(f"{suffix}.gz" for suffix in suffixes)), schema, read)


# --- logs and generators: a place is not a file ---


def _log_parts(place: str) -> tuple[Log, int]:
    path, _, partition = place.rpartition("#")
    return Log.open(path), int(partition)


def _log_schema(place: str) -> pa.Schema | None:
    log, partition = _log_parts(place)
    return next((stored.batch.schema for stored in log.reader(partition).read()), None)


def _log(piece: Piece, columns: Columns, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    log, partition = _log_parts(piece.place)
    for stored in log.reader(partition).read():
        yield stored.batch.select([name for name in columns if name in stored.batch.schema.names])


def _generated(place: str) -> Any:
    """The generator that a place describes: where its class is, and the values of its fields."""
    path, fields = json.loads(place)
    return load_path(path)(**fields)


def _generated_schema(place: str) -> pa.Schema | None:
    return next((batch.schema for batch in _generated(place).batches(1)), None)


def _generate(piece: Piece, columns: Columns, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in _generated(piece.place).batches(BATCH_EVENTS // 4):
        yield batch.select(list(columns))


FORMATS: dict[str, Format] = {
    "parquet": Format((".parquet", ".pq"), _parquet_schema, _parquet),
    "arrow": Format((".arrow", ".ipc", ".feather", ".arrows"), _ipc_schema, _ipc),
    "csv": _text_format(_csv, ".csv"),
    "json": _text_format(_json, ".json", ".jsonl", ".ndjson"),
    "log": Format((), _log_schema, _log),
    "generated": Format((), _generated_schema, _generate),
}
