"""Lines at the bottom of a terminal that change while a program runs, drawn by rich; prints go above them."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

REDRAWS_PER_SECOND = 4


def is_terminal() -> bool:
    return bool(sys.stderr) and sys.stderr.isatty()


class Terminal:
    """Shows one line for each owner on stderr until the owner clears it.

    A line is given as a function, which rich's own thread calls again and again: it says how things are at that moment.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._changing = threading.Lock()
        self._lines: dict[object, Callable[[], str]] = {}
        self._live: Live | None = None

    def show(self, owner: object, line: Callable[[], str]) -> None:
        with self._changing, suppress(OSError, ValueError):
            self._lines[owner] = line
            if self._live is None:
                self._live = self._started()

    def clear(self, owner: object) -> None:
        """Remove this owner's line; with the last line stdout and stderr are given back as they were."""
        with self._changing, suppress(OSError, ValueError):
            self._lines.pop(owner, None)
            if self._live is not None and not self._lines:
                live, self._live = self._live, None
                live.stop()

    def close(self) -> None:
        for owner in list(self._lines):
            self.clear(owner)

    def text(self) -> Text:
        """All lines as they are now. Takes no lock: rich asks while it holds its own."""
        from rich.text import Text

        said = []
        for line in list(self._lines.values()):
            # Not to be shown is no reason for anything to fail.
            with suppress(Exception):
                said.append(line())
        return Text("\n".join(said), no_wrap=True, overflow="ellipsis")

    def _started(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        # force_terminal: the caller has checked for a terminal. If stdout is redirected to a file, it still goes there.
        live = Live(
            console=self._console or Console(stderr=True, force_terminal=True, force_jupyter=False),
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            get_renderable=self.text,
            refresh_per_second=REDRAWS_PER_SECOND,
        )
        live.start(refresh=True)
        return live


#: One for the process: all lines share the bottom of the same terminal.
TERMINAL = Terminal()
# rich hides the cursor while it draws: a program that ends in the middle of a job has to give it back.
atexit.register(TERMINAL.close)
