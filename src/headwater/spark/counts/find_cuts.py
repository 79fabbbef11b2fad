"""Count windows over files of any size: the exact cuts are found first, from keys alone, then one pass answers.

Tasks read the times of their files twice (`engine.counting.selection`) and everything once, when the cuts are known, and so
between which two of them each event lies. Between stages travel samples, the keys of events inside zones, and cuts; never events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.counting.selection import Keys, find_cuts
from headwater.spark.batch.leaf import FRAMES
from headwater.spark.counts import exchange
from headwater.spark.counts.exchange import CountedEvents, SharedCuts
from headwater.spark.native.positions import POSITION
from headwater.spark.shuffles import by_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frames_by_cuts(spark: SparkSession, shared: SharedCuts) -> DataFrame:
    """Frames of leaves over positions."""
    count = exchange.task_count(shared)
    sent = exchange.staged(exchange.empty_notes(spark, count), sample, shared)
    zoned = exchange.staged(sent.repartition(1), zone, shared)
    keyed = exchange.staged(by_number(zoned, count, "task"), keys, shared)
    cut = exchange.staged(by_number(keyed, shared.owners, "task"), cut_zones, shared)
    return exchange.staged(by_number(cut, count, "task"), leaves, shared, FRAMES)


def sample(shared: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The samples of each run of a task's events, for the one task that finds zones."""
    for task, _ in given:
        yield exchange.note(0, exchange.sampled(shared, task))


def zone(shared: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """Zones, for every task."""
    edges = exchange.zones_of(shared, given).edges
    yield exchange.notes_for_all(exchange.task_count(shared), [edges.times, edges.sources, edges.offsets])


def keys(shared: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """Counts of a task's events by stretch, for all owners of zones, and keys of events inside a zone, for its owner."""
    for task, columns in given:
        edges = Keys(*columns)
        counts = np.zeros(len(edges.times) + 1, np.int64)
        owner = _owners(len(counts), shared.owners)
        for events in exchange.counted_by_task(shared, task):
            stretches = events.stretches(edges)
            np.add.at(counts, stretches.numbers, stretches.lengths)
            owned = owner[stretches.numbers]
            for number in range(shared.owners):
                own = owned == number
                if own.any():
                    inside = events.keys(np.flatnonzero(stretches.for_events(own)))
                    zones = np.repeat(stretches.numbers[own] >> 1, stretches.lengths[own])
                    yield exchange.note(number, [zones, inside.times, inside.sources, inside.offsets])
        for number in range(shared.owners):
            yield exchange.note(number, counts)


def cut_zones(shared: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The positions and keys of the cuts in the zones of one owner, for every task."""
    notes = [tree for _, tree in given]
    if not notes:
        return
    inside = [tree for tree in notes if isinstance(tree, list)]
    counts = np.sum([tree for tree in notes if not isinstance(tree, list)], axis=0)
    zones, *columns = (np.concatenate(column) for column in zip([np.empty(0, np.int64)] * 4, *inside))
    positions, cuts = find_cuts(counts, zones, Keys(*columns), shared.step)
    yield exchange.notes_for_all(exchange.task_count(shared), [positions, cuts.times, cuts.sources, cuts.offsets])


def leaves(shared: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The frames of a leaf that reads events at their positions, when all cuts are known."""
    notes = list(given)
    if not notes:
        return
    positions, *columns = (np.concatenate(column) for column in zip(*(tree for _, tree in notes)))
    cuts = Keys(*columns).take(np.argsort(positions))

    def place(events: CountedEvents) -> pa.RecordBatch:
        stretches = events.stretches(cuts)
        positions = stretches.for_events(stretches.numbers * shared.step)
        return events.with_times().append_column(POSITION, pa.array(positions))

    yield from exchange.leaf_frames(shared, exchange.addressee(notes), place)


def _owners(stretches: int, owners: int) -> Int64Array:
    """The task that looks into each stretch: zones are shared out, and the stretches between them have none, -1."""
    numbers, zones = np.arange(stretches, dtype=np.int64), stretches // 2
    return np.where(numbers & 1, (numbers >> 1) * owners // max(zones, 1), -1)
