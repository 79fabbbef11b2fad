"""Count windows over files of moderate size: one pass over times, one over everything, and events near cuts are carried.

Samples of the keys bound the zones in which cuts lie (`engine.counting.selection`). Each leaf reads its files once: what lies
between zones it aggregates under the number of cuts before it, what lies inside it sends as it is, and in front of the root one
more leaf has those events, at their exact positions. Which files are of moderate size follows from their footers: then zones hold
few events whatever these are. Otherwise keys travel instead of events (`find_cuts`), which costs two stages and a pass more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.engine.counting.selection import CutZones, Keys, positions_inside
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.spark.batch.leaf import FRAMES, LeafTask, SourceFeed
from headwater.spark.batch.plan import ReadPlan
from headwater.spark.counts import exchange
from headwater.spark.counts.exchange import CountedEvents, SharedCuts
from headwater.spark.native.positions import POSITION, TIME
from headwater.spark.shuffles import by_number
from headwater.spark.tasks import bug

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The chain under which a leaf sends what lies in zones, and the source that the last leaf makes of it. No file has this name.
ZONES = "\0zones"
NONE = np.empty(0, np.int64)
#: Runs of events between zones are long if they are longer than this on average.
RUN_EVENTS = 256


def frames_with_zones(spark: SparkSession, shared: SharedCuts) -> DataFrame:
    """Frames of leaves over positions, and among them what lies in zones: `settled` makes frames of that."""
    count = exchange.task_count(shared)
    sent = exchange.staged(exchange.empty_notes(spark, count), sample, shared)
    return exchange.staged(by_number(sent, count, "task"), leaves, shared, FRAMES)


def sample(shared: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The samples of each run of a task's events, for every task: each finds the zones by itself."""
    for task, _ in given:
        yield exchange.notes_for_all(exchange.task_count(shared), exchange.sampled(shared, task))


def leaves(shared: SharedCuts, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The frames of a leaf that reads what lies between zones, and behind them what lies inside."""
    notes = list(given)
    if not notes:
        return
    task, carried = exchange.addressee(notes), CarriedEvents(exchange.zones_of(shared, notes), shared.step)
    yield from exchange.leaf_frames(shared, task, carried.others)
    yield pa.record_batch([[0], [0], [ZONES], [task], [carried.note()]], schema=FRAMES)


class CarriedEvents:
    """The events of a leaf that lie inside zones; most lie between zones, and are read like any others."""

    def __init__(self, zones: CutZones, step: int) -> None:
        self._zones = zones
        self._firsts = zones.cuts * step
        self._counts = np.zeros(len(zones.edges.times) + 1, np.int64)
        #: For each batch with events inside: their zones, sources and offsets; and they themselves.
        self._keys = [(NONE, NONE, NONE)]
        self._inside: list[pa.Table] = []

    def others(self, events: CountedEvents) -> pa.RecordBatch:
        """Keep the events inside zones; the others, each with the position of the last cut before it."""
        stretches = events.stretches(self._zones.edges)
        np.add.at(self._counts, stretches.numbers, stretches.lengths)
        others, is_zone = events.with_times(), (stretches.numbers & 1).astype(np.bool_)
        if is_zone.any():
            is_inside = stretches.for_events(is_zone)
            rows = np.flatnonzero(is_inside)
            keys = events.keys(rows)
            zones = np.repeat(stretches.numbers[is_zone] >> 1, stretches.lengths[is_zone])
            self._keys.append((zones, keys.sources, keys.offsets))
            # Without what else files say of their columns: that may differ.
            inside = others.take(pa.array(rows))
            self._inside.append(pa.Table.from_arrays(inside.columns, inside.schema.names))
            others = _without(others, stretches.lengths, is_zone, is_inside)
        positions = np.repeat(self._firsts[stretches.numbers[~is_zone] >> 1], stretches.lengths[~is_zone])
        return others.append_column(POSITION, pa.array(positions))

    def note(self) -> bytes:
        """The leaf's note: counts of events by stretch, and of those inside zones the zones, sources, offsets and values."""
        keys = [np.concatenate(column) for column in zip(*self._keys)]
        return to_bytes([self._counts, *keys, table_to_bytes(pa.concat_tables(self._inside)) if self._inside else None])


def _without(
    batch: pa.RecordBatch, lengths: Int64Array, is_left_out: np.ndarray, is_row_left_out: np.ndarray
) -> pa.RecordBatch:
    """The batch without some of its runs. Runs that are long are copied as a whole, in half the time of a filter."""
    if len(lengths) * RUN_EVENTS > len(batch):
        return batch.filter(pa.array(~is_row_left_out))
    ends = np.cumsum(lengths)[~is_left_out].tolist()
    kept = [batch.slice(end - length, length) for end, length in zip(ends, lengths[~is_left_out].tolist())]
    return pa.concat_batches(kept) if kept else batch.slice(0, 0)


def settled(shared: SharedCuts, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All frames; events of zones are replaced by the frames of one more leaf, which reads them at their positions."""
    notes = []
    for batch in batches:
        is_note = np.array([chain == ZONES for chain in batch.column("chain").to_pylist()], np.bool_)
        if is_note.any():
            notes += [from_bytes(frame.as_py()) for frame in batch.filter(pa.array(is_note)).column("frame")]
            batch = batch.filter(pa.array(~is_note))
        yield batch
    if notes:
        plan = ReadPlan.from_text(shared.plan)
        assert plan.root is not None
        feed = SourceFeed(ZONES, "", ranked(notes))
        yield from LeafTask(plan.root, len(plan.tasks), [(ZONES, "")], shared.roots).run([feed], flush=True)


def ranked(notes: Sequence[Any]) -> list[pa.RecordBatch]:
    """The events inside zones, at their positions."""
    counts = np.sum([note[0] for note in notes], axis=0)
    tables = [table_from_bytes(note[4]) for note in notes if note[4] is not None]
    if not tables:
        return []
    zones, sources, offsets = (np.concatenate([note[i] for note in notes]) for i in (1, 2, 3))
    events = pa.concat_tables(tables)
    if (np.bincount(zones, minlength=len(counts) // 2) != counts[1::2]).any() or len(events) != len(zones):
        raise bug("zones do not hold the events that were counted there")
    keys = Keys(np.asarray(events.column(TIME)), sources, offsets)
    positions = pa.array(positions_inside(counts, zones, keys))
    return list(events.append_column(POSITION, positions).combine_chunks().to_batches())
