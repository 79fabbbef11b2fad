"""`headwater.read`: window queries over files, answered where the files are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from headwater.errors import DataError, QueryError
from headwater.language.arguments import check_queries
from headwater.language.expressions import Expr
from headwater.language.homes import Home
from headwater.language.query import Query
from headwater.spark.batch.columns import Types
from headwater.spark.batch.files import SourceOf
from headwater.spark.batch.plan import ReadPlan, plan_events, plan_queries
from headwater.spark.batch.root import Output, cores_of, fitted_rows, results, root_count, row_type
from headwater.spark.counts.plan import LIMITS, SelectionLimits, can_be_selected, count_rows, groups
from headwater.spark.data_sources import register
from headwater.spark.native.types import functions_of
from headwater.spark.progress import is_wanted, watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    where: Expr | None = None,
    sources: SourceOf = "file",
    types: Types | None = None,
    tasks: int | None = None,
    output: Output = "results",
    home: Home = None,
) -> DataFrame:
    """Result rows of all queries over the events in ``source``, as a DataFrame; without queries the events themselves.

    ``source`` is a folder, a file, a list of files, a segment log, or generators of events. Files are Parquet, Arrow IPC, CSV or
    JSON lines, the last two also packed with gzip; ``format`` says which where names do not. A file is one source, named by its
    path below the folder, and a row's number in it is its offset; with ``sources="folder"`` the files of a folder are one, in the
    order of their names, or those for which a function of a file's name gives the same. ``columns`` and ``where`` choose events;
    queries say themselves what they need. ``types`` are those of columns of text whose first lines mislead. ``tasks``: how many
    to share the work among, at least.

    For queries with a scope over nodes a file is at home in its folder, a log's partition in its log, a generator in itself.
    ``home`` says it otherwise: a mapping from sources to nodes, or a column that holds the node of each event.

    ``output="aside"`` gives the events that no result has instead, each with the reason, and ``output="accounts"`` how many
    events each query had and what became of them.

    What is malformed in text is set aside and counted, or with ``strict`` an error; without queries it is null, as in Spark.

    Everything that can be wrong with files or queries is said at once; Spark runs when rows are asked for.
    """
    check_count("tasks", tasks)
    parallelism = cores_of(spark) if tasks is None else tasks
    if queries is None:
        if home is not None:
            raise QueryError(f"home is {home!r}: it is for queries with a scope, and there are none; leave it out")
        chosen = plan_events(source, format, columns, parallelism, where=where, strict=strict, types=types)
        return _load(spark, _watched(spark, chosen))
    if columns is not None:
        raise QueryError(f"columns is {list(columns)!r}: queries say which columns they need; leave it out")
    if where is not None:
        raise QueryError(f"where is {where!r}: each query has its own; leave it out here")
    listed = check_queries(queries)
    settings: dict[str, Any] = {"time": time, "unit": unit, "disorder": disorder, "strict": strict, "home": home}

    def plan_of(asked: Sequence[Query]) -> ReadPlan:
        return plan_queries(source, asked, format, parallelism, flush, sources=sources, types=types, **settings)

    is_complete = output == "results" and flush and disorder is None
    return query_rows(spark, listed, plan_of, time, unit, output, is_complete)


def query_rows(
    spark: SparkSession,
    queries: Sequence[Query],
    plan_of: Callable[[Sequence[Query]], ReadPlan],
    time: str = "time",
    unit: str = "us",
    output: Output = "results",
    is_complete: bool = True,
    limits: SelectionLimits = LIMITS,
) -> DataFrame:
    """The rows of queries; count windows of whole files (``is_complete``) are cut where the files are read, if that pays."""
    cores = cores_of(spark)
    plan = _watched(spark, plan_of(queries))
    counted = [query for query in queries if is_complete and can_be_selected(query, plan, limits)]
    if not counted:
        return _answered(spark, plan, queries, cores, output)
    assert plan.rows is not None, "a plan for queries says which columns their rows have"
    wanted = row_type(plan.rows)
    parts = [count_rows(spark, plan, group, time, unit, cores, wanted, limits) for group in groups(counted)]
    names = {query.name for query in counted}
    others = [query for query in queries if query.name not in names]
    if others:
        parts.append(fitted_rows(_answered(spark, plan_of(others), others, cores, output), wanted))
    return reduce(lambda one, other: one.unionByName(other), parts)


def _answered(spark: SparkSession, plan: ReadPlan, queries: Sequence[Query], cores: int, output: Output) -> DataFrame:
    """Leaves inside the readers, roots behind them."""
    assert plan.root is not None
    roots = root_count(queries, cores)
    frames = _load(spark, plan, roots=roots)
    rows = results(frames, plan.root, plan.flush, roots=roots, leaves=len(plan.tasks), output=output, columns=plan.rows)
    return _born(rows, plan) if output == "aside" else rows


def _born(aside: DataFrame, plan: ReadPlan) -> DataFrame:
    """Events under the places of birth that users know: a large file is read in stretches, which count from zero."""
    f = functions_of(aside)
    parts = [piece for task in plan.tasks for piece in task if piece.source != piece.origin]
    if not parts:
        return aside
    origins = f.create_map(*(f.lit(text) for piece in parts for text in (piece.source, piece.origin)))
    bases = f.create_map(*(f.lit(each) for piece in parts for each in (piece.source, piece.base)))
    born = {
        "source": f.coalesce(origins[f.col("source")], f.col("source")),
        "offset": f.col("offset") + f.coalesce(bases[f.col("source")], f.lit(0)),
    }
    return aside.select(*(born[name].alias(name) if name in born else name for name in aside.columns))


def check_count(name: str, value: object) -> None:
    """Refuse what is given as a count and is none."""
    if value is not None and not (isinstance(value, int) and value >= 1):
        raise DataError(f"{name} is {value!r}: give an integer of at least 1")


def _watched(spark: SparkSession, plan: ReadPlan) -> ReadPlan:
    """The plan; in a terminal a line shows how far Spark is with it."""
    if is_wanted(spark):
        watch(spark, plan.event_count(), len(plan.tasks))
    return plan


def _load(spark: SparkSession, plan: ReadPlan, roots: int = 1) -> DataFrame:
    register(spark)
    return spark.read.format("headwater").option("plan", plan.to_text()).option("roots", roots).load()
