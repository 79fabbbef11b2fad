"""Result rows as messages: a JSON object for each, exact to the last digit, and a key that says which row it is.

Numbers keep all their digits; what JSON has no numbers for is text ("NaN", "Infinity"), and so are times (ISO 8601) and bytes
(base64).
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from headwater.errors import DataError

#: The key columns of a query by its name.
KeysOf: TypeAlias = Callable[[str], Sequence[str]]


def json_rows(rows: pa.Table) -> list[bytes]:
    """Each row as one line of JSON.

    >>> json_rows(pa.table({"query": ["load"], "peak": [float("inf")], "n": [2**60]}))
    [b'{"query":"load","peak":"Infinity","n":1152921504606846976}']
    """
    names = [f"{_text(name)}:" for name in rows.column_names]
    columns = [_texts(_whole(column)) for column in rows.columns]
    objects = (",".join(map(str.__add__, names, values)) for values in zip(*columns))
    return [f"{{{each}}}".encode() for each in objects]


def row_keys(rows: pa.Table, keys_of: KeysOf, only: str | None = None) -> tuple[list[bytes], list[int]]:
    """For each row the key of its message, the same whenever it is written, and a number for its query and keys alone.

    ``only``: the query of all rows, which then do not say it.

    >>> rows = pa.table({"query": ["load"], "window_start": [0], "window_end": [10], "house": [3], "revision": [1]})
    >>> row_keys(rows, lambda query: ["house"])[0]
    [b'["load",0,10,{"house":3},1]']

    A window of a count has its positions there, for it has no bounds.
    """
    count = rows.num_rows
    starts, ends = _place(rows)
    queries = _whole(rows.column("query")).to_pylist() if only is None else [only] * count
    groups = [""] * count
    for query in dict.fromkeys(queries):
        here = np.array([name == query for name in queries])
        columns = [*keys_of(query), *(["node"] if "node" in rows.column_names else [])]
        found = {name: _texts(_whole(rows.column(name)).filter(pa.array(here))) for name in dict.fromkeys(columns)}
        for place, row in enumerate(np.flatnonzero(here).tolist()):
            # Queries without this column, and windows of no node, have null in it.
            pairs = [f"{_text(name)}:{values[place]}" for name, values in found.items() if values[place] != "null"]
            groups[row] = f"{{{','.join(pairs)}}}"
    names = list(map(_text, queries))
    parts = zip(names, starts, ends, groups, _texts(_whole(rows.column("revision"))))
    numbers = [zlib.crc32(f"{name}{group}".encode()) for name, group in zip(names, groups)]
    return [f"[{','.join(each)}]".encode() for each in parts], numbers


def _place(rows: pa.Table) -> list[list[str]]:
    """The bounds of each window, or its positions where it has no bounds."""
    bounds = [_texts(_whole(rows.column(name))) for name in ("window_start", "window_end")]
    if "position_start" not in rows.column_names:
        return bounds
    positions = [_texts(_whole(rows.column(name))) for name in ("position_start", "position_end")]
    return [
        [place if bound == "null" else bound for bound, place in zip(*pair)]
        for pair in zip(bounds, positions, strict=True)
    ]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _texts(array: pa.Array) -> list[str]:
    """Each value of a column as JSON."""
    type_ = array.type
    if pt.is_dictionary(type_):
        return _texts(array.dictionary_decode())
    if pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_):
        return _lists(array)
    if pt.is_struct(type_):
        return _structs(array)
    if pt.is_timestamp(type_):
        moments = array.cast(pa.string()).to_pylist()
        return ["null" if moment is None else f'"{moment.replace(" ", "T", 1)}"' for moment in moments]
    if pt.is_date(type_) or pt.is_time(type_):
        array = array.cast(pa.string())
    elif pt.is_duration(type_):
        array = array.cast(pa.int64())
    write = next((write for is_kind, write in _WRITERS if is_kind(array.type)), None)
    if write is None:
        raise DataError(f"a column of type {type_} cannot be written as JSON")
    return ["null" if value is None else write(value) for value in array.to_pylist()]


def _lists(array: pa.Array) -> list[str]:
    inner = _texts(array.flatten())
    texts, at = [], 0
    for length in array.value_lengths().to_pylist() if not pt.is_fixed_size_list(array.type) else _fixed(array):
        texts.append("null" if length is None else f"[{','.join(inner[at : at + length])}]")
        at += length or 0
    return texts


def _fixed(array: pa.Array) -> list[int | None]:
    return [array.type.list_size if is_there else None for is_there in array.is_valid().to_pylist()]


def _structs(array: pa.Array) -> list[str]:
    names = [f"{_text(field.name)}:" for field in array.type]
    columns = [_texts(field) for field in array.flatten()]
    texts = [f"{{{','.join(map(str.__add__, names, values))}}}" for values in zip(*columns)] or ["{}"] * len(array)
    return [text if is_there else "null" for text, is_there in zip(texts, array.is_valid().to_pylist())]


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_fixed_size_binary(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_))


_WRITERS: list[tuple[Callable[[Any], bool], Callable[[Any], str]]] = [
    (pt.is_integer, str),
    (pt.is_floating, _float),
    (_is_text, _text),
    (pt.is_boolean, lambda value: "true" if value else "false"),
    (pt.is_decimal, lambda value: format(value, "f")),
    (_is_bytes, lambda value: f'"{base64.b64encode(value).decode()}"'),
    (pt.is_null, str),
]
