"""The lock of whoever runs a stream's batches: a courtesy that refuses a second start. The fence is the owner number.

`flock` is undone by the kernel when its process dies, so a lock that is held is held by somebody who lives. Where it does not
reach, on a file system that machines share without it, a second start is not refused: it replaces the first, which then stops.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from headwater.logs import files
from headwater.logs.errors import LockedError
from headwater.logs.lock import WriterLock
from headwater.spark.streaming.errors import RunningError
from headwater.spark.streaming.owners import holder

#: A server of Spark Connect ends the process of a stream some time after the stream was stopped; so long it is waited for.
SERVER_SECONDS = 10.0
LOOK_SECONDS = 0.05
#: The locks of this process by their streams: one whose stream has ended by itself may be let go of.
_HELD: dict[Path, DriverLock] = {}


class DriverLock:
    """The lock of one stream, held from construction to `release`; RunningError if another holds it."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        #: Whether the stream still runs. Nobody tells when one has ended, so the next start asks.
        self.is_active: Callable[[], bool] = lambda: True
        held = _HELD.get(checkpoint)
        if held is not None and not held.is_active():
            held.release()
        files.make_folder(checkpoint)
        try:
            self._lock = WriterLock(_place(checkpoint), take_over=True)
        except LockedError as error:
            raise _running(checkpoint) from error
        _HELD[checkpoint] = self

    def release(self) -> None:
        """Let go; a second call does nothing."""
        self._lock.release()
        if _HELD.get(self.checkpoint) is self:
            del _HELD[self.checkpoint]


def refuse_running(checkpoint: Path, wait_seconds: float = SERVER_SECONDS) -> None:
    """RunningError if somebody holds the lock, and goes on doing so; for a process that will not hold it itself."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            with files.opened(_place(checkpoint), os.O_RDWR) as descriptor:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise _running(checkpoint) from error
            time.sleep(LOOK_SECONDS)
        else:
            return


def _running(checkpoint: Path) -> RunningError:
    return RunningError(
        f"{checkpoint}: this stream is being run by {holder(checkpoint)}; stop it there first, or give another checkpoint"
    )


def _place(checkpoint: Path) -> Path:
    return checkpoint / "lock"
