"""The log of seen files: which files there are, to which source each belongs, in which order, and how many rows it has.

All that is fixed here, durably, before any offset refers to it; so reading it again gives the same plan. Each discovery is
a file of its own, which is there whole or not at all, and which only one can write. When enough of them have gathered they are
put together, so that to read the log takes as long as it is long, and not as often as there were discoveries.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headwater.errors import DataError
from headwater.logs.files import create, opened, read_at, sync_directory
from headwater.spark.formats.text import TextMark
from headwater.spark.streaming.seals import check_seal, seal

VERSION = 1
#: Of parts that leave out what is not read again, which a release that does not know it would take for lost: of sources that are
#: forgotten, as empty files of theirs, and of those that are read on, as one nameless file with all rows that came before.
FORGETTING = 2
#: Discoveries are put together once there are TOGETHER_MIN that have half of all files, or APART_MAX.
TOGETHER_MIN = 32
APART_MAX = 1000
_ONE, _ALL = ".json", ".all.json"


class SeenFile(NamedTuple):
    """A file below the folder. ``reason``: why nothing of it is read. ``marks``: where in its text to begin."""

    source: str
    path: str
    kind: str
    rows: int
    bytes: int
    mtime_ns: int
    reason: str | None = None
    marks: tuple[TextMark, ...] = ()


@dataclass(slots=True)
class _Source:
    """The files of one source that have rows, and the offset at which each ends. ``begin``: so many rows came before them."""

    begin: int = 0
    files: list[SeenFile] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.ends[-1] if self.ends else self.begin

    def behind(self, row: int) -> tuple[int, list[SeenFile]]:
        """Where the file begins that holds a row, and it with those that follow."""
        number = bisect_right(self.ends, row)
        return (self.ends[number - 1] if number else self.begin), self.files[number:]


class SeenFiles:
    """The log, as far as it has been read; `refresh` reads on. ``gone``: which of some files are there no more.

    Files of which nothing is read again are known by their names, so that they are not taken for new ones, and names as long as
    there is a file that has them: one that comes after it was removed is another file.
    """

    def __init__(self, directory: Path, gone: Callable[[Collection[str]], Set[str]] = lambda _: frozenset()) -> None:
        self._directory, self._gone = directory, gone
        #: From which row on sources may be read again.
        self._holds: Mapping[str, int] = {}
        self._forget()

    def _forget(self) -> None:
        #: The number of the last discovery, how many there were since some were put together, and how many files these have.
        self._last = self._apart = self._apart_files = 0
        #: All files of the log.
        self.paths: set[str] = set()
        self._sources: dict[str, _Source] = {}
        #: The files of which nothing is read.
        self.broken: list[SeenFile] = []

    @property
    def ends(self) -> dict[str, int]:
        """Where each source ends that has any rows."""
        return {name: source.end for name, source in self._sources.items()}

    def files(self) -> Iterator[SeenFile]:
        """All files that have rows."""
        return (file for source in self._sources.values() for file in source.files)

    def between(self, source: str, start: int, end: int) -> Iterator[tuple[SeenFile, int, int]]:
        """The files that hold the rows [start, end) of a source, with the rows to skip in each, and how many to read."""
        known = self._sources.get(source, _Source())
        if start < known.begin < end:
            raise DataError(
                f"{self._directory}: the rows [{start}, {known.begin}) of source {source!r} were read and forgotten; the log of"
                " seen files is of another checkpoint"
            )
        if end > known.end:
            raise DataError(
                f"{self._directory}: source {source!r} has {known.end} rows in the log of seen files, but {end} were read of "
                "it before; the log was lost or is of another stream"
            )
        for number in range(bisect_right(known.ends, start), len(known.files)):
            file = known.files[number]
            first = known.ends[number] - file.rows
            if first >= end:
                return
            skip = max(start - first, 0)
            yield file, skip, min(end - first, file.rows) - skip

    def refresh(self) -> None:
        """Read what has been added since, by whomever."""
        for _ in range(10):
            try:
                self._read_on()
                return
            except FileNotFoundError:
                # Put together with others meanwhile.
                self._forget()
        raise DataError(f"{self._directory}: files of the log vanish while it is read")

    def _read_on(self) -> None:
        whole, single = self._listed()
        newest = max(whole, default=0)
        if newest > self._last:
            self._forget()
            self._take(newest, _ALL)
        for number in sorted(number for number in single if number > self._last):
            if number != self._last + 1:
                raise DataError(f"{self._path(self._last + 1, _ONE)}: this part of the log of seen files is missing")
            self._take(number, _ONE)

    def _listed(self) -> tuple[list[int], list[int]]:
        """The numbers of the discoveries that were put together, and of those that stand alone."""
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return [], []
        whole = [int(name.removesuffix(_ALL)) for name in names if name.endswith(_ALL)]
        single = [int(stem) for name in names if (stem := name.removesuffix(_ONE)).isdigit()]
        return whole, single

    def _take(self, number: int, suffix: str) -> None:
        files = _decoded(self._path(number, suffix))
        self._last = number
        if suffix == _ONE:
            self._apart += 1
            self._apart_files += len(files)
        for file in files:
            if file.path:
                self.paths.add(file.path)
            if file.reason is not None:
                self.broken.append(file)
            elif not file.path:
                self._sources[file.source] = _Source(file.rows)
            elif not file.kind and file.source:
                self._sources.pop(file.source, None)  # it is forgotten
            elif file.rows:
                source = self._sources.setdefault(file.source, _Source())
                source.ends.append(source.end + file.rows)
                source.files.append(file)

    def add(self, files: Sequence[SeenFile]) -> None:
        """Write down new files in this order; durable when it returns. Others may have been quicker: what they say holds."""
        while files := [file for file in files if file.path not in self.paths]:
            self._directory.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                create(self._path(self._last + 1, _ONE), _encoded(files))
            self.refresh()
        self._put_together_sometimes()

    def forget(self, sources: Collection[str]) -> None:
        """Nothing of these is ever read again; durable when it returns."""
        while known := [name for name in sources if name in self._sources]:
            files = [(name, file.path) for name in known for file in self._sources[name].files]
            with suppress(FileExistsError):
                marks = [SeenFile(name, path, "", 0, 0, 0) for name, path in files]
                create(self._path(self._last + 1, _ONE), _encoded(marks, FORGETTING))
            self.refresh()
        self._put_together_sometimes()

    def pass_over(self, holds: Mapping[str, int]) -> None:
        """Nobody asks any more for rows of these sources that are before the one named here."""
        self._holds = holds

    def _put_together_sometimes(self) -> None:
        is_due = 2 * self._apart_files >= len(self.paths) or self._apart >= APART_MAX
        if self._apart >= TOGETHER_MIN and is_due:
            self._put_together()

    def _put_together(self) -> None:
        """Write all that has to be known as one file, then remove what it replaces."""
        files = list(self._everything())
        with suppress(FileExistsError):
            version = VERSION if all(file.path for file in files) else FORGETTING
            create(self._path(self._last, _ALL), _encoded(files, version))
        for suffix, numbers in zip((_ALL, _ONE), self._listed(), strict=True):
            for number in numbers:
                if number < self._last or (number == self._last and suffix == _ONE):
                    self._path(number, suffix).unlink(missing_ok=True)
        sync_directory(self._directory)
        # From now on no more is known here than there: others may have been quicker, and have left out something else.
        self._forget()
        self.refresh()

    def _everything(self) -> Iterator[SeenFile]:
        """All files that are there or may be asked for; those of one source in their order."""
        gone = self._gone(self.paths)
        written: set[str] = set()
        for name, source in self._sources.items():
            begin, files = source.behind(self._holds.get(name, 0))
            if begin:
                yield SeenFile(name, "", "", begin, 0, 0)
            written.update(file.path for file in files)
            yield from files
        for file in self.broken:
            written.add(file.path)
            if file.path not in gone:
                yield file
        # Files without rows are in no source, nor are those of which nothing is read again.
        others = self.paths - written - gone
        yield from (SeenFile("", path, "", 0, 0, 0) for path in sorted(others, key=os.fsencode))

    def _path(self, number: int, suffix: str) -> Path:
        return self._directory / f"{number:010d}{suffix}"


def _encoded(files: Iterable[SeenFile], version: int = VERSION) -> bytes:
    """One line for each file behind a line with the checksum of all, the version, and how many there are."""
    lines = [json.dumps(file) for file in files]
    head = json.dumps({"is_sealed": True, "version": version, "files": len(lines)})
    return seal("\n".join([head, *lines, ""]).encode())


def _decoded(path: Path) -> list[SeenFile]:
    with opened(path) as descriptor:
        data = read_at(descriptor, os.fstat(descriptor).st_size, 0)
    head, *lines = data.splitlines() or [b""]
    try:
        about: dict[str, Any] = json.loads(head)
        check_seal(path, data, about)  # parts of former releases have none
        version, count = about["version"], about["files"]
        files = [_file(*json.loads(line)) for line in lines] if version in (VERSION, FORGETTING) else []
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path}: this part of the log of seen files is damaged: {error}") from error
    if version not in (VERSION, FORGETTING):
        raise DataError(f"{path}: the log of seen files has version {version}; this release reads versions 1 and 2")
    if count != len(files):
        raise DataError(f"{path}: this part of the log of seen files has {len(files)} of its {count} lines")
    return files


def _file(source: str, path: str, kind: str, rows: int, size: int, mtime_ns: int, reason: Any, marks: Any) -> SeenFile:
    return SeenFile(source, path, kind, rows, size, mtime_ns, reason, tuple(TextMark(*mark) for mark in marks))
