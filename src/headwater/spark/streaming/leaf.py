"""Runs the leaf of one chain for one batch: restored from the root's assignment, it reads its offset ranges and ends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes
from headwater.errors import QueryError
from headwater.language.time_columns import ARRIVAL
from headwater.node import LeafNode, NodeSettings
from headwater.node.splitting import Sharing, unbundled
from headwater.protocols.actions import Action, PauseReading, Refused, ResumeReading, SendMessage
from headwater.protocols.events import BatchArrived, EventsPassed, Leaving, TimerFired
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Assign, CountPlan, Cuts, Flush, Positions, decode
from headwater.spark.batch.leaf import CONTROL, FAN_IN, ROOT, frame_rows
from headwater.spark.formats import Passed, Wanted
from headwater.spark.streaming.arrivals import Stamps
from headwater.spark.streaming.inputs.input import Watermark, input_class

Told = BatchArrived | EventsPassed
#: Stretches without a gap, and the offset at which the first begins; what lies between runs is not read.
Run = tuple[int, Sequence[Mapping[str, Any]]]


#: Nothing waits for a clock. What waits for cuts is read again in every batch, so more of it may.
SETTINGS = NodeSettings(pending_bytes_max=1 << 23, held_max=1 << 24, is_brief=True)


@dataclass(frozen=True, slots=True)
class LeafLimits:
    """How much a leaf takes and holds before it sends."""

    node: NodeSettings = SETTINGS
    #: Count windows: a leaf that has read this many events sends what is closed, so that little of it has to be read again.
    send_events: int = 1 << 18
    #: Count windows: up to how many sources are read side by side, so that they get on together and little has to wait.
    side_by_side_max: int = 64
    side_by_side_events: int = 1 << 16


LIMITS = LeafLimits()


@dataclass(frozen=True, slots=True)
class LeafWork:
    """The work of one task: the leaf of one chain reads ``runs`` of its sources, in the order of the assignment."""

    number: int
    assign: bytes
    queries: str
    kind: str
    runs: Mapping[str, Sequence[Run]]
    columns: Sequence[str]
    schema: bytes
    strict: bool
    roots: int
    sharing: Sharing
    flush: bool
    cuts: bytes | None
    plan: bytes | None = None
    stamps: Stamps | None = None

    def frames(self, limits: LeafLimits = LIMITS) -> Iterator[pa.RecordBatch]:
        """What the leaf sends."""
        return _Task(self, limits).run()


def control_row(offset: Mapping[str, Any], roots: int) -> pa.RecordBatch:
    """The frames that tell each root the offset of the batch."""
    return frame_rows(0, CONTROL, 0, [json.dumps(offset).encode()] * roots)


class _Task:
    def __init__(self, work: LeafWork, limits: LeafLimits) -> None:
        assign = decode(work.assign)
        assert isinstance(assign, Assign)
        self._work, self._limits = work, limits
        self._assign = assign
        self._leaf = LeafNode(
            assign.node, ROOT, chain=assign.chain, settings=limits.node, roots=work.roots, sharing=work.sharing,
            modules=None,  # this task is the driver's own code
        )  # fmt: skip
        self._position = assign.position
        self._sent = 0
        self._is_paused = False
        self._counts = bool(assign.covered)
        self._is_side_by_side = self._counts and 1 < len(work.runs) <= limits.side_by_side_max
        self._unsent = 0

    def run(self) -> Iterator[pa.RecordBatch]:
        work = self._work
        yield from self._after(self._leaf.hear(replace(self._assign, queries=work.queries)))
        if work.plan is not None:
            plan = decode(work.plan)
            assert isinstance(plan, CountPlan)
            yield from self._after(self._leaf.hear(plan))
        schema = schema_from_bytes(work.schema)
        wanted = Wanted(self._columns(schema), schema, work.strict)
        for event in self._events(wanted):
            yield from self._after(self._leaf.handle(event, 0))
            yield from self._send_sometimes(event)
            if self._is_paused:
                break  # the root has to cut first; the next batch reads on from here
        if work.flush:
            yield from self._after(self._leaf.hear(Flush()))
        # Count windows: what this leaf kept for later, the next would have to read again.
        yield from self._after(self._leaf.handle(Leaving(), 0))
        if work.cuts is not None:
            cuts = decode(work.cuts)
            assert isinstance(cuts, Cuts)
            yield from self._after(self._leaf.hear(cuts), is_cut=True)

    def _columns(self, schema: pa.Schema) -> list[str]:
        """The columns to be read, at least one: arrivals only where the input stores them."""
        plain = [name for name in self._work.columns if name != ARRIVAL] or schema.names[:1]
        stamps = self._work.stamps
        return [*plain, ARRIVAL] if stamps is not None and stamps.taken is None else plain

    def _events(self, wanted: Wanted) -> Iterator[Told]:
        """The events of all sources."""
        reading = {source: self._read(source, runs, wanted) for source, runs in self._work.runs.items()}
        if not self._is_side_by_side:
            for each in reading.values():
                yield from each
            return
        while reading:
            source = min(reading, key=self._leaf.watermark)
            event = next(reading[source], None)
            if event is None:
                del reading[source]
            else:
                yield event

    def _read(self, source: str, runs: Sequence[Run], wanted: Wanted) -> Iterator[Told]:
        """Events of a source in its runs, and what lies between them, at least up to where it was accepted."""
        states = {state.name: state for state in self._assign.sources}
        at, accepted = states[source].hold, states[source].offset
        for start, stretches in runs:
            if at < start:
                yield EventsPassed(source, at, start - at)
                at = start
            for stretch in stretches:
                for told in input_class(self._work.kind).read(stretch, wanted):
                    if isinstance(told, Passed):
                        yield EventsPassed(source, at, told.count, told.low, told.high)
                        at += told.count
                    elif isinstance(told, Watermark):
                        columns = pa.schema([wanted.schema.field(name) for name in wanted.columns if name != ARRIVAL])
                        yield BatchArrived(source, at, pa.RecordBatch.from_pylist([], columns), told.time)
                    else:
                        for part in self._parts(told):
                            stamps = self._work.stamps
                            yield BatchArrived(source, at, part if stamps is None else stamps.on(source, at, part))
                            at += len(part)
        if at < accepted:
            yield EventsPassed(source, at, accepted - at)

    def _parts(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """A batch at once, or so that another source gets its turn soon."""
        step = self._limits.side_by_side_events if self._is_side_by_side else max(1, len(batch))
        return [batch.slice(at, step) for at in range(0, len(batch), step)]

    def _send_sometimes(self, event: Told) -> Iterator[pa.RecordBatch]:
        """Count windows: send what is closed, once it is much."""
        if not self._counts or not isinstance(event, BatchArrived):
            return
        self._unsent += len(event.batch)
        if self._unsent >= self._limits.send_events:
            self._unsent = 0
            yield from self._after(self._leaf.handle(TimerFired("send"), 0))

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
