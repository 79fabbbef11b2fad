"""A tree of real nodes in one process whose leaves read a workload, and what a run of it shows.

Leaves read as a host would let them: from the offset that they ask for, not while they are paused, and no leaf far ahead of the
others. Several trees, one for each scheme, read the same batches in step, so that events are made once for all of them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.base.arrays import Int64Array
from headwater.bench.deco.schemes import UNRECORDED, root_settings
from headwater.bench.deco.workload import SCHEMA, Batches, DecoWorkload, recent_batches
from headwater.bench.tree.stream import central_frame
from headwater.protocols.actions import Action, PauseReading, ReadFrom, ResumeReading, SetTimer
from headwater.protocols.events import BatchArrived, Event, FlushAsked, SourceEnded, SourceOpened
from headwater.simulator.instant import InstantTree

ROOT = "root"
#: By how many slices of time a leaf may be ahead of the slowest.
LEAD = 2


class CountTree(InstantTree):
    """A root and leaves that read ``batches`` of a workload, and of these ``columns``.

    A leaf reads ``at_once`` slices at a time. ``relays``: their number between the leaves and the root.
    """

    def __init__(
        self,
        workload: DecoWorkload,
        batches: Batches,
        scheme: str,
        query: hw.Query,
        columns: Sequence[str],
        at_once: int = 1,
        relays: int = 0,
    ) -> None:
        self.workload = workload
        self.batches = batches
        self.columns = list(columns)
        self.at_once = at_once
        self.work: defaultdict[str, float] = defaultdict(float)
        #: Everything that has happened to the root, and when.
        self.heard: list[tuple[Event, int]] = []
        self._numbers = {name: number for number, name in enumerate(self.workload.names)}
        #: What each leaf reads next, as far as it has said so.
        self._next = np.zeros(self.workload.leaves, np.int64)
        self._paused: set[str] = set()
        self._is_told: set[str] = set()
        super().__init__(parents_of(self.workload.names, relays), [query], settings=UNRECORDED, **root_settings(scheme))
        schema = pa.schema([SCHEMA.field(name) for name in self.columns])
        for name in self.workload.names:
            self.handle(name, SourceOpened(name, "", schema))
        self.settle()

    @property
    def is_read(self) -> bool:
        """Whether every leaf has read everything."""
        return bool((self._next >= self.workload.offsets[-1]).all())

    @property
    def total_bytes(self) -> int:
        """Of all links, both directions."""
        return sum(self.bytes_up.values()) + sum(self.bytes_down.values())

    def read_some(self, stop: int) -> None:
        """Every leaf that may read reads a batch, none beyond slice ``stop``; then everything settles."""
        places = self._slices()
        low = int(places.min())
        moved = 0
        for leaf, number in enumerate(places.tolist()):
            if number < min(stop, low + LEAD * self.at_once) and self.workload.name(leaf) not in self._paused:
                self._read_slices(leaf, number, min(stop, (number // self.at_once + 1) * self.at_once))
                moved += 1
        self.settle()
        if not moved and (self._slices() == places).all():
            raise RuntimeError(f"no leaf may read on at slice {low} of {self.workload.slices}: {sorted(self._paused)}")

    def read_until(self, stop: int) -> None:
        """Read all events of the slices before ``stop``."""
        while int(self._slices().min()) < stop:
            self.read_some(stop)

    def finish(self) -> None:
        """The end of the stream."""
        self.read_until(self.workload.slices)
        for leaf in range(self.workload.leaves):
            self._tell_end(leaf)
        self.settle()
        self.tell_root(FlushAsked())
        self.read_until(self.workload.slices)
        if not self.is_finished:
            raise RuntimeError("the root has not finished although every event was read")

    def handle(self, name: str, event: Event) -> None:
        """As the tree does, with the processor time that the node took."""
        self.now_ns += 1
        if name == ROOT:
            self.heard.append((event, self.now_ns))
        start = time.process_time()
        actions = self.nodes[name].handle(event, self.now_ns)
        self.work[name] += time.process_time() - start
        for action in actions:
            self._do(name, action)

    def _do(self, name: str, action: Action) -> None:
        match action:
            case ReadFrom(source, offset):
                self._next[self._numbers[source]] = offset
                self._is_told.discard(source)
            case PauseReading():
                self._paused.add(name)
            case ResumeReading():
                self._paused.discard(name)
            case SetTimer("calm"):
                pass  # what no window waits for can wait for the next batch
            case _:
                super()._do(name, action)

    def _slices(self) -> Int64Array:
        """In which slice each leaf's next event is; the number of slices for those that have read all."""
        ends = self.workload.offsets[1:].T
        return np.array([np.searchsorted(end, place, side="right") for end, place in zip(ends, self._next)], np.int64)

    def _read_slices(self, leaf: int, number: int, stop: int) -> None:
        name, offset = self.workload.name(leaf), int(self._next[leaf])
        batch = self.batches(leaf, number, stop).select(self.columns)
        batch = batch.slice(offset - int(self.workload.offsets[number, leaf]))
        self._next[leaf] += len(batch)  # before it is handed over: the leaf may ask for another offset then
        self.handle(name, BatchArrived(name, offset, batch, None))

    def _tell_end(self, leaf: int) -> None:
        name = self.workload.name(leaf)
        if name not in self._is_told:
            self._is_told.add(name)
            self.handle(name, SourceEnded(name, int(self._next[leaf])))


