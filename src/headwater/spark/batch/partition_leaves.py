"""`aggregate` through Python: a leaf reads each partition of a DataFrame, for queries that have no plan in Spark SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.language.query import Query
from headwater.language.windows import Between, CountWindow, Custom
from headwater.spark.batch.initial_root import initial_root_bytes
from headwater.spark.batch.leaf import FRAMES, LeafTask, SourceFeed
from headwater.spark.batch.root import Output, cores_of, results, root_count
from headwater.spark.native.choice import Asked
from headwater.spark.native.types import functions_of, quoted
from headwater.spark.tasks import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Events that a leaf is given at once; Spark itself hands out small batches.
BATCH_EVENTS = 1 << 18


def through_python(
    df: DataFrame,
    queries: Sequence[Query],
    asked: Asked,
    ties: Sequence[str] | None,
    output: Output = "results",
) -> DataFrame:
    """The rows of queries that a leaf in front of each partition and a root behind them answer."""
    root = asked.root(queries)
    columns, snapshot = list(root.columns), initial_root_bytes(root)
    if ties is not None and any(map(depends_on_order, queries)):
        # Partitions are ranges then: their number and the number of a row in its own are a place of birth that keeps the order.
        # By ticks: times of one tick are one time.
        df = df.orderBy(*map(functions_of(df).expr, [*asked.time_order, *map(quoted, ties)]))

    roots = root_count(queries, cores_of(df.sparkSession))
    # By numbers: mapInArrow does not take every name.
    plain = df.selectExpr(*(f"{quoted(name)} AS c{number}" for number, name in enumerate(columns)))
    sent = in_tasks(plain, FRAMES, frames, snapshot, roots=roots, columns=columns)
    return results(sent, snapshot, roots=roots, leaves=partition_count(df), output=output, columns=root.result_schema)


def partition_count(df: DataFrame) -> int | None:
    """Into how many partitions Spark plans to divide it; None through Spark Connect, where that is unknown."""
    try:
        return int(df._jdf.queryExecution().executedPlan().outputPartitioning().numPartitions())
    except Exception:
        return None


def frames(
    root: bytes, batches: Iterable[pa.RecordBatch], roots: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """What the leaf of this partition sends."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    number = context.partitionId()
    name = f"{number:010d}"
    feed = SourceFeed(name, "", (batch.rename_columns(list(columns)) for batch in gathered(batches)))
    yield from LeafTask(root, number, [(name, "")], roots).run([feed], flush=True)


def gathered(batches: Iterable[pa.RecordBatch], events: int = BATCH_EVENTS) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches.

    >>> small = [pa.record_batch({"a": [i]}) for i in range(5)]
    >>> [len(batch) for batch in gathered(small, 2)]
    [2, 2, 1]
    """
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        if count >= events:
            yield pa.concat_batches(waiting)
            waiting, count = [], 0
    if count:
        yield pa.concat_batches(waiting)


def depends_on_order(query: Query) -> bool:
    """Whether it matters which of two events of one time comes first."""
    # Between: of two markers of one time, the one that comes first opens or ends.
    if query.distinct is not None or isinstance(query.window, CountWindow | Custom | Between):
        return True
    return any(aggregation.follows_order for _, aggregation in query.aggregates)
