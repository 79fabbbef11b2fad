"""Columns that the names of folders say: the events of `day=1/part-0.parquet` have the column `day`, as in Hive and Spark.

What an event has itself counts: a folder says only what its files lack. All values of a column are integers, or dates, or else
text; `__HIVE_DEFAULT_PARTITION__` is null.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import date
from urllib.parse import unquote

import pyarrow as pa

from headwater.errors import DataError
from headwater.spark.formats.file_range import Batches

_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def folder_values(name: str) -> dict[str, str | None]:
    """What the folders of a file say, by the file's name below the root.

    >>> folder_values("day=2026-11-18/city=S%C3%A3o Paulo/part-0.csv"), folder_values("a/b=1.csv")
    ({'day': '2026-11-18', 'city': 'São Paulo'}, {})
    """
    pairs = (folder.partition("=") for folder in name.split("/")[:-1])
    told = {unquote(key): unquote(value) for key, equals, value in pairs if key and equals}
    return {key: None if value in ("", _NULL) else value for key, value in told.items()}


def folder_fields(names: Iterable[str]) -> dict[str, pa.Field]:
    """The columns that the folders of all files say, in types that hold all values of each.

    >>> folder_fields(["day=1/a", "day=02/a"])["day"].type, folder_fields(["day=1/a", "day=x/a"])["day"].type
    (DataType(int64), DataType(string))
    """
    found: dict[str, list[str]] = {}
    for name in names:
        for column, value in folder_values(name).items():
            found.setdefault(column, []).extend([] if value is None else [value])
    return {column: pa.field(column, _type(values)) for column, values in found.items()}


def _type(values: list[str]) -> pa.DataType:
    if values and all(map(_INTEGER.fullmatch, values)):
        return pa.int64()
    return pa.date32() if values and all(map(_is_date, values)) else pa.string()


def _is_date(value: str) -> bool:
    try:
        return _DATE.fullmatch(value) is not None and bool(date.fromisoformat(value))
    except ValueError:
        return False


def folder_scalars(place: str, root: str | None, schema: pa.Schema) -> dict[str, pa.Scalar]:
    """The values of those columns of a schema that a file's folders below the root say."""
    if root is None:
        return {}
    told = folder_values(os.path.relpath(place, root))
    return {
        name: _scalar(place, name, text, schema.field(name).type) for name, text in told.items() if name in schema.names
    }


def _scalar(place: str, name: str, text: str | None, type_: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(None, type_) if text is None else pa.array([text.removeprefix("+")]).cast(type_)[0]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"{place}: its folder says {name}={text}, but column {name!r} holds {type_}") from None


def filled(found: Batches, values: Mapping[str, pa.Scalar]) -> Batches:
    """Batches with what their events lack and folders say."""
    for batch in found:
        if isinstance(batch, pa.RecordBatch):
            arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name, value in values.items():
                # Of lines of JSON each may have it or not.
                own = arrays.get(name)
                if own is None or own.null_count == len(own):
                    arrays[name] = pa.repeat(value, batch.num_rows)
                elif own.null_count and value.is_valid:
                    arrays[name] = own.fill_null(value.cast(own.type))
            yield pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        else:
            yield batch
