"""One writer per partition: a lock file created exclusively, which does not outlast a crash.

The file is locked with `flock` before it gets its name, and names its owner (process, host, boot of the kernel). Two
mechanisms, because each covers what the other cannot:

- `flock` is undone by the kernel the moment its owner dies, however it dies. A lock file that no process holds any more is one
  that a crashed writer left: the next writer takes it over at once. No process number is ever guessed about.
- The exclusive creation also counts where `flock` does not reach, on a file system that several machines share. A file left
  by another host and another boot says that its owner may still live there: it is refused unless the caller knows better
  (`take_over=True`). The same host after a reboot has another boot but the same name: its old writers are dead.

On a full disk the file stays empty: the lock holds, only its owner is not named, and retention can make room.

The lock belongs to the open file. A child that is forked without exec inherits it and keeps it until it ends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import uuid
from pathlib import Path
from typing import NamedTuple

from headwater.logs import files
from headwater.logs.errors import LockedError

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OWNER_LENGTH_MAX = 4096
#: What a write says for which there is no room.
FULL = (errno.ENOSPC, errno.EDQUOT)


class Owner(NamedTuple):
    """Who holds a lock; ``boot`` is empty where the kernel does not tell it."""

    pid: int
    host: str
    boot: str

    @classmethod
    def present(cls) -> Owner:
        """This process."""
        boot = _BOOT.read_text().strip() if _BOOT.exists() else ""
        return cls(os.getpid(), socket.gethostname(), boot)

    def may_live_beyond(self, other: Owner) -> bool:
        """Whether ``other``'s kernel cannot know if this owner is dead.

        >>> Owner(1, "a", "x").may_live_beyond(Owner(2, "b", "y")), Owner(1, "a", "x").may_live_beyond(Owner(2, "a", "y"))
        (True, False)
        """
        return self.host != other.host and (self.boot != other.boot or not self.boot)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class WriterLock:
    """The lock of a partition's writer, held from construction to `release`.

    LockedError at once, without waiting, if another writer holds it.
    """

    def __init__(self, path: Path, *, owner: Owner | None = None, take_over: bool = False) -> None:
        self.path = path
        self.owner = owner or Owner.present()
        self._descriptor = self._acquired(take_over)

    def release(self) -> None:
        """Remove the file, then let go of it; a second call does nothing."""
        if self._descriptor >= 0:
            # Removed while it is held: a process that opened it meanwhile sees that the name no longer leads to it. Unless
            # somebody took the name away by hand, and another writer has it now.
            if _leads_to(self.path, self._descriptor):
                files.remove(self.path)
            os.close(self._descriptor)
            self._descriptor = -1

    def _acquired(self, take_over: bool) -> int:
        while True:
            descriptor = self._created()
            if descriptor is None:
                descriptor = self._inherited(take_over)
            if descriptor is not None:
                return descriptor

    def _created(self) -> int | None:
        """The lock under a name that was free; None if the name is taken."""
        unfinished = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}{files.UNFINISHED}")
        descriptor = files.make(unfinished)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._sign(descriptor)
            # Locked and signed before it gets the name: it is never seen free, and empty on a full disk only.
            files.link(unfinished, self.path)
        except BaseException as error:
            os.close(descriptor)
            # Not found: the holder of the lock swept up unfinished files.
            if isinstance(error, FileExistsError | FileNotFoundError):
                return None
            raise
        finally:
            files.remove(unfinished)
        return descriptor

    def _sign(self, descriptor: int) -> None:
        try:
            files.write_at(descriptor, json.dumps(self.owner._asdict()).encode(), 0)
        except OSError as error:
            if error.errno not in FULL:
                raise

    def _inherited(self, take_over: bool) -> int | None:
        """The lock that a crashed writer left; None if it vanished meanwhile."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            previous = _owner(files.read_at(descriptor, _OWNER_LENGTH_MAX, 0))
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LockedError(f"{self.path}: the partition is being written by {previous or 'another'}") from None
            if not _leads_to(self.path, descriptor):
                os.close(descriptor)
                return None
            if previous and previous.may_live_beyond(self.owner) and not take_over:
                raise LockedError(
                    f"{self.path}: the partition was last written by {previous}, which may still live:"
                    " give take_over=True if it does not"
                )
            files.truncate(descriptor, 0)
            self._sign(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _owner(data: bytes) -> Owner | None:
    try:
        return Owner(**json.loads(data))
    except (ValueError, TypeError):
        return None  # A writer died between taking the lock over and signing it.
