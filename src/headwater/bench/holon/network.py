"""Nodes without a root over a network that loses nothing: what they send each other, to the byte."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.node.holon.happenings import (
    AppendRows,
    HolonAction,
    HolonEvent,
    InputSeen,
    PeerJoined,
    RowsAppended,
    RowsSynced,
    StopReading,
)
from headwater.node.holon.node import HolonNode
from headwater.node.holon.shared_program import ProgramPlan
from headwater.protocols.actions import ReadFrom, SendMessage, SetTimer
from headwater.protocols.events import BatchArrived, MessageReceived, Started, TimerFired

#: So often a host looks at the input, and frames arrive.
TICK_NS = 5_000_000


class HolonNetwork:
    """Nodes that share partitions whose events are there when their time, in microseconds, has come."""

    def __init__(self, plan: ProgramPlan, nodes: int, inputs: Mapping[str, pa.RecordBatch]) -> None:
        #: The bytes of all frames so far, and the rows that came out.
        self.sent = 0
        self.rows = 0
        self.now_ns = 0
        self._inputs = inputs
        self._times_ns = {name: np.asarray(batch.column("time")) * 1000 for name, batch in inputs.items()}
        self._nodes = {f"n{number}": HolonNode(f"n{number}", plan) for number in range(nodes)}
        self._timers: dict[str, dict[str, int]] = {name: {} for name in self._nodes}
        self._reading: dict[str, dict[str, int]] = {name: {} for name in self._nodes}
        self._waiting: deque[tuple[str, HolonEvent]] = deque()
        self._durable: dict[str, int] = {}
        for name in self._nodes:
            self._happen(name, Started())
            for other in self._nodes.keys() - {name}:
                self._happen(name, PeerJoined(other))

    def run(self, until_ns: int) -> None:
        """Let time pass."""
        while self.now_ns < until_ns:
            self.now_ns += TICK_NS
            there = {name: int(np.searchsorted(times, self.now_ns)) for name, times in self._times_ns.items()}
            for name in self._nodes:
                self._look(name, there)
            while self._waiting:
                self._happen(*self._waiting.popleft())

    def _look(self, name: str, there: dict[str, int]) -> None:
        self._happen(name, InputSeen(there))
        self._happen(name, RowsSynced(dict(self._durable)))
        for partition, start in list(self._reading[name].items()):
            end = there[partition]
            if end > start and self._reading[name].get(partition) == start:
                self._reading[name][partition] = end
                self._happen(name, BatchArrived(partition, start, self._inputs[partition].slice(start, end - start)))
        for timer, at_ns in list(self._timers[name].items()):
            if at_ns <= self.now_ns:
                del self._timers[name][timer]
                self._happen(name, TimerFired(timer))

    def _happen(self, name: str, event: HolonEvent) -> None:
        for action in self._nodes[name].handle(event, self.now_ns):
            self._do(name, action)

    def _do(self, name: str, action: HolonAction) -> None:
        match action:
            case SendMessage(target, frame):
                self.sent += len(frame)
                self._waiting.append((target, MessageReceived(name, frame)))
            case SetTimer(timer, delay_ns):
                self._timers[name][timer] = self.now_ns + delay_ns
            case ReadFrom(partition, offset):
                self._reading[name][partition] = offset
            case StopReading(partition):
                self._reading[name].pop(partition, None)
            case AppendRows(chain, index, rows):
                end = index + len(rows)
                self.rows += max(end - self._durable.get(chain, 0), 0)
                self._durable[chain] = max(end, self._durable.get(chain, 0))
                self._waiting.append((name, RowsAppended(chain, end)))
