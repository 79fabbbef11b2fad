"""The few things a log does to a disk, in one place, so that a test can make each of them fail halfway."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: The suffix of a file that is unfinished: readers do not know it yet.
UNFINISHED = ".tmp"


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """The descriptor of a file for the length of a `with`; never inherited by programs that are started meanwhile."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write every byte; a write that takes only a part (a signal, a quota) is continued."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_at(descriptor: int, length: int, position: int) -> bytes:
    """``length`` bytes from ``position``, or fewer where the file ends."""
    parts = []
    while length > 0 and (part := os.pread(descriptor, length, position)):
        parts.append(part)
        length -= len(part)
        position += len(part)
    return b"".join(parts)


def read_into(descriptor: int, target: memoryview, position: int) -> int:
    """Fill ``target`` from ``position``; the number of bytes that were there."""
    done = 0
    while done < len(target) and (count := os.preadv(descriptor, [target[done:]], position + done)):
        done += count
    return done


def sync(descriptor: int) -> None:
    """Return when the bytes of the file, and its length, would survive a loss of power."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:  # macOS: its fsync leaves the bytes in the cache of the disk.
        fcntl.fcntl(descriptor, full)
    else:
        os.fdatasync(descriptor)


def sync_directory(directory: Path) -> None:
    """Return when files created, renamed or removed in ``directory`` would stay so after a loss of power."""
    with opened(directory, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Give ``path`` new contents at once: a reader sees the old or the new, never a part."""
    unfinished = path.with_name(path.name + UNFINISHED)
    with opened(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        write_all(descriptor, data)
        sync(descriptor)
    os.replace(unfinished, path)


def create(path: Path, data: bytes) -> None:
    """Create ``path`` with these contents at once; FileExistsError if it is there already."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
    with opened(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        write_all(descriptor, data)
        sync(descriptor)
    try:
        # A link, unlike a rename, refuses a name that is taken.
        os.link(unfinished, path)
    finally:
        os.unlink(unfinished)
    sync_directory(path.parent)
