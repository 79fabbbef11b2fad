"""headwater's stream as Spark calls it: a planner beside the driver decides each batch, and partition readers are its leaves.

`latestOffset` runs in a process of its own, `read` in workers, the root in the driver. Nothing is shared but the checkpoint, what
is in the offsets, and what the planner puts into partitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headwater.language.times import FOREVER
from headwater.protocols.messages import Assign, Cuts, SourceState, decode, encode
from headwater.spark.batch.leaf import FRAMES
from headwater.spark.streaming.checkpoint import About, StreamCheckpoint
from headwater.spark.streaming.directives import Directive, returning
from headwater.spark.streaming.elapsed import Elapsed, longest_step
from headwater.spark.streaming.errors import CheckpointError
from headwater.spark.streaming.inputs.input import Extent, Input, everything, input_class, rehomed
from headwater.spark.streaming.leaf import LIMITS, LeafLimits, LeafWork, Run, control_row
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.planning import Offset, PlannerView, next_offset
from headwater.spark.types import spark_types

NAME = "headwater_stream"


class StreamSource(DataSource):
    """Options: ``checkpoint``, the folder that `headwater.stream` has prepared; ``events``, how many in a batch at most;
    ``owner``, the number of the driver.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return spark_types(FRAMES)[1]

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        events, owner = self.options.get("events"), self.options.get("owner")
        return StreamReader(
            self.options["checkpoint"],
            None if events is None else int(events),
            owner=None if owner is None else int(owner),
        )


