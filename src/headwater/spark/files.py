"""Which sources there are below a path, and how tasks share them.

A file is a source; its name is its path below the given root. A log's partitions are sources, and so is each generator.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headwater.errors import DataError
from headwater.logs import Log
from headwater.own import checked_path
from headwater.spark.formats import FORMATS, Piece, row_groups

#: As much as one task should read.
TASK_BYTES = 128 << 20
#: To open a file costs as much as to read so many bytes.
OPEN_BYTES = 4 << 20


def find_pieces(source: Any, kind: str | None) -> tuple[str, list[Piece]]:
    """The kind of the files, and all of them as pieces, sorted by name."""
    if kind is not None and kind not in FORMATS:
        raise DataError(f"format is {kind!r}: give one of {', '.join(map(repr, FORMATS))}")
    if hasattr(source, "batches"):
        source = [source]
    if isinstance(source, str | os.PathLike):
        root = Path(source)
        if not root.exists():
            raise DataError(f"{root}: there is no such file or folder")
        if (root / "log.json").is_file() and kind in (None, "log"):
            return "log", _of_log(root)
        base = root if root.is_dir() else root.parent
        return _of_files(base, sorted(_walk(root)) if root.is_dir() else [root], kind, str(root))
    listed = list(source)
    if listed and all(hasattr(each, "batches") for each in listed):
        return "generated", [_of_generator(number, each) for number, each in enumerate(listed)]
    return _of_list([Path(each) for each in listed], kind)


def _walk(root: Path) -> Iterable[Path]:
    """All files below a folder but hidden ones and what Spark leaves beside its own."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        yield from (Path(folder, name) for name in names if not name.startswith(("_", ".")))


def _of_list(paths: Sequence[Path], kind: str | None) -> tuple[str, list[Piece]]:
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DataError(f"{missing[0]}: there is no such file; a list names files, a folder is given by itself")
    base = Path(os.path.commonpath([path.parent.absolute() for path in paths])) if paths else Path()
    return _of_files(base, sorted(path.absolute() for path in paths), kind, "the list")


def _of_files(base: Path, paths: Sequence[Path], kind: str | None, where: str) -> tuple[str, list[Piece]]:
    if kind is None:
        kind, paths = _guessed(paths, where)
    if not paths:
        raise DataError(f"{where}: there are no files")
    # Compared as bytes, as the order of events asks.
    names = sorted(((path.relative_to(base).as_posix(), path) for path in paths), key=lambda named: named[0].encode())
    return kind, [Piece(name, name, str(path.absolute()), path.stat().st_size) for name, path in names]


def _guessed(paths: Sequence[Path], where: str) -> tuple[str, list[Path]]:
    """The one kind of which there are files, and those."""
    found = {kind: [path for path in paths if path.name.endswith(FORMATS[kind].suffixes)] for kind in FORMATS}
    kinds = [kind for kind, files in found.items() if files]
    if len(kinds) != 1:
        known = ", ".join(suffix for each in FORMATS.values() for suffix in each.suffixes)
        what = f"files of several kinds ({', '.join(kinds)})" if kinds else "no files that are known by their names"
        raise DataError(f"{where}: there are {what}; say which with format=, or name them {known}")
    return kinds[0], found[kinds[0]]


def _of_log(root: Path) -> list[Piece]:
    log = Log.open(root)
    pieces = []
    for partition in range(log.partition_count):
        name = f"{partition:05d}"
        size = sum(file.stat().st_size for file in (root / name).glob("*"))
        pieces.append(Piece(name, name, f"{root.absolute()}#{partition}", size))
    return pieces


def _of_generator(number: int, generator: Any) -> Piece:
    """A generator travels as the path of its class and the values of its fields."""
    path = checked_path("source", type(generator))
    if not isinstance(path, str) or not dataclasses.is_dataclass(generator):
        raise DataError(f"source {number} is a {type(generator).__name__}: give an object of a dataclass in a module")
    fields = {field.name: getattr(generator, field.name) for field in dataclasses.fields(generator)}
    name = f"{number:05d}"
    return Piece(name, name, json.dumps([path, fields]), TASK_BYTES)


def split(pieces: Sequence[Piece], kind: str) -> list[Piece]:
    """Large Parquet files as stretches of row groups.

    Behind a zero byte their numbers sort between the file's own name and any other, and offsets begin anew: the order of
    events stays. Only for streams in which nothing is late: a watermark is a function of the whole file.
    """
    if kind != "parquet":
        return list(pieces)
    return [part for piece in pieces for part in (_parts(piece) if piece.size > 2 * TASK_BYTES else [piece])]


def _parts(piece: Piece) -> list[Piece]:
    sizes = row_groups(piece.place)
    share = piece.size / max(sum(sizes), 1)
    parts, first, size = [], 0, 0.0
    for group, nbytes in enumerate(sizes):
        size += nbytes * share
        if size >= TASK_BYTES or group == len(sizes) - 1:
            name = f"{piece.source}\0{first:010d}"
            parts.append(Piece(name, piece.home, piece.place, int(size), (first, group + 1)))
            first, size = group + 1, 0.0
    return parts or [piece]


def share_out(pieces: Sequence[Piece], parallelism: int) -> list[list[Piece]]:
    """Pieces for each task, about equally much: the largest first, each to the task that has least."""
    total = sum(piece.size + OPEN_BYTES for piece in pieces)
    count = max(1, min(len(pieces), max(parallelism, -(-total // TASK_BYTES))))
    tasks: list[list[Piece]] = [[] for _ in range(count)]
    least = [(0, number) for number in range(count)]
    for piece in sorted(pieces, key=lambda piece: -piece.size):
        size, number = heapq.heappop(least)
        tasks[number].append(piece)
        heapq.heappush(least, (size + piece.size + OPEN_BYTES, number))
    return [sorted(task, key=lambda piece: piece.source.encode()) for task in tasks]
