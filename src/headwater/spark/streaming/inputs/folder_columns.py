"""The columns of a growing folder: told from the files that are there at first, and kept beside the log of seen files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.errors import DataError
from headwater.logs.files import create
from headwater.spark.batch.columns import LOOKS_MAX, Types, columns_of
from headwater.spark.formats import FileRange, schema_of
from headwater.spark.streaming.inputs.folder_listing import kind_of, new_names

VERSION = 1
_NAME = "columns.txt"


def kept_schema(
    kept: Path, root: Path, format: str | None, schema: pa.Schema | Types | None, types: Types | None, strict: bool
) -> pa.Schema:
    """The columns that are given, else those that were kept, else those of the files that are there now, which are kept."""
    if schema is not None and types is not None:
        raise DataError(
            "schema= and types= are both given: a schema says of which types the columns are; leave types out"
        )
    if schema is not None:
        return _given(schema)
    told = {} if types is None else {name: str(type_) for name, type_ in types.items()}
    found = _kept(kept / _NAME, told)
    if found is not None:
        return found
    looked = _of_files(root, format, types, strict)
    kept.mkdir(parents=True, exist_ok=True)
    data = {"version": VERSION, "types": told, "schema": schema_to_bytes(looked).hex()}
    try:
        create(kept / _NAME, json.dumps(data).encode())
    except FileExistsError:
        return kept_schema(kept, root, format, schema, types, strict)
    return looked


def _given(schema: pa.Schema | Types) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema.remove_metadata()
    try:
        return pa.schema(list(schema.items()) if isinstance(schema, Mapping) else schema)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(
            f"schema is {schema!r}: give names and Arrow's types, like {{'time': 'int64'}} ({error})"
        ) from None


def _kept(path: Path, told: dict[str, str]) -> pa.Schema | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        data: dict[str, Any] = json.loads(text)
        version, types = data["version"], data["types"]
        schema = schema_from_bytes(bytes.fromhex(data["schema"])) if version == VERSION else None
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise DataError(f"{path}: the columns kept here are damaged: {error}") from error
    if version != VERSION:
        raise DataError(f"{path}: the columns kept here have version {version}; this release reads version {VERSION}")
    if types != told:
        raise DataError(f"{path}: types are {told}, but were {types} when the stream began; they cannot change")
    return schema


def _of_files(root: Path, format: str | None, types: Types | None, strict: bool) -> pa.Schema:
    """The columns of the first file that can be read, in types wide enough for others of its format."""
    kind = format
    pieces: list[FileRange] = []
    for name in new_names(root, set()).names:
        own = kind_of(name, format)
        if own is None or kind not in (None, own) or len(pieces) >= LOOKS_MAX:
            continue
        place = str(root / name)
        try:
            is_telling = schema_of(own, place) is not None
        except DataError:
            if strict:
                raise
            continue
        if is_telling:
            kind = own
            pieces.append(FileRange(name, name, (place,), 0))
    if kind is None or not pieces:
        raise DataError(
            f"{root}: there are no files yet that say which columns there are; give schema=, like {{'time': 'int64'}}"
        )
    return columns_of(kind, pieces, types).schema
