"""Count windows over files of moderate size: one pass over times, one over everything, and what lies at cuts is carried.

Samples of the times bound the zones in which cuts lie (`engine.key_zones`). Each leaf reads its files once: what lies between
zones it aggregates under the number of cuts before it, what lies inside it sends as it is, and in front of the root one more
leaf has those events, at their exact positions. Which files are of moderate size follows from their footers: then zones hold
few events whatever these are. Otherwise keys travel instead of events (`counting_far`), which costs two stages and a pass more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.engine.counting.key_zones import (
    Keys,
    KeyZones,
    SampledKeys,
    edge_rows,
    find_key_zones,
    positions_inside,
    sampled_keys,
    zone_events_max,
)
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import HeadwaterError
from headwater.spark.batch.leaf import FRAMES, LeafTask, SourceFeed
from headwater.spark.batch.plan import ReadPlan
from headwater.spark.counts.notes import (
    NOTES,
    SelectionLimits,
    SharedCuts,
    SortedEvents,
    addressee,
    beginning,
    on_notes,
    ranks_of,
    runs_of,
    timed_runs,
)
from headwater.spark.formats.file_range import BATCH_EVENTS
from headwater.spark.formats.parquet import row_groups
from headwater.spark.native.positions import POSITION, TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The chain under which a leaf sends what lies in zones, and the source that the last leaf makes of it. No file has this name.
ZONES = "\0zones"
NONE = np.empty(0, np.int64)


def every_near(plan: ReadPlan, step: int, limits: SelectionLimits) -> int | None:
    """One key of how many is a sample, if zones hold few events then; None if nobody can promise it."""
    places = {place for task in plan.tasks for piece in task for place in piece.places}
    # Others do not say how many runs they are.
    if plan.kind != "parquet" or len(places) > step:
        return None
    counts = [count for place in places for _, count in row_groups(place)]
    runs, total = sum(-(-count // BATCH_EVENTS) for count in counts), sum(counts)
    every = max(1, total * len(plan.tasks) // limits.samples_max, step // (8 * limits.share * max(runs, 1)))
    zone = zone_events_max(runs, every)
    is_little = zone * limits.share <= step and total // step * zone <= limits.zone_events_max
    return every if is_little and total // step <= limits.cuts_max else None


def carried(spark: SparkSession, counting: SharedCuts) -> DataFrame:
    """Frames of leaves over positions, and among them what lies in zones: `settled` makes frames of that."""
    from headwater.spark.types import spark_types

    tasks, count = beginning(spark, counting)
    sent = tasks.mapInArrow(on_notes(sample_keys, counting), spark_types(NOTES)[1]).repartitionById(count, "task")
    return sent.mapInArrow(on_notes(carrying_leaves, counting), spark_types(FRAMES)[1])


def settling(counting: SharedCuts) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`settled` as Spark calls it."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headwater.spark.counts.near import settled

        yield from settled(counting, batches)

    return run


# --- the stages ---


def sample_keys(counting: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The samples of each run of a task's events, for every task."""
    count = len(ReadPlan.from_text(counting.plan).tasks)
    for task, _ in given:
        runs = [sampled_keys(run.times, run.source, run.offsets, counting.every) for run in timed_runs(counting, task)]
        data = to_bytes([[run.source, run.count, run.times, run.offsets] for run in runs])
        yield pa.record_batch([range(count), [data] * count], schema=NOTES)


