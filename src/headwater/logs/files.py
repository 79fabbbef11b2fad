"""The few things a log does to a disk, in one place: a test can make each of them fail halfway, or lose what was not synced.

Whoever changes a file or a folder of a log does it through this module. Reading needs no such care.
"""

from __future__ import annotations

import fcntl
import os
import uuid
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


# --- contents ---


def write_all(descriptor: int, data: bytes | memoryview, *more: bytes | memoryview) -> None:
    """Write every byte of one after the other; a write that takes only a part (a signal, a quota) is continued."""
    count = os.writev(descriptor, [data, *more]) if more else 0
    for each in (data, *more):
        rest = memoryview(each).cast("B")[count:]
        count = max(0, count - len(each))
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def write_at(descriptor: int, data: bytes, position: int) -> None:
    """Write every byte from ``position`` on, over what is there; not for a file that was opened to append."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(descriptor, rest, position)
        rest, position = rest[count:], position + count


def truncate(descriptor: int, size: int) -> None:
    """Cut a file off."""
    os.ftruncate(descriptor, size)


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


# --- names ---


def make(path: Path, flags: int = os.O_RDWR) -> int:
    """The descriptor of a new, empty file; FileExistsError if the name is taken."""
    return os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)


def link(path: Path, name: Path) -> None:
    """Give a file a second name; unlike a rename, it refuses one that is taken."""
    os.link(path, name)


def give_name(descriptor: int, name: Path) -> None:
    """Give a file that has none its name; it refuses one that is taken."""
    # With a folder's descriptor, for else Python does not follow the link to the open file.
    with opened(name.parent, os.O_RDONLY | os.O_DIRECTORY) as folder:
        os.link(f"/proc/self/fd/{descriptor}", name.name, dst_dir_fd=folder)


def rename(path: Path, name: Path) -> None:
    """Give a file another name, in place of the file that had it."""
    os.replace(path, name)


def remove(path: Path) -> None:
    """Take a name away, if it is there."""
    path.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """A folder and those above it, such that they would stay after a loss of power."""
    places = [path, *path.parents]
    there = next(number for number, each in enumerate(places) if each.is_dir())
    # The last of those that are there may be of somebody who died before its name was safe.
    sync_directory(places[there].parent)
    for each in reversed(places[:there]):
        make_one_folder(each)
        sync_directory(each.parent)


def make_one_folder(path: Path) -> None:
    """A folder in one that is there; nothing if it is there already."""
    path.mkdir(exist_ok=True)


def sync_directory(directory: Path) -> None:
    """Return when files created, renamed or removed in ``directory`` would stay so after a loss of power."""
    with opened(directory, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


# --- both ---


@contextmanager
def unfinished(path: Path, data: bytes) -> Iterator[Path]:
    """A synced file with these contents under a name that nobody else has; gone after the `with`, whatever happens in it."""
    # Not the process number alone: two containers that share a folder may both be process 1. A point: most readers pass it by.
    place = path.with_name(f".{path.name}.{uuid.uuid4().hex}{UNFINISHED}")
    descriptor = make(place)
    try:
        try:
            write_all(descriptor, data)
            sync(descriptor)
        finally:
            os.close(descriptor)
        yield place
    finally:
        remove(place)


def replace(path: Path, data: bytes) -> None:
    """Give ``path`` new contents at once: a reader sees the old or the new, never a part."""
    with unfinished(path, data) as place:
        rename(place, path)


def create(path: Path, data: bytes) -> None:
    """Create ``path`` with these contents at once; FileExistsError if it is there already."""
    with unfinished(path, data) as place:
        link(place, path)
    sync_directory(path.parent)


def create_unseen(path: Path, data: bytes) -> None:
    """Like `create`, but the file has no name at all until it is whole, where the system can do that.

    For folders that others read: some look at every file, also at hidden ones.
    """
    try:
        with opened(path.parent, os.O_WRONLY | os.O_TMPFILE) as descriptor:
            write_all(descriptor, data)
            sync(descriptor)
            give_name(descriptor, path)
        sync_directory(path.parent)
    except FileExistsError:
        raise
    except (AttributeError, OSError):
        # Another kernel, or a file system without nameless files: the name is hidden, which does for most readers.
        create(path, data)
