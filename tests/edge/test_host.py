"""A host without sockets: what a node asks for is done, when it is due by a clock that the test moves."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from edge.streams import made, together
from headwater.edge.cluster.outcome import joined
from headwater.edge.feed import Feed, SourceReader
from headwater.edge.host import NodeHost
from headwater.edge.pace import Pace
from headwater.edge.rates import FAR_NS
from headwater.edge.sources import MemoryStore
from headwater.engine.results.shape import ResultShape
from headwater.node import LeafNode, NodeSettings, RootNode
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
    """Frames that are sent stay here; with ``neighbours`` they are there at once."""

    def __init__(self, name: str = "a", neighbours: "dict[str, FakeLinks] | None" = None) -> None:
        self.name = name
        self.neighbours = {} if neighbours is None else neighbours
        self.neighbours[name] = self
        self.sent: list[tuple[str, bytes]] = []
        self.incoming: list[tuple[str, bytes]] = []
        self.is_full = False

    def pump(self, now_ns: int) -> None:
        pass

    def send(self, target: str, frame: bytes, now_ns: int) -> None:
        self.sent.append((target, frame))
        if target in self.neighbours:
            self.neighbours[target].incoming.append((self.name, frame))

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


class Clock:
    """The time is what the test says."""

    now_ns = 1000

    def __call__(self) -> int:
        return self.now_ns


def hosted(actions: list[Action], feed: Feed | None = None, clock: Clock | None = None):
    """A host whose node asks for this when it starts, and for nothing later; its node and its links."""
    node, links = FakeNode(lambda event: actions if isinstance(event, Started) else []), FakeLinks()
    host = NodeHost("a", node, links, feed, clock=clock or Clock())  # type: ignore[arg-type]
    host.start()
    return host, node, links


def one_source() -> Feed:
    batch = pa.record_batch({"time": [1, 2, 3]})
    feed = Feed([SourceReader("s", MemoryStore(batch.schema, [batch]))], 2, 1)
    feed.begin_ns = 0
    return feed


def test_a_timer_fires_once_when_it_is_due():
    clock = Clock()
    asked = [SetTimer("send", 50), SetTimer("resend", 10), SetTimer("resend", 90)]
    host, node, _ = hosted(asked, clock=clock)
    assert host.next_ns() == 1050
    assert not host.turn()
    clock.now_ns = 1060
    assert host.turn() and not host.turn()
    assert node.events[1:] == [TimerFired("send")]
    assert host.next_ns() == 1090  # set anew, not doubled


def test_a_timer_that_another_sets_anew_waits():
    node = FakeNode(lambda event: [SetTimer("b", 100)] if event == TimerFired("a") else [])
    host = NodeHost("a", node, FakeLinks(), clock=Clock())  # type: ignore[arg-type]
    host._do(SetTimer("a", 0))
    host._do(SetTimer("b", 0))
    host.turn()
    assert node.events == [TimerFired("a")]
    assert host.next_ns() == 1100


def test_frames_go_to_the_node_and_come_from_it():
    host, node, links = hosted([SendMessage("root", b"hello")])
    links.incoming.append(("root", b"welcome"))
    assert host.turn()
    assert links.sent == [("root", b"hello")]
    assert node.events[-1] == MessageReceived("root", b"welcome")


def test_a_leaf_reads_what_it_asked_for_and_not_while_it_must_wait():
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


def test_a_leaf_is_not_ready_before_the_root_knows_its_sources():
    host, _, _ = hosted([], one_source())
    assert not host.is_ready


def test_rows_are_kept_with_their_moments_and_the_end_is_noted():
    rows = pa.table({"n": [1]})
    kept = [Record(b""), Checkpoint(b""), EmitRows(1, rows), EmitAside(1, rows), Noted("flushed", {}), Finished()]
    host, _, _ = hosted(kept)
    assert [(emission.step, emission.emitted_ns) for emission in host.emissions] == [(1, 1000)]
    assert (host.aside, host.finished_ns, host.notes["flushed"]) == ([rows], 1000, 1)


@pytest.mark.parametrize(("action", "words"), [(Refused("no column"), "no column"), (Superseded(), "taken")])
def test_a_node_that_has_stopped_says_why(action, words):
    host, _, _ = hosted([action])
    assert host.stopped is not None and words in host.stopped


def test_results_come_when_their_events_were_due():
    """Two leaves that read on schedule and a root, all in one process: a row is out soon after its window is due."""
    query = hw.query("time", hw.tumbling("1 s"), keys=["key"], n=hw.count(), total=hw.sum("value"))
    events, millisecond = 5000, 1_000_000
    settings = NodeSettings(is_recorded=False, linger_ns=5 * millisecond)
    clock, neighbours, hosts = Clock(), {}, []
    for number, name in enumerate(("leaf-0", "leaf-1")):
        batches = made(number, 2, events)
        reader = SourceReader(name, MemoryStore(batches[0].schema, batches), Pace(0, 10_000_000))
        node = LeafNode(name, "root", settings=settings)
        hosts.append(NodeHost(name, node, FakeLinks(name, neighbours), Feed([reader], 1000, millisecond), clock=clock))
    root = RootNode("root", [query], disorder=0, settings=settings)
    hosts.append(NodeHost("root", root, FakeLinks("root", neighbours), clock=clock))
    for host in hosts:
        host.start()
    while not all(host.is_ready for host in hosts):
        clock.now_ns += millisecond
        turn_all(hosts)
    begin_ns = clock.now_ns
    for host in hosts[:2]:
        host.feed.begin_ns = begin_ns
    while not hosts[-1].is_finished:
        clock.now_ns += millisecond
        assert clock.now_ns < begin_ns + 2_000 * millisecond
        turn_all(hosts)
    emissions = hosts[-1].emissions
    found = joined(emission.rows for emission in emissions)
    shown = ResultShape.of([query], pa.int64(), "us", is_stream=False).rows(found)
    assert sorted(map(repr, shown.to_pylist())) == sorted(
        map(repr, hw.run(together(2, events), [query]).table.to_pylist())
    )
    for emission in emissions[:-1]:
        # Ten seconds of event time are one of the clock. A window can close with the first event behind its end.
        due_ns = begin_ns + np.asarray(emission.rows["window_end"].cast(pa.int64())) * 100
        assert (due_ns <= emission.emitted_ns).all() and (emission.emitted_ns <= due_ns + 10 * millisecond).all()
    assert len(emissions) == 10


def turn_all(hosts: list[NodeHost]) -> None:
    """Until none has anything to do at this moment."""
    while sum(host.turn() for host in hosts):
        pass
