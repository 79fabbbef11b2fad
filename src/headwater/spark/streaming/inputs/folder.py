"""A growing folder as the input of a stream.

A file is whole when it appears (who writes it renames it into place) and is never changed. By default the files of one folder
are one source: they follow each other in the order in which they were first seen, those seen at once by their names as bytes, and
the offset of an event is its row number in all of them. A file with an old name that comes late simply follows; its events may
be late. With ``sources="file"`` each file is a source, which is done once it is read.

What goes wrong has an outcome of its own:

- A file that cannot be read, or has other columns, is tried again while it changes (`file_watch`); then it is written down with
  the reason and without rows, and the stream goes on (``strict``: an error). A repaired copy is a new file: give it another name.
- A file that changes after it was taken in keeps the rows of before, and is named among the problems.
- A file that breaks off in its middle, has vanished, or holds another number of rows than when it was first seen is an error that
  names it, as soon as its rows are needed. Once it is put back with as many rows the stream goes on from its checkpoint.
- What the machine does not let us read for now (no permission, too many open files) is tried again before every batch.
- A folder that is gone has nothing new; when it comes back, it is read on.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.errors import DataError
from headwater.language.homes import home_of_files
from headwater.language.places import local_path
from headwater.spark.batch.columns import Types
from headwater.spark.formats import FORMATS, Batches, Wanted, check_kinds, schema_of, stamped, without_arrivals
from headwater.spark.formats.folder_columns import folder_scalars, folder_values
from headwater.spark.formats.paths import PathPattern
from headwater.spark.formats.ranges import counted, rows_of
from headwater.spark.formats.text import TextMark, is_packed
from headwater.spark.streaming.inputs.file_watch import FileWatch, Problem
from headwater.spark.streaming.inputs.folder_listing import (
    KINDS,
    checked_sources,
    gone_names,
    kept_schema,
    kind_of,
    new_names,
    source_namer,
)
from headwater.spark.streaming.inputs.input import Extent
from headwater.spark.streaming.inputs.seen_files import SeenFile, SeenFiles

#: Files that one look at a folder takes in at most, and bytes of text, which has to be counted; the next look goes on.
LOOK_FILES = 1000
LOOK_BYTES = 1 << 30


class FolderInput:
    """Files of Parquet, Arrow IPC, CSV or lines of JSON below ``path``; ``seen``: where the log of seen files is kept.

    ``pattern``: only those below it whose names match. The names of folders may say columns (`formats.folder_columns`).
    ``sources``: "folder", "file", or the import path of a function from a file's name below the folder to its source.
    ``format``: of all files; by default as each file's name says. ``schema``: the columns; by default those of the files that are
    there at first. ``types``: of columns of text where they would be mistaken.
    """

    kind = "folder"
    stores_arrivals = True  # when a file was last changed

    def __init__(
        self,
        path: str | os.PathLike[str],
        seen: str | os.PathLike[str],
        *,
        sources: str | Callable[[str], str] = "folder",
        format: str | None = None,
        schema: pa.Schema | Types | None = None,
        types: Types | None = None,
        strict: bool = False,
        pattern: str | None = None,
    ) -> None:
        self._root = local_path("source", path, "give a folder that this machine and all workers see").absolute()
        if format is not None and format not in KINDS:
            raise DataError(f"format is {format!r}: give one of {', '.join(map(repr, KINDS))}")
        if self._root.is_file():
            raise DataError(f"{self._root}: this is a file; a stream reads a folder, and goes on as files come to it")
        self._pattern = None if pattern is None else PathPattern(pattern)
        self._seen_directory = Path(seen).absolute()
        self._sources = checked_sources(sources)
        self._format = format
        self._given = (schema, types)
        self._strict = strict
        self._seen = SeenFiles(self._seen_directory, partial(gone_names, self._root))
        self._source_of = source_namer(self._sources)
        #: What could not be looked at, and why; it is tried again.
        self._waiting: list[Problem] = []
        self._asking = threading.Lock()  # Users ask for problems, and so does who watches a stream.
        self._watch = FileWatch(self._root, self._seen_directory / "problems.json")

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of events, fixed when they are first asked for: after a restart they are the same."""
        schema, types = self._given
        return kept_schema(self._seen_directory, self._root, self._format, schema, types, self._strict, self._pattern)

    def to_data(self) -> dict[str, Any]:
        return {
            **({} if self._pattern is None else {"pattern": self._pattern.text}),
            "path": str(self._root),
            "seen": str(self._seen_directory),
            "sources": self._sources,
            "format": self._format,
            "strict": self._strict,
            "schema": schema_to_bytes(self.schema).hex(),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> FolderInput:
        options = {name: data[name] for name in ("path", "seen", "sources", "format", "strict")}
        schema = schema_from_bytes(bytes.fromhex(data["schema"]))
        return cls(**options, schema=schema, pattern=data.get("pattern"))

    def problems(self) -> list[Problem]:
        """Source, path and reason of each file of which not all is read: passed over, tried again, or changed."""
        with self._asking:
            self._seen.refresh()
        again, changed = self._watch.told()
        return [(file.source, _shown(file.path), str(file.reason)) for file in self._seen.broken] + again + changed

    @staticmethod
    def forgets_sources(data: Mapping[str, Any]) -> bool:
        """A file that is a source ends; to a folder files may come at any time."""
        return bool(data["sources"] == "file")

    def forget(self, sources: Collection[str]) -> None:
        """Files that were read to their ends, and of which nobody will ask again: only their names are known from now on."""
        self._seen.forget(sources)

    def pass_over(self, holds: Mapping[str, int]) -> None:
        """Files that are sources are forgotten as a whole instead."""
        if self._sources != "file":
            self._seen.pass_over(holds)

    def extents(self) -> dict[str, Extent]:
        self._begin_look()
        before = self._seen.ends
        for _ in self._discoveries():
            # Broken and empty files alone must not look as if there were nothing more.
            if self._seen.ends != before:
                break
        return self._extents()

    def everything(self) -> dict[str, Extent]:
        """All files that are there now, however many."""
        self._begin_look()
        for _ in self._discoveries():
            pass
        return self._extents()

    def _begin_look(self) -> None:
        self._seen.refresh()
        self._watch.begin(self._seen.files())
        self._watch.compare()

    def _extents(self) -> dict[str, Extent]:
        self._watch.tell(self._waiting)
        sources = self._sources
        return {
            source: Extent(end, home_of_files(source, sources), is_done=sources == "file")
            for source, end in self._seen.ends.items()
        }

    def _discoveries(self) -> Iterator[None]:
        """Write down the new files, some at a time. Those of one listing: what comes meanwhile is left to the next look."""
        listed = new_names(self._root, self._seen.paths, self._pattern)
        self._waiting = [(".", name, reason) for name, reason in listed.problems]
        self._watch.forget_gone(listed.names)
        found: list[SeenFile] = []
        size = 0
        for name in listed.names:
            kind = kind_of(name, self._format)
            file = None if kind is None else self._looked_at(name, kind)
            if file is not None:
                found.append(file)
                size += 0 if FORMATS[file.kind].has_types else file.bytes
            if len(found) >= LOOK_FILES or size >= LOOK_BYTES:
                self._seen.add(found)
                found, size = [], 0
                yield
        if found:
            self._seen.add(found)
            yield

    def _looked_at(self, name: str, kind: str) -> SeenFile | None:
        """The entry of a new file for the log; None if the file is gone again, or is to be tried again."""
        try:
            status = os.stat(self._root / name)
        except OSError as error:
            self._try_later(name, error)
            return None
        file = self._watch.last_try(name, status) or self._tried(name, kind, status)
        return file if file is not None and self._watch.is_settled(file) else None

    def _tried(self, name: str, kind: str, status: os.stat_result) -> SeenFile | None:
        place = str(self._root / name)
        file = SeenFile(self._source_of(_shown(name)), name, kind, 0, status.st_size, status.st_mtime_ns)
        if _shown(name) != name:
            return self._refused(file, "its name is no UTF-8")
        try:
            self._check_columns(place, kind)
            # Not what has come since it was asked for its size: both have to say the same.
            rows, marks = counted(kind, place, _text_bytes(kind, place, file.bytes))
        except DataError as error:
            cause = error.__cause__
            # With a number it comes from the machine; Arrow says the same of files that are wrong, but has none.
            if isinstance(cause, OSError) and cause.errno is not None:
                self._try_later(name, cause)
                return None
            return self._refused(file, str(error).removeprefix(f"{place}: "))
        return file._replace(rows=rows, marks=tuple(marks))

    def _check_columns(self, place: str, kind: str) -> None:
        said = folder_scalars(place, str(self._root), self.schema)
        if kind == "json":
            return  # A name that a line lacks is null.
        schema = schema_of(kind, place)
        if schema is None:
            return  # There is nothing at all in it.
        own = [name for name in self.schema.names if name not in said or name in schema.names]
        for name in own:
            if name not in schema.names:
                raise DataError(f"{place}: there is no column {name!r}, but one in other files")
        if FORMATS[kind].has_types:
            check_kinds(place, schema, self.schema, own)

    def _refused(self, file: SeenFile, reason: str) -> SeenFile:
        if not re.search(r"\bbyte \d", reason):
            reason = f"{reason} (the file ends at byte {file.bytes})"
        if self._strict:
            raise DataError(f"{self._root / _shown(file.path)}: {reason} (strict)")
        return file._replace(reason=reason)

    def _try_later(self, name: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            shown = _shown(name)
            self._waiting.append((self._source_of(shown), shown, f"it cannot be opened for now: {error.strerror}"))

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        if self._seen.ends.get(source, 0) < end:
            self._seen.refresh()
        return [
            {
                "kind": file.kind,
                "place": str(self._root / file.path),
                "root": str(self._root) if folder_values(file.path) else None,
                "skip": skip,
                "count": count,
                "rows": file.rows,
                "bytes": file.bytes,
                "mtime_ns": file.mtime_ns,
                "mark": next((mark for mark in reversed(file.marks) if mark.row <= skip), None),
            }
            for file, skip, count in self._seen.between(source, start, end)
        ]

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Batches:
        kind, place = stretch["kind"], stretch["place"]
        mark, bytes_max = _as_it_was(stretch)
        plain = without_arrivals(wanted)
        rows = stretch["skip"], stretch["count"]
        found = rows_of(kind, place, replace(plain, root=stretch["root"]), *rows, mark, bytes_max)
        # As it was when the file was first seen.
        yield from found if plain is wanted else stamped(found, stretch["mtime_ns"])


def _as_it_was(stretch: Mapping[str, Any]) -> tuple[TextMark | None, int | None]:
    """Where to begin, and how many bytes to read, such that the rows are those of when the file was first seen."""
    kind, place = stretch["kind"], stretch["place"]
    size = stretch["bytes"]
    bytes_max = _text_bytes(kind, place, size)
    status = _status(stretch)
    if (status.st_size, status.st_mtime_ns) == (size, stretch["mtime_ns"]):
        # It may grow at this very moment: what is behind its bytes of then was not counted.
        return None if stretch["mark"] is None else TextMark(*stretch["mark"]), bytes_max
    if bytes_max is not None and status.st_size > size and counted(kind, place, size).rows == stretch["rows"]:
        return None, bytes_max
    # Put back, or copied from elsewhere: good if it holds as many rows, but text may be divided elsewhere.
    rows = counted(kind, place).rows
    if rows != stretch["rows"]:
        raise DataError(
            f"{place}: it has {rows} rows, but had {stretch['rows']} when it was first seen; files must not change"
        )
    return None, None


def _text_bytes(kind: str, place: str, size: int) -> int | None:
    """The bytes of a file up to which it can be read, though there may be more by now; None if it cannot be read so."""
    return None if FORMATS[kind].lines is None or is_packed(place) else size


def _status(stretch: Mapping[str, Any]) -> os.stat_result:
    try:
        return os.stat(stretch["place"])
    except FileNotFoundError:
        first, last = stretch["skip"], stretch["skip"] + stretch["count"]
        raise DataError(
            f"{stretch['place']}: the file is gone, but its rows [{first}, {last}) of {stretch['rows']} are needed; put it back"
        ) from None


def _shown(name: str) -> str:
    """A name as text, whatever bytes it has."""
    return os.fsencode(name).decode("utf-8", "replace")
