"""What a loss of power leaves of real files: of what was not synced, any part.

Everything happens to real files, which are what the kernel would show. Beside them this remembers what is safe:

- of the bytes of a file those that were synced, and of the writes after that any sectors, in any combination; the file may be
  as long as it was even where its last bytes are lost (zeros stand there then);
- of the names in a folder those of its last sync, and a beginning of the changes after that (file systems keep these in order,
  but not in order with the contents of files, nor with those of other folders);
- a sync that fails writes any of the sectors, and all of them count as clean from then on: a later sync leaves them alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from headwater.logs import files

SECTOR_BYTES = 64


class Contents:
    """The bytes of one file: those that are safe, and the changes since."""

    def __init__(self, safe: bytes = b"") -> None:
        self.safe = safe
        self.changes: list[tuple[int, bytes | None]] = []  # (position, bytes), or (size, None) for a cut

    def write(self, position: int, data: bytes) -> None:
        for at in range(0, len(data), SECTOR_BYTES):
            self.changes.append((position + at, data[at : at + SECTOR_BYTES]))

    def kept(self, dice: Random, share: float) -> bytes:
        """The bytes if each change survives with this probability."""
        if share == 1 and not self.changes:
            return self.safe
        found, size = bytearray(self.safe), len(self.safe)
        for position, data in self.changes:
            survives = dice.random() < share
            if data is None:
                size = position
                if survives:
                    del found[position:]
                continue
            size = max(size, position + len(data))
            if survives:
                found.extend(bytes(max(0, position - len(found))))
                found[position : position + len(data)] = data
        if dice.random() < 0.5:
            found.extend(bytes(max(0, size - len(found))))
        return bytes(found)

    def sync(self, dice: Random, share: float = 1) -> None:
        self.safe, self.changes = self.kept(dice, share), []


class Names:
    """The names in one folder, of files and folders: those that are safe, and the changes since, in order."""

    def __init__(self) -> None:
        self.safe: dict[str, Contents | Names] = {}
        self.changes: list[tuple[str, Contents | Names | None]] = []

    def now(self, count: int | None = None) -> dict[str, Contents | Names]:
        """With the first changes."""
        found: dict[str, Contents | Names | None] = {**self.safe, **dict(self.changes[:count])}
        return {name: each for name, each in found.items() if each is not None}

    def sync(self) -> None:
        self.safe, self.changes = self.now(), []


class FolderDisk:
    """Everything below ``root``, which is safe at first. Its methods stand in for those of `headwater.logs.files`.

    Nothing is synced for real: what that would have saved is known here.
    """

    def __init__(self, root: Path, dice: Random) -> None:
        self.root, self._dice = root, dice
        self._files: dict[int, Contents] = {}
        self._folders: dict[Path, Names] = {}
        self.look()

    def look(self) -> None:
        """What is there now is safe, and nothing else is there."""
        self._files.clear()
        self._folders.clear()
        self._seen(self.root)

    def _seen(self, folder: Path) -> Names:
        names = self._folders[folder] = Names()
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                names.safe[entry.name] = self._seen(folder / entry.name)
            else:
                contents = self._files[entry.inode()] = Contents((folder / entry.name).read_bytes())
                names.safe[entry.name] = contents
        return names

    # --- what is done to it ---

    def write_all(self, real: Callable[..., Any], descriptor: int, *data: Any) -> None:
        self._file(descriptor).write(os.fstat(descriptor).st_size, b"".join(bytes(part) for part in data))
        real(descriptor, *data)

    def write_at(self, real: Callable[..., Any], descriptor: int, data: bytes, position: int) -> None:
        self._file(descriptor).write(position, bytes(data))
        real(descriptor, data, position)

    def truncate(self, real: Callable[..., Any], descriptor: int, size: int) -> None:
        self._file(descriptor).changes.append((size, None))
        real(descriptor, size)

    def sync(self, real: Callable[..., Any], descriptor: int) -> None:
        self._file(descriptor).sync(self._dice)

    def fail_sync(self, descriptor: int) -> None:
        """What a sync leaves that fails."""
        self._file(descriptor).sync(self._dice, 0.5)

    def sync_directory(self, real: Callable[..., Any], directory: Path) -> None:
        if directory in self._folders:
            self._folders[directory].sync()

    def make(self, real: Callable[..., Any], path: Path, *flags: int) -> int:
        descriptor: int = real(path, *flags)
        self._files[os.fstat(descriptor).st_ino] = contents = Contents()
        self._name(path, contents)
        return descriptor

    def give_name(self, real: Callable[..., Any], descriptor: int, name: Path) -> None:
        real(descriptor, name)
        self._name(name, self._file(descriptor))

    def link(self, real: Callable[..., Any], path: Path, name: Path) -> None:
        real(path, name)
        self._name(name, self._folders[path.parent].now()[path.name])

    def rename(self, real: Callable[..., Any], path: Path, name: Path) -> None:
        self._gone(name)
        real(path, name)
        # One change: never neither name.
        self._name(name, self._folders[path.parent].now()[path.name])
        self._name(path, None)

    def remove(self, real: Callable[..., Any], path: Path) -> None:
        if path.exists():
            self._gone(path)
            real(path)
            self._name(path, None)

    def make_one_folder(self, real: Callable[..., Any], path: Path) -> None:
        is_new = not path.exists()
        real(path)
        if is_new:
            self._folders[path] = Names()
            self._name(path, self._folders[path])

    def _file(self, descriptor: int) -> Contents:
        return self._files.setdefault(os.fstat(descriptor).st_ino, Contents())

    def _name(self, path: Path, contents: Contents | Names | None) -> None:
        if path.parent in self._folders:
            self._folders[path.parent].changes.append((path.name, contents))

    def _gone(self, path: Path) -> None:
        """A name goes, and with the last of a file its number, which another may get."""
        if path.exists() and (status := path.stat()).st_nlink == 1:
            self._files.pop(status.st_ino, None)

    # --- what is left ---

    def lose_power(self) -> bool:
        """Leave what survives, and close what the dead had open; returns whether something is lost."""
        close_below(self.root)
        share = self._dice.choice([0, 0.5, 0.9, 1])
        before = _content(self.root)
        left = self._left(self.root, self._folders[self.root], share)
        shutil.rmtree(self.root)
        _write(self.root, left)
        self.look()
        return _content(self.root) != before

    def _left(self, place: Path, names: Names, share: float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, each in names.now(self._dice.randint(0, len(names.changes))).items():
            found[name] = (
                each.kept(self._dice, share) if isinstance(each, Contents) else self._left(place / name, each, share)
            )
        return found


def close_below(root: Path) -> None:
    """Close whatever this process has open below a folder: who had it open is dead."""
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith(f"{root}/"):
                os.close(int(number))
        except OSError:
            continue  # the descriptor of this very listing


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _write(folder: Path, left: dict[str, Any]) -> None:
    folder.mkdir()
    for name, each in left.items():
        if isinstance(each, bytes):
            (folder / name).write_bytes(each)
        else:
            _write(folder / name, each)


#: The functions of `headwater.logs.files` that change something, or make it last.
OPERATIONS = (
    "write_all",
    "write_at",
    "truncate",
    "sync",
    "sync_directory",
    "make",
    "give_name",
    "link",
    "rename",
    "remove",
    "make_one_folder",
)
WRITES = ("write_all", "write_at")
PLAIN: dict[str, Callable[..., Any]] = {name: getattr(files, name) for name in OPERATIONS}
