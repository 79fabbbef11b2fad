"""The byte form of keys: integers in as few bytes as they need, everything else by value, with the Arrow type of each column."""

from __future__ import annotations

import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.arrow import plain_array, type_from_bytes, type_to_bytes
from headwater.base.packing import Reader, Writer
from headwater.engine.intake.keys import is_integer_key, to_int64
from headwater.engine.wire.parts import key_count
from headwater.errors import FormatError


def write_keys(writer: Writer, columns: list[pa.Array], key: Int64Array) -> None:
    """The keys, each once, and for each row which it has."""
    writer.number(len(columns))
    for column in map(plain_array, columns):
        _write_type(writer, column.type)
        if is_integer_key(column.type) and column.null_count == 0:
            writer.number(0).ints(to_int64(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column))
        else:
            writer.number(1).objects(column.to_pylist())
    writer.ints(key)


def read_keys(reader: Reader) -> tuple[list[pa.Array], Int64Array]:
    """What `write_keys` wrote."""
    columns = []
    for _ in range(reader.count()):
        type_ = _read_type(reader)
        is_plain = reader.number() == 0
        columns.append(pa.array(reader.ints()).cast(type_) if is_plain else pa.array(reader.objects(), type_))
    key = reader.ints()
    size = key_count(columns)
    if len(key) and not 0 <= int(key.min()) <= int(key.max()) < size or any(len(c) != size for c in columns):
        raise FormatError("a part names keys that it does not list")
    return columns, key


def _write_type(writer: Writer, type_: pa.DataType) -> None:
    """By its name where that is enough, else as Arrow writes it."""
    name = str(type_)
    try:
        plain = pa.type_for_alias(name) == type_
    except ValueError:
        plain = False
    writer.blob(name.encode() if plain else b"")
    if not plain:
        writer.blob(type_to_bytes(type_))


def _read_type(reader: Reader) -> pa.DataType:
    name = reader.blob().decode()
    if name:
        try:
            return pa.type_for_alias(name)
        except ValueError as error:
            raise FormatError(f"no type is called {name!r}") from error
    return type_from_bytes(reader.blob())
