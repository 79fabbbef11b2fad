"""The schema of all files together: column names and types, read from the files before any job runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os.path import relpath
from typing import TypeAlias

import pyarrow as pa

from headwater.errors import DataError
from headwater.language.renames import Renaming
from headwater.language.schemas import type_kind
from headwater.spark.formats import FORMATS, FileRange, check_kinds, schema_of
from headwater.spark.formats.folder_columns import folder_fields, folder_scalars

#: How many files are asked for their columns; what is wrong with others is said when they are read.
LOOKS_MAX = 1000

Types: TypeAlias = "Mapping[str, pa.DataType | str]"


@dataclass(frozen=True, slots=True)
class Columns:
    """``schema``: columns and types that hold the values of all files that say of which types theirs are, which are ``files``."""

    schema: pa.Schema
    files: list[tuple[str, pa.Schema]]
    #: Whether files were left out because there are more than LOOKS_MAX.
    is_partial: bool = False

    def are_uniform(self, names: Iterable[str]) -> bool:
        """Whether all files are known to hold these columns in the same types: then no value of any is malformed."""
        wanted = [self.schema.field(name) for name in names]
        if self.is_partial or not self.files:
            return False
        return all(schema.field(field.name).type == field.type for _, schema in self.files for field in wanted)

    def renamed(self, renaming: Renaming) -> Columns:
        """The same columns under the names that users give them."""
        if not renaming:
            return self
        files = [(place, renaming.fields(schema)) for place, schema in self.files]
        return Columns(renaming.schema(self.schema), files, self.is_partial)

    def check(self, names: Iterable[str]) -> None:
        """Refuse files that lack one of these columns, or hold something else in it."""
        needed = list(names)
        for place, schema in self.files:
            missing = [name for name in needed if name not in schema.names]
            if missing:
                raise DataError(f"{place}: there is no column {missing[0]!r}, which other files have")
            check_kinds(place, schema, self.schema, needed)


def columns_of(kind: str, pieces: Sequence[FileRange], types: Types | None = None) -> Columns:
    """The columns of the first file that has any; where files say of which types these are, wide enough for all of them.

    Behind them those that no file has, but names of folders say.
    """
    has_types = FORMATS[kind].has_types
    files: list[tuple[str, pa.Schema]] = []
    places = [place for piece in pieces for place in piece.places]
    for place in places[:LOOKS_MAX]:
        schema = schema_of(kind, place)
        if schema is not None:
            files.append((place, schema))
            # Text: once some value of each column has been seen.
            if not has_types and not any(pa.types.is_null(field.type) for field in _together(files)):
                break
    if not files:
        raise DataError(f"{pieces[0].places[0]}: all files are empty, so nothing says which columns there are")
    # Text is read as the first file that has a value seems to say; what does not fit is malformed, event by event.
    together = _together(files)
    said = _said(pieces, together, types)
    told = _as_told(together, {name: type_ for name, type_ in (types or {}).items() if name not in said}, kind)
    for field in said.values():
        told = told.append(field)
    if said and has_types:
        root = next(piece.root for piece in pieces if piece.root is not None)
        files = [(place, _with_said(place, root, schema, said)) for place, schema in files]
    return Columns(told, files if has_types else [], len(places) > LOOKS_MAX)


def _said(pieces: Sequence[FileRange], schema: pa.Schema, types: Types | None) -> dict[str, pa.Field]:
    """The columns that folders say and files lack, of the types that the user gives or their values have."""
    names = [relpath(place, piece.root) for piece in pieces if piece.root is not None for place in piece.places]
    said = {name: field for name, field in folder_fields(names).items() if name not in schema.names}
    given = {name: type_ for name, type_ in (types or {}).items() if name in said}
    return said | {name: pa.field(name, _type(name, type_)) for name, type_ in given.items()}


def _with_said(place: str, root: str, schema: pa.Schema, said: Mapping[str, pa.Field]) -> pa.Schema:
    """The columns of a file and its folders; a value that does not fit is an error."""
    for name in folder_scalars(place, root, pa.schema(list(said.values()))):
        schema = schema if name in schema.names else schema.append(said[name])
    return schema


def _together(files: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    joined = files[0][1]
    for _, schema in files[1:]:
        joined = joined if schema.equals(joined) else _joined(joined, schema)
    return joined


def _joined(schema: pa.Schema, other: pa.Schema) -> pa.Schema:
    """The columns of the first, in types that hold the values of both."""
    return pa.schema(
        [
            pa.field(field.name, _wider(field.type, other.field(field.name).type))
            if field.name in other.names
            else field
            for field in schema
        ]
    )


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if type_kind(one) != type_kind(other):
        return one  # refused as soon as a query needs it
    fields = [pa.schema([("x", one)]), pa.schema([("x", other)])]
    try:
        return pa.unify_schemas(fields, promote_options="permissive").field("x").type
    except (pa.ArrowException, TypeError):
        return one


def _as_told(schema: pa.Schema, types: Types | None, kind: str) -> pa.Schema:
    """Types that the user gives take the place of those that text seems to have."""
    if not types:
        return schema
    if FORMATS[kind].has_types or kind not in ("csv", "json"):
        raise DataError(f"types are given, but {kind} says itself of which types its columns are; leave them out")
    for name, given in types.items():
        field = pa.field(name, _type(name, given))
        if name in schema.names:
            schema = schema.set(schema.get_field_index(name), field)
        elif kind == "json":
            schema = schema.append(field)  # the first lines may lack it
        else:
            raise DataError(f"types name {name!r}: there is no such column; there is {', '.join(schema.names)}")
    return schema


def _type(name: str, given: pa.DataType | str) -> pa.DataType:
    if isinstance(given, pa.DataType):
        return given
    try:
        return pa.type_for_alias(given)
    except (ValueError, TypeError):
        raise DataError(f"the type of {name!r} is {given!r}: give one of Arrow's, like 'int64' or 'float64'") from None
