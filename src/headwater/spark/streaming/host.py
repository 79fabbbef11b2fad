"""Runs the root node of a stream batch by batch, on the driver: frames in, rows out, state and directive for the next.

Batch N takes the root as batch N - 1 left it, and everything that decides is in N's offset. So a batch that is run again after
whatever died gives the same rows, the same state and the same directive.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from headwater.errors import DataError, HeadwaterError
from headwater.language.files.queries import from_json
from headwater.node import RootNode
from headwater.node.forgetting import without_sources
from headwater.protocols import events
from headwater.protocols.actions import Action, EmitAside, EmitRows, Noted, Record
from headwater.protocols.messages import Assign, Hello, encode
from headwater.spark.batch.leaf import CONTROL
from headwater.spark.batch.root import in_order
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.directives import Directive, narrowed
from headwater.spark.streaming.errors import CheckpointError
from headwater.spark.streaming.inputs.input import forgets_sources
from headwater.spark.streaming.planning import Offset
from headwater.spark.streaming.start.query_changes import check_homes, check_shared, check_shown
from headwater.spark.streaming.states import StateRef
from headwater.spark.streaming.watch.standstill import NAMED_MAX

#: The link over which everything comes. Tasks are trusted, and whether a leaf or a relay brings a chain depends on the batch: by
#: links of their own a root that has heard them would decide otherwise than one that was made again.
TASKS = "tasks"
#: A snapshot is written once the records since the last one are as large as it is, or after SNAPSHOT_EVERY batches.
SNAPSHOT_EVERY = 50
SNAPSHOT_BYTES_MIN = 1 << 20
#: With a snapshot sources are forgotten that are done; one is written for them once they are so many, and half of all.
FORGET_MIN = 1000


@dataclass
class BatchOutput:
    """Output of a batch: its offset, tables of rows and of events set aside, notes, and bytes by link."""

    offset: Offset = field(default_factory=Offset)
    rows: list[pa.Table] = field(default_factory=list)
    aside: list[pa.Table] = field(default_factory=list)
    notes: list[Noted] = field(default_factory=list)
    link_bytes: Counter[str] = field(default_factory=Counter)


class RootHost:
    """Runs a root of one stream, batch by batch, for one owner: the only root, or one (``number``) of several (``roots``)."""

    def __init__(self, checkpoint: StreamCheckpoint, owner: int, number: int = 0, roots: int = 1) -> None:
        self.number = number
        self._checkpoint, self._owner, self._roots = checkpoint, owner, roots
        self._states = checkpoint.states(number, roots)
        self._root: RootNode | None = None
        self._has_adopted = False
        self._state: StateRef | None = None  # the state that the root in memory is, if it is any
        self._recorded, self._snapshot_bytes = 0, 0
        self._records: list[bytes] = []
        self._before: StateRef | None = None  # the state from which this batch goes on
        self._told: Directive | None = None  # what leaves were told for it
        #: Sources of which nothing is left to be read, and those of them that were forgotten with this batch.
        self._done: list[str] = []
        self._forgotten: list[str] = []

    # --- one batch ---

    def begin(self, root: RootNode, offset: Offset) -> Directive:
        """The root as it is before the first batch: what it says."""
        self._root = root
        self.save_state(offset.batch)
        return self.directive(offset, BatchOutput())

    def run(self, batch: int, frames: Iterable[pa.RecordBatch]) -> tuple[Offset, BatchOutput]:
        """Take the frames of a batch through the root: its offset and its output. Nothing is written yet."""
        self._records, self._done, self._forgotten = [], [], []
        before = self._checkpoint.said(batch - 1)
        root, self._before = self._loaded(before)
        self._told = before
        self._state = None  # until this batch is saved, the root in memory is ahead of every state
        # Chain after chain: run again, tasks may end in another order, and nothing may depend on that.
        messages = sorted(((chain, bytes(frame)) for _, _, chain, frame in in_order(frames)), key=lambda each: each[0])
        offset = _control(messages, batch)
        outcome = BatchOutput(offset)
        if offset.flush:
            self._do(root, events.FlushAsked(), offset, outcome)
        for chain, frame in messages:
            if chain != CONTROL:
                outcome.link_bytes[chain] += len(frame)
                self._do(root, events.MessageReceived(TASKS, frame), offset, outcome)
        self._decide(root, before, offset, outcome)
        return offset, outcome

    def _decide(self, root: RootNode, before: Directive, offset: Offset, outcome: BatchOutput) -> None:
        """Idle sources, sources that join, commands and cuts, after the events of the batch: they may void what is to be sent."""
        if root.settings.idle_ns is not None:
            self._do(root, events.TimerFired("idle"), offset, outcome)
        accepted = {s.name: s.offset for assign in root.assignments.all() for s in assign.sources}
        for source in offset.done:
            if accepted.get(source, -1) >= offset.ends.get(source, 0):
                self._do(root, events.IdleAsked(source), offset, outcome)
                self._done.append(source)
        for chain, sources in offset.joining.items():
            assign = before.assigns.get(chain)
            known = [] if assign is None else [(source.name, source.home) for source in assign.sources]
            hello = Hello(chain, chain, 0 if assign is None else assign.epoch, 0, (*known, *sources.items()))
            self._do(root, events.MessageReceived(TASKS, encode(hello)), offset, outcome)
        for number in range(before.commands, offset.commands):
            self._command(root, number, offset, outcome)
        self._do(root, events.TimerFired("cut"), offset, outcome)
        if before.is_behind:
            self._do(root, events.TimerFired("empty"), offset, outcome)

    def _command(self, root: RootNode, number: int, offset: Offset, outcome: BatchOutput) -> None:
        command = self._checkpoint.command(number)
        try:
            if command["what"] == "add":
                for query in from_json(command["queries"]):
                    check_shown(query, self._checkpoint.about())
                    check_homes([query], self._checkpoint)
                    check_shared(query, self._checkpoint.about())
                    self._do(root, events.QueryAdded(query, command.get("at")), offset, outcome)
            elif command["what"] == "remove":
                self._do(root, events.QueryRemoved(command["name"], command["drain"]), offset, outcome)
        except HeadwaterError as error:
            self._checkpoint.refuse(number, str(error))

    def _do(self, root: RootNode, event: events.Event, offset: Offset, outcome: BatchOutput) -> None:
        actions: Sequence[Action] = root.handle(event, offset.now_ns)
        check_granted(actions)
        for action in actions:
            match action:
                case Record(data):
                    self._records.append(data)
                case EmitRows(rows=rows):
                    outcome.rows.append(rows)
                case EmitAside(rows=rows):
                    outcome.aside.append(rows)
                case Noted():
                    outcome.notes.append(action)
        # No timer is set: the end of every batch is the time for all.

    # --- what it leaves ---

    def directive(self, offset: Offset, outcome: BatchOutput, status: dict[str, Any] | None = None) -> Directive:
        """The directive for the next batch; the state after this one is written before."""
        root = self._root
        assert root is not None and self._state is not None
        assigns: dict[str, Assign] = {}
        again: dict[str, list[tuple[int, int]]] = {}
        kept_from: dict[str, int] = {}
        for assign in root.assignments.all():
            assigns[assign.chain], some = narrowed(assign, root.assignments.rereads(assign.chain))
            again |= some
            kept_from |= {s.name: min(s.hold, s.offset) for s in assign.sources if s.name in some}
        behind = any(s.offset < offset.ends.get(s.name, 0) for a in assigns.values() for s in a.sources)
        cuts, plan = root.cuts.announced, root.count_plan
        # A chain that has a look to answer reads events again; that needs no new ones.
        is_asked = cuts is not None or any(assign.looks for assign in assigns.values())
        directive = Directive(
            offset.batch,
            self._queries(offset.batch, root),
            list(root.columns),
            assigns,
            None if cuts is None else encode(cuts),
            False,
            root.silent_at_ns,
            root.is_finished,
            offset.commands,
            status or {},
            None if plan is None else encode(plan),
            again,
            [] if plan is None else root.idle_sources,
            kept_from,
            root.is_behind,
            self._forgotten,
            owner=self._owner,
            states=(self._state,),
            offset=offset.hash,
        )
        # Told the same once more, leaves would read the same and say the same: only something new, or time, helps them on.
        helps = self._told is None or not directive.tells_the_same(self._told)
        wants = root.is_behind or offset.flush or (behind or is_asked) and helps
        return replace(directive, wants_batch=wants and not root.is_finished)

    def _queries(self, batch: int, root: RootNode) -> str:
        """The name of the queries after a batch, and the text under it."""
        return self._checkpoint.write_queries(
            root.assignments.query_text, batch, "" if self._told is None else self._told.queries
        )

    def save_state(self, batch: int) -> None:
        """Write the state after a batch; it counts once the directive that names it does."""
        root = self._root
        assert root is not None
        size = sum(map(len, self._records))
        before = self._before
        is_long = self._recorded + size > max(SNAPSHOT_BYTES_MIN, self._snapshot_bytes)
        is_crowded = len(self._done) >= max(FORGET_MIN, len(root.members.names) // 2)
        # Records of old links and of this one are never behind one snapshot.
        is_changed = is_crowded or self._has_adopted
        if before is None or is_long or is_changed or batch - before.since >= SNAPSHOT_EVERY:
            snapshot = self._forget_done(root).snapshot()
            self._state = self._states.write_snapshot(batch, self._owner, snapshot)
            self._recorded, self._snapshot_bytes = 0, len(snapshot)
            self._has_adopted = False
        else:
            self._state = self._states.write_records(batch, self._owner, before, self._records)
            self._recorded += size

    def _forget_done(self, root: RootNode) -> RootNode:
        """The root without sources that are done, if the input can leave them out as well. It is the one from now on."""
        about = self._checkpoint.about()
        # Several roots hold different events, but have to know the same sources.
        if self._done and about is not None and about.roots == 1 and forgets_sources(about.kind, about.input):
            root, self._forgotten = without_sources(root, self._done)
            self._root = root
        return root

    def status(self, offset: Offset, outcome: BatchOutput) -> dict[str, Any]:
        """How the stream is doing, for people: nothing is decided by it."""
        root = self._root
        assert root is not None
        assigns = root.assignments.all()
        holding_up = root.holding_up
        return {
            "batch": offset.batch,
            "now_ns": offset.now_ns,
            "events": sum(s.offset for assign in assigns for s in assign.sources) + root.members.forgotten_events,
            "rows": sum(map(len, outcome.rows)),
            "watermark": root.watermark,
            "counters": root.counters(),
            "sources": sum(len(assign.sources) for assign in assigns),
            "sources_idle": len(root.idle_sources),
            "holding_up": {"sources": holding_up[:NAMED_MAX], "count": len(holding_up)},
            "idle_ns": root.settings.idle_ns,
            "open_windows": root.open_count,
            "state_bytes": self._snapshot_bytes + self._recorded,
            "link_bytes": dict(outcome.link_bytes),
        }

    # --- what it finds ---

    def _loaded(self, before: Directive) -> tuple[RootNode, StateRef]:
        """The root after a batch: the one in memory if that is what it is, else made again from its state."""
        state = self._checkpoint.state(before, self.number, self._roots)
        if self._root is None or self._state != state:
            saved = self._states.saved(state)
            self._root, _ = RootNode.recover(saved.snapshot, saved.records)
            self._has_adopted = self._root.adopt(TASKS)  # from a release whose tasks had links of their own
            self._snapshot_bytes = len(saved.snapshot)
            self._recorded = sum(map(len, saved.records))
            state = state._replace(since=saved.since)
        return self._root, state


def check_granted(actions: Iterable[Action]) -> None:
    """DataError if the root has refused sources: they would ask to join again with every batch, and no flush would end."""
    for action in actions:
        if isinstance(action, Noted) and action.what == "refused":
            raise DataError(
                f"{action.detail['why']}; begin a stream of fewer sources (sources='folder' instead of 'file') or of more tasks"
            )


def _control(messages: Iterable[tuple[str, bytes]], batch: int) -> Offset:
    """The offset of the batch, which travels as a frame of its own."""
    offset = next((Offset.from_data(json.loads(frame)) for chain, frame in messages if chain == CONTROL), None)
    if offset is None or offset.batch != batch:
        found = "none" if offset is None else offset.batch
        raise CheckpointError(
            f"Spark runs batch {batch}, but the offset is of batch {found}: the two checkpoints do not fit"
        )
    return offset
