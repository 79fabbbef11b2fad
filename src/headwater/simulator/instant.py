"""A tree in one process in which every message arrives at once: for cases, examples and measurements without faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.errors import QueryError
from headwater.language.query import Query
from headwater.node import LeafNode, Node, NodeSettings, RelayNode, RootNode
from headwater.protocols import actions as act
from headwater.protocols import events
from headwater.protocols.actions import Action
from headwater.protocols.events import Event

#: Timers that only matter when a message was lost or a source is silent.
PATIENT = frozenset({"resend", "tend", "idle"})


#: Nodes that still exchange messages after this many steps without an event will never stop.
STEPS_MAX = 1_000_000


@dataclass(slots=True)
class LiveLog:
    """The events of a source so far and its watermarks: read again, it gives the same."""

    leaf: str
    batches: list[tuple[int, pa.RecordBatch, int | None]] = field(default_factory=list)
    end: int = 0
    ended: bool = False


class InstantTree:
    """A root, relays and leaves. ``parents`` names for each node but the root the one above it; those without
    children are leaves.

    >>> import headwater as hw
    >>> tree = InstantTree({"left": "root", "right": "root"}, [hw.query("all", hw.tumbling(10), n=hw.count())])
    >>> for leaf in ("left", "right"):
    ...     tree.open(leaf, leaf, schema=pa.schema({"time": pa.int64()}))
    ...     tree.push(leaf, pa.record_batch({"time": [1, 5]}))
    >>> tree.flush()
    >>> tree.take_rows().column("n").to_pylist()
    [4]
    """

    def __init__(
        self,
        parents: Mapping[str, str],
        queries: Sequence[Query] = (),
        *,
        settings: NodeSettings | None = None,
        keep_records: bool = False,
        modules: Collection[str] | None = None,
        **root_settings: Any,
    ) -> None:
        above = set(parents.values())
        self.root_name = next(iter(above - set(parents)), "root")
        self.root = RootNode(self.root_name, queries, settings=settings, **root_settings)
        self.nodes: dict[str, Node] = {self.root_name: self.root}
        for name, parent in parents.items():
            kind = RelayNode if name in above else LeafNode
            self.nodes[name] = kind(name, parent, settings=settings, modules=modules)
        self.parents = dict(parents)
        self.sources: dict[str, LiveLog] = {}
        self.bytes_up: dict[str, int] = dict.fromkeys(parents, 0)
        self.bytes_down: dict[str, int] = dict.fromkeys(parents, 0)
        self.notes: list[tuple[str, act.Noted]] = []
        self.records: list[bytes] = []
        self.checkpoint = b""
        self.is_finished = False
        self.now_ns = 0
        self._keep_records = keep_records
        self._rows: list[pa.Table] = []
        self._aside: list[pa.Table] = []
        self._messages: deque[tuple[str, str, bytes]] = deque()
        self._timers: dict[tuple[str, str], None] = {}
        for name in self.nodes:
            self.handle(name, events.Started())
        self.settle()

    # --- what happens ---

    def open(self, leaf: str, source: str, home: str = "", schema: pa.Schema | None = None) -> None:
        """Give a leaf a source."""
        self.sources[source] = LiveLog(leaf)
        self.handle(leaf, events.SourceOpened(source, home, schema))
        self.settle()

    def push(self, source: str, batch: pa.RecordBatch, watermark: int | None = None, settle: bool = True) -> None:
        """Give a leaf the next events of a source, and its watermark behind them."""
        log = self.sources[source]
        log.batches.append((log.end, batch, watermark))
        self.handle(log.leaf, events.BatchArrived(source, log.end, batch, watermark))
        log.end += len(batch)
        if settle:
            self.settle()

    def push_mixed(
        self, sources: Sequence[str], which: Int64Array, offsets: Int64Array, batch: pa.RecordBatch, settle: bool = True
    ) -> None:
        """Give a leaf the next events of many sources, which cannot be read again."""
        leaf = self.sources[sources[0]].leaf
        self.handle(leaf, events.MixedBatchArrived(sources, which, offsets, batch))
        if settle:
            self.settle()

    def end(self, source: str) -> None:
        """End a source."""
        log = self.sources[source]
        log.ended = True
        self.handle(log.leaf, events.SourceEnded(source, log.end))
        self.settle()

    def flush(self) -> None:
        """End the stream."""
        self.tell_root(events.FlushAsked())

    def tell_root(self, event: Event) -> None:
        self.handle(self.root_name, event)
        self.settle()

    def settle(self) -> None:
        """Deliver messages and fire timers until there are none."""
        last_ns = self.now_ns + STEPS_MAX
        while self._messages or self._timers:
            if self.now_ns > last_ns:
                raise RuntimeError(
                    f"the nodes do not come to rest after {STEPS_MAX} steps; this is a bug in headwater;"
                    " please report it with the queries and the events"
                )
            while self._messages:
                sender, target, frame = self._messages.popleft()
                self.handle(target, events.MessageReceived(sender, frame))
            timers, self._timers = self._timers, {}
            for name, timer in timers:
                self.handle(name, events.TimerFired(timer))

    # --- what comes of it ---

    def take_rows(self) -> pa.Table:
        """The result rows since the last call."""
        rows, self._rows = self._rows, []
        return pa.concat_tables(rows, promote_options="permissive") if rows else pa.table({})

    def take_aside(self) -> pa.Table | None:
        """The side output since the last call."""
        aside, self._aside = self._aside, []
        return pa.concat_tables(aside) if aside else None

    def handle(self, name: str, event: Event) -> None:
        """Hand one event to one node, and do the actions that it returns."""
        self.now_ns += 1
        for action in self.nodes[name].handle(event, self.now_ns):
            self._do(name, action)

    def _do(self, name: str, action: Action) -> None:
        match action:
            case act.SendMessage(target, frame):
                if self.parents.get(name) == target:
                    self.bytes_up[name] += len(frame)
                else:
                    self.bytes_down[target] += len(frame)
                self._messages.append((name, target, frame))
            case act.SetTimer(timer) if timer not in PATIENT:
                self._timers[name, timer] = None
            case act.ReadFrom(source, offset):
                self._read(name, source, offset)
            case act.EmitRows(_, rows):
                self._rows.append(rows)
            case act.EmitAside(_, rows):
                self._aside.append(rows)
            case act.Record(data) if self._keep_records:
                self.records.append(data)
            case act.Checkpoint(data) if self._keep_records:
                self.checkpoint, self.records = data, []
            case act.Noted():
                self.notes.append((name, action))
            case act.Refused(reason) if not self.is_finished:
                raise QueryError(reason)
            case act.Finished() if name == self.root_name:
                self.is_finished = True

    def _read(self, leaf: str, source: str, offset: int) -> None:
        log = self.sources.get(source)
        if log is None or log.leaf != leaf:
            return
        for start, batch, watermark in list(log.batches):
            if start + len(batch) >= offset:
                skip = max(offset - start, 0)
                self.handle(leaf, events.BatchArrived(source, start + skip, batch.slice(skip), watermark))
        if log.ended:
            self.handle(leaf, events.SourceEnded(source, log.end))
