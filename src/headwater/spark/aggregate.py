"""`headwater.aggregate`: window queries over any DataFrame, a leaf in front of each partition and one root behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.aggregations import Aggregation
from headwater.arguments import check_queries
from headwater.errors import DataError
from headwater.query import Query
from headwater.spark.leaf import FRAMES, Feed, LeafTask
from headwater.spark.plan import fresh_root
from headwater.spark.root import results
from headwater.windows import CountWindow, Custom

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Spark hands out small batches; a leaf is given so many events at once.
BATCH_EVENTS = 1 << 18


def aggregate(
    df: DataFrame,
    queries: Query | Iterable[Query],
    *,
    time: str = "time",
    unit: str = "us",
    order: str | Sequence[str] | None = None,
    strict: bool = False,
) -> DataFrame:
    """Result rows of all queries over the rows of a DataFrame, as a DataFrame.

    ``order`` names the columns that decide between events of one time, for queries in which that matters (first, last, collect,
    count windows, distinct, users' own); by default all other columns do. Rows of a DataFrame come in no order, so none is late.
    """
    from headwater.spark.types import spark_types

    listed = check_queries(queries)
    if df.isStreaming:
        raise DataError("this is a streaming DataFrame: aggregate takes batch DataFrames only")
    tie_breakers = _tie_breakers(df, time, order)
    root = fresh_root(listed, _arrow_schema(df), time=time, unit=unit, strict=strict)
    columns, snapshot = list(root.columns), root.snapshot()
    if any(map(depends_on_order, listed)):
        # Partitions are ranges then: their number and the number of a row in its own are a place of birth that keeps the order.
        df = df.orderBy(time, *tie_breakers)

    def leaf(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headwater.spark.aggregate import frames

        yield from frames(snapshot, batches)

    return results(df.select(*columns).mapInArrow(leaf, spark_types(FRAMES)[1]), snapshot)


def frames(root: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the leaf of this partition sends."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    name = f"{context.partitionId():010d}"
    feed = Feed(name, "", gathered(batches))
    yield from LeafTask(root, name, [(name, "")]).run([feed], flush=True)


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
    if query.distinct is not None or isinstance(query.window, CountWindow | Custom):
        return True
    return any(_follows_order(aggregation) for _, aggregation in query.aggregates)


def _follows_order(aggregation: Aggregation) -> bool:
    if aggregation.function == "user":
        return not all(operator.commutative for operator in aggregation.parameter.operators)
    return aggregation.function in ("first", "last", "collect")


def _tie_breakers(df: DataFrame, time: str, order: str | Sequence[str] | None) -> list[str]:
    named = [order] if isinstance(order, str) else order
    if named is not None:
        unknown = [name for name in named if name not in df.columns]
        if unknown:
            raise DataError(f"order is {unknown[0]!r}: there is no such column; there is {', '.join(df.columns)}")
        return list(named)
    return [field.name for field in df.schema if field.name != time and _can_be_ordered(field.dataType.typeName())]


def _can_be_ordered(type_name: str) -> bool:
    return type_name not in ("map", "variant", "calendarinterval", "geography", "geometry")


def _arrow_schema(df: DataFrame) -> pa.Schema:
    """The columns as they will come; those that Arrow has no type for can be in no query."""
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for field in df.schema:
        try:
            fields.append(pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC")))
        except Exception:
            fields.append(pa.field(field.name, pa.struct([])))
    return pa.schema(fields)
