"""Arrow types, schemas and tables in the few ways that are needed everywhere: without dictionaries, and as bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headwater.errors import DataError


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type of a dictionary's values, of anything else its own: how a column is encoded does not matter.

    >>> plain_type(pa.dictionary(pa.int32(), pa.string())), plain_type(pa.int64())
    (DataType(string), DataType(int64))
    """
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def plain_array(array: pa.Array) -> pa.Array:
    """An array with its values in place, not as a dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def is_time_like(type_: pa.DataType) -> bool:
    """Timestamps, dates, times of day and durations: integers with a meaning."""
    tests = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_duration, pa.types.is_time)
    return any(test(type_) for test in tests)


def integers_of(array: pa.Array) -> pa.Array:
    """Integers, booleans, dates and times as int64; nulls stay.

    >>> integers_of(pa.array([3, None], pa.date32())).to_pylist(), integers_of(pa.array([True])).to_pylist()
    ([3, None], [1])
    """
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        array = array.cast(pa.int32())  # Arrow casts these to their own width only
    return array.cast(pa.int64())


def array_of_integers(integers: pa.Array, type_: pa.DataType) -> pa.Array:
    """The array of this type of which `integers_of` made these.

    >>> array_of_integers(pa.array([3, None]), pa.timestamp("us", "UTC")).type
    TimestampType(timestamp[us, tz=UTC])
    """
    if pa.types.is_date32(type_) or pa.types.is_time32(type_):
        integers = integers.cast(pa.int32())
    return integers if integers.type == type_ else integers.cast(type_)


def arrow_schema(schema: Any) -> pa.Schema:
    """The columns of events, as they were written: a schema, a mapping of names to types, or a list of both.

    >>> arrow_schema({"time": pa.int64()}).names
    ['time']
    """
    try:
        return schema if isinstance(schema, pa.Schema) else pa.schema(schema)
    except (TypeError, ValueError, pa.ArrowException) as error:
        form = 'give an Arrow schema, as pa.schema({"time": pa.int64()})'
        raise DataError(f"schema is {schema!r}: {form} ({error})") from error


def schema_to_bytes(schema: pa.Schema) -> bytes:
    """A schema as Arrow writes it."""
    return bytes(schema.serialize().to_pybytes())


def schema_from_bytes(data: bytes | memoryview) -> pa.Schema:
    """The schema of which `schema_to_bytes` made these.

    >>> schema_from_bytes(schema_to_bytes(pa.schema([("load", pa.float64())]))).names
    ['load']
    """
    return pa.ipc.read_schema(pa.py_buffer(data))


def type_to_bytes(type_: pa.DataType) -> bytes:
    """A type, as the only one of a schema."""
    return schema_to_bytes(pa.schema([("type", type_)]))


def type_from_bytes(data: bytes | memoryview) -> pa.DataType:
    """The type of which `type_to_bytes` made these."""
    return schema_from_bytes(data).field(0).type


def table_to_bytes(table: pa.Table | pa.RecordBatch, compression: str | None = None) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write(table)
    return bytes(sink.getvalue().to_pybytes())


def table_from_bytes(data: bytes | memoryview | pa.Buffer) -> pa.Table:
    """The table of which `table_to_bytes` made these.

    >>> table_from_bytes(table_to_bytes(pa.table({"load": [1, 2]}), "lz4"))["load"].to_pylist()
    [1, 2]
    """
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
