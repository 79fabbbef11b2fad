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
        self.number, self._descriptor = 0, -1
        while self._descriptor < 0:
            self.number = max(self._numbers(), default=0) + 1
            try:
                self._descriptor = files.make(self._place(self.number))
            except FileExistsError:
                continue
            # Others may have come meanwhile, and have removed the number that was free because of that.
            if max(self._numbers(), default=0) > self.number:
                self.close()
        # Looked for again: two that open at once must not both stay.
        for number in self._numbers():
            if number < self.number:
                files.remove(self._place(number))

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

    def _numbers(self) -> list[int]:
        return [int(path.stem) for path in self._directory.glob("*" + _SUFFIX)]

    def _place(self, number: int) -> Path:
        return self._directory / f"{number:019d}{_SUFFIX}"
