"""Tables of any maker as Arrow record batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from headwater.errors import DataError
from headwater.language.arguments import data_kind
from headwater.language.schemas import refuse_doubled

#: A table of chunks shorter than this, on average, is put together first: every batch has its price.
CHUNK_ROWS = 1 << 14


def record_batches(table: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    """The rows of a table in batches of at most ``size``.

    >>> [len(batch) for batch in record_batches(pa.table({"a": [1, 2, 3]}), 2)]
    [2, 1]
    """
    chunks = table.column(0).num_chunks if table.num_columns else 1
    if chunks > 1 and table.num_rows < CHUNK_ROWS * chunks:
        table = table.combine_chunks()
    yield from table.to_batches(max_chunksize=size)


def arrow_table(data: Any) -> pa.Table:
    """An Arrow, pandas or Polars table (or anything with the Arrow interface) as an Arrow table, if possible without a copy."""
    table = _table(data)
    refuse_doubled(table.schema.names)
    plain = pa.schema([field.with_type(_plain_type(field.type)) for field in table.schema])
    return table if plain.equals(table.schema) else table.cast(plain)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    """The type itself; for views, which Polars gives and few of Arrow's functions take, the plain type of the same values."""
    if pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_binary_view(type_):
        return pa.binary()
    if pa.types.is_dictionary(type_):
        return pa.dictionary(type_.index_type, _plain_type(type_.value_type), type_.ordered)
    return type_


def _table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if type(data).__module__.startswith("pyspark."):
        # Before anything else: the newest ones speak Arrow, and all their rows would come to this process.
        raise DataError(
            f"data is {data_kind(data)}: hw.aggregate(df, queries) answers queries over a DataFrame of Spark where its rows are; "
            "hw.run and Engine take what is in this process"
        )
    if isinstance(data, str | os.PathLike):
        raise DataError(
            f"data is {str(data)!r}: hw.read(spark, path, queries) reads files; hw.run and Engine take tables, such as "
            "pyarrow.parquet.read_table(path)"
        )
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if type(data).__module__.partition(".")[0] == "pandas":
        refuse_doubled([str(name) for name in getattr(data, "columns", ())])
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, dict):
        return pa.table(data)
    raise DataError(
        f"data is a {type(data).__module__}.{type(data).__qualname__}: give an Arrow table or record batch, a pandas or Polars "
        "DataFrame, or a dictionary of columns"
    )
