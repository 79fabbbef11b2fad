"""What a growing folder holds: files that have not been seen before, their formats and sources, and the columns of events.

Columns are told from the files that are there at first, and kept beside the log of seen files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.errors import DataError
from headwater.language.homes import folder_of
from headwater.language.user_code import checked_path, load_path
from headwater.logs.files import create
from headwater.spark.batch.columns import LOOKS_MAX, Types, columns_of
from headwater.spark.formats import FORMATS, FileRange, schema_of
from headwater.spark.formats.paths import PathPattern, is_hidden
from headwater.spark.streaming.seals import sealed, unsealed

#: The formats of files in a growing folder.
KINDS = ("parquet", "arrow", "csv", "json")


class FolderNames(NamedTuple):
    """Names of files below a folder in the order of their bytes, and why parts of it could not be listed."""

    names: list[str]
    problems: list[tuple[str, str]]


def new_names(root: Path, known: Set[str], pattern: PathPattern | None = None) -> FolderNames:
    """The files that match and are not known yet. Hidden ones, and what begins with "_", are not there; nothing known is read."""
    problems: list[tuple[str, str]] = []
    names = list(_walk(root, "", known, problems, pattern))
    return FolderNames(sorted(names, key=os.fsencode), problems)


def _walk(
    root: Path, folder: str, known: Set[str], problems: list[tuple[str, str]], pattern: PathPattern | None
) -> Iterator[str]:
    inner = []
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if is_hidden(entry.name) or name in known:
                    continue
                if entry.is_dir():
                    # As everywhere links to folders are not followed: they may lead back.
                    is_followed = not entry.is_symlink() and (pattern is None or pattern.may_lead_to(name))
                    inner += [name] if is_followed else []
                elif entry.is_file() and (pattern is None or pattern.matches(name)):
                    yield name
    except (FileNotFoundError, NotADirectoryError):
        return  # It may come back.
    except OSError as error:
        problems.append((folder or ".", f"the folder cannot be listed: {error.strerror}"))
    for name in inner:
        yield from _walk(root, name, known, problems, pattern)


def gone_names(root: Path, known: Collection[str]) -> set[str]:
    """Which files are not there any more, as far as that is certain.

    A folder that is empty now may be a disk that is not mounted. So a file is gone only if the lowest of its folders that is
    there holds something else that is known.
    """
    folders: dict[str, set[str]] = {}
    for name in known:
        folder, _, last = name.rpartition("/")
        folders.setdefault(folder, set()).add(last)
        while folder:
            folder, _, last = folder.rpartition("/")
            folders.setdefault(folder, set()).add(last)
    there = {folder: _entries(root / folder) for folder in folders}
    sure = {folder for folder, names in folders.items() if (there[folder] or set()) & names}
    gone = set()
    for name in known:
        folder, _, last = name.rpartition("/")
        while there[folder] is None and folder:
            folder, _, last = folder.rpartition("/")
        if folder in sure and last not in (there[folder] or set()):
            gone.add(name)
    return gone


def _entries(folder: Path) -> set[str] | None:
    """The names in a folder; None if it is not there, or cannot be listed."""
    try:
        return set(os.listdir(folder))
    except OSError:
        return None


def kind_of(name: str, format: str | None) -> str | None:
    """The format of a file: the one given, else what its name says; None if that is unknown."""
    if format is not None:
        return format
    return next((kind for kind in KINDS if name.endswith(FORMATS[kind].suffixes)), None)


def checked_sources(sources: str | Callable[[str], str]) -> str:
    """Which source a file belongs to, as text: "file", "folder" (in streams also "auto") or the import path of a function."""
    if callable(sources):
        path = checked_path("sources", sources)
        if not isinstance(path, str):
            raise DataError(path.text())
        return path
    if sources == "auto":
        return "folder"
    if sources not in ("file", "folder"):
        if ":" not in sources:
            raise DataError(
                f"sources is {sources!r}: give 'auto', 'file', 'folder' or a function's import path, 'module:function'"
            )
        load_path(sources)
    return sources


def source_namer(sources: str) -> Callable[[str], str]:
    """A function that gives the source of a file by its name below the folder.

    >>> source_namer("folder")("houses/a/1.csv"), source_namer("folder")("1.csv"), source_namer("file")("a/1.csv")
    ('houses/a', '.', 'a/1.csv')
    """
    if sources == "file":
        return lambda name: name
    if sources == "folder":
        return folder_of
    function = load_path(sources)

    def named(name: str) -> str:
        found = function(name)
        if not isinstance(found, str) or not found or "\0" in found:
            raise DataError(f"sources makes {found!r} of {name!r}: a source is named by text")
        return found

    return named


VERSION = 1
_NAME = "columns.txt"


def kept_schema(
    kept: Path,
    root: Path,
    format: str | None,
    schema: pa.Schema | Types | None,
    types: Types | None,
    strict: bool,
    pattern: PathPattern | None = None,
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
    looked = _of_files(root, format, types, strict, pattern)
    kept.mkdir(parents=True, exist_ok=True)
    data = {"version": VERSION, "types": told, "schema": schema_to_bytes(looked).hex()}
    try:
        create(kept / _NAME, sealed({"is_sealed": True, **data}))
    except FileExistsError:
        return kept_schema(kept, root, format, schema, types, strict, pattern)
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
        data: dict[str, Any] = unsealed(path, path.read_bytes())  # former releases wrote no checksum
    except FileNotFoundError:
        return None
    try:
        version, types = data["version"], data["types"]
        schema = schema_from_bytes(bytes.fromhex(data["schema"])) if version == VERSION else None
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise DataError(f"{path}: the columns kept here are damaged: {error}") from error
    if version != VERSION:
        raise DataError(f"{path}: the columns kept here have version {version}; this release reads version {VERSION}")
    if types != told:
        raise DataError(f"{path}: types are {told}, but were {types} when the stream began; they cannot change")
    return schema


def _of_files(
    root: Path, format: str | None, types: Types | None, strict: bool, pattern: PathPattern | None
) -> pa.Schema:
    """The columns of the first file that can be read, in types wide enough for others of its format."""
    kind = format
    pieces: list[FileRange] = []
    for name in new_names(root, set(), pattern).names:
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
            pieces.append(FileRange(name, name, (place,), 0, root=str(root)))
    if kind is None or not pieces:
        raise DataError(
            f"{root}: there are no files yet that say which columns there are; give schema=, like {{'time': 'int64'}}"
        )
    return columns_of(kind, pieces, types).schema
