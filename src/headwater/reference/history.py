"""What happens to a stream, step by step: the input of the reference, and the script that every host can play.

Times, watermarks and offsets are plain integers; a row is a dict that holds the time column and all others. A value that is not
of its column's type stands as text under the name of the column with `UNREAD` in front, and the column itself is null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.language.query import Query

UNREAD = "\0"


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What is fixed from the start: the queries (every duration in ticks), the time column, the disorder bound.

    ``ahead_max``: how far, in ticks, the time of an event may be ahead of its arrival.
    """

    queries: tuple[Query, ...]
    time: str = "time"
    disorder: int | None = None
    ahead_max: int | None = None


@dataclass(frozen=True, slots=True)
class Arrived:
    """An event came in; source and offset are its place of birth, node is the home of its source.

    ``arrival``: when it came in, in ticks, if that is stored.
    """

    source: str
    offset: int
    row: dict[str, Any]
    node: str = ""
    arrival: int | None = None


@dataclass(frozen=True, slots=True)
class Advanced:
    """No event of this source (None: of any) with a smaller time will come."""

    source: str | None
    watermark: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The group waits for this source from now on."""

    source: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class Idle:
    """The group no longer waits for this source."""

    source: str


@dataclass(frozen=True, slots=True)
class Returned:
    """The group waits for this source again."""

    source: str


@dataclass(frozen=True, slots=True)
class Added:
    """A query is active from event time `at` on, a time above every one seen so far."""

    query: Query
    at: int


@dataclass(frozen=True, slots=True)
class Removed:
    """A query ends: at once, or (drain) after the windows that began before the watermark or the end of all times seen."""

    name: str
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Flushed:
    """The stream ended."""


@dataclass(frozen=True, slots=True)
class Emit:
    """A batch of arrivals ended: what a disorder bound has closed meanwhile is shown now."""


Step = Arrived | Advanced | Joined | Idle | Returned | Added | Removed | Flushed | Emit
