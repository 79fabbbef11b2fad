"""Tables of any maker as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from headwater.errors import DataError


def record_batches(data: Any, size: int) -> Iterator[pa.RecordBatch]:
    """The rows of an Arrow, pandas or Polars table (or anything with the Arrow interface) in batches of at most ``size``.

    >>> [len(batch) for batch in record_batches(pa.table({"a": [1, 2, 3]}), 2)]
    [2, 1]
    """
    if isinstance(data, pa.RecordBatch):
        for start in range(0, max(len(data), 1), size):
            yield data.slice(start, size)
        return
    yield from arrow_table(data).to_batches(max_chunksize=size)


def arrow_table(data: Any) -> pa.Table:
    """The data as an Arrow table, without a copy where that is possible."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if type(data).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    if isinstance(data, dict):
        return pa.table(data)
    raise DataError(
        f"data is a {type(data).__module__}.{type(data).__qualname__}: give an Arrow table or record batch, a pandas or Polars "
        "DataFrame, or a dictionary of columns"
    )
