"""Arrow IPC files and streams, mapped into memory rather than read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.errors import DataError
from headwater.spark.formats.file_range import BATCH_EVENTS, Batches, Format, Wanted, present, sentence


def _opened(place: str, columns: Sequence[str] | None = None) -> Any:
    """The batches of a file or stream; None if there is nothing at all in it."""
    if Path(place).stat().st_size == 0:
        return None
    source = pa.memory_map(place)
    try:
        reader: Any = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)
    if columns is not None:
        wanted = [reader.schema.get_field_index(name) for name in present(columns, reader.schema)]
        source.seek(0)
        reader = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False))
    return reader


def _schema(place: str) -> pa.Schema | None:
    reader = _opened(place)
    return None if reader is None else reader.schema


def _parts(place: str) -> list[int]:
    """The rows of each record batch. A file keeps the counts in front of its batches; their buffers are not touched."""
    reader = _opened(place, ())
    return [] if reader is None else [batch.num_rows for batch in _each(reader, 0)]


def _each(reader: Any, first: int) -> Iterator[Any]:
    """The record batches from one on; a stream has to be gone through for that, a file says where they are."""
    count = getattr(reader, "num_record_batches", None)
    return islice(reader, first, None) if count is None else map(reader.get_batch, range(first, count))


def _read(place: str, wanted: Wanted, groups: tuple[int, int] | None) -> Batches:
    """``groups``: only the record batches [first, last)."""
    reader = _opened(place, wanted.columns)
    if reader is None:
        return
    number, last = groups or (0, None)
    each = _each(reader, number)
    while number != last:
        try:
            batch = next(each, None)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{place}, record batch {number}: {sentence(error)}") from error
        if batch is None:
            return
        chosen = batch.select(present(wanted.columns, batch.schema))
        for start in range(0, len(chosen), BATCH_EVENTS):
            yield chosen.slice(start, BATCH_EVENTS)
        number += 1


FORMAT = Format((".arrow", ".ipc", ".feather", ".arrows"), _schema, _read, _parts, has_types=True)
