"""What the Spark stages of count windows have in common: their task, the messages between them, and how they read events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.counting import selection
from headwater.engine.intake.arrivals import times_of
from headwater.engine.intake.columns import without
from headwater.engine.intake.predicates import mask
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.language.time_columns import time_column
from headwater.spark.batch.leaf import LeafTask, SourceFeed
from headwater.spark.batch.plan import ReadPlan
from headwater.spark.formats import Passed
from headwater.spark.native.positions import TIME
from headwater.spark.tasks import bug, in_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What travels between stages: for which task, and what.
NOTES = pa.schema([("task", pa.int32()), ("data", pa.binary())])


@dataclass(frozen=True, slots=True)
class SharedCuts:
    """Count windows that share their cuts: every ``step`` events that pass the plan's condition.

    One key of ``every`` is a sample. ``values``: the columns of events that the windows are made of. ``owners``: how many tasks
    share the zones, where keys travel.
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


def staged(frame: DataFrame, stage: Stage, shared: SharedCuts, schema: pa.Schema = NOTES) -> DataFrame:
    """A stage over the notes of a DataFrame."""
    return in_tasks(frame, schema, _on_notes, stage, shared)


def _on_notes(stage: Stage, shared: SharedCuts, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A stage inside a Spark task."""
    yield from stage(shared, received(batches))


def empty_notes(spark: SparkSession, count: int) -> DataFrame:
    """An empty note for each of ``count`` tasks."""
    numbers = spark.range(0, count, 1, count)
    return numbers.selectExpr("CAST(id AS INT) AS task", "CAST(NULL AS BINARY) AS data")


def task_count(shared: SharedCuts) -> int:
    return len(ReadPlan.from_text(shared.plan).tasks)


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for task, data in zip(batch.column("task").to_pylist(), batch.column("data")):
            yield task, None if data.as_py() is None else from_bytes(data.as_py())


def note(task: int, tree: Any) -> pa.RecordBatch:
    return pa.record_batch([[task], [to_bytes(tree)]], schema=NOTES)


def notes_for_all(count: int, tree: Any) -> pa.RecordBatch:
    """The same note for each of ``count`` tasks."""
    return pa.record_batch([range(count), [to_bytes(tree)] * count], schema=NOTES)


def addressee(notes: Sequence[tuple[int, Any]]) -> int:
    """Whom the notes of a partition are for: one task, as it was asked for."""
    numbers = {task for task, _ in notes}
    if len(numbers) != 1:
        raise bug(f"one partition has notes for {len(numbers)} tasks")
    return numbers.pop()


@dataclass(frozen=True, slots=True)
class CountedEvents:
    """Events of one source that count; ``batch`` holds the columns that were asked for."""

    source: int
    times: Int64Array
    offsets: Int64Array
    batch: pa.RecordBatch
    in_order: bool

    def samples(self, every: int) -> selection.SampledKeys:
        times, offsets = self.times, self.offsets
        if not self.in_order:
            order = np.argsort(times, kind="stable")
            times, offsets = times[order], offsets[order]
        return selection.sampled_keys(times, self.source, offsets, every)

    def stretches(self, edges: selection.Keys) -> selection.StretchRuns:
        return selection.find_stretches(self.times, self.source, self.offsets, edges)

    def keys(self, rows: Int64Array) -> selection.Keys:
        return selection.Keys(self.times[rows], np.full(len(rows), self.source, np.int64), self.offsets[rows])

    def with_times(self) -> pa.RecordBatch:
        return self.batch.append_column(TIME, pa.array(self.times))


def counted(shared: SharedCuts, feed: SourceFeed, source: int, values: Sequence[str] = ()) -> Iterator[CountedEvents]:
    """The events of a source batch by batch, with the columns ``values``."""
    where = ReadPlan.from_text(shared.plan).where
    offset = 0
    for batch in feed.batches:
        if isinstance(batch, Passed):
            offset += batch.count
            continue
        times, bad, scan = times_of(batch, shared.time, shared.unit)
        rows = without(bad, len(batch)) if bad else None
        if where is not None:
            passing = mask(where, {name: batch.column(name) for name in where.columns()}, len(batch))
            rows = np.flatnonzero(passing) if rows is None else rows[passing[rows]]
        offsets = np.arange(offset, offset + len(batch), dtype=np.int64)
        offset += len(batch)
        chosen = batch.select(list(values))
        if rows is not None:
            times, offsets, chosen = times[rows], offsets[rows], chosen.take(pa.array(rows))
        yield CountedEvents(source, times, offsets, chosen, scan is not None and scan.in_order)


def counted_by_task(shared: SharedCuts, task: int) -> Iterator[CountedEvents]:
    """The events of a task without any values: only what counts, and when, is read."""
    plan = ReadPlan.from_text(shared.plan)
    time = time_column(shared.time).name
    names = [time, *sorted((plan.where.columns() if plan.where is not None else set()) - {time})]
    ranks = ranks_of(plan)
    for feed in replace(plan, columns=names).feeds(task):
        yield from counted(shared, feed, ranks[feed.source])


def sampled(shared: SharedCuts, task: int) -> list[list[Any]]:
    """The samples of each run of a task's events."""
    runs = (events.samples(shared.every) for events in counted_by_task(shared, task))
    return [[run.source, run.count, run.times, run.offsets] for run in runs]


def zones_of(shared: SharedCuts, notes: Iterable[tuple[int, Any]]) -> selection.CutZones:
    """The zones that follow from the samples of all tasks."""
    runs = [
        selection.SampledKeys(source, count, shared.every, times, offsets)
        for _, sent in notes
        for source, count, times, offsets in sent
    ]
    return selection.find_zones(runs, shared.step)


def leaf_frames(
    shared: SharedCuts, task: int, place: Callable[[CountedEvents], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The frames of a leaf that reads the events of a task as ``place`` gives them back: with their positions."""
    plan = ReadPlan.from_text(shared.plan)
    assert plan.root is not None
    ranks = ranks_of(plan)
    feeds = (
        SourceFeed(feed.source, feed.home, map(place, counted(shared, feed, ranks[feed.source], shared.values)))
        for feed in plan.feeds(task)
    )
    sources = [(piece.source, piece.home) for piece in plan.tasks[task]]
    yield from LeafTask(plan.root, task, sources, shared.roots).run(feeds, flush=True)


def ranks_of(plan: ReadPlan) -> dict[str, int]:
    """The numbers of sources in the order of their names as bytes."""
    names = sorted((piece.source for task in plan.tasks for piece in task), key=str.encode)
    return {name: number for number, name in enumerate(names)}
