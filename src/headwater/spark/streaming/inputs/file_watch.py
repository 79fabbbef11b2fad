"""Files that may not be whole yet: tried again as long as they change, and watched for a while once they are taken in.

Who copies a file into a folder under its last name is seen doing it. What cannot be read yet, or holds nothing yet, is not
written down before it has kept its size and time for `PATIENCE_NS`. What was taken in and changes then is told: its rows are
those of before, and nothing that was added is read.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable
from heapq import nlargest
from pathlib import Path
from typing import TypeAlias

from headwater.logs.files import replace
from headwater.spark.streaming.inputs.seen_files import SeenFile

#: For so long a file has to stay as it is before it is taken for what it will ever be.
PATIENCE_NS = 180 * 10**9
#: Of the files that an earlier process took in, so many are watched on, the newest.
FRESH_MAX = 1000
#: Of the files that changed, so many are named.
NAMED_MAX = 1000

#: Source, path and reason.
Problem: TypeAlias = tuple[str, str, str]


class FileWatch:
    """Watches files below ``root``; what is wrong with them lies in ``place``, where every process can read it."""

    def __init__(self, root: Path, place: Path) -> None:
        self._root, self._place = root, place
        self.clock: Callable[[], int] = time.monotonic_ns
        #: Files that are tried again: what they were at the last try, and since when.
        self._unready: dict[str, tuple[SeenFile, int]] = {}
        #: Files that were taken in, and when.
        self._fresh: dict[str, tuple[SeenFile, int]] | None = None
        self._changed: dict[str, Problem] = {}

    def begin(self, known: Iterable[SeenFile]) -> None:
        """Before the first look: files that an earlier process took in are compared once, and the newest are watched on."""
        if self._fresh is not None:
            return
        _, changed = self.told()
        self._changed = {path: (source, path, reason) for source, path, reason in changed}
        files = [file for file in known if file.rows and file.path not in self._changed]
        now_ns = self.clock()
        self._fresh = {file.path: (file, now_ns) for file in files}
        self.compare()
        newest = nlargest(FRESH_MAX, (file for file, _ in self._fresh.values()), key=lambda file: file.mtime_ns)
        self._fresh = {file.path: (file, now_ns) for file in newest}

    # --- not whole yet ---

    def last_try(self, name: str, status: os.stat_result) -> SeenFile | None:
        """What the file was when it was last tried, if it has not changed since."""
        file, _ = self._unready.get(name, (None, 0))
        return file if file is not None and _is_as_seen(file, status) else None

    def is_settled(self, file: SeenFile) -> bool:
        """Whether a file can be written down as what it is: it has rows, or has been the same for long enough."""
        now_ns = self.clock()
        before, since_ns = self._unready.get(file.path, (None, now_ns))
        if file.reason is None and file.rows or before == file and now_ns - since_ns >= PATIENCE_NS:
            self._unready.pop(file.path, None)
            if self._fresh is not None and file.rows:
                self._fresh[file.path] = file, now_ns
            return True
        self._unready[file.path] = file, since_ns if before == file else now_ns
        return False

    def forget_gone(self, names: Collection[str]) -> None:
        """Only these names are left to be tried."""
        if self._unready:
            left = set(names)
            self._unready = {name: each for name, each in self._unready.items() if name in left}

    # --- taken in ---

    def compare(self) -> None:
        """Look at the files that were taken in of late: those that have changed are noted, others not watched for ever."""
        now_ns, kept = self.clock(), {}
        for name, (file, since_ns) in (self._fresh or {}).items():
            try:
                status = os.stat(self._root / name)
            except OSError:
                continue  # Whoever has read it may remove it.
            if not _is_as_seen(file, status):
                self._changed[name] = file.source, name, _growth(file, status)
            elif now_ns - since_ns < PATIENCE_NS:
                kept[name] = file, since_ns
        self._fresh = kept
        for name in list(self._changed)[:-NAMED_MAX]:
            del self._changed[name]

    # --- what is wrong ---

    def tell(self, waiting: Iterable[Problem]) -> None:
        """Write down what is wrong by now, if that has changed. ``waiting``: what could not even be opened."""
        unready = [(file.source, _shown(name), file.reason) for name, (file, _) in self._unready.items() if file.reason]
        told, changed = [*waiting, *unready], list(self._changed.values())
        if (told, changed) != self.told():
            self._place.parent.mkdir(parents=True, exist_ok=True)
            replace(self._place, json.dumps({"tried again": told, "changed": changed}).encode())

    def told(self) -> tuple[list[Problem], list[Problem]]:
        """What was wrong at the last look of any process: what is tried again, and what has changed."""
        try:
            data = json.loads(self._place.read_bytes())
        except (FileNotFoundError, ValueError):
            return [], []  # Nothing is decided by it.
        again, changed = ([(s, p, r) for s, p, r in data[name]] for name in ("tried again", "changed"))
        return again, changed


def _is_as_seen(file: SeenFile, status: os.stat_result) -> bool:
    return (file.bytes, file.mtime_ns) == (status.st_size, status.st_mtime_ns)


def _growth(file: SeenFile, status: os.stat_result) -> str:
    return (
        f"it has changed since it was taken in, from {file.bytes} bytes to {status.st_size}: its {file.rows} rows of then count,"
        " and none that came later; write files under a hidden name and rename them when they are whole"
    )


def _shown(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
