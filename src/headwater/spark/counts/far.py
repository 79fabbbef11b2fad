"""Count windows over files that are large: cut points are selected where the files are read, then one pass answers.

Tasks read the times of their files twice (`engine.selection`) and everything once, when it is known in which stretch between two
cuts each event lies. That stretch is a time like any other: leaves and roots see fixed windows over positions. Between the
stages travel samples, keys near cuts, and cuts; never the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.counting.selection import (
    NOTHING,
    Inside,
    Sampled,
    SelectedCuts,
    find_cuts,
    find_zones,
    look_inside,
    sampled,
    stretches,
)
from headwater.engine.intake.columns import read_times
from headwater.spark.batch.leaf import FRAMES, LeafTask, SourceFeed
from headwater.spark.batch.plan import ReadPlan
from headwater.spark.counts.notes import NOTES, SharedCuts, addressee, beginning, note, on_notes, ranks_of, timed_runs
from headwater.spark.formats import Passed
from headwater.spark.native.positions import POSITION, TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = ("times", "sources", "offsets")


def every_far(step: int) -> int:
    """One time of so many is a sample: zones of a few thousand keys for each cut."""
    return min(max(step >> 10, 1 << 8), 1 << 13)


def selected(spark: SparkSession, counting: SharedCuts) -> DataFrame:
    """Frames of leaves over positions."""
    from headwater.spark.types import spark_types

    notes, frames = spark_types(NOTES)[1], spark_types(FRAMES)[1]
    tasks, count = beginning(spark, counting)
    sent = tasks.mapInArrow(on_notes(sample, counting), notes).repartition(1)
    zoned = sent.mapInArrow(on_notes(zone, counting), notes).repartitionById(count, "task")
    keyed = zoned.mapInArrow(on_notes(keys, counting), notes).repartitionById(counting.owners, "task")
    cut = keyed.mapInArrow(on_notes(cut_zones, counting), notes).repartitionById(count, "task")
    return cut.mapInArrow(on_notes(leaves, counting), frames)


def sample(counting: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The samples of each run of a task's events."""
    for task, _ in given:
        runs = [sampled(run.times, counting.every) for run in timed_runs(counting, task)]
        yield note(0, [[run.count, run.times] for run in runs])


def zone(counting: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """Zones, for every task."""
    runs = [Sampled(count, counting.every, times) for _, listed in given for count, times in listed]
    zones = find_zones(runs, counting.step)
    for task in range(len(ReadPlan.from_text(counting.plan).tasks)):
        yield note(task, [zones.low, zones.high])


def keys(counting: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """What a task has before zones and inside: for whoever has a zone."""
    for task, (low, high) in given:
        before, latest = np.zeros(len(low), np.int64), np.full(len(low), NOTHING)
        owner = _owner(len(low), counting.owners)
        for run in timed_runs(counting, task):
            inside = look_inside(run.times, run.source, run.offsets, low, high)
            before += inside.before
            latest = np.maximum(latest, inside.latest)
            for number in range(counting.owners):
                rows = np.flatnonzero(owner[inside.zone] == number)
                if len(rows):
                    listed = (getattr(inside, name)[rows] for name in ("zone", *KEYS))
                    yield note(number, {"keys": list(listed)})
        for number in range(counting.owners):
            yield note(number, {"before": before, "latest": latest})


def cut_zones(counting: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The cuts of some zones, for every task."""
    notes = list(given)
    if not notes:
        return
    number = addressee(notes)
    known = [tree["keys"] for _, tree in notes if "keys" in tree]
    before = [tree["before"] for _, tree in notes if "before" in tree]
    latest = [tree["latest"] for _, tree in notes if "latest" in tree]
    count, reach = np.sum(before, axis=0), np.max(latest, axis=0)
    columns = [np.concatenate(column) for column in zip(*known)] or [np.empty(0, np.int64)] * 4
    order = np.argsort(columns[0], kind="stable")
    edges = np.searchsorted(columns[0][order], np.arange(len(count) + 1))
    found = []
    for place in np.flatnonzero(_owner(len(count), counting.owners) == number).tolist():
        rows = order[edges[place] : edges[place + 1]]
        none = np.empty(0, np.int64)
        inside = Inside(none, none, none, *(column[rows] for column in columns[1:]))
        cuts = find_cuts(int(count[place]), int(reach[place]), inside, counting.step)
        found.append([cuts.positions, cuts.times, cuts.sources, cuts.offsets, cuts.before])
    together = _side_by_side(found)
    for task in range(len(ReadPlan.from_text(counting.plan).tasks)):
        yield note(task, together)


def leaves(counting: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The frames of a leaf that reads events at their positions, when all cuts are known."""
    notes = list(given)
    if not notes:
        return
    task = addressee(notes)
    columns = _side_by_side([tree for _, tree in notes])
    order = np.argsort(columns[0])
    cuts = SelectedCuts(*(column[order] for column in columns))
    plan = ReadPlan.from_text(counting.plan)
    assert plan.root is not None
    ranks = ranks_of(plan)
    feeds = (
        SourceFeed(feed.source, feed.home, _placed(counting, feed, ranks[feed.source], cuts))
        for feed in plan.feeds(task)
    )
    sources = [(piece.source, piece.home) for piece in plan.tasks[task]]
    yield from LeafTask(plan.root, task, sources, counting.roots).run(feeds, flush=True)


def _side_by_side(tables: Sequence[Sequence[Int64Array]]) -> list[Int64Array]:
    """The columns of several cuts as those of one."""
    return [np.concatenate(column) for column in zip([np.empty(0, np.int64)] * 5, *tables)]


def _placed(
    counting: SharedCuts, feed: SourceFeed, source: int, cuts: SelectedCuts
) -> Iterator[pa.RecordBatch | Passed]:
    """The batches of a source with the position of the stretch that each event lies in."""
    offset = 0
    for batch in feed.batches:
        if isinstance(batch, Passed):
            offset += batch.count
            yield batch
            continue
        times, bad, _ = read_times(batch.column(counting.time), counting.unit)
        places = np.arange(offset, offset + len(batch), dtype=np.int64)
        offset += len(batch)
        at = stretches(times, source, places, cuts) * counting.step
        unplaced = np.zeros(len(batch), np.bool_)
        unplaced[list(bad)] = True
        positions = pa.array(at, mask=unplaced if bad else None)
        yield batch.append_column(POSITION, positions).append_column(TIME, pa.array(times))


def _owner(zones: int, owners: int) -> Int64Array:
    return np.arange(zones, dtype=np.int64) * owners // max(zones, 1)
