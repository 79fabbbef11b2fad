"""`headwater.read`: window queries over files, answered where the files are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from headwater.spark.doors import check_session, check_source_kind, check_spark
from headwater.spark.native.types import functions_of
from headwater.spark.progress import is_wanted, watch
from headwater.spark.result_rows import shown_aside, shown_rows, spark_shape

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
    sources: SourceOf = "auto",
    types: Types | None = None,
    tasks: int | None = None,
    output: Output = "results",
    rename: Mapping[str, str] | None = None,
    home: Home = None,
) -> DataFrame:
    """Result rows of all queries over the events in ``source``, as a DataFrame; without queries the events themselves.

    ``source`` is a folder, a file, a pattern (``"events/day=*/*.csv"``), a list of files, a segment log, or generators of events;
    ``file:`` may stand in front. Folders named ``day=1`` say a column that the files below them lack. Files are Parquet, Arrow
    IPC, CSV or JSON lines, the last two also packed with gzip; ``format`` says which where names do not. A file is one source,
    named by its path below the folder, and a row's number in it is its offset: ``sources="auto"``, which is "file" here, and
    "folder" in streams, whose files come and go. With "folder" the files of a folder are one, in the order of their names, or
    those for which a function of a file's name gives the same. ``columns`` and ``where`` choose events; queries say themselves
    what they need. ``types`` are those of columns of text whose first lines mislead. ``rename`` gives columns other names on the
    way in, of which queries and all other arguments but ``types`` speak. ``tasks``: how many to share the work among, at least.

    For queries with a scope over nodes a file is at home in its folder, a log's partition in its log, a generator in itself.
    ``home`` says it otherwise: a mapping from sources to nodes, or a column that holds the node of each event.

    ``output="aside"`` gives the events that no result has instead, each with the reason, and ``output="accounts"`` how many
    events each query had and what became of them.

    What is malformed in text is set aside and counted, or with ``strict`` an error; without queries it is null, as in Spark.

    Everything that can be wrong with files or queries is said at once; Spark runs when rows are asked for.
    """
    check_session(spark, "hw.read")
    check_spark(spark, "hw.read")
    check_source_kind(source, "hw.read")
    check_count("tasks", tasks)
    parallelism = cores_of(spark) if tasks is None else tasks
    if queries is None:
        for_queries = {"disorder": (disorder, None), "flush": (flush, True), "sources": (sources, "auto")}
        _refuse_without_queries({**for_queries, "output": (output, "results"), "home": (home, None)})
        chosen = plan_events(
            source, format, columns, parallelism, where=where, strict=strict, types=types, rename=rename
        )
        return _load(spark, _watched(spark, chosen))
    if columns is not None:
        raise QueryError(f"columns is {list(columns)!r}: queries say which columns they need; leave it out")
    if where is not None:
        raise QueryError(f"where is {where!r}: each query has its own; leave it out here")
    listed = check_queries(queries)
    settings: dict[str, Any] = {"time": time, "unit": unit, "disorder": disorder, "strict": strict}
    options: dict[str, Any] = {"sources": sources, "types": types, "rename": rename, "home": home}

    def plan_of(asked: Sequence[Query]) -> ReadPlan:
        return plan_queries(source, asked, format, parallelism, flush, **options, **settings)

    return query_rows(spark, listed, plan_of, time, unit, output, flush, disorder is not None)


def query_rows(
    spark: SparkSession,
    queries: Sequence[Query],
    plan_of: Callable[[Sequence[Query]], ReadPlan],
    time: str = "time",
    unit: str = "us",
    output: Output = "results",
    flush: bool = True,
    has_disorder: bool = False,
    limits: SelectionLimits = LIMITS,
) -> DataFrame:
    """The rows of queries, or what else is asked for."""
    plan = _watched(spark, plan_of(queries))
    shape = spark_shape(queries, plan.schema, time, unit, is_stream=has_disorder)
    if output == "results":
        is_complete = flush and not has_disorder
        counted = [query for query in queries if is_complete and can_be_selected(query, plan, limits)]
        return shown_rows(_rows(spark, plan, queries, counted, plan_of, time, unit, limits), queries, shape)
    found = _answered(spark, plan, queries, cores_of(spark), output)
    return shown_aside(_born(found, plan), shape) if output == "aside" else found


def _rows(
    spark: SparkSession,
    plan: ReadPlan,
    queries: Sequence[Query],
    counted: Sequence[Query],
    plan_of: Callable[[Sequence[Query]], ReadPlan],
    time: str,
    unit: str,
    limits: SelectionLimits,
) -> DataFrame:
    """The rows of queries; windows of those that are ``counted`` are cut where the files are read."""
    cores = cores_of(spark)
    if not counted:
        return _answered(spark, plan, queries, cores, "results")
    assert plan.rows is not None, "a plan for queries says which columns their rows have"
    wanted = row_type(plan.rows)
    parts = [count_rows(spark, plan, group, time, unit, cores, wanted, limits) for group in groups(counted)]
    names = {query.name for query in counted}
    others = [query for query in queries if query.name not in names]
    if others:
        parts.append(fitted_rows(_answered(spark, plan_of(others), others, cores, "results"), wanted))
    return reduce(lambda one, other: one.unionByName(other), parts)


def _answered(spark: SparkSession, plan: ReadPlan, queries: Sequence[Query], cores: int, output: Output) -> DataFrame:
    """Leaves inside the readers, roots behind them."""
    assert plan.root is not None
    roots = root_count(queries, cores)
    frames = _load(spark, plan, roots=roots)
    return results(frames, plan.root, plan.flush, roots=roots, leaves=len(plan.tasks), output=output, columns=plan.rows)


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


def _refuse_without_queries(given: Mapping[str, tuple[object, object]]) -> None:
    """Events are read as they are: what concerns windows means nothing."""
    for name, (value, default) in given.items():
        if value != default:
            raise QueryError(f"{name} is {value!r}: it is for queries, and none is given; leave it out")


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
