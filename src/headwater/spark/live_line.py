"""One line at the bottom of a terminal that changes, and makes way for whatever a program prints."""

from __future__ import annotations

import shutil
import sys
import threading
from contextlib import suppress
from typing import Any, TextIO

#: Erases what is right of the cursor.
ERASE = "\x1b[K"


class LiveLine:
    """Shows a text on stderr until it is cleared.

    The cursor stays in front of the text. What Python prints meanwhile goes through a stand-in of stdout and stderr that clears
    the line first; what others write (a prompt) at least stands in front, and the rest is erased soon.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stream: TextIO | None = None
        #: Kept for good: `print` may be in the middle of one, and CPython's holds no reference of its own to the stream.
        self._stand_ins: dict[tuple[str, int], StandIn] = {}

    def show(self, text: str) -> None:
        with self._lock, suppress(OSError, ValueError):
            if not isinstance(sys.stderr, StandIn):
                self.clear()  # someone has put another stream in place: that is where people look now
            stream = self._stream
            if stream is None:
                stream = self._stream = sys.stderr
                for name in ("stdout", "stderr"):
                    place = name, id(getattr(sys, name))
                    self._stand_ins.setdefault(place, StandIn(name, self)).enter()
            width = shutil.get_terminal_size().columns
            stream.write(f"\r{text[: width - 1]}{ERASE}\r")
            stream.flush()

    def clear(self) -> None:
        """Nothing is shown afterwards, and stdout and stderr are what they were."""
        with self._lock, suppress(OSError, ValueError):
            stream, self._stream = self._stream, None
            for stand_in in self._stand_ins.values():
                stand_in.leave()
            if stream is not None:
                stream.write(ERASE)
                stream.flush()


class StandIn:
    """In the place of ``sys.stdout`` or ``sys.stderr``; clears a line before anything is written."""

    def __init__(self, name: str, line: LiveLine) -> None:
        self._name = name
        self._line = line
        self._stream = getattr(sys, name)

    def enter(self) -> None:
        setattr(sys, self._name, self)

    def leave(self) -> None:
        # Someone else may stand in by now.
        if getattr(sys, self._name) is self:
            setattr(sys, self._name, self._stream)

    def write(self, text: str) -> int:
        self._line.clear()
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


#: A terminal has one bottom, whatever is shown there.
LINE = LiveLine()
