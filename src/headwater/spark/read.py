"""`headwater.read`: window queries over files, answered where the files are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from headwater.errors import QueryError
from headwater.query import Query
from headwater.spark.plan import Plan, plan_events, plan_queries
from headwater.spark.root import results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Sessions that know the data source.
_KNOWING: WeakSet[Any] = WeakSet()


def read(
    spark: SparkSession,
    source: Any,
    queries: Query | Iterable[Query] | None = None,
    *,
    time: str = "time",
    unit: str = "us",
    disorder: object = None,
    flush: bool = True,
    strict: bool = False,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Result rows of all queries over the events in ``source``, as a DataFrame; without queries the events themselves.

    ``source`` is a folder, a file, a list of files, a segment log, or generators of events. Files are Parquet, Arrow IPC, CSV or
    JSON lines, the last two also packed with gzip; ``format`` says which where names do not. A file is one source, named by its
    path below the folder, and a row's number in it is its offset. ``columns`` chooses those of events; queries say
    themselves what they need. ``tasks``: how many to share the work among, at least.

    Everything that can be wrong with files or queries is said at once; Spark runs when rows are asked for.
    """
    parallelism = _parallelism(spark) if tasks is None else tasks
    if queries is None:
        return _load(spark, plan_events(source, format, columns, parallelism))
    if columns is not None:
        raise QueryError(f"columns is {list(columns)!r}: queries say which columns they need; leave it out")
    settings = {"time": time, "unit": unit, "disorder": disorder, "strict": strict}
    plan = plan_queries(source, queries, format, parallelism, flush, **settings)
    assert plan.root is not None
    return results(_load(spark, plan), plan.root, flush)


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("headwater")`` known to a session; `read` does it by itself."""
    from headwater.spark.source import HeadwaterSource

    # Once: Spark warns of a source that takes the place of another.
    if spark not in _KNOWING:
        spark.dataSource.register(HeadwaterSource)
        _KNOWING.add(spark)


def _load(spark: SparkSession, plan: Plan) -> DataFrame:
    register(spark)
    return spark.read.format("headwater").option("plan", plan.to_text()).load()


def _parallelism(spark: SparkSession) -> int:
    """The cores there are; through Spark Connect nobody says."""
    from headwater.spark.source import PARALLELISM

    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:
        return PARALLELISM
