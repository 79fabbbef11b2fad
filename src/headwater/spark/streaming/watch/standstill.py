"""Tells when a stream stands still: its watermark does not move, so no window closes. Which source it waits for, and the way out.

One silent source holds all others up unless ``idle`` is given. Told the time, it never asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.language.times import FOREVER

#: So long the watermark may stand before anything is said.
PATIENCE_US = 10_000_000
#: The log is told at most this often.
REPEAT_US = 60_000_000
#: Of the sources that hold a stream up, this many are named.
NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Standstill:
    """A stream without progress: since how long, the sources it waits for (the first of ``count``), and its ``idle_ns``."""

    seconds: float
    sources: tuple[str, ...]
    count: int
    idle_ns: int | None = None

    def line(self) -> str:
        """
        >>> Standstill(12.3, ("houses/b",), 1).line(), Standstill(600.0, ("a", "b", "c"), 17).line()
        ("waits 12 s for 'houses/b'", "waits 600 s for 'a' and 16 more sources")
        """
        more = self.count - 1
        others = f" and {more} more source{'s' if more > 1 else ''}" if more else ""
        return f"waits {self.seconds:.0f} s for {self.sources[0]!r}{others}"

    @property
    def why(self) -> str:
        """What has to happen for windows to close, and what ``idle`` would do.

        >>> Standstill(12.3, ("b",), 1).why.split("; ")[0]
        "no window can close before 'b' sends a later event"
        >>> Standstill(12.3, ("a", "b"), 2, idle_ns=90_000_000_000).why.split("; ")[1]
        'idle is 90 s: a source that is silent for so long is not waited for'
        """
        names = ", ".join(map(repr, self.sources)) + (", ..." if self.count > len(self.sources) else "")
        what = "sends a later event" if self.count == 1 else "send later events"
        idle = f"is {self.idle_ns / 1e9:g} s:" if self.idle_ns is not None else "is not set: with idle='30 s', say,"
        return f"no window can close before {names} {what}; idle {idle} a source that is silent for so long is not waited for"


class ProgressWatch:
    """Follows the watermark of one stream from batch to batch."""

    def __init__(self) -> None:
        self._watermark: int | None = None
        self._moved_us: int | None = None
        self._news: Mapping[str, Any] = {}
        self._logged_us: int | None = None

    def see(self, news: Mapping[str, Any], now_us: int) -> None:
        """A batch is done; ``news`` are the directive's ``status``."""
        watermark = news.get("watermark")
        if self._moved_us is None or watermark != self._watermark:
            self._watermark, self._moved_us = watermark, now_us
        self._news = news

    def standstill(self, now_us: int) -> Standstill | None:
        """Whether there is no progress at this time, though there is somebody to wait for."""
        held = self._news.get("holding_up", {})
        if self._moved_us is None or now_us - self._moved_us < PATIENCE_US:
            return None
        if not held.get("sources") or self._watermark == FOREVER:
            return None
        seconds = (now_us - self._moved_us) / 1e6
        return Standstill(seconds, tuple(held["sources"]), held["count"], self._news.get("idle_ns"))

    def to_log(self, now_us: int) -> Standstill | None:
        """The standstill, if the log is to be told of it now; who asks has to tell it."""
        found = self.standstill(now_us)
        if found is None or (self._logged_us is not None and now_us - self._logged_us < REPEAT_US):
            return None
        self._logged_us = now_us
        return found
