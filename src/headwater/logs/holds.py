"""Holds: what readers still need of a partition, so that retention leaves it.

A small file for each name in the folder ``holds`` of the partition, with an offset: rows from there on are kept. A hold lasts
until it is moved or let go of, whether or not its reader lives: `Log.holds` shows them all.
"""

from __future__ import annotations

import re
from pathlib import Path

from headwater.errors import DataError, shown
from headwater.logs import files

_FOLDER = "holds"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def holds(directory: Path) -> dict[str, int]:
    """The offset that each name holds. A file that cannot be read holds everything."""
    found = {}
    for path in sorted((directory / _FOLDER).glob("*")):
        if _NAME.fullmatch(path.name):
            text = path.read_text(errors="replace")
            found[path.name] = int(text) if re.fullmatch(r"\d+\n", text) else 0
    return found


def hold(directory: Path, name: str, offset: int) -> None:
    """Keep rows from ``offset`` on for ``name``, in place of what it held before."""
    if not _NAME.fullmatch(name) or offset < 0:
        raise DataError(
            f"hold is {shown(name)} at {shown(offset)}: give a name of letters, digits, _, . and -, and an offset"
        )
    files.make_folder(directory / _FOLDER)
    files.replace(directory / _FOLDER / name, f"{offset}\n".encode())
    files.sync_directory(directory / _FOLDER)


def release(directory: Path, name: str) -> None:
    """Hold nothing for ``name`` any more."""
    if _NAME.fullmatch(name):
        files.remove(directory / _FOLDER / name)
