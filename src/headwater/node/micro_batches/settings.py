"""What is asked of roots that are given micro-batches, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.node.micro_batches.frames import EventGroup


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What is asked of a stream. Times of the host's clock are in milliseconds; None: never."""

    groups: tuple[EventGroup, ...]
    time: str = "time"
    unit: str = "us"
    disorder: int | None = None
    strict: bool = False
    #: A source that was silent for so long is not waited for; the stream ends when all were.
    idle_ms: int | None = None
    flush_after_ms: int | None = None
    #: How many roots share the keys: fixed for the life of a stream.
    buckets: int = 1
    #: Whether open windows are shown too, after each batch in which they changed.
    is_live: bool = False


@dataclass(slots=True)
class StepOutput:
    """What came out of a step: tables of rows, of events set aside, and what was counted since the last step."""

    rows: list[pa.Table] = field(default_factory=list)
    aside: list[pa.Table] = field(default_factory=list)
    accounts: list[dict[str, Any]] = field(default_factory=list)
