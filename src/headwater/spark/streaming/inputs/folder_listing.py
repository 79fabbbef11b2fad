"""Lists the files below a folder that have not been seen before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import NamedTuple

from headwater.errors import DataError
from headwater.language.user_code import checked_path, load_path
from headwater.spark.formats import FORMATS

#: The formats of files in a growing folder.
KINDS = ("parquet", "arrow", "csv", "json")


class FolderNames(NamedTuple):
    """Names of files below a folder in the order of their bytes, and why parts of it could not be listed."""

    names: list[str]
    problems: list[tuple[str, str]]


def new_names(root: Path, known: Set[str]) -> FolderNames:
    """The files that are not known yet. Hidden ones, and what begins with "_", are not there; nothing known is touched."""
    problems: list[tuple[str, str]] = []
    names = list(_walk(root, "", known, problems))
    return FolderNames(sorted(names, key=os.fsencode), problems)


def _walk(root: Path, folder: str, known: Set[str], problems: list[tuple[str, str]]) -> Iterator[str]:
    inner = []
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.name.startswith(("_", ".")) or name in known:
                    continue
                if entry.is_dir():
                    # As everywhere links to folders are not followed: they may lead back.
                    inner += [] if entry.is_symlink() else [name]
                elif entry.is_file():
                    yield name
    except (FileNotFoundError, NotADirectoryError):
        return  # It may come back.
    except OSError as error:
        problems.append((folder or ".", f"the folder cannot be listed: {error.strerror}"))
    for name in inner:
        yield from _walk(root, name, known, problems)


def kind_of(name: str, format: str | None) -> str | None:
    """The format of a file: the one given, else what its name says; None: nobody knows it."""
    if format is not None:
        return format
    return next((kind for kind in KINDS if name.endswith(FORMATS[kind].suffixes)), None)


def checked_sources(sources: str | Callable[[str], str]) -> str:
    """How files are shared out among sources, as text: others find a function by its import path."""
    if callable(sources):
        path = checked_path("sources", sources)
        if not isinstance(path, str):
            raise DataError(path.text())
        return path
    if sources not in ("file", "folder"):
        if ":" not in sources:
            raise DataError(
                f"sources is {sources!r}: give 'file', 'folder' or a function's import path, 'module:function'"
            )
        load_path(sources)
    return sources


def source_namer(sources: str) -> Callable[[str], str]:
    """From the name of a file below the folder the name of its source.

    >>> source_namer("folder")("houses/a/1.csv"), source_namer("folder")("1.csv"), source_namer("file")("a/1.csv")
    ('houses/a', '.', 'a/1.csv')
    """
    if sources == "file":
        return lambda name: name
    if sources == "folder":
        return lambda name: name.rpartition("/")[0] or "."
    function = load_path(sources)

    def named(name: str) -> str:
        found = function(name)
        if not isinstance(found, str) or not found or "\0" in found:
            raise DataError(f"sources makes {found!r} of {name!r}: a source is named by text")
        return found

    return named
