"""Spark's loop over micro-batches without Spark: the same planner, leaves, root and sinks, and a crash wherever one is wanted."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headwater.base.count_limits import CountLimits
from headwater.language.homes import Home
from headwater.protocols.actions import Noted
from headwater.protocols.count_windows import Counting
from headwater.reference.history import UNREAD
from headwater.spark.formats import Wanted
from headwater.spark.stream import begin
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.host import BatchOutput, RootHost
from headwater.spark.streaming.inputs import input as inputs
from headwater.spark.streaming.inputs.input import Extent, Watermark
from headwater.spark.streaming.leaf import LIMITS, LeafLimits
from headwater.spark.streaming.reducers import TABLES as TABLE_ROWS
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.source import StreamReader

inputs.KINDS["listed"] = "spark.streaming.local_loop:ListedInput"

#: The tables of all sources that tests have, by name: what is "read" lies here.
TABLES: dict[str, pa.RecordBatch] = {}
#: The watermarks that sources tell themselves: each with the count of events before it.
TOLD: dict[str, list[tuple[int, int]]] = {}
#: Events of one batch that an input reads.
READ_EVENTS = 7
STEPS = ("read", "compute", "rows", "aside", "state", "directive", "commit")


class CrashError(Exception):
    """The driver dies here."""


class ListedInput:
    """Sources in memory that show more of themselves when a test says so."""

    kind = "listed"

    def __init__(self, schema: pa.Schema, ends: dict[str, int] | None = None, homes: dict[str, str] | None = None):
        self.schema = schema
        self.ends = {} if ends is None else ends
        self.homes = {} if homes is None else homes
        self.done: set[str] = set()
        self.forgotten: set[str] = set()

    def to_data(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> ListedInput:
        raise AssertionError("the loop puts the input in place itself")

    @staticmethod
    def forgets_sources(data: Mapping[str, Any]) -> bool:
        return True

    def forget(self, sources: Sequence[str]) -> None:
        assert self.done.issuperset(sources)
        self.forgotten.update(sources)

    def extents(self) -> dict[str, Extent]:
        ends = {name: end for name, end in self.ends.items() if name not in self.forgotten}
        return {name: Extent(end, self.homes.get(name, ""), name in self.done) for name, end in ends.items()}

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        middle = (start + end) // 2
        parts = [(start, middle), (middle, end)]
        return [{"source": source, "start": a, "end": b} for a, b in parts if a < b]

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Any:
        table = TABLES[stretch["source"]]
        # Texts of values that could not be read stand beside their columns, as in all formats.
        texts = [UNREAD + name for name in wanted.columns if UNREAD + name in table.schema.names]
        table = table.select([*wanted.columns, *texts])
        at, end = stretch["start"], stretch["end"]
        told = {position: time for position, time in TOLD.get(stretch["source"], ()) if at <= position <= end}
        while at < end:
            # A watermark that stands where a stretch begins was told before; once more does no harm.
            if at in told:
                yield Watermark(told.pop(at))
            stop = min([end, at + READ_EVENTS, *told])
            yield table.slice(at, stop - at)
            at = stop
        if end in told:
            yield Watermark(told[end])


class FakeFrame:
    """The DataFrame of one batch, as far as it is used."""

    def __init__(self, make: Callable[[], pa.Table], parts: int = 1) -> None:
        self._make, self._parts = make, parts

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self._make()

    def repartition(self, count: int, *columns: str) -> FakeFrame:
        return FakeFrame(self._make)

    def repartitionById(self, count: int, column: str) -> FakeFrame:  # noqa: N802
        return FakeFrame(self._make, count)

    def mapInArrow(self, function: Any, schema: Any) -> FakeFrame:  # noqa: N802
        def mapped() -> pa.Table:
            table = self._make()
            if self._parts == 1:
                return pa.Table.from_batches(function(table.to_batches()))
            shares = [table.filter(pc.equal(table["bucket"], number)) for number in range(self._parts)]
            return pa.Table.from_batches([b for share in shares for b in function(share.to_batches())], TABLE_ROWS)

        return FakeFrame(mapped)


class DurableSink:
    """Keeps what it was given over crashes of everything else, and insists that a batch comes again as it was."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}

    def write(self, batch: int, rows: pa.Table) -> None:
        known = self.batches.setdefault(batch, rows)
        assert known is rows or known.equals(rows), f"batch {batch} came again with other rows"

    def close(self) -> None: ...


@contextmanager
def watched(see: Callable[[RootHost, int, BatchOutput], None]) -> Iterator[None]:
    """Be told of everything that roots compute."""
    inner = RootHost.run

    def run(host: RootHost, batch: int, frames: Any) -> Any:
        found = inner(host, batch, frames)
        see(host, batch, found[1])
        return found

    RootHost.run = run
    try:
        yield
    finally:
        RootHost.run = inner