def carrying_leaves(counting: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The frames of a leaf that reads what lies between zones, and behind them what lies inside."""
    notes = list(given)
    if not notes:
        return
    task, every = addressee(notes), counting.every
    runs = [SampledKeys(source, n, every, times, offsets) for _, sent in notes for source, n, times, offsets in sent]
    plan = ReadPlan.from_text(counting.plan)
    assert plan.root is not None
    ranks, reading = ranks_of(plan), ZoneSorter(counting, find_key_zones(runs, counting.step))
    feeds = (
        SourceFeed(
            feed.source, feed.home, reading.between(runs_of(counting, feed, ranks[feed.source], counting.values))
        )
        for feed in plan.feeds(task)
    )
    sources = [(piece.source, piece.home) for piece in plan.tasks[task]]
    yield from LeafTask(plan.root, task, sources, counting.roots).run(feeds, flush=True)
    yield pa.record_batch([[0], [0], [ZONES], [task], [reading.note()]], schema=FRAMES)


class ZoneSorter:
    """Sorts out what a leaf reads: most events lie between zones, and those inside are kept."""

    def __init__(self, counting: SharedCuts, zones: KeyZones) -> None:
        self._step = counting.step
        self._zones = zones
        self._counts = np.zeros(len(zones.edges.times) + 1, np.int64)
        #: For each run with events inside: their zones, sources and offsets; and they themselves.
        self._keys = [(NONE, NONE, NONE)]
        self._inside: list[pa.Table] = []

    def between(self, runs: Iterable[SortedEvents]) -> Iterator[pa.RecordBatch]:
        """The events between zones, each with the position of the last cut before it."""
        for run in runs:
            rows = edge_rows(run.times, run.source, run.offsets, self._zones.edges)
            counts = np.diff(rows)
            self._counts += counts
            events = run.batch.append_column(TIME, pa.array(run.times))
            if counts[1::2].any():
                self._keep(run, events, rows[1:-1])
            filled = np.flatnonzero(counts[0::2])
            if len(filled):
                between = pa.concat_batches(_slices(events, rows[0:-1:2][filled], rows[1::2][filled]))
                positions = np.repeat(self._zones.cuts[filled] * self._step, counts[0::2][filled])
                yield between.append_column(POSITION, pa.array(positions))

    def _keep(self, run: SortedEvents, events: pa.RecordBatch, edges: Int64Array) -> None:
        counts = np.diff(edges)[0::2]
        zones = np.repeat(np.arange(len(counts)), counts)
        rows = np.concatenate([np.arange(*pair) for pair in edges.reshape(-1, 2).tolist() if pair[0] < pair[1]])
        self._keys.append((zones, np.full(len(rows), run.source, np.int64), run.offsets[rows]))
        # A copy: a slice would hold on to the whole batch. And without what else files say of their columns: that may differ.
        inside = events.take(pa.array(rows))
        self._inside.append(pa.Table.from_arrays(inside.columns, inside.schema.names))

    def note(self) -> bytes:
        """How many events lie in each stretch, and those inside zones: their zones, sources and offsets, and they themselves."""
        keys = [np.concatenate(column) for column in zip(*self._keys)]
        return to_bytes([self._counts, *keys, table_to_bytes(pa.concat_tables(self._inside)) if self._inside else None])


def _slices(events: pa.RecordBatch, begins: Int64Array, ends: Int64Array) -> list[pa.RecordBatch]:
    return [events.slice(begin, end - begin) for begin, end in zip(begins.tolist(), ends.tolist())]


def settled(counting: SharedCuts, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All frames, and in place of what lies in zones those of one more leaf, which reads it at its positions."""
    notes = []
    for batch in batches:
        is_note = np.array([chain == ZONES for chain in batch.column("chain").to_pylist()], np.bool_)
        if is_note.any():
            notes += [from_bytes(frame.as_py()) for frame in batch.filter(pa.array(is_note)).column("frame")]
            batch = batch.filter(pa.array(~is_note))
        yield batch
    if notes:
        plan = ReadPlan.from_text(counting.plan)
        assert plan.root is not None
        feed = SourceFeed(ZONES, "", ranked(notes))
        yield from LeafTask(plan.root, len(plan.tasks), [(ZONES, "")], counting.roots).run([feed], flush=True)


def ranked(notes: Sequence[Any]) -> list[pa.RecordBatch]:
    """The events inside zones, at their positions."""
    counts = np.sum([note[0] for note in notes], axis=0)
    tables = [table_from_bytes(note[4]) for note in notes if note[4] is not None]
    if not tables:
        return []
    zones, sources, offsets = (np.concatenate([note[i] for note in notes]) for i in (1, 2, 3))
    events = pa.concat_tables(tables)
    if (np.bincount(zones, minlength=len(counts) // 2) != counts[1::2]).any() or len(events) != len(zones):
        raise HeadwaterError("zones do not hold the events that were counted there; this is a mistake in headwater")
    keys = Keys(np.asarray(events.column(TIME)), sources, offsets)
    positions = pa.array(positions_inside(counts, zones, keys))
    return list(events.append_column(POSITION, positions).combine_chunks().to_batches())