def parents_of(leaves: Sequence[str], relays: int = 0) -> dict[str, str]:
    """Who stands above whom.

    >>> parents_of(["a", "b", "c"], 2)
    {'a': 'relay-0', 'b': 'relay-0', 'c': 'relay-1', 'relay-0': 'root', 'relay-1': 'root'}
    """
    if not relays:
        return dict.fromkeys(leaves, ROOT)
    size = -(-len(leaves) // relays)
    below = {leaf: f"relay-{number // size}" for number, leaf in enumerate(leaves)}
    return {**below, **dict.fromkeys(below.values(), ROOT)}


@dataclass(frozen=True)
class SchemeRun:
    """What one scheme showed over a workload; ``work`` and ``events`` are those behind the windows that were for warming up."""

    workload: DecoWorkload
    rows: pa.Table
    total_bytes: int
    #: Processor seconds by node.
    work: dict[str, float]
    events: int
    #: What the nodes themselves counted: windows, corrections, raw events, flows, ...
    report: dict[str, float] = field(default_factory=dict)

    @property
    def root_ms_per_window(self) -> float:
        return 1e3 * self.work[ROOT] * self.workload.window / max(1, self.events)

    @property
    def rate(self) -> float:
        """Events per second if every node had a processor of its own: that of the busiest."""
        return self.events / max(self.work.values())

    def per_window(self, name: str) -> float:
        """How often something was counted for every window."""
        return float(self.report.get(name, 0) / max(1, self.rows.num_rows))


def run_together(
    workload: DecoWorkload,
    query: hw.Query,
    schemes: Sequence[str],
    columns: Sequence[str],
    at_once: int = 1,
    warm_windows: int = 0,
) -> dict[str, SchemeRun]:
    """Let a tree for each scheme read the workload; all in step, ``at_once`` slices at a time."""
    batches = recent_batches(workload, (LEAD + 2) * at_once)
    trees = {scheme: CountTree(workload, batches, scheme, query, columns, at_once) for scheme in schemes}
    warm_slices = int(np.searchsorted(workload.offsets.sum(axis=1), warm_windows * workload.window))
    before: dict[str, dict[str, float]] = {scheme: {} for scheme in schemes}
    passed = 0
    for first in range(0, workload.slices, at_once):
        stop = min(first + at_once, workload.slices)
        for tree in trees.values():
            tree.read_until(stop)
        if not passed and 0 < warm_slices <= stop < workload.slices:
            before, passed = {scheme: dict(tree.work) for scheme, tree in trees.items()}, stop
    events = workload.events - int(workload.offsets[passed].sum())
    runs = {}
    for scheme, tree in trees.items():
        # The end of the stream comes once, however many windows there were.
        work = {name: used - before[scheme].get(name, 0.0) for name, used in tree.work.items()}
        tree.finish()
        runs[scheme] = SchemeRun(workload, tree.take_rows(), tree.total_bytes, work, events, counted(tree))
    return runs


def counted(tree: CountTree) -> dict[str, float]:
    """What the root has counted, and with "leaf_" before it the most that any leaf has."""
    report: dict[str, float] = {}
    for name, node in tree.nodes.items():
        for what, value in getattr(node, "count_report", dict)().items():
            key = what if name == ROOT else f"leaf_{what}"
            if isinstance(value, int | float):
                report[key] = max(report.get(key, 0), value)
    return report


def central_bytes(workload: DecoWorkload, columns: Sequence[str]) -> int:
    """The bytes if every leaf sends all its events on as they are, an Arrow frame for each slice of time.

    Frames are as long as their events and a header: one of each length is made.
    """
    sizes: dict[int, int] = {}
    lengths = np.diff(workload.offsets, axis=0)
    total = 0
    for number, leaf in np.ndindex(*lengths.shape):
        length = int(lengths[number, leaf])
        if length not in sizes:
            sizes[length] = len(central_frame(workload.batch(leaf, number).select(list(columns))))
        total += sizes[length]
    return total
