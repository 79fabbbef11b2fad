"""What a host tells the page: how its stream is, the last windows of its queries, and what happened.

Any host can have a page: whatever has a `Board` is shown. A field that a host does not know stays as it is here, and the page
leaves it out. Boards are asked from the page's thread while others write to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class QueryReading:
    """One query: what it asks in words, its events by fate, its rows, and how long after their window's end rows came."""

    name: str
    asks: str = ""
    events: int = 0
    #: Counts by fate: filtered, outside, member, late, dropped, malformed.
    fates: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why events are in no result: how many, and where the last of them came from."""

    reason: str
    count: int
    source: str = ""
    offset: int | None = None
    event: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a stream is at this moment. None: not known, or there is none."""

    stream: str = "stream"
    is_active: bool = True
    #: What stopped it, if something did.
    error: str = ""
    batch: int | None = None
    batch_seconds: float | None = None
    events: int = 0
    events_per_second: float = 0.0
    rows: int = 0
    watermark_us: int | None = None
    lag_s: float | None = None
    #: The first of the ``waits_count`` sources that hold the watermark where it is.
    waits_for: tuple[str, ...] = ()
    waits_count: int = 0
    #: A sentence, once the watermark has stood for long.
    standstill: str = ""
    sources_active: int = 0
    sources_idle: int = 0
    open_windows: int | None = None
    state_bytes: int | None = None
    #: Bytes that travelled since the process began, and what the events themselves would at least have been.
    sent_bytes: int = 0
    raw_bytes: int | None = None
    files_with_problems: int = 0
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None
    queries: tuple[QueryReading, ...] = ()
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowTable:
    """The last windows of one query, oldest first. ``version`` grows with each change."""

    query: str
    #: Name and kind of each column: time (microseconds since 1970), tick, position, key, value, count.
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    version: int


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened, as a sentence. ``kind``: start, source, query, wait, problem or end."""

    number: int
    at_ms: int
    kind: str
    text: str


class Board(Protocol):
    """What the page of a stream looks at, once a second."""

    def reading(self) -> Reading:
        """How the stream is now."""

    def windows(self, version: int) -> Sequence[WindowTable]:
        """The last windows of each query that have changed after this version; 0 gives all."""

    def happenings(self, number: int) -> Sequence[Happening]:
        """What happened after this number, oldest first; 0 gives all that is remembered."""


class Diary:
    """Remembers the last things that happened.

    >>> diary = Diary(kept=2)
    >>> for at, text in enumerate(("started", "'a' joined", "'a' fell idle")):
    ...     diary.note(at, "source", text)
    >>> [each.text for each in diary.after(0)], [each.number for each in diary.after(2)]
    (["'a' joined", "'a' fell idle"], [3])
    """

    def __init__(self, kept: int = 200) -> None:
        self._noted: deque[Happening] = deque(maxlen=kept)
        self._count = 0

    def note(self, at_ms: int, kind: str, text: str) -> None:
        self._count += 1
        self._noted.append(Happening(self._count, at_ms, kind, text))

    def after(self, number: int) -> list[Happening]:
        # A copy in one step: another thread may append.
        return [each for each in tuple(self._noted) if each.number > number]
