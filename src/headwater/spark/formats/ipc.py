"""Arrow IPC files and streams, mapped into memory rather than read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.errors import DataError
from headwater.spark.formats.piece import BATCH_EVENTS, Batches, Format, Wanted, present, sentence


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


def _row_count(place: str) -> int:
    """A file keeps the counts in front of its batches; their buffers are not touched."""
    reader = _opened(place, ())
    if reader is None:
        return 0
    count = getattr(reader, "num_record_batches", None)
    each = reader if count is None else map(reader.get_batch, range(count))
    return sum(batch.num_rows for batch in each)


def _read(place: str, wanted: Wanted, groups: object) -> Batches:
    reader = _opened(place, wanted.columns)
    if reader is None:
        return
    count = getattr(reader, "num_record_batches", None)
    each = reader if count is None else map(reader.get_batch, range(count))
    number = 0
    while True:
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


FORMAT = Format((".arrow", ".ipc", ".feather", ".arrows"), _schema, _read, _row_count, has_types=True)
