"""Everything that can happen to a file operation: while this lasts, somebody is asked before each of them.

Checkpoints, sinks and logs change files through `headwater.logs.files` alone, so nothing passes by.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from headwater.logs import files
from headwater.logs.segments import mark, segment
from headwater.logs.segments.mark import Boot
from headwater.simulator.world.folder_disk import OPERATIONS, PLAIN, WRITES, FolderDisk

#: Told the name of an operation and its arguments, says what becomes of it: a key of `_FATES`, or "" if nothing does.
Meddle = Callable[[str, tuple[Any, ...]], str]
BEFORE, AFTER, TORN, ERROR, FULL = "before", "after", "torn", "error", "full"
_NUMBERS = {ERROR: (errno.EIO, "input/output error"), FULL: (errno.ENOSPC, "no space left on device")}


class CrashError(BaseException):
    """Whoever is at it dies here; nobody may act on it."""


class InjectedError(OSError):
    """An operation that failed because it was to."""


@contextmanager
def tampered(disk: FolderDisk, meddle: Meddle, boot: Callable[[], int]) -> Iterator[None]:
    """While it lasts, files below the disk's root are on that disk. ``boot``: how often the machine was started."""

    def here() -> Boot:
        return Boot(1, boot())

    wrapped: Any = {name: _operation(name, disk, meddle) for name in OPERATIONS}
    with (
        mock.patch.multiple(files, **wrapped),
        mock.patch.object(mark, "here", here),
        mock.patch.object(segment, "here", here),
    ):
        yield


def _operation(name: str, disk: FolderDisk, meddle: Meddle) -> Callable[..., Any]:
    real, noted = PLAIN[name], getattr(disk, name)

    def operation(*arguments: Any) -> Any:
        fate = meddle(name, arguments)
        if fate == BEFORE:
            raise CrashError(f"before {name}")
        if fate in _NUMBERS:
            if name == "sync":
                disk.fail_sync(*arguments)
            raise InjectedError(*_NUMBERS[fate])
        if fate == TORN and name in WRITES:
            arguments = _halved(name, arguments)
        result = noted(real, *arguments)
        if fate in (TORN, AFTER):
            raise CrashError(f"after {name}" if fate == AFTER else f"in the middle of {name}")
        return result

    return operation


def _halved(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a write of which only the first half comes about."""
    if name == "write_at":
        descriptor, data, position = arguments
        return descriptor, bytes(data)[: len(data) // 2], position
    descriptor, *parts = arguments
    data = b"".join(map(bytes, parts))
    return descriptor, data[: len(data) // 2]


def is_injected(error: BaseException | None) -> bool:
    """Whether an error is, or comes from, one that was to be."""
    while error is not None:
        if isinstance(error, InjectedError):
            return True
        error = error.__cause__ or error.__context__
    return False
