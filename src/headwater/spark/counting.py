"""Count windows over all events of files: cut points are selected where the files are read, then one pass answers.

Tasks read the times of their files twice (`engine.selection`) and everything once, when it is known in which stretch between two
cuts each event lies. That stretch is a time like any other: leaves and roots see fixed windows over positions. Between the
stages travel samples, keys near cuts, and cuts; never the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.arrays import Int64Array
from headwater.engine.intake import read_times, without
from headwater.engine.predicates import mask
from headwater.engine.selection import (
    NOTHING,
    Cuts,
    Inside,
    Sampled,
    find_cuts,
    find_zones,
    look_inside,
    sampled,
    stretches,
)
from headwater.engine.state_bytes import from_bytes, to_bytes
from headwater.errors import HeadwaterError
from headwater.query import Query
from headwater.spark.formats import Passed
from headwater.spark.fresh import fresh_bytes
from headwater.spark.leaf import FRAMES, Feed, LeafTask
from headwater.spark.partitions import depends_on_order
from headwater.spark.plan import Plan, fresh_root
from headwater.spark.positions import POSITION, TIME, full_windows, over_positions, schema_with_positions
from headwater.spark.root import results
from headwater.windows import CountWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Below so many bytes of files the events of count windows are brought together at once: stages cost more than that.
SMALL_BYTES = 1 << 25
#: Cuts have to be further apart.
STEP_MIN = 16
#: What travels between stages: for which task, and what.
NOTES = pa.schema([("task", pa.int32()), ("data", pa.binary())])
KEYS = ("times", "sources", "offsets")


@dataclass(frozen=True, slots=True)
class Counting:
    """Count windows that share their cuts: every ``step`` events for which ``where`` is true."""

    plan: str
    time: str
    unit: str
    step: int
    roots: int

    @property
    def every(self) -> int:
        """One time of so many is a sample: zones of a few thousand keys for each cut."""
        return min(max(self.step >> 10, 1 << 8), 1 << 13)


def can_be_selected(query: Query, plan: Plan) -> bool:
    """Whether cuts of a query's windows can be found without bringing its events together."""
    window = query.window
    if not isinstance(window, CountWindow) or window.per != "all" or query.scope != "global":
        return False
    # Events may be malformed for one query only if a value does not fit; to make events three times costs more than to carry
    # them; events of one stretch have no order among themselves; and all tasks are told all cuts.
    if not plan.is_uniform or depends_on_order(over_positions(query)) or step_of([query]) < STEP_MIN:
        return False
    return sum(piece.size for task in plan.tasks for piece in task) >= SMALL_BYTES


def groups(queries: Sequence[Query]) -> list[list[Query]]:
    """Queries that share cuts: they count the same events, and their common step is not much shorter than their own."""
    found: list[list[Query]] = []
    for query in queries:
        for group in found:
            if _condition(group[0]) == _condition(query) and 8 * step_of([*group, query]) >= min(
                map(_shortest, [*group, query])
            ):
                group.append(query)
                break
        else:
            found.append([query])
    return found


def _condition(query: Query) -> object:
    return None if query.where is None else query.where.key()


def step_of(queries: Iterable[Query]) -> int:
    return gcd(*(number for query in queries for number in _numbers(query)))


def _numbers(query: Query) -> tuple[int, int]:
    assert isinstance(query.window, CountWindow)
    return query.window.size, query.window.step


def _shortest(query: Query) -> int:
    return min(_numbers(query))


def counting_of(plan: Plan, queries: Sequence[Query], time: str, unit: str, roots: int) -> tuple[Counting, bytes]:
    """What tasks have to know to cut events for some queries, and the fresh root of these."""
    over = [replace(over_positions(query), where=query.where) for query in queries]
    root = fresh_root(over, schema_with_positions(plan.schema), time=POSITION)
    columns = [name for name in dict.fromkeys([time, *root.columns]) if name in plan.schema.names]
    snapshot = fresh_bytes(root)
    own = replace(plan, columns=columns, root=snapshot, where=queries[0].where, pruning=None)
    return Counting(own.to_text(), time, unit, step_of(queries), roots), snapshot


def count_rows(
    spark: SparkSession, plan: Plan, queries: Sequence[Query], time: str, unit: str, roots: int, wanted: StructType
) -> DataFrame:
    """The result rows of count windows that share their cuts, with the columns ``wanted``."""
    counting, root = counting_of(plan, queries, time, unit, roots)
    rows = results(selected(spark, counting), root, roots=roots, leaves=len(plan.tasks))
    return full_windows(rows, queries, wanted)


def selected(spark: SparkSession, counting: Counting) -> DataFrame:
    """Frames of leaves over positions."""
    from headwater.spark.types import spark_types

    count = len(Plan.from_text(counting.plan).tasks)
    notes, frames = spark_types(NOTES)[1], spark_types(FRAMES)[1]
    tasks = spark.range(0, count, 1, count).selectExpr("CAST(id AS INT) AS task", "CAST(NULL AS BINARY) AS data")
    sent = tasks.mapInArrow(_stage(sample, counting), notes).repartition(1)
    zoned = sent.mapInArrow(_stage(zone, counting), notes).repartitionById(count, "task")
    keyed = zoned.mapInArrow(_stage(keys, counting), notes).repartitionById(counting.roots, "task")
    cut = keyed.mapInArrow(_stage(cut_zones, counting), notes).repartitionById(count, "task")
    return cut.mapInArrow(_stage(leaves, counting), frames)


Stage = Callable[[Counting, Iterable[tuple[int, Any]]], Iterator[pa.RecordBatch]]


