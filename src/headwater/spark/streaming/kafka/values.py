"""Parses Kafka messages, a JSON object each, as events: all at once, and one by one only where that fails.

What is no event stays in its place and says why (`engine.intake.arrivals`), as with lines of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.engine.intake.arrivals import UNREAD
from headwater.errors import DataError
from headwater.language.time_columns import ARRIVAL
from headwater.spark.formats.file_range import Wanted
from headwater.spark.formats.json_lines import JsonLines
from headwater.spark.formats.text import CARE_BYTES, PlacedText, with_care

KEY = "kafka_key"
TIMESTAMP = "kafka_timestamp"
#: Columns that are not in the values, but beside them.
BESIDE = {KEY: pa.string(), TIMESTAMP: pa.timestamp("ms", "UTC"), ARRIVAL: pa.int64()}


def batches_of(messages: Sequence[Any], source: str, wanted: Wanted) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Events at offsets without a gap, and the offset of the first. Values are parsed only if a column of them is wanted."""
    offsets = np.array([message.offset() for message in messages], np.int64)
    names = [name for name in wanted.columns if name not in BESIDE]
    start = 0
    for batch in _parsed(messages, source, names, wanted) if names else [None]:
        part = messages if batch is None else messages[start : start + len(batch)]
        whole = _with_beside(batch, part, source, wanted)
        at = offsets[start : start + len(whole)]
        ends = [*(np.flatnonzero(np.diff(at) != 1) + 1).tolist(), len(at)]
        for first, end in zip([0, *ends], ends):
            yield int(at[first]), whole.slice(first, end - first)
        start += len(whole)


def _parsed(messages: Sequence[Any], source: str, names: list[str], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    # A message without a value, as compacted topics have them, is no event.
    values = [message.value() or b"" for message in messages]
    try:
        # Only objects, each from its first to its last brace: so none can end in another message, and their number tells all.
        if all(value[:1] == b"{" and value[-1:] == b"}" for value in values):
            batch = JsonLines(b"").parse(b"\n".join(values), names, wanted.schema)
            if batch.num_rows == len(values):
                yield batch
                return
    except (pa.ArrowException, ValueError):
        pass
    middle = len(messages) // 2
    if middle and sum(map(len, values)) > CARE_BYTES:
        yield from _parsed(messages[:middle], source, names, wanted)
        yield from _parsed(messages[middle:], source, names, wanted)
        return
    placed = [PlacedText(value, f"offset {message.offset()}") for value, message in zip(values, messages)]
    yield with_care(JsonLines(b""), source, placed, names, wanted)


def _with_beside(batch: pa.RecordBatch | None, messages: Sequence[Any], source: str, wanted: Wanted) -> pa.RecordBatch:
    columns = {} if batch is None else dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, tick in ((TIMESTAMP, 1), (ARRIVAL, 1_000)):
        if name in wanted.columns:
            stamps = [message.timestamp() for message in messages]
            # The kind of a stamp is 0 where a message has none.
            columns[name] = pa.array([at * tick if kind else None for kind, at in stamps], BESIDE[name])
    if KEY in wanted.columns:
        columns |= _keys(messages, source, wanted.strict)
    return pa.RecordBatch.from_pydict(columns)


def _keys(messages: Sequence[Any], source: str, strict: bool) -> dict[str, pa.Array]:
    keys = [message.key() for message in messages]
    try:
        return {KEY: pa.array(keys, pa.binary()).cast(pa.string())}
    except pa.ArrowInvalid:
        texts = [None if key is None else _text(key) for key in keys]
    unread = [None if text is not None or key is None else repr(key) for key, text in zip(keys, texts)]
    if strict:
        row = next(row for row, text in enumerate(unread) if text is not None)
        raise DataError(f"{source}, offset {messages[row].offset()}: its key is no UTF-8 (strict)")
    return {KEY: pa.array(texts, pa.string()), UNREAD + KEY: pa.array(unread, pa.string())}


def _text(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def schema_of(values: Sequence[bytes]) -> pa.Schema:
    """The columns of the first values; a ValueError if none is a JSON object."""
    # Behind an object on its line nothing may follow, and between the lines of one object any blank will do.
    return JsonLines(b"").schema(b"\n".join(value.replace(b"\n", b" ") for value in values)).remove_metadata()
