"""Says that kernels are being compiled: whoever waits for a first query has to know why, and that it happens once.

In a terminal one line stays, and another shows how far it is as long as it takes; elsewhere the logger "headwater" gets one
line. Where compiled kernels cannot be kept, that line says so as a warning. Nothing is said while all kernels come from disk.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from numba.core.event import Event, Listener, register

from headwater.kernels.cache import KERNELS

LOGGER = logging.getLogger("headwater")
_ERASE = "\r\x1b[2K"


class CompileNotice(Listener):  # type: ignore[misc]
    """What is said of a process's compilations; numba tells it when each begins and ends, one at a time."""

    def __init__(self) -> None:
        self.count = 0
        self._depth = 0
        self._began = 0.0

    def on_start(self, event: Event) -> None:
        if (name := _kernel(event)) is None:
            return
        if self.count == 0:
            self._began = time.monotonic()
            _say(first_line(KERNELS[name]._cache.cache_path))
        self.count += 1
        self._depth += 1
        _show(progress_line(self.count, time.monotonic() - self._began, name))

    def on_end(self, event: Event) -> None:
        if _kernel(event) is None:
            return
        self._depth -= 1
        if not self._depth:
            _show("")


def first_line(folder: str | None) -> tuple[int, str]:
    """The level and the text of what is said once.

    >>> first_line("/home/me/.cache/headwater")
    (20, 'compiling kernels, once: they are kept in /home/me/.cache/headwater')
    >>> first_line(None)[1].split(":")[0]
    'compiling kernels in memory, as every process will'
    """
    if folder is not None:
        return logging.INFO, f"compiling kernels, once: they are kept in {folder}"
    return logging.WARNING, (
        "compiling kernels in memory, as every process will: there is no folder in which they could be kept; set "
        "NUMBA_CACHE_DIR to one that can be written, or run `headwater warm` where the image is made"
    )


def progress_line(count: int, seconds: float, name: str) -> str:
    """
    >>> progress_line(12, 7.25, "headwater.engine.slices.store._grow")
    'compiling kernels: 12, 7 s, engine.slices.store._grow'
    """
    return f"compiling kernels: {count}, {seconds:.0f} s, {name.removeprefix('headwater.')}"


def _kernel(event: Event) -> str | None:
    """The name of the kernel that is compiled; None for what is not headwater's."""
    kernel: Any = event.data["dispatcher"].py_func
    name = f"{kernel.__module__}.{kernel.__name__}"
    return name if name in KERNELS else None


def _say(line: tuple[int, str]) -> None:
    level, text = line
    if _is_terminal():
        print(f"headwater: {text}", file=sys.stderr, flush=True)
    else:
        LOGGER.log(level, "%s", text)


def _show(text: str) -> None:
    """One line that changes. Whoever redirects stderr, as rich does to draw lines of its own, could not draw it."""
    out = sys.stderr
    if _is_terminal() and out is sys.__stderr__:
        print(f"{_ERASE}{text[:79]}", end="", file=out, flush=True)


def _is_terminal() -> bool:
    """Whether stderr is a terminal of this process's own: Spark's workers inherit the driver's."""
    if not sys.stderr or not sys.stderr.isatty():
        return False
    started_as = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", "")
    return not started_as.startswith("pyspark")


NOTICE = CompileNotice()
register("numba:compile", NOTICE)
