"""Finds the files below a path, says which source each belongs to, and shares them out among tasks.

A file is a source; its name is its path below the given root. Or the files of a folder are one, in the order of their names, or
whatever files a function gives the same name. A log's partitions are sources, and so is each generator.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from headwater.errors import DataError, shown
from headwater.language.homes import Home, folder_of, home_of_files, home_of_log
from headwater.language.places import local_path, table_hint
from headwater.language.user_code import checked_path
from headwater.logs import Log
from headwater.spark.formats import FORMATS, FileRange, row_count
from headwater.spark.formats.folder_columns import folder_values
from headwater.spark.formats.parquet import row_groups
from headwater.spark.formats.paths import PathPattern, is_hidden, split_pattern

#: What is larger is divided, where that can be done: as much as one task should read at least.
TASK_BYTES = 128 << 20
#: At most this many times as much, where pieces are small.
PIECES_MAX = 4
#: To open a file costs as much as to read this many bytes.
OPEN_BYTES = 4 << 20

#: What reads places that are no files of this machine.
ELSEWHERE = (
    "give files that this machine and all workers see, or take hw.aggregate(spark.read.load(...), ...), which reads wherever "
    "Spark does"
)

#: Which source a file belongs to: "file" (here also "auto"), "folder", or a function of its name below the root.
SourceOf: TypeAlias = "str | Callable[[str], str]"


def find_pieces(
    source: Any, kind: str | None, sources: SourceOf = "auto", home: Home = None
) -> tuple[str, list[FileRange]]:
    """The kind of the files, and all sources as pieces, by name; ``home``: where some are at home if not where they lie."""
    kind, pieces = _find(source, kind)
    pieces = _joined(kind, pieces, sources)
    return kind, _rehomed(pieces, home) if isinstance(home, Mapping) else pieces


def _rehomed(pieces: Sequence[FileRange], homes: Mapping[str, str]) -> list[FileRange]:
    names = [piece.source for piece in pieces]
    unknown = sorted(homes.keys() - set(names))
    if unknown:
        raise DataError(f"home names {unknown[0]!r}: there is no such source; there is {shown(', '.join(names))}")
    return [dataclasses.replace(piece, home=homes.get(piece.source, piece.home)) for piece in pieces]


def _joined(kind: str, pieces: list[FileRange], sources: SourceOf) -> list[FileRange]:
    """The sources to which files belong."""
    if sources in ("auto", "file"):
        return pieces
    if not callable(sources) and sources != "folder":
        raise DataError(f"sources is {sources!r}: give 'auto', 'file', 'folder' or a function of a file's name")
    if kind in ("log", "generated"):
        raise DataError("sources says which files belong together; here there are none")
    return _together(pieces, sources if callable(sources) else folder_of)


def _together(pieces: Sequence[FileRange], source_of: Callable[[str], str]) -> list[FileRange]:
    """One piece for each source, its files in the order of their names."""
    files: dict[str, list[FileRange]] = {}
    for piece in pieces:
        name: Any = source_of(piece.source)
        if not isinstance(name, str) or "\0" in name:
            raise DataError(f"sources makes {name!r} of {piece.source!r}: a source is named by text")
        files.setdefault(name, []).append(piece)
    return [
        FileRange(
            name,
            home_of_files(name, "folder"),
            tuple(place for file in some for place in file.places),
            sum(file.size for file in some),
            root=some[0].root,
        )
        for name, some in sorted(files.items(), key=lambda named: named[0].encode())
    ]


def _find(source: Any, kind: str | None) -> tuple[str, list[FileRange]]:
    if kind is not None and kind not in FORMATS:
        raise DataError(f"format is {kind!r}: give one of {', '.join(map(repr, FORMATS))}")
    if hasattr(source, "batches"):
        source = [source]
    if isinstance(source, str | os.PathLike):
        root, pattern = split_pattern(local_path("source", source, ELSEWHERE))
        if pattern is not None:
            return _of_pattern(root, pattern, kind)
        if not root.exists():
            raise DataError(f"{root}: there is no such file or folder{table_hint(source, 'spark.table')}")
        if (root / "log.json").is_file() and kind in (None, "log"):
            return "log", _of_log(root)
        base = root if root.is_dir() else root.parent
        return _of_files(base, sorted(_walk(root)) if root.is_dir() else [root], kind, str(root))
    listed = list(source)
    if listed and all(hasattr(each, "batches") for each in listed):
        return "generated", [_of_generator(number, each) for number, each in enumerate(listed)]
    wrong = next((each for each in listed if not isinstance(each, str | os.PathLike)), None)
    if wrong is not None:
        raise DataError(f"source holds {shown(wrong)}: a list names files, or holds generators of events")
    return _of_list([local_path("source", each, ELSEWHERE) for each in listed], kind)


def _of_pattern(root: Path, pattern: PathPattern, kind: str | None) -> tuple[str, list[FileRange]]:
    paths = [path for path in _walk(root, pattern) if pattern.matches(path.relative_to(root).as_posix())]
    if not paths:
        raise DataError(f"{root / pattern.text}: no file matches; * stays within a name, ** leads through folders")
    return _of_files(root, paths, kind, str(root / pattern.text))


def _walk(root: Path, pattern: PathPattern | None = None) -> Iterable[Path]:
    """All files below a folder but hidden ones and what Spark leaves beside its own, where a pattern may lead to."""
    for folder, folders, names in os.walk(root):
        above = Path(folder).relative_to(root)
        folders[:] = [
            name
            for name in folders
            if not is_hidden(name) and (pattern is None or pattern.may_lead_to((above / name).as_posix()))
        ]
        yield from (Path(folder, name) for name in names if not is_hidden(name))


def _of_list(paths: Sequence[Path], kind: str | None) -> tuple[str, list[FileRange]]:
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DataError(f"{missing[0]}: there is no such file; a list names files, a folder is given by itself")
    twice = [path for path, count in Counter(path.absolute() for path in paths).items() if count > 1]
    if twice:
        raise DataError(f"{twice[0]}: this file is in the list twice; its events would have the same places of birth")
    base = Path(os.path.commonpath([path.parent.absolute() for path in paths])) if paths else Path()
    return _of_files(base, sorted(path.absolute() for path in paths), kind, "the list")


def _of_files(base: Path, paths: Sequence[Path], kind: str | None, where: str) -> tuple[str, list[FileRange]]:
    if kind is None:
        kind, paths = _guessed(paths, where)
    if not paths:
        raise DataError(f"{where}: there are no files")
    # Compared as bytes, as the order of events asks.
    names = sorted(((path.relative_to(base).as_posix(), path) for path in paths), key=lambda named: named[0].encode())
    root = str(base.absolute()) if any(folder_values(name) for name, _ in names) else None
    return kind, [
        FileRange(name, home_of_files(name, "file"), (str(path.absolute()),), path.stat().st_size, root=root)
        for name, path in names
    ]


def _guessed(paths: Sequence[Path], where: str) -> tuple[str, list[Path]]:
    """The one kind of which there are files, and those."""
    found = {kind: [path for path in paths if path.name.endswith(FORMATS[kind].suffixes)] for kind in FORMATS}
    kinds = [kind for kind, files in found.items() if files]
    if len(kinds) != 1:
        known = ", ".join(suffix for each in FORMATS.values() for suffix in each.suffixes)
        what = f"files of several kinds ({', '.join(kinds)})" if kinds else "no files that are known by their names"
        raise DataError(f"{where}: there are {what}; say which with format=, or name them {known}")
    return kinds[0], found[kinds[0]]


def _of_log(root: Path) -> list[FileRange]:
    log = Log.open(root)
    pieces = []
    for partition in range(log.partition_count):
        name = f"{partition:05d}"
        size = sum(file.stat().st_size for file in (root / name).glob("*"))
        pieces.append(FileRange(name, home_of_log(root.absolute()), (f"{root.absolute()}#{partition}",), size))
    return pieces


def _of_generator(number: int, generator: Any) -> FileRange:
    """A generator travels as the path of its class and the values of its fields."""
    path = checked_path("source", type(generator))
    if not isinstance(path, str) or not dataclasses.is_dataclass(generator):
        raise DataError(f"source {number} is a {type(generator).__name__}: give an object of a dataclass in a module")
    fields = {field.name: getattr(generator, field.name) for field in dataclasses.fields(generator)}
    name = f"{number:05d}"
    return FileRange(name, name, (json.dumps([path, fields]),), TASK_BYTES)


def split(pieces: Sequence[FileRange], kind: str) -> list[FileRange]:
    """Sources of several files as stretches of whole files, and large Parquet files as stretches of row groups.

    Behind a zero byte their numbers sort between the source's own name and any other, and offsets begin anew: the order of
    events stays. Only for streams in which nothing is late: a watermark is a function of the whole source. Text does not say how
    many events it holds before it is read, so it is not split.
    """
    if FORMATS[kind].parts is None:
        return list(pieces)
    return [part for piece in pieces for part in _parts(piece, kind)]


def _parts(piece: FileRange, kind: str) -> list[FileRange]:
    if len(piece.places) == 1 and (kind != "parquet" or piece.size <= 2 * TASK_BYTES):
        return [piece]
    parts: list[FileRange] = []
    base = 0
    for stretch, rows in _stretches(piece, kind):
        name = f"{piece.source}\0{len(parts):010d}"
        parts.append(FileRange(name, piece.home, stretch.places, stretch.size, stretch.groups, base, piece.root))
        base += rows
    return parts if len(parts) > 1 else [piece]


def _stretches(piece: FileRange, kind: str) -> Iterator[tuple[FileRange, int]]:
    """Stretches of a source of about what a task should read, and the rows of each."""
    places: list[str] = []
    size = rows = 0
    for place in piece.places:
        file_size = Path(place).stat().st_size
        is_large = kind == "parquet" and file_size > 2 * TASK_BYTES
        if places and (is_large or size + file_size > TASK_BYTES):
            yield FileRange(piece.source, piece.home, tuple(places), size), rows
            places, size, rows = [], 0, 0
        if is_large:
            yield from _stretches_of_groups(piece, place, file_size)
        else:
            places.append(place)
            size += file_size
            rows += row_count(kind, place)
    if places:
        yield FileRange(piece.source, piece.home, tuple(places), size), rows


def _stretches_of_groups(piece: FileRange, place: str, file_size: int) -> Iterator[tuple[FileRange, int]]:
    groups = row_groups(place)
    share = file_size / max(sum(nbytes for nbytes, _ in groups), 1)
    first, size, rows = 0, 0.0, 0
    for group, (nbytes, count) in enumerate(groups):
        size += nbytes * share
        rows += count
        if size >= TASK_BYTES or group == len(groups) - 1:
            yield FileRange(piece.source, piece.home, (place,), int(size), (first, group + 1)), rows
            first, size, rows = group + 1, 0.0, 0


def share_out(pieces: Sequence[FileRange], parallelism: int) -> list[list[FileRange]]:
    """Pieces for each task, about equally much: the largest first, each to the task that has least.

    There are as many tasks as cores, or a multiple: every task costs Spark a tenth of a second and the roots a chain.
    """
    total = sum(piece.size + OPEN_BYTES for piece in pieces)
    rounds = -(-total // (PIECES_MAX * TASK_BYTES * max(parallelism, 1)))
    count = max(1, min(len(pieces), parallelism * rounds))
    tasks: list[list[FileRange]] = [[] for _ in range(count)]
    least = [(0, number) for number in range(count)]
    for piece in sorted(pieces, key=lambda piece: -piece.size):
        size, number = heapq.heappop(least)
        tasks[number].append(piece)
        heapq.heappush(least, (size + piece.size + OPEN_BYTES, number))
    return [sorted(task, key=lambda piece: piece.source.encode()) for task in tasks]
