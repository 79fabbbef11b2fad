"""A frame that is lost is sent again, however busy the neighbours are."""

import heapq
from collections.abc import Callable
from itertools import count

import pyarrow as pa

import headwater as hw
from headwater.node import LeafNode, RelayNode, RootNode
from headwater.protocols.actions import EmitRows, PauseReading, ReadFrom, ResumeReading, SendMessage, SetTimer
from headwater.protocols.delta import Delta
from headwater.protocols.events import BatchArrived, MessageReceived, SourceOpened, Started, TimerFired
from headwater.protocols.messages import decode

SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string()})
SECOND = 10**9


class Host:
    """Nodes, links that take a millisecond, and a say in which frames are lost."""

    def __init__(self, nodes: dict, is_lost: Callable[[str, Delta, int], bool]) -> None:
        self.nodes, self.is_lost, self.now = nodes, is_lost, 0
        self.row_times: list[int] = []
        self._queue: list = []
        self._numbers = count()
        self._timers: dict = {}
        self._logs: dict[str, list] = {}
        self._paused: set[str] = set()
        for name in nodes:
            self.at(0, name, Started())

    def at(self, time: int, name: str, event: object) -> int:
        number = next(self._numbers)
        heapq.heappush(self._queue, (time, number, name, event))
        return number

    def run(self, until: int) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, number, name, event = heapq.heappop(self._queue)
            if isinstance(event, TimerFired) and self._timers.get((name, event.name)) != number:
                continue
            for action in self.nodes[name].handle(event, self.now):
                self._do(name, action)
        self.now = until

    def _do(self, name: str, action: object) -> None:
        match action:
            case SendMessage(target, frame):
                message = decode(frame)
                if not (isinstance(message, Delta) and self.is_lost(name, message, self.now)):
                    self.at(self.now + 10**6, target, MessageReceived(name, frame))
            case SetTimer(timer, delay):
                self._timers[name, timer] = self.at(self.now + delay, name, TimerFired(timer))
            case EmitRows():
                self.row_times.append(self.now)
            case PauseReading():
                self._paused.add(name)
            case ResumeReading():
                self._paused.discard(name)
            case ReadFrom(source, offset) if name not in self._paused:
                for start, batch, watermark in self._logs.get(source, [])[offset:]:
                    self.at(self.now, name, BatchArrived(source, start, batch, watermark))

    def push(self, leaf: str, source: str, time: int, watermark: int, key: str = "a") -> None:
        log = self._logs.setdefault(source, [])
        batch = pa.record_batch({"time": [time], "k": [key]}, schema=SCHEMA)
        log.append((len(log), batch, watermark))
        if leaf not in self._paused:
            self.at(self.now, leaf, BatchArrived(source, len(log) - 1, batch, watermark))


def once(matches: Callable[[str, Delta, int], bool]) -> Callable[[str, Delta, int], bool]:
    """Lose the first delta that matches."""
    lost: list[Delta] = []

    def is_lost(sender: str, delta: Delta, now: int) -> bool:
        if lost or not matches(sender, delta, now):
            return False
        lost.append(delta)
        return True

    return is_lost


def test_a_relay_sends_a_lost_delta_again_though_a_sibling_is_answered_all_the_time():
    queries = [hw.query("n", hw.tumbling(10), n=hw.count())]
    nodes = {
        "root": RootNode("root", queries, schema=SCHEMA),
        "relay": RelayNode("relay", "root"),
        "A": LeafNode("A", "relay"),
        "B": LeafNode("B", "relay"),
    }
    host = Host(
        nodes, once(lambda sender, delta, now: sender == "relay" and now > 3 * SECOND and set(delta.ranges) == {"A"})
    )
    host.at(0, "A", SourceOpened("a", schema=SCHEMA))
    host.at(0, "B", SourceOpened("b", schema=SCHEMA))
    host.run(2 * SECOND)
    host.push("A", "a", 1, 5)
    host.push("B", "b", 1, 5)
    host.run(4 * SECOND)
    host.push("A", "a", 1000, 10**6)
    host.run(host.now + SECOND // 4)
    for i in range(100):
        host.push("B", "b", 10 + i, 10 + i)
        host.run(host.now + SECOND // 10)
    assert nodes["root"].watermark > 80


def test_a_leaf_sends_lost_cuts_again_though_its_deltas_are_accepted_all_the_time():
    queries = [hw.query("n", hw.punctuated(hw.col("k") == "cut"), n=hw.count())]
    nodes = {"root": RootNode("root", queries, schema=SCHEMA), "A": LeafNode("A", "root")}
    host = Host(nodes, once(lambda sender, delta, now: "A#cuts" in delta.ranges and now > 5 * SECOND))
    host.at(0, "A", SourceOpened("a", schema=SCHEMA))
    host.run(2 * SECOND)
    for i in range(150):
        host.push("A", "a", i, i, "cut" if i % 5 == 0 else "a")
        host.run(host.now + SECOND // 10)
    assert host.now - host.row_times[-1] < 2 * SECOND
