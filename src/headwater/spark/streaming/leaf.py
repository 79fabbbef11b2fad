"""The leaf of one chain for one batch: it takes over where the root stands, reads a stretch of each source, and is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.errors import QueryError
from headwater.node import LeafNode, NodeSettings
from headwater.node.splitting import Sharing, unbundled
from headwater.protocols.actions import Action, PauseReading, Refused, ResumeReading, SendMessage
from headwater.protocols.events import BatchArrived, EventsPassed, TimerFired
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Assign, Cuts, Flush, Positions, decode
from headwater.spark.formats import Passed, Wanted
from headwater.spark.leaf import CONTROL, FAN_IN, ROOT, frame_rows
from headwater.spark.streaming.inputs import Watermark, input_class

#: Nothing waits for a clock. What waits for cuts is read again in every batch, so more of it may.
SETTINGS = NodeSettings(pending_bytes_max=1 << 23, held_max=1 << 24)


@dataclass(frozen=True, slots=True)
class LeafWork:
    """What one task does: ``stretches`` of each source in the order of the assignment, each with the offset it begins at."""

    number: int
    assign: bytes
    queries: str
    kind: str
    stretches: Mapping[str, tuple[int, Sequence[Mapping[str, Any]]]]
    columns: Sequence[str]
    schema: bytes
    strict: bool
    roots: int
    sharing: Sharing
    flush: bool
    cuts: bytes | None

    def frames(self) -> Iterator[pa.RecordBatch]:
        """What the leaf sends."""
        return _Task(self).run()


def control_row(offset: Mapping[str, Any], roots: int) -> pa.RecordBatch:
    """What a batch is, for each root."""
    return frame_rows(0, CONTROL, 0, [json.dumps(offset).encode()] * roots)


class _Task:
    def __init__(self, work: LeafWork) -> None:
        assign = decode(work.assign)
        assert isinstance(assign, Assign)
        self._work = work
        self._assign = assign
        self._leaf = LeafNode(
            assign.node, ROOT, chain=assign.chain, settings=SETTINGS, roots=work.roots, sharing=work.sharing
        )
        self._position = assign.position
        self._sent = 0
        self._is_paused = False

    def run(self) -> Iterator[pa.RecordBatch]:
        work = self._work
        yield from self._after(self._leaf.hear(replace(self._assign, queries=work.queries)))
        wanted = Wanted(work.columns, pa.ipc.read_schema(pa.py_buffer(work.schema)), work.strict)
        for source, (start, stretches) in work.stretches.items():
            yield from self._read(source, start, stretches, wanted)
        if work.flush:
            yield from self._after(self._leaf.hear(Flush()))
        yield from self._after(self._leaf.handle(TimerFired("send"), 0))
        if work.cuts is not None:
            cuts = decode(work.cuts)
            assert isinstance(cuts, Cuts)
            yield from self._after(self._leaf.hear(cuts), is_cut=True)

    def _read(
        self, source: str, start: int, stretches: Sequence[Mapping[str, Any]], wanted: Wanted
    ) -> Iterator[pa.RecordBatch]:
        """What the leaf says to the events of one source from ``start`` on."""
        at = start
        for stretch in stretches:
            for told in input_class(self._work.kind).read(stretch, wanted):
                if isinstance(told, Passed):
                    event: Any = EventsPassed(source, at, told.count, told.low, told.high)
                    at += told.count
                elif isinstance(told, Watermark):
                    columns = pa.schema([wanted.schema.field(name) for name in wanted.columns])
                    event = BatchArrived(source, at, pa.RecordBatch.from_pylist([], columns), told.time)
                else:
                    event = BatchArrived(source, at, told)
                    at += len(told)
                yield from self._after(self._leaf.handle(event, 0))
                if self._is_paused:
                    return  # the root has to cut first; the next batch reads on from here

    def _after(self, actions: Sequence[Action], is_cut: bool = False) -> Iterator[pa.RecordBatch]:
        """Frames on their way. What a task yields arrives, so it counts as accepted until the task is over."""
        for action in actions:
            if isinstance(action, Refused):
                raise QueryError(action.reason)
            if isinstance(action, PauseReading | ResumeReading):
                self._is_paused = isinstance(action, PauseReading)
            if not isinstance(action, SendMessage):
                continue
            shares = [action.frame] if is_cut else unbundled(action.frame, self._work.roots)
            yield frame_rows(self._work.number // FAN_IN, self._assign.chain, self._sent, shares)
            self._sent += 1
            if not is_cut:
                self._position += 1
                accepted = Positions(False, {self._assign.chain: Position(self._assign.epoch, self._position)})
                yield from self._after(self._leaf.hear(accepted))
