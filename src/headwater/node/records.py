"""What has happened to a root, as bytes: the records from which a root that was lost is made again."""

from __future__ import annotations

from dataclasses import fields

from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import FormatError
from headwater.language.files.queries import from_json, to_json
from headwater.language.query import Query
from headwater.protocols import events
from headwater.protocols.events import Event

#: Everything by which something durable happens to a root. A record has its kind, and the fields of the event in their order.
EVENTS: dict[str, type[Event]] = {
    "message": events.MessageReceived,
    "timer": events.TimerFired,
    "add": events.QueryAdded,
    "remove": events.QueryRemoved,
    "flush": events.FlushAsked,
    "idle": events.IdleAsked,
    "return": events.ReturnAsked,
}
KINDS = {event: kind for kind, event in EVENTS.items()}


def record_of(event: Event, now_ns: int) -> bytes:
    """An event that changed something, and when."""
    values = [_plain(getattr(event, field.name)) for field in fields(event)]
    return to_bytes([now_ns, KINDS[type(event)], *values])


def _plain(value: object) -> object:
    # A large frame is a view of what a link received.
    return to_json([value]) if isinstance(value, Query) else bytes(value) if isinstance(value, memoryview) else value


def event_of(record: bytes) -> tuple[Event, int]:
    """The event and the time that were recorded."""
    now_ns, kind, *values = from_bytes(record)
    if kind not in EVENTS:
        raise FormatError(f"a record of kind {kind!r}, which this release does not know")
    if kind == "add":
        values[:1] = from_json(values[0])
    return EVENTS[kind](*values), now_ns
