"""Which count windows over files are cut where the files are read, and in which of two ways; the rows they give.

Then a position is a time like any other: leaves and roots see fixed windows over positions, of which the full ones are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from headwater.engine.counting.selection import zone_events_max
from headwater.language.query import Query
from headwater.language.time_columns import time_column
from headwater.language.windows import CountWindow
from headwater.spark.batch.initial_root import initial_root, initial_root_bytes
from headwater.spark.batch.leaf import FAN_IN, FRAMES
from headwater.spark.batch.partition_leaves import depends_on_order
from headwater.spark.batch.plan import ReadPlan
from headwater.spark.batch.root import results, root_count
from headwater.spark.counts.carry_events import frames_with_zones, settled
from headwater.spark.counts.exchange import SharedCuts
from headwater.spark.counts.find_cuts import frames_by_cuts
from headwater.spark.formats.file_range import BATCH_EVENTS
from headwater.spark.formats.parquet import row_groups
from headwater.spark.native import positions
from headwater.spark.native.plan import condition_key
from headwater.spark.shuffles import by_number
from headwater.spark.tasks import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class SelectionLimits:
    """Limits that decide whether cuts of count windows are found where files are read, and whether events near them travel."""

    #: Files of fewer bytes: their events are brought together at once, for stages cost more than that.
    small_bytes: int = 1 << 25
    #: Cuts have to be at least this far apart: all tasks are told all cuts.
    step_min: int = 16
    #: Samples that all tasks together are told, and events that zones hold at most, if these are carried.
    samples_max: int = 1 << 23
    carried_max: int = 1 << 22
    #: Cuts that are near each other make small batches.
    carried_cuts_max: int = 1 << 14
    #: Of all events fewer than one in this many is carried, and hardly ever more than a quarter of that.
    share: int = 8
    #: One root settles what was carried to it itself, unless more leaves than this send to it.
    fan_in: int = FAN_IN


LIMITS = SelectionLimits()


def can_be_selected(query: Query, plan: ReadPlan, limits: SelectionLimits = LIMITS) -> bool:
    """Whether cuts of a query's windows can be found without bringing its events together."""
    window = query.window
    if not isinstance(window, CountWindow) or window.per != "all" or query.scope != "global":
        return False
    # Events may be malformed for one query only if a value does not fit; to make events three times costs more than to carry
    # them; events of one stretch have no order among themselves.
    if (
        not plan.is_uniform
        or depends_on_order(positions.over_positions(query))
        or positions.step_of([query]) < limits.step_min
    ):
        return False
    return sum(piece.size for task in plan.tasks for piece in task) >= limits.small_bytes


def groups(queries: Sequence[Query]) -> list[list[Query]]:
    """Queries that share cuts: they count the same events, and their common step is not much shorter than their own."""
    found: list[list[Query]] = []
    for query in queries:
        for group in found:
            wider = [*group, query]
            is_close = 8 * positions.step_of(wider) >= min(min(positions.sizes_of(each)) for each in wider)
            if is_close and condition_key(group[0]) == condition_key(query):
                group.append(query)
                break
        else:
            found.append([query])
    return found


def every_if_carried(plan: ReadPlan, step: int, limits: SelectionLimits = LIMITS) -> int | None:
    """The sampling interval (one key of every n) with which zones surely hold few events; None if there is none."""
    places = {place for task in plan.tasks for piece in task for place in piece.places}
    # Other files do not say how many runs they are.
    if plan.kind != "parquet" or len(places) > step:
        return None
    counts = [count for place in places for _, count in row_groups(place)]
    runs, total = sum(-(-count // BATCH_EVENTS) for count in counts), sum(counts)
    every = max(1, total * len(plan.tasks) // limits.samples_max, step // (8 * limits.share * max(runs, 1)))
    zone = zone_events_max(runs, every)
    is_little = zone * limits.share <= step and total // step * zone <= limits.carried_max
    return every if is_little and total // step <= limits.carried_cuts_max else None


def every_if_cut(step: int) -> int:
    """The sampling interval where only keys travel: a few thousand of them lie in the zone of each cut."""
    return min(max(step >> 10, 1 << 8), 1 << 13)


def shared_cuts(
    plan: ReadPlan, queries: Sequence[Query], time: str, unit: str, cores: int, every: int
) -> tuple[SharedCuts, bytes]:
    """The description by which tasks cut events for some queries, and the initial root of these."""
    over = [replace(positions.over_positions(query), where=query.where) for query in queries]
    root = initial_root(over, positions.schema_with_positions(plan.schema), time=positions.POSITION)
    values = tuple(name for name in root.columns if name in plan.schema.names)
    snapshot = initial_root_bytes(root)
    columns = list(dict.fromkeys([time_column(time).name, *values]))
    own = replace(plan, columns=columns, root=snapshot, where=queries[0].where, pruning=None)
    roots = root_count(queries, cores)
    return SharedCuts(own.to_text(), time, unit, positions.step_of(queries), every, values, roots, cores), snapshot


def count_rows(
    spark: SparkSession,
    plan: ReadPlan,
    queries: Sequence[Query],
    time: str,
    unit: str,
    cores: int,
    wanted: StructType,
    limits: SelectionLimits = LIMITS,
) -> DataFrame:
    """The result rows of count windows that share their cuts, with the columns ``wanted``."""
    step = positions.step_of(queries)
    # Two ways, for to carry events saves two stages and a pass, and to find the cuts first bounds what travels.
    carried = every_if_carried(plan, step, limits)
    shared, root = shared_cuts(plan, queries, time, unit, cores, every_if_cut(step) if carried is None else carried)
    if carried is None:
        rows = results(frames_by_cuts(spark, shared), root, roots=shared.roots, leaves=len(plan.tasks))
    else:
        rows = _rows_with_zones(spark, shared, root, len(plan.tasks) + 1, limits)
    return positions.full_windows(rows, queries, wanted)


def _rows_with_zones(
    spark: SparkSession, shared: SharedCuts, root: bytes, leaves: int, limits: SelectionLimits
) -> DataFrame:
    """Rows where events of zones are carried: a single root finds their positions itself, else a task in front of the roots."""
    frames = frames_with_zones(spark, shared)
    if shared.roots == 1 and leaves <= limits.fan_in:
        return results(frames, root, leaves=leaves, settle=partial(settled, shared))
    sent = in_tasks(by_number(frames, shared.roots, "bucket"), FRAMES, settled, shared)
    return results(sent, root, roots=shared.roots, leaves=leaves)
