"""Count windows over all events of files: the cuts between windows are found where the files are read.

Then a position is a time like any other: leaves and roots see fixed windows over positions, of which the full ones are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

from headwater.language.query import Query
from headwater.language.windows import CountWindow
from headwater.spark.batch.initial_root import fresh_bytes
from headwater.spark.batch.leaf import FRAMES
from headwater.spark.batch.partitions import depends_on_order
from headwater.spark.batch.plan import ReadPlan, fresh_root
from headwater.spark.batch.root import results, root_count
from headwater.spark.counts.far import every_far, selected
from headwater.spark.counts.near import carried, every_near, settling
from headwater.spark.counts.notes import SelectionLimits, SharedCuts
from headwater.spark.native.positions import POSITION, full_windows, over_positions, schema_with_positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def can_be_selected(query: Query, plan: ReadPlan, limits: SelectionLimits) -> bool:
    """Whether cuts of a query's windows can be found without bringing its events together."""
    window = query.window
    if not isinstance(window, CountWindow) or window.per != "all" or query.scope != "global":
        return False
    # Events may be malformed for one query only if a value does not fit; to make events three times costs more than to carry
    # them; events of one stretch have no order among themselves; and all tasks are told all cuts.
    if not plan.is_uniform or depends_on_order(over_positions(query)) or step_of([query]) < limits.step_min:
        return False
    return sum(piece.size for task in plan.tasks for piece in task) >= limits.small_bytes


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


def counting_of(
    plan: ReadPlan, queries: Sequence[Query], time: str, unit: str, cores: int, every: int
) -> tuple[SharedCuts, bytes]:
    """What tasks have to know to cut events for some queries, and the fresh root of these."""
    over = [replace(over_positions(query), where=query.where) for query in queries]
    root = fresh_root(over, schema_with_positions(plan.schema), time=POSITION)
    values = tuple(name for name in root.columns if name in plan.schema.names)
    snapshot = fresh_bytes(root)
    columns = list(dict.fromkeys([time, *values]))
    own = replace(plan, columns=columns, root=snapshot, where=queries[0].where, pruning=None)
    roots = root_count(queries, cores)
    return SharedCuts(own.to_text(), time, unit, step_of(queries), every, values, roots, cores), snapshot


def count_rows(
    spark: SparkSession,
    plan: ReadPlan,
    queries: Sequence[Query],
    time: str,
    unit: str,
    cores: int,
    wanted: StructType,
    limits: SelectionLimits,
) -> DataFrame:
    """The result rows of count windows that share their cuts, with the columns ``wanted``."""
    step = step_of(queries)
    near = every_near(plan, step, limits)
    counting, root = counting_of(plan, queries, time, unit, cores, every_far(step) if near is None else near)
    if near is None:
        rows = results(selected(spark, counting), root, roots=counting.roots, leaves=len(plan.tasks))
    else:
        rows = _rows_near(spark, counting, root, len(plan.tasks) + 1, limits.leaves_at_root_max)
    return full_windows(rows, queries, wanted)


def _rows_near(
    spark: SparkSession, counting: SharedCuts, root: bytes, leaves: int, leaves_at_root_max: int
) -> DataFrame:
    """One root finds the positions of what was carried to it; if there are several, or relays, somebody does it before."""
    from headwater.spark.types import spark_types

    frames, settle = carried(spark, counting), settling(counting)
    if counting.roots == 1 and leaves <= leaves_at_root_max:
        return results(frames, root, leaves=leaves, settle=settle)
    sent = frames.repartitionById(counting.roots, "bucket").mapInArrow(settle, spark_types(FRAMES)[1])
    return results(sent, root, roots=counting.roots, leaves=leaves)