class Loop:
    """One stream, from its beginning to its end, over any number of lives of its driver."""

    def __init__(
        self, place: Path, opened: ListedInput, queries: Any, settings: Any, chains: int, roots: int, seed: int,
        counting: Counting | None = None, limits: CountLimits | None = None, leaf_limits: LeafLimits = LIMITS,
        home: Home = None,
    ):  # fmt: skip
        self.checkpoint = StreamCheckpoint(place)
        self.opened = opened
        if self.checkpoint.about() is None:
            begin(
                self.checkpoint, opened, queries, settings, chains, roots, counting=counting, limits=limits, home=home
            )
        self.roots, self.leaf_limits = roots, leaf_limits
        self.dice = random.Random(seed)
        #: What the planner's steady clock says, and by how much the wall clock is ahead of it.
        self.now_ns = 10**18
        self.ahead_ns = 0
        self.sink, self.aside = DurableSink(), DurableSink()
        self.notes: dict[int, list[Noted]] = {}
        #: What each root gave in each batch, one table after the other.
        self.given: dict[int, dict[str, list[pa.Table]]] = {}
        self.planned: list[dict[str, Any]] = []
        self.committed = 0
        self.crash_at: str | None = None
        self.events_max: int | None = None
        self.restart()

    def restart(self) -> None:
        """A new driver: nothing but the checkpoint and Spark's own logs is left."""
        self.reader = StreamReader(str(self.checkpoint.path), None, self.leaf_limits)
        self.reader.clock = lambda: self.now_ns + self.ahead_ns
        self.reader.steady_clock = lambda: self.now_ns
        self.reader.__dict__["_input"] = self.opened
        self.runner = BatchRunner(self.checkpoint, *self.new_sinks())
        host = self.runner._host
        if self.roots == 1:
            self._wrap(host, "save_state", "state")
        self._wrap(host, "write_directive", "directive")

    def new_sinks(self) -> tuple[Any, Any]:
        """Where rows and events set aside go in one life of the driver."""
        return _Stepped(self, "rows"), _Stepped(self, "aside")

    def _wrap(self, thing: Any, name: str, step: str) -> None:
        inner = getattr(thing, name)

        def stepped(*args: Any) -> Any:
            found = inner(*args)
            self.reached(step)
            return found

        setattr(thing, name, stepped)

    def ran(self, host: RootHost, batch: int, outcome: BatchOutput) -> None:
        """A root has computed a batch; of several the first speaks for all."""
        self.given.setdefault(batch, {})[host._checkpoint.path.name] = outcome.rows
        if host._checkpoint.path.name in (self.checkpoint.path.name, "000"):
            notes = [note for note in outcome.notes if "record" in note.detail]
            known = self.notes.setdefault(batch, notes)
            assert known == notes, f"batch {batch} was decided in another way when it was run again"
        self.reached("compute")

    def reached(self, step: str) -> None:
        if self.crash_at == step:
            self.crash_at = None
            raise CrashError(step)

    # --- the loop ---

    def step(self) -> bool:
        """Run the next batch, or the one that was planned and not committed; False if there is none."""
        if len(self.planned) == self.committed:
            last = self.planned[-1] if self.planned else self.reader.initialOffset()
            limit = ReadAllAvailable() if self.events_max is None else ReadMaxRows(self.events_max)
            end = self.reader.latestOffset(last, limit)
            if end == last:
                return False
            self.planned.append(end)
        batch = self.committed
        start = self.planned[batch - 1] if batch else self.reader.initialOffset()
        with watched(self.ran):
            self.runner(FakeFrame(lambda: self._frames(start, self.planned[batch])), batch)
        self.reached("commit")
        self.committed += 1
        return True

    def safely(self) -> bool:
        """The same; whoever dies is started again."""
        try:
            return self.step()
        except CrashError:
            self.restart()
            return True

    def _frames(self, start: dict[str, Any], end: dict[str, Any]) -> pa.Table:
        batches = []
        for partition in self.reader.partitions(start, end):
            batches += list(self.reader.read(pickle.loads(pickle.dumps(partition))))
        self.reached("read")
        table = pa.Table.from_batches(batches)
        order = np.random.default_rng(self.dice.randrange(1 << 30)).permutation(len(table))
        return table.take(pa.array(order))

    def directive(self) -> dict[str, Any]:
        found = self.checkpoint.directive(self.committed - 1)
        assert found is not None
        return found


class _Stepped:
    """A sink behind which somebody may die."""

    def __init__(self, loop: Loop, name: str) -> None:
        self._loop, self._name = loop, name

    def write(self, batch: int, rows: pa.Table) -> None:
        sink = self._loop.sink if self._name == "rows" else self._loop.aside
        sink.write(batch, rows)
        self._loop.reached(self._name)

    def close(self) -> None: ...
