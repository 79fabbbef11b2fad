"""Ctrl-C and the signal by which containers are stopped: the first asks a run to end cleanly, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Stopping:
    """Whether a run is asked to stop; what waits for something else is woken then."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self) -> None:
        self._asked.set()

    def is_set(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until a stop is asked for; whether it is."""
        return self._asked.wait(seconds)


@contextmanager
def stopped_by_signals() -> Iterator[Stopping]:
    """In this ``with`` signals ask for a stop; in threads other than the first there are none."""
    stopping = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    before: dict[int, Any] = {}

    def asked(number: int, frame: FrameType | None) -> None:
        stopping.ask()
        signal.signal(number, before[number])

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, asked)
    try:
        yield stopping
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
