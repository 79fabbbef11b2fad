"""What has happened to a root, as bytes: the records from which a root that was lost is made again."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import FormatError
from headwater.language.files.queries import from_json, to_json
from headwater.language.query import Query
from headwater.protocols.events import (
    Event,
    FlushAsked,
    IdleAsked,
    MessageReceived,
    QueryAdded,
    QueryRemoved,
    ReturnAsked,
    TimerFired,
)

#: The word under which each event is recorded; words are never used again for another.
_CLASSES: Final[dict[str, Any]] = {
    "message": MessageReceived,
    "timer": TimerFired,
    "add": QueryAdded,
    "remove": QueryRemoved,
    "flush": FlushAsked,
    "idle": IdleAsked,
    "return": ReturnAsked,
}
_KINDS: Final = {made: kind for kind, made in _CLASSES.items()}


def record_of(event: Event, now_ns: int) -> bytes:
    """An event that changed something, and when."""
    if type(event) not in _KINDS:
        raise TypeError(f"nothing durable happens to a root by {type(event).__name__}")
    values = [getattr(event, field.name) for field in fields(event)]
    return to_bytes([now_ns, _KINDS[type(event)], *[to_json([v]) if isinstance(v, Query) else v for v in values]])


def event_of(record: bytes) -> tuple[Event, int]:
    """The event and the time that were recorded."""
    now_ns, kind, *values = from_bytes(record)
    if kind not in _CLASSES:
        raise FormatError(f"a record of kind {kind!r}, which this release does not know")
    if kind == "add":
        values[:1] = from_json(values[0])
    return _CLASSES[kind](*values), now_ns
