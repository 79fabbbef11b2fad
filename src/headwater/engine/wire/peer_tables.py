"""Arrow streams that peers have sent: bounded before they are unpacked, and checked in full before anything reads them.

Arrow trusts what it reads: an offset that points out of a buffer ends the process, and a few packed bytes may stand for
gigabytes. So compressed streams are refused unread, and whatever has offsets, dictionaries or text is validated.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from headwater.base.arrow import table_from_bytes
from headwater.base.packing import Bytes
from headwater.errors import FormatError
from headwater.language.schemas import type_kind

#: What the columns of one table may take when dictionaries are replaced by their values.
UNPACKED_BYTES_MAX = 1 << 28
#: A row takes at least a bit in some column.
ROWS_PER_BYTE = 8
#: Where fields stand in the tables of Arrow's metadata (Message.fbs): the header of a message and its kind, the compression of a
#: batch, and the batch of a dictionary.
_HEADER_KIND, _HEADER, _COMPRESSION, _BATCH_OF_DICTIONARY = 1, 2, 3, 1
_SCHEMA_KIND, _DICTIONARY_KIND = 1, 2
_INT32, _UINT32, _UINT16 = (struct.Struct(form) for form in ("<i", "<I", "<H"))
#: Types that need no look at each value: any bits are a value.
_ANY_BITS: Final = (pt.is_integer, pt.is_floating, pt.is_boolean, pt.is_timestamp, pt.is_duration, pt.is_null)


def table_from_peer(data: Bytes) -> pa.Table:
    """The table that a peer sent as an Arrow stream; anything that could not be read in peace is a `FormatError`.

    >>> from headwater.base.arrow import table_to_bytes
    >>> table_from_peer(table_to_bytes(pa.table({"load": [1, 2]})))["load"].to_pylist()
    [1, 2]
    >>> table_from_peer(table_to_bytes(pa.table({"load": [1, 2]}), "lz4"))
    Traceback (most recent call last):
    ...
    headwater.errors.FormatError: a table is compressed: tables of peers travel as they are
    """
    try:
        _refuse_compressed(data)
        table = table_from_bytes(data)
        if table.num_rows > ROWS_PER_BYTE * len(data):
            raise FormatError(f"{table.num_rows} rows cannot be in {len(data)} bytes")
        for field in table.schema:
            if not _may_travel(field.type):
                raise FormatError(f"column {field.name!r} is {field.type}, which does not travel")
        table.validate()
        for column in table.columns:
            if not any(test(column.type) for test in _ANY_BITS):
                column.validate(full=True)
        _refuse_large(table)
        return table
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"a table is damaged: {error}") from error


def _may_travel(type_: pa.DataType) -> bool:
    """Whether leaves send columns of this type: plain ones and dictionaries of them, no views and nothing nested."""
    if pt.is_dictionary(type_):
        type_ = type_.value_type
        if pt.is_dictionary(type_):
            return False
    is_view = pt.is_string_view(type_) or pt.is_binary_view(type_)
    return type_kind(type_) is not None and not is_view and not isinstance(type_, pa.BaseExtensionType)


def _refuse_compressed(data: Bytes) -> None:
    """Look at the metadata of each batch, which Arrow has verified, without reading any."""
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(data)):
        head = memoryview(message.metadata)
        root = _UINT32.unpack_from(head, 0)[0]
        kind = _field(head, root, _HEADER_KIND)
        if not kind or head[kind] == _SCHEMA_KIND:
            continue
        batch = _table(head, root, _HEADER)
        if head[kind] == _DICTIONARY_KIND:
            batch = _table(head, batch, _BATCH_OF_DICTIONARY)
        if _field(head, batch, _COMPRESSION):
            raise FormatError("a table is compressed: tables of peers travel as they are")


def _field(head: memoryview, table: int, number: int) -> int:
    """Where a field of a table stands; 0 if it is left out."""
    fields = table - _INT32.unpack_from(head, table)[0]
    slot = 4 + 2 * number
    is_there = slot < _UINT16.unpack_from(head, fields)[0]
    offset = _UINT16.unpack_from(head, fields + slot)[0] if is_there else 0
    return table + offset if offset else 0


def _table(head: memoryview, table: int, number: int) -> int:
    place = _field(head, table, number)
    return place + int(_UINT32.unpack_from(head, place)[0])


def _refuse_large(table: pa.Table) -> None:
    """A short index may stand for a long text, many times."""
    total = 0
    for column in table.columns:
        for chunk in column.chunks if pt.is_dictionary(column.type) else ():
            kind = type_kind(chunk.type.value_type)
            if kind in ("text", "bytes"):
                lengths = pc.binary_length(chunk.dictionary.cast(pa.large_binary()))
                total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    if total > UNPACKED_BYTES_MAX:
        raise FormatError(f"a table would take {total} bytes, and {UNPACKED_BYTES_MAX} are allowed")
