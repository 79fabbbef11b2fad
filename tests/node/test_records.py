"""Records: every event by which something durable happens to a root comes back as it was."""

from __future__ import annotations

import pytest

from headwater.engine.wire.snapshot_bytes import to_bytes
from headwater.errors import FormatError
from headwater.node.records import EVENTS, event_of, record_of
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
from node.parts import SUMS

RECORDED: list[Event] = [
    MessageReceived("leaf", b"frame"),
    TimerFired("idle"),
    QueryAdded(SUMS, 7),
    QueryAdded(SUMS),
    QueryRemoved("sums", True),
    FlushAsked(),
    IdleAsked("s"),
    ReturnAsked("s"),
]


@pytest.mark.parametrize("event", RECORDED, ids=lambda event: type(event).__name__)
def test_a_record_is_the_event_and_its_time(event: Event) -> None:
    assert event_of(record_of(event, 5)) == (event, 5)


def test_every_kind_of_record_is_tried_here() -> None:
    assert {type(event) for event in RECORDED} == set(EVENTS.values())


def test_a_record_of_a_later_release_is_refused_by_a_sentence() -> None:
    with pytest.raises(FormatError, match="'dance'"):
        event_of(to_bytes([5, "dance"]))


def test_a_frame_that_is_a_view_of_what_was_received_is_recorded_as_bytes() -> None:
    frame = b"x" * 100_000
    event, _ = event_of(record_of(MessageReceived("leaf", memoryview(frame)), 7))
    assert isinstance(event, MessageReceived) and bytes(event.frame) == frame
