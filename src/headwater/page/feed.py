"""Looks at a board once a second, remembers the last minutes, and says what is new to whoever has seen less."""

from __future__ import annotations

import json
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from typing import Any, NamedTuple

from headwater.page.board import Board, Reading

#: How often the board is looked at, and how many looks are remembered: a quarter of an hour.
BEAT_SECONDS = 1.0
POINTS_KEPT = 900
#: What is remembered of a look besides its time: the fields of a `Reading` that are drawn over time.
DRAWN = ("events_per_second", "lag_s", "batch_seconds", "state_bytes", "open_windows")


class Seen(NamedTuple):
    """How much a browser has seen: points, the version of windows, and happenings."""

    points: int = 0
    windows: int = 0
    happenings: int = 0


class PageFeed:
    """What browsers are told of one board.

    A browser that is slow misses nothing: it is told at once what came since. One that comes anew is told everything.
    """

    def __init__(self, board: Board, clock: Callable[[], int], version: str = "") -> None:
        self._board, self._clock, self._version = board, clock, version
        #: Another after each start of the server, so that a browser knows that numbers begin anew.
        self._life = uuid.uuid4().hex[:12]
        self._points: deque[list[float | None]] = deque(maxlen=POINTS_KEPT)
        self._count = 0
        self._reading = Reading()

    def look(self) -> None:
        """Look at the board: what a browser is told from now on is as of now."""
        self._reading = reading = self._board.reading()
        self._points.append([self._clock() / 1000, *(getattr(reading, name) for name in DRAWN)])
        self._count += 1

    def news(self, seen: Seen | None = None) -> tuple[dict[str, Any], Seen]:
        """What somebody is told who has seen so much (None: nothing yet), and how much it has seen then."""
        known = Seen() if seen is None else seen
        fresh = min(self._count - known.points, len(self._points))
        windows = self._board.windows(known.windows)
        happened = self._board.happenings(known.happenings)
        told = {
            "life": self._life,
            "version": self._version,
            "is_first": seen is None,
            "now_ms": self._clock(),
            "reading": asdict(self._reading),
            "drawn": DRAWN,
            "points": list(islice(self._points, len(self._points) - fresh, None)),
            "windows": [asdict(table) for table in windows],
            "happenings": [asdict(each) for each in happened],
        }
        versions = (table.version for table in windows)
        numbers = (each.number for each in happened)
        return told, Seen(self._count, max(versions, default=known.windows), max(numbers, default=known.happenings))


def as_message(told: dict[str, Any]) -> bytes:
    """A server-sent event. No number is infinite or not a number: JSON has none."""
    return b"data: " + json.dumps(told, separators=(",", ":"), allow_nan=False, default=str).encode() + b"\n\n"