def _stage(stage: Stage, counting: Counting) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    name = stage.__name__

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headwater.spark import counting as stages

        yield from getattr(stages, name)(counting, stages.received(batches))

    return run


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for task, data in zip(batch.column("task").to_pylist(), batch.column("data")):
            yield task, None if data.as_py() is None else from_bytes(data.as_py())


def _note(task: int, tree: Any) -> pa.RecordBatch:
    return pa.record_batch([[task], [to_bytes(tree)]], schema=NOTES)


# --- the stages ---


def sample(counting: Counting, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The samples of each run of a task's events."""
    for task, _ in given:
        runs = [sampled(times, counting.every) for _, times, _ in _runs(counting, task)]
        yield _note(0, [[run.count, run.times] for run in runs])


def zone(counting: Counting, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """Zones, for every task."""
    runs = [Sampled(count, counting.every, times) for _, listed in given for count, times in listed]
    zones = find_zones(runs, counting.step)
    for task in range(len(Plan.from_text(counting.plan).tasks)):
        yield _note(task, [zones.low, zones.high])


def keys(counting: Counting, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """What a task has before zones and inside: for whoever has a zone."""
    for task, (low, high) in given:
        before, latest = np.zeros(len(low), np.int64), np.full(len(low), NOTHING)
        owner = _owner(len(low), counting.roots)
        for source, times, offsets in _runs(counting, task):
            inside = look_inside(times, source, offsets, low, high)
            before += inside.before
            latest = np.maximum(latest, inside.latest)
            for number in range(counting.roots):
                rows = np.flatnonzero(owner[inside.zone] == number)
                if len(rows):
                    listed = (getattr(inside, name)[rows] for name in ("zone", *KEYS))
                    yield _note(number, {"keys": list(listed)})
        for number in range(counting.roots):
            yield _note(number, {"before": before, "latest": latest})


def cut_zones(counting: Counting, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The cuts of some zones, for every task."""
    notes = list(given)
    if not notes:
        return
    number = _addressee(notes)
    known = [tree["keys"] for _, tree in notes if "keys" in tree]
    before = [tree["before"] for _, tree in notes if "before" in tree]
    latest = [tree["latest"] for _, tree in notes if "latest" in tree]
    count, reach = np.sum(before, axis=0), np.max(latest, axis=0)
    columns = [np.concatenate(column) for column in zip(*known)] or [np.empty(0, np.int64)] * 4
    order = np.argsort(columns[0], kind="stable")
    edges = np.searchsorted(columns[0][order], np.arange(len(count) + 1))
    found = []
    for place in np.flatnonzero(_owner(len(count), counting.roots) == number).tolist():
        rows = order[edges[place] : edges[place + 1]]
        none = np.empty(0, np.int64)
        inside = Inside(none, none, none, *(column[rows] for column in columns[1:]))
        cuts = find_cuts(int(count[place]), int(reach[place]), inside, counting.step)
        found.append([cuts.positions, cuts.times, cuts.sources, cuts.offsets, cuts.before])
    together = _side_by_side(found)
    for task in range(len(Plan.from_text(counting.plan).tasks)):
        yield _note(task, together)


def leaves(counting: Counting, given: Iterable[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
    """The frames of a leaf that reads events at their positions, when all cuts are known."""
    notes = list(given)
    if not notes:
        return
    task = _addressee(notes)
    columns = _side_by_side([tree for _, tree in notes])
    order = np.argsort(columns[0])
    cuts = Cuts(*(column[order] for column in columns))
    plan = Plan.from_text(counting.plan)
    assert plan.root is not None
    ranks = _ranks(plan)
    feeds = (
        Feed(feed.source, feed.home, _placed(counting, feed, ranks[feed.source], cuts)) for feed in plan.feeds(task)
    )
    sources = [(piece.source, piece.home) for piece in plan.tasks[task]]
    yield from LeafTask(plan.root, task, sources, counting.roots).run(feeds, flush=True)


def _addressee(notes: Sequence[tuple[int, Any]]) -> int:
    """Whom the notes of a partition are for: one task, as it was asked for."""
    numbers = {task for task, _ in notes}
    if len(numbers) != 1:
        raise HeadwaterError(f"one partition has notes for {len(numbers)} tasks; this is a mistake in headwater")
    return numbers.pop()


def _side_by_side(tables: Sequence[Sequence[Int64Array]]) -> list[Int64Array]:
    """The columns of several cuts as those of one."""
    return [np.concatenate(column) for column in zip([np.empty(0, np.int64)] * 5, *tables)]


def _placed(counting: Counting, feed: Feed, source: int, cuts: Cuts) -> Iterator[pa.RecordBatch | Passed]:
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


def _runs(counting: Counting, task: int) -> Iterator[tuple[int, Int64Array, Int64Array]]:
    """The number of the source, the times and the offsets of what counts, batch by batch, each sorted."""
    plan = Plan.from_text(counting.plan)
    where = plan.where
    names = [counting.time, *sorted((where.columns() if where is not None else set()) - {counting.time})]
    ranks = _ranks(plan)
    for feed in replace(plan, columns=names).feeds(task):
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
            if rows is not None:
                times = times[rows]
            if scan is None or not scan.in_order:
                order = np.argsort(times, kind="stable")
                times, rows = times[order], order if rows is None else rows[order]
            places = np.arange(offset, offset + len(batch), dtype=np.int64) if rows is None else offset + rows
            offset += len(batch)
            yield ranks[feed.source], times, places


def _ranks(plan: Plan) -> dict[str, int]:
    """The numbers of sources in the order of their names as bytes."""
    names = sorted((piece.source for task in plan.tasks for piece in task), key=str.encode)
    return {name: number for number, name in enumerate(names)}


def _owner(zones: int, roots: int) -> Int64Array:
    return np.arange(zones, dtype=np.int64) * roots // max(zones, 1)
