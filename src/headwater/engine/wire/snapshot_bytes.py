"""A tree of plain values as bytes and back: the versioned form of a snapshot.

Holds None, booleans, integers, floats, text, bytes, lists, dictionaries with text keys, NumPy arrays of numbers, Arrow types and
chunks of events. Nothing is ever executed on reading: a snapshot is data.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrow import table_from_bytes, table_to_bytes, type_from_bytes, type_to_bytes
from headwater.engine.intake.chunk import Chunk, Values
from headwater.errors import FormatError

MAGIC = b"HWSN"
VERSION = 1
_HEADER = struct.Struct("<4sHI")  # magic, version, checksum of the rest
_LENGTH = struct.Struct("<Q")  # of the JSON part; behind the header, so that the checksum covers it


def to_bytes(tree: Any) -> bytes:
    """The bytes of a tree of values; `from_bytes` gives it back.

    >>> from_bytes(to_bytes({"a": [1, None, "x"], "b": np.arange(3)}))
    {'a': [1, None, 'x'], 'b': array([0, 1, 2])}
    """
    buffers = io.BytesIO()
    text = json.dumps(_packed(tree, buffers)).encode()
    body = _LENGTH.pack(len(text)) + text + buffers.getvalue()
    return _HEADER.pack(MAGIC, VERSION, zlib.crc32(body)) + body


def from_bytes(data: bytes) -> Any:
    if len(data) < _HEADER.size + _LENGTH.size:
        raise FormatError(
            f"a snapshot begins with {_HEADER.size + _LENGTH.size} bytes of header; these bytes are shorter"
        )
    magic, version, checksum = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if magic != MAGIC:
        raise FormatError("these bytes are not a headwater snapshot")
    if version != VERSION:
        raise FormatError(f"this snapshot has version {version}; this release reads version {VERSION}")
    if zlib.crc32(body) != checksum:
        raise FormatError("this snapshot is damaged: its checksum does not match")
    (length,) = _LENGTH.unpack_from(body)
    text, buffers = body[_LENGTH.size : _LENGTH.size + length], memoryview(body)[_LENGTH.size + length :]
    return _unpacked(json.loads(text), buffers)


def _append(data: bytes | memoryview, buffers: io.BytesIO) -> list[int]:
    start = buffers.tell()
    buffers.write(data)
    return [start, buffers.tell()]


def _packed(node: Any, buffers: io.BytesIO) -> Any:
    match node:
        case None | bool() | int() | float() | str():
            return node
        case np.bool_() | np.integer():
            return node.item()
        case bytes():
            return {"bytes": _append(node, buffers)}
        case np.ndarray():
            if node.dtype == object:
                raise TypeError("object arrays are kept inside chunks, with their Arrow type")
            data = np.ascontiguousarray(node)
            return {"array": _append(data.tobytes(), buffers), "dtype": data.dtype.str, "shape": list(data.shape)}
        case list() | tuple():
            return [_packed(item, buffers) for item in node]
        case dict():
            return {"dict": {key: _packed(value, buffers) for key, value in node.items()}}
        case pa.DataType():
            return {"type": _append(type_to_bytes(node), buffers)}
        case Chunk():
            columns = {name: _packed_values(values, buffers) for name, values in node.columns.items()}
            parts = [node.times, node.offsets, node.source_ids, node.source_names]
            return {"chunk": _packed(parts, buffers), "columns": columns}
    raise TypeError(f"a snapshot cannot hold a {type(node).__name__}")


def _packed_values(values: Values, buffers: io.BytesIO) -> Any:
    data: Any = values.data
    if data.dtype == object:
        data = table_to_bytes(pa.table({"data": pa.array(data.tolist(), values.type)}))
    return _packed([data, values.valid, values.type], buffers)


def _unpacked(node: Any, buffers: memoryview) -> Any:
    if isinstance(node, list):
        return [_unpacked(item, buffers) for item in node]
    if not isinstance(node, dict):
        return node
    if "dict" in node:
        return {key: _unpacked(value, buffers) for key, value in node["dict"].items()}
    if "bytes" in node:
        return bytes(buffers[slice(*node["bytes"])])
    if "type" in node:
        return type_from_bytes(bytes(buffers[slice(*node["type"])]))
    if "array" in node:
        flat = np.frombuffer(buffers[slice(*node["array"])], np.dtype(node["dtype"]))
        return flat.reshape(node["shape"]).copy()
    columns = {name: _values(_unpacked(packed, buffers)) for name, packed in node["columns"].items()}
    times, offsets, source_ids, source_names = _unpacked(node["chunk"], buffers)
    return Chunk(times, offsets, source_ids, source_names, columns)


def _values(parts: list[Any]) -> Values:
    data, valid, type_ = parts
    if isinstance(data, bytes):
        values = table_from_bytes(data).column(0).to_pylist()
        data = np.empty(len(values), object)
        data[:] = values
    return Values(data, valid, type_)
