"""A disk that keeps, of what was not synced, whatever it likes: it loses, tears and reorders writes, and may fail to sync.

Everything happens to real files, which are what the kernel would show. Beside them this remembers what a loss of power leaves:

- of the bytes of a file what was synced, and of the writes after that any sectors, in any combination; the file may be as
  long as it was even where its last bytes are lost (zeros stand there then);
- of the names in a folder those of the last sync, and a beginning of the changes after that (file systems keep these in
  order, but not in order with the contents of files);
- a sync that fails writes any of the sectors, and all of them count as clean from then on: a later sync leaves them alone.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.logs import files

SECTOR = 64


class Crashed(BaseException):
    """The power is gone; no handler of the log may act on it."""


class File:
    """The bytes of one file: those that are safe, and the changes since."""

    def __init__(self) -> None:
        self.safe = b""
        self.changes: list[tuple[int, bytes | None]] = []  # (position, bytes), or (size, None) for a cut

    def write(self, position: int, data: bytes) -> None:
        for at in range(0, len(data), SECTOR):
            self.changes.append((position + at, data[at : at + SECTOR]))

    def kept(self, chance: random.Random, share: float) -> bytes:
        """The bytes if each change survives with this probability."""
        found, size = bytearray(self.safe), len(self.safe)
        for position, data in self.changes:
            survives = chance.random() < share
            if data is None:
                size = position
                if survives:
                    del found[position:]
                continue
            size = max(size, position + len(data))
            if survives:
                found.extend(bytes(max(0, position - len(found))))
                found[position : position + len(data)] = data
        if chance.random() < 0.5:
            found.extend(bytes(max(0, size - len(found))))
        return bytes(found)


class Folder:
    """The names in one folder: those that are safe, and the changes since, in order."""

    def __init__(self) -> None:
        self.safe: dict[str, File] = {}
        self.changes: list[tuple[str, File | None]] = []

    def names(self, count: int | None = None) -> dict[str, File]:
        """With the first changes."""
        found: dict[str, File | None] = {**self.safe, **dict(self.changes[:count])}
        return {name: file for name, file in found.items() if file is not None}


class FaultyDisk:
    """Stands in for `headwater.logs.files` below ``root``, until the power goes at the step ``steps``.

    What is below ``root`` at first is safe. ``failing``: which syncs fail, by their number.
    """

    def __init__(self, patch: Any, root: Path, chance: random.Random, steps: int, failing: set[int]) -> None:
        self.root, self.chance, self.steps, self.failing = root, chance, steps, failing
        self.syncs = 0
        self.folders = {path: Folder() for path in [root, *root.rglob("*")] if path.is_dir()}
        self._files: dict[int, File] = {}
        self._open: list[int] = []  # Held open, so that no number of a file is given to another.
        for path in root.rglob("*"):
            if path.is_file():
                file = self._known(os.open(path, os.O_RDONLY))
                file.safe = path.read_bytes()
                self.folders[path.parent].safe[path.name] = file
        for name in ("write_all", "write_at", "truncate", "sync", "sync_directory", "make", "link", "rename", "remove"):
            patch.setattr(files, name, self._step(getattr(self, name), getattr(files, name)))

    def _step(self, noted: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            self.steps -= 1
            if self.steps < 0:
                raise Crashed
            return noted(real, *arguments)

        return step

    def _known(self, descriptor: int) -> File:
        """A file that this has not seen before."""
        self._open.append(descriptor)
        file = self._files[os.fstat(descriptor).st_ino] = File()
        return file

    def file(self, descriptor: int) -> File:
        return self._files[os.fstat(descriptor).st_ino]

    def folder(self, path: Path) -> Folder:
        return self.folders.setdefault(path.parent, Folder())

    # --- what the log does ---

    def write_all(self, real, descriptor, *data) -> None:
        self.file(descriptor).write(os.fstat(descriptor).st_size, b"".join(data))
        real(descriptor, *data)

    def write_at(self, real, descriptor, data, position) -> None:
        self.file(descriptor).write(position, bytes(data))
        real(descriptor, data, position)

    def truncate(self, real, descriptor, size) -> None:
        self.file(descriptor).changes.append((size, None))
        real(descriptor, size)

    def sync(self, real, descriptor) -> None:
        file = self.file(descriptor)
        self.syncs += 1
        is_failing = self.syncs in self.failing
        file.safe, file.changes = file.kept(self.chance, 0.5 if is_failing else 1), []
        if is_failing:
            raise OSError(errno.EIO, "input/output error")

    def sync_directory(self, real, directory) -> None:
        folder = self.folders.setdefault(directory, Folder())
        folder.safe, folder.changes = folder.names(), []

    def make(self, real, path, *flags) -> int:
        descriptor = real(path, *flags)
        self.folder(path).changes.append((path.name, self._known(os.dup(descriptor))))
        return descriptor

    def link(self, real, path, name) -> None:
        real(path, name)
        self.folder(name).changes.append((name.name, self.folder(path).names()[path.name]))

    def rename(self, real, path, name) -> None:
        real(path, name)
        # One change: never neither name.
        self.folder(name).changes.append((name.name, self.folder(path).names()[path.name]))
        self.folder(path).changes.append((path.name, None))

    def remove(self, real, path) -> None:
        if path.exists():
            real(path)
            self.folder(path).changes.append((path.name, None))

    # --- what is left ---

    def lose_power(self, target: Path) -> None:
        """Write what is left to the folder ``target``, and close what the dead had open."""
        share = self.chance.choice([0, 0.5, 0.9, 1])
        for path, folder in self.folders.items():
            place = target / path.relative_to(self.root)
            place.mkdir(parents=True, exist_ok=True)
            for name, file in folder.names(self.chance.randint(0, len(folder.changes))).items():
                (place / name).write_bytes(file.kept(self.chance, share))

        for number in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/self/fd/{number}").startswith(str(self.root)):
                    os.close(int(number))
