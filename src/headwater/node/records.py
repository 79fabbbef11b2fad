"""What has happened to a root, as bytes: the records from which a root that was lost is made again."""

from __future__ import annotations

from typing import Any

from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import FormatError
from headwater.language.files.queries import from_json, to_json
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


def record_of(event: Event, now_ns: int) -> bytes:
    """An event that changed something, and when."""
    return to_bytes([now_ns, *_fields(event)])


def _fields(event: Event) -> list[Any]:
    match event:
        case MessageReceived(sender, frame):
            return ["message", sender, frame]
        case TimerFired(name):
            return ["timer", name]
        case QueryAdded(query, at):
            return ["add", to_json([query]), at]
        case QueryRemoved(name, drain):
            return ["remove", name, drain]
        case FlushAsked():
            return ["flush"]
        case IdleAsked(source):
            return ["idle", source]
        case ReturnAsked(source):
            return ["return", source]
    raise TypeError(f"nothing durable happens to a root by {type(event).__name__}")


def event_of(record: bytes) -> tuple[Event, int]:
    """The event and the time that were recorded."""
    now_ns, kind, *fields = from_bytes(record)
    match kind:
        case "message":
            return MessageReceived(*fields), now_ns
        case "timer":
            return TimerFired(*fields), now_ns
        case "add":
            (query,) = from_json(fields[0])
            return QueryAdded(query, fields[1]), now_ns
        case "remove":
            return QueryRemoved(*fields), now_ns
        case "flush":
            return FlushAsked(), now_ns
        case "idle":
            return IdleAsked(*fields), now_ns
        case "return":
            return ReturnAsked(*fields), now_ns
    raise FormatError(f"a record of kind {kind!r}, which this release does not know")
