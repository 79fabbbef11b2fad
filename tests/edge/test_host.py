"""A host without links: what a node asks for is done, when it is due."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from headwater.edge import host as host_module
from headwater.edge.feed import Feed, SourceReader
from headwater.edge.host import NodeHost
from headwater.edge.rates import FAR_NS
from headwater.edge.sources import MemoryStore
from headwater.protocols.actions import (
    Action,
    Checkpoint,
    EmitAside,
    EmitRows,
    Finished,
    Noted,
    PauseReading,
    ReadFrom,
    Record,
    Refused,
    ResumeReading,
    SendMessage,
    SetTimer,
    Superseded,
)
from headwater.protocols.events import BatchArrived, Event, MessageReceived, SourceOpened, Started, TimerFired


class FakeLinks:
    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.incoming: list[tuple[str, bytes]] = []
        self.is_full = False

    def pump(self, now_ns: int) -> None:
        pass

    def send(self, target: str, frame: bytes, now_ns: int) -> None:
        self.sent.append((target, frame))

    def receive(self, frames_max: int) -> list[tuple[str, bytes]]:
        found, self.incoming = self.incoming[:frames_max], self.incoming[frames_max:]
        return found


class FakeNode:
    """Answers as it is told, and remembers what happened to it."""

    def __init__(self, answer: Callable[[Event], list[Action]]) -> None:
        self.answer = answer
        self.events: list[Event] = []

    def handle(self, event: Event, now_ns: int) -> list[Action]:
        self.events.append(event)
        return self.answer(event)


class FakeTime:
    now_ns = 1000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def thread_time_ns(self) -> int:
        return 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    monkeypatch.setattr(host_module, "time", clock)
    return clock


def hosted(actions: list[Action], feed: Feed | None = None) -> tuple[NodeHost, FakeNode, FakeLinks]:
    """A host whose node asks for this when it starts, and for nothing later."""
    node, links = FakeNode(lambda event: actions if isinstance(event, Started) else []), FakeLinks()
    host = NodeHost("a", node, links, feed)  # type: ignore[arg-type]
    host.start()
    return host, node, links


def one_source() -> Feed:
    batch = pa.record_batch({"time": [1, 2, 3]})
    feed = Feed([SourceReader("s", MemoryStore(batch.schema, [batch]))], 2, 1)
    feed.begin_ns = 0
    return feed


def test_a_timer_fires_once_when_it_is_due(clock):
    host, node, _ = hosted([SetTimer("send", 50), SetTimer("resend", 10), SetTimer("resend", 90)])
    assert host.next_ns() == 1050
    assert not host.turn()
    clock.now_ns = 1060
    assert host.turn() and not host.turn()
    assert node.events[1:] == [TimerFired("send")]
    assert host.next_ns() == 1090  # set anew, not doubled


def test_a_timer_that_another_sets_anew_waits(clock):
    node = FakeNode(lambda event: [SetTimer("b", 100)] if event == TimerFired("a") else [])
    host = NodeHost("a", node, FakeLinks())  # type: ignore[arg-type]
    host._do(SetTimer("a", 0))
    host._do(SetTimer("b", 0))
    host.turn()
    assert node.events == [TimerFired("a")]
    assert host.next_ns() == 1100


def test_frames_go_to_the_node_and_come_from_it(clock):
    host, node, links = hosted([SendMessage("root", b"hello")])
    links.incoming.append(("root", b"welcome"))
    assert host.turn()
    assert links.sent == [("root", b"hello")]
    assert node.events[-1] == MessageReceived("root", b"welcome")


def test_a_leaf_reads_what_it_asked_for_and_not_while_it_must_wait(clock):
    host, node, links = hosted([ReadFrom("s", 1), ReadFrom("unknown", 5), PauseReading()], one_source())
    assert isinstance(node.events[1], SourceOpened) and host.is_ready
    assert not host.turn()
    host._do(ResumeReading())
    links.is_full = True
    assert not host.turn() and host.next_ns() == FAR_NS
    links.is_full = False
    assert host.turn()
    arrived = node.events[-1]
    assert isinstance(arrived, BatchArrived) and (arrived.offset, len(arrived.batch)) == (1, 2)


def test_a_leaf_is_not_ready_before_the_root_knows_its_sources(clock):
    host, _, _ = hosted([], one_source())
    assert not host.is_ready


def test_rows_are_kept_with_their_moments_and_the_end_is_noted(clock):
    rows = pa.table({"n": [1]})
    kept = [Record(b""), Checkpoint(b""), EmitRows(1, rows), EmitAside(1, rows), Noted("flushed", {}), Finished()]
    host, _, _ = hosted(kept)
    assert [(emission.step, emission.emitted_ns) for emission in host.emissions] == [(1, 1000)]
    assert (host.aside, host.finished_ns, host.notes["flushed"]) == ([rows], 1000, 1)


@pytest.mark.parametrize(("action", "words"), [(Refused("no column"), "no column"), (Superseded(), "taken")])
def test_a_node_that_has_stopped_says_why(clock, action, words):
    host, _, _ = hosted([action])
    assert host.stopped is not None and words in host.stopped