@dataclass
class LeafTurn(InputPartition):
    """One task: the leaf of one chain, if it has one. The first task also says which batch it is."""

    leaf: LeafWork | None
    offset: Mapping[str, Any] | None
    roots: int

    def __post_init__(self) -> None:
        super().__init__(None)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches, and reads a chain's share of one."""

    def __init__(
        self, checkpoint: str, events_max: int | None, limits: LeafLimits = LIMITS, owner: int | None = None
    ) -> None:
        self._path = checkpoint
        self._owner = None if owner is None else Ownership(Path(checkpoint), owner)
        self._events_max = events_max
        self._limits = limits
        #: With the trigger "available now": how far sources went when it began.
        self._target: dict[str, Extent] | None = None
        self._texts: dict[str, str] = {}
        self.clock: Callable[[], int] = time.time_ns
        self.steady_clock: Callable[[], int] = time.monotonic_ns

    # --- in the planner ---

    @cached_property
    def _checkpoint(self) -> StreamCheckpoint:
        return StreamCheckpoint(self._path)

    @cached_property
    def _about(self) -> About:
        return self._checkpoint.begun()

    @cached_property
    def _input(self) -> Input:
        found: Input = input_class(self._about.kind).from_data(self._about.input)
        return found

    @cached_property
    def _elapsed(self) -> Elapsed:
        return Elapsed(longest_step(self._about.settings.get("idle_ns")))

    def _directive(self, batch: int, hash_: str | None = None) -> Directive:
        directive = self._checkpoint.said(batch)
        if hash_ and directive.hash != hash_:
            raise CheckpointError(f"{self._path}: what the root said after batch {batch} has changed since it was used")
        return directive

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return Offset().to_data()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._events_max is None else ReadMaxRows(self._events_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._everything()

    def _everything(self) -> dict[str, Extent]:
        return rehomed(everything(self._input), self._about.home)

    def _extents(self) -> dict[str, Extent]:
        return self._target if self._target is not None else rehomed(self._input.extents(), self._about.home)

    def _forget(self, sources: Sequence[str]) -> None:
        """Before an offset leaves them out: else they would look like new ones, in another life too."""
        self._input.forget(sources)  # type: ignore[attr-defined]
        if self._target is not None:
            self._target = {name: extent for name, extent in self._target.items() if name not in {*sources}}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        if self._owner is not None:
            # A driver that was replaced is not to put another offset into the log of its successor.
            self._owner.check()
        last = Offset.from_data(start)
        directive = self._directive(last.batch)
        if directive.forgotten:
            self._forget(directive.forgotten)
        if (fixed := self._checkpoint.fixed(last.batch + 1)) is not None:
            return fixed  # it was begun, and Spark has lost it
        # Commands before extents: events that were written before a flush was asked for are read before it.
        commands = self._checkpoint.command_count()
        flush = any(self._checkpoint.command(k)["what"] == "flush" for k in range(last.commands, commands))
        extents = self._everything() if flush else self._extents()
        clock_ns = self.clock()
        passed_ns = self._elapsed.since(last.batch, last.clock_ns, clock_ns, self.steady_clock())
        found = PlannerView(extents, commands, flush, clock_ns, passed_ns)
        events_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        stamps = self._about.stamps({})
        keeps = stamps is not None and stamps.taken is not None
        return next_offset(last, directive, found, self._about.chains, events_max, keeps).to_data()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start == end:
            return []
        offset = Offset.from_data(end)
        directive = self._directive(offset.batch - 1, offset.directive)
        roots = self._about.roots
        # A batch that is done is not read again, though Spark may not know; its sources may be forgotten.
        is_done = self._checkpoint.directive(offset.batch) is not None
        leaves: list[LeafWork | None] = [] if is_done else [*self._leaves(offset, directive)]
        works = [LeafTurn(leaf, None, roots) for leaf in leaves or [None]]
        works[0].offset = end
        return list(works)

    def _leaves(self, offset: Offset, directive: Directive) -> Iterator[LeafWork]:
        """A leaf for each chain that has something to do."""
        about = self._about
        text = self._text(directive.queries)
        fixed = directive.columns, about.schema_bytes, about.settings["strict"], about.roots, about.sharing
        cuts = None if directive.cuts is None else decode(directive.cuts)
        for number, assign in enumerate(directive.assigns.values()):
            is_asked = isinstance(cuts, Cuts) and assign.cut < cuts.number
            if not (is_asked or assign.looks or _has_news(assign, offset)):
                continue
            first = returning(assign, directive.idle, offset.ends)
            if first is None:
                runs = {source.name: self._runs(source, offset, directive) for source in assign.sources}
                rest = offset.flush, directive.cuts if is_asked else None, directive.plan
            else:
                assign, stretches = first
                runs = {
                    source.name: self._read_runs(source.name, stretches.get(source.name, ()))
                    for source in assign.sources
                }
                rest = False, None, directive.plan
            own = {name: some for name, some in offset.taken.items() if name in runs}
            yield LeafWork(number, encode(assign), text, about.kind, runs, *fixed, *rest, about.stamps(own))

    def _read_runs(self, source: str, stretches: Sequence[Sequence[int]]) -> list[Run]:
        return [(begin, self._input.stretches(source, begin, stop)) for begin, stop in stretches]

    def _runs(self, source: SourceState, offset: Offset, directive: Directive) -> list[Run]:
        """The ranges of a source to read: again what waits to be cut or is looked into, and what was not accepted."""
        end, again = offset.ends.get(source.name, 0), directive.again.get(source.name)
        # Without a gap: one stretch of a file is read faster than two.
        known = [(min(source.hold, source.offset), end)] if again is None else [*again, (source.offset, end)]
        joined: list[list[int]] = []
        for begin, stop in known:
            if joined and begin <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], stop)
            elif begin < stop:
                joined.append([begin, stop])
        return self._read_runs(source.name, joined)

    def _text(self, name: str) -> str:
        if name not in self._texts:
            self._texts = {name: self._checkpoint.queries(name)}
        return self._texts[name]

    # --- in a worker ---

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LeafTurn)
        if partition.offset is not None:
            yield control_row(partition.offset, partition.roots)
        if partition.leaf is not None:
            yield from partition.leaf.frames(self._limits)


def _has_news(assign: Assign, offset: Offset) -> bool:
    """Whether a chain has events that were not accepted, or an end to tell of."""
    behind = any(source.offset < offset.ends.get(source.name, 0) for source in assign.sources)
    return behind or offset.flush and any(source.watermark != FOREVER for source in assign.sources)
