"""Arrow types that Spark has, for those that it has not."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: Types that Spark has not, and the smallest of its own that holds all their values.
_NEAREST = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def spark_types(schema: pa.Schema) -> tuple[pa.Schema, StructType]:
    """The schema that batches have to be cast to before Spark takes them, and what Spark calls it."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    near = pa.schema([pa.field(field.name, nearest(field.type), field.nullable) for field in schema])
    try:
        struct = from_arrow_schema(near, prefer_timestamp_ntz=True)
    except Exception as error:
        raise DataError(f"Spark has no type for one of the columns {near.names}: {error}") from error
    return to_arrow_schema(struct, **in_utc(to_arrow_schema)), struct


def nearest(type_: pa.DataType) -> pa.DataType:
    """The type itself if Spark has it, else the next one that holds its values.

    >>> nearest(pa.dictionary(pa.int32(), pa.string())), nearest(pa.list_(pa.uint8()))
    (DataType(string), ListType(list<item: int16>))
    """
    if pa.types.is_dictionary(type_):
        return nearest(type_.value_type)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(nearest(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(nearest(field.type)) for field in type_])
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if pa.types.is_duration(type_):
        return pa.duration("us")
    if pa.types.is_fixed_size_binary(type_):
        return pa.binary()
    return _NEAREST.get(type_, type_)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of events in the types of Spark."""
    arrays = []
    for field in schema:
        array = batch.column(batch.schema.get_field_index(field.name))
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        # Nanoseconds are cut, as Spark does when it reads them.
        arrays.append(array if array.type == field.type else array.cast(field.type, safe=not _is_finer(array.type)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_finer(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_duration(type_)) and type_.unit == "ns"


def in_utc(function: Callable[..., Any]) -> dict[str, Any]:
    """How a function of PySpark that makes Arrow types is told that timestamps are in UTC; before 4.2 it knows nothing else."""
    return {"timezone": "UTC"} if "timezone" in signature(function).parameters else {}
