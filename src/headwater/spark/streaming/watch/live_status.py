"""The live line of a stream: what `status.line` says, at the bottom of a terminal, while the stream runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from headwater.spark.live_line import LINE, LiveLine
from headwater.spark.streaming.watch.status import StreamStatus, line

SHOW_SECONDS = 0.5


class LiveStatus:
    """Shows a status again and again until it is closed. ``status_source`` is asked in a daemon thread."""

    def __init__(
        self,
        status_source: Callable[[], StreamStatus],
        *,
        terminal: LiveLine = LINE,
        seconds: float = SHOW_SECONDS,
    ) -> None:
        self._source = status_source
        self._terminal = terminal
        self._seconds = seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="headwater live line", daemon=True)
        self._thread.start()

    def _show(self) -> None:
        while not self._is_over.wait(self._seconds):
            # Not to be shown is no reason for a stream to fail.
            with suppress(Exception):
                self._terminal.show(line(self._source()))

    def close(self) -> None:
        """Nothing is shown afterwards."""
        self._is_over.set()
        self._thread.join()
        self._terminal.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
