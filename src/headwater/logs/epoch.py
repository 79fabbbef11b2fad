"""The number of a writer of a partition, larger than those of all before it: who is not the newest is refused.

The lock keeps writers apart; this is for the day on which somebody removes the lock file by hand, or takes over from a machine
that was only slow. Each writer creates a file of the next number exclusively and then removes those of smaller ones. A writer
whose file has lost its name is fenced: it looks after it has written and before it acknowledges. So either the other one came
later and has found these rows, or they are not acknowledged.

The file is empty, so that a writer can be opened on a full disk. A loss of power may take it, but none whose writer has made a
segment: that syncs the folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from headwater.logs import files
from headwater.logs.errors import FencedError

_SUFFIX = ".epoch"


class WriterEpoch:
    """The epoch of one writer, from its opening to `close`; above those of all writers before."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.number = max((int(path.stem) for path in directory.glob("*" + _SUFFIX)), default=0)
        self._descriptor = -1
        while self._descriptor < 0:
            self.number += 1
            try:
                self._descriptor = files.make(directory / f"{self.number:019d}{_SUFFIX}")
            except FileExistsError:
                continue
        # Looked for again: two that open at once must not both stay.
        for path in directory.glob("*" + _SUFFIX):
            if int(path.stem) < self.number:
                files.remove(path)

    def check(self) -> None:
        """FencedError if another writer has opened the partition since."""
        if not os.fstat(self._descriptor).st_nlink:
            raise FencedError(
                f"{self._directory}: another writer has opened the partition since this one (epoch {self.number}) did,"
                " though only one may: rows that are not acknowledged have to be appended by that one"
            )

    def close(self) -> None:
        """The number stays taken; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
