"""What the stages of count windows share: what they are asked, what they tell each other, and the events that count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.intake.columns import read_times, without
from headwater.engine.intake.predicates import mask
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import HeadwaterError
from headwater.spark.batch.leaf import FAN_IN, SourceFeed
from headwater.spark.batch.plan import ReadPlan
from headwater.spark.formats import Passed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What travels between stages: for which task, and what.
NOTES = pa.schema([("task", pa.int32()), ("data", pa.binary())])


@dataclass(frozen=True, slots=True)
class SelectionLimits:
    """When cuts between count windows are selected where files are read, and how much may travel for that."""

    #: Below so many bytes of files the events of count windows are brought together at once: stages cost more than that.
    small_bytes: int = 1 << 25
    #: Cuts have to be further apart.
    step_min: int = 16
    #: Samples that all tasks together are told, and events that zones hold at most.
    samples_max: int = 1 << 23
    zone_events_max: int = 1 << 22
    #: Cuts that are near each other make small batches.
    cuts_max: int = 1 << 14
    #: Of all events zones hold less than one in so many, and hardly ever more than a quarter of that.
    share: int = 8
    #: With more leaves than this, what lies in zones gets its positions before it comes to the root.
    leaves_at_root_max: int = FAN_IN


@dataclass(frozen=True, slots=True)
class SharedCuts:
    """Count windows that share their cuts: every ``step`` events for which ``where`` is true.

    One time of ``every`` is a sample. ``values``: the columns of events that the windows are made of.
    """

    plan: str
    time: str
    unit: str
    step: int
    every: int
    values: tuple[str, ...]
    roots: int
    owners: int


Stage = Callable[[SharedCuts, Iterable[tuple[int, Any]]], Iterator[pa.RecordBatch]]


def on_notes(stage: Stage, counting: SharedCuts) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A stage as Spark calls it."""
    module, name = stage.__module__, stage.__name__

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from importlib import import_module

        from headwater.spark.counts.notes import received

        yield from getattr(import_module(module), name)(counting, received(batches))

    return run


def beginning(spark: SparkSession, counting: SharedCuts) -> tuple[DataFrame, int]:
    """A note for each task of the plan, which says nothing yet, and how many there are."""
    count = len(ReadPlan.from_text(counting.plan).tasks)
    numbers = spark.range(0, count, 1, count)
    return numbers.selectExpr("CAST(id AS INT) AS task", "CAST(NULL AS BINARY) AS data"), count


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for task, data in zip(batch.column("task").to_pylist(), batch.column("data")):
            yield task, None if data.as_py() is None else from_bytes(data.as_py())


def note(task: int, tree: Any) -> pa.RecordBatch:
    return pa.record_batch([[task], [to_bytes(tree)]], schema=NOTES)


def addressee(notes: Sequence[tuple[int, Any]]) -> int:
    """Whom the notes of a partition are for: one task, as it was asked for."""
    numbers = {task for task, _ in notes}
    if len(numbers) != 1:
        raise HeadwaterError(f"one partition has notes for {len(numbers)} tasks; this is a mistake in headwater")
    return numbers.pop()


@dataclass(frozen=True, slots=True)
class SortedEvents:
    """Events of one source that count, sorted; ``batch`` holds the columns that were asked for."""

    source: int
    times: Int64Array
    offsets: Int64Array
    batch: pa.RecordBatch


def runs_of(counting: SharedCuts, feed: SourceFeed, source: int, values: Sequence[str] = ()) -> Iterator[SortedEvents]:
    """The events of a source batch by batch, with the columns ``values``."""
    where = ReadPlan.from_text(counting.plan).where
    offset = 0
    for batch in feed.batches:
        if isinstance(batch, Passed):
            offset += batch.count
            continue
        times, bad, scan = read_times(batch.column(counting.time), counting.unit)
        rows = without(bad, len(batch)) if bad else None
        if where is not None:
            passing = mask(where, {name: batch.column(name) for name in where.columns()}, len(batch))
            rows = np.flatnonzero(passing) if rows is None else rows[passing[rows]]
        if scan is None or not scan.in_order:
            rows = np.arange(len(batch)) if rows is None else rows
            rows = rows[np.argsort(times[rows], kind="stable")]
        offsets = np.arange(offset, offset + len(batch), dtype=np.int64)
        offset += len(batch)
        chosen = batch.select(list(values))
        if rows is not None:
            times, offsets, chosen = times[rows], offsets[rows], chosen.take(pa.array(rows))
        yield SortedEvents(source, times, offsets, chosen)


def timed_runs(counting: SharedCuts, task: int) -> Iterator[SortedEvents]:
    """The events of a task without any values: only what counts, and when, is read."""
    plan = ReadPlan.from_text(counting.plan)
    names = [counting.time, *sorted((plan.where.columns() if plan.where is not None else set()) - {counting.time})]
    ranks = ranks_of(plan)
    for feed in replace(plan, columns=names).feeds(task):
        yield from runs_of(counting, feed, ranks[feed.source])


def ranks_of(plan: ReadPlan) -> dict[str, int]:
    """The numbers of sources in the order of their names as bytes."""
    names = sorted((piece.source for task in plan.tasks for piece in task), key=str.encode)
    return {name: number for number, name in enumerate(names)}
