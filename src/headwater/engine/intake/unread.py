"""Values and events that a reader could not read, as it says so: in columns of their own, beside those of the batch.

A column ``UNREAD`` + name holds the text of the values that are none of their type; the column itself has nulls there. The column
``UNREAD_LINE`` holds, for what is no event at all, the reason and the text. Columns take part in every slice and choice of rows,
so nothing has to be kept in step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

#: No column of anybody's data begins like this.
UNREAD = "\0"
UNREAD_LINE = "\0\0"
REASON = pa.struct([("reason", pa.string()), ("text", pa.string())])


def unread_values(batch: pa.RecordBatch, name: str) -> dict[int, str]:
    """By row the text of those values of a column that could not be read.

    >>> batch = pa.record_batch({"load": [1.5, None], "\\0load": [None, "many"]})
    >>> unread_values(batch, "load")
    {1: 'many'}
    """
    return _there(batch, UNREAD + name)


def unread_lines(batch: pa.RecordBatch) -> dict[int, str]:
    """By row the reasons why some events are none."""
    return {row: each["reason"] for row, each in _there(batch, UNREAD_LINE).items()}


def _there(batch: pa.RecordBatch, name: str) -> dict[int, Any]:
    if name not in batch.schema.names:
        return {}
    column = batch.column(name)
    rows = np.flatnonzero(np.asarray(column.is_valid())).tolist()
    return dict(zip(rows, column.take(pa.array(rows, pa.int64())).to_pylist(), strict=True))


def as_it_came(event: dict[str, Any]) -> dict[str, Any]:
    """An event for the side output, with the texts that could not be read in their places.

    >>> as_it_came({"time": 1, "load": None, "\\0load": "many"})
    {'time': 1, 'load': 'many'}
    """
    line = event.get(UNREAD_LINE)
    if line is not None:
        return {"line": line["text"]}
    texts = {name.removeprefix(UNREAD): value for name, value in event.items() if name.startswith(UNREAD)}
    plain = {name: value for name, value in event.items() if not name.startswith(UNREAD)}
    return plain | {name: text for name, text in texts.items() if text is not None and name in plain}
