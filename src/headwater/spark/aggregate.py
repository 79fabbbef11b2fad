"""`headwater.aggregate`: window queries over any DataFrame.

What Spark can say under the guarantees of docs/semantics.md becomes a plan of its own operators (`native/`). For the rest a
leaf stands in front of each partition, and a root behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from headwater.errors import DataError, QueryError
from headwater.language.arguments import check_queries
from headwater.language.homes import Home, check_column, check_home, homed, refuse_homeless
from headwater.language.query import Query
from headwater.language.renames import Renaming
from headwater.language.schemas import refuse_doubled
from headwater.language.time_columns import time_column
from headwater.language.windows import CountWindow
from headwater.spark.batch.partition_leaves import depends_on_order, through_python
from headwater.spark.batch.root import Output, fitted_rows, row_type
from headwater.spark.dataframe_streams.aggregate import stream_aggregate
from headwater.spark.dataframe_streams.plan import StreamOptions
from headwater.spark.doors import check_frame, check_spark
from headwater.spark.native import positions
from headwater.spark.native.choice import Asked, choice, has_positions
from headwater.spark.native.plan import EventFrame, fixed_windows, numbered
from headwater.spark.native.types import COLLATED
from headwater.spark.progress import watch
from headwater.spark.result_rows import shown_aside, shown_rows, spark_shape
from headwater.spark.types import in_utc

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

#: Why scopes over nodes are refused.
HOMELESS = (
    "rows of a DataFrame have no sources that could be at home at a node: name the column that says it, home='site'"
)
HOMELESS_STREAM = f"{HOMELESS}, or the one that tells sources apart, source='sensor'"
#: Types of Spark that look plain and have no order.
_UNORDERED = ("variant", "interval", "geography", "geometry")


def aggregate(
    df: DataFrame,
    queries: Query | Iterable[Query],
    *,
    time: str = "time",
    unit: str = "us",
    order: str | Sequence[str] | None = None,
    strict: bool = False,
    sums: str = "exact",
    plan: str = "auto",
    output: Output | Literal["all"] = "results",
    disorder: object = None,
    source: str | None = None,
    idle: object = None,
    flush_when: str | Column | None = None,
    flush_after: object = None,
    live: bool = False,
    buckets: int | None = None,
    rename: Mapping[str, str] | None = None,
    home: Home = None,
    ahead_max: object = "auto",
) -> DataFrame:
    """Result rows of all queries over the rows of a DataFrame, as a DataFrame.

    ``order`` names the columns that decide between events of one time, for queries in which that matters (first, last, collect,
    count windows, distinct, users' own); by default all other columns do. Rows of a DataFrame come in no order, so none is late.

    Queries that Spark can answer by itself under the same guarantees are answered without Python; ``plan="python"`` sends all
    through Python. ``sums="native"`` takes Spark's own sums of floats, whose last bits may depend on the order.

    ``output="aside"`` gives the events that no result has instead, each with the reason, and ``output="accounts"`` how many
    events each query had and what became of them; both go through Python.

    ``rename`` gives columns other names on the way in, of which queries and all other arguments speak.

    Rows of a DataFrame have no home: for queries with a scope over nodes ``home`` names the column that holds each event's node.
    In a streaming one with a column ``source`` each source is its own node; there ``home`` may also map sources to nodes.

    Of a streaming DataFrame a streaming one is made (docs/streaming-aggregate.md); the arguments from ``disorder`` to ``buckets``
    and ``ahead_max`` are for these alone and refused elsewhere. ``disorder``: how far times may step back before an event is
    late; if it is not said, what `withWatermark` on the column of times says. ``source``: the column that tells sources apart,
    each of which has a watermark; ``idle``: one silent for this time is not waited for. ``flush_when``: a condition for rows that
    are no events but say that the stream ends, ``flush_after``: it ends after such a silence. ``live``: show open windows too,
    when they change. ``buckets``: how many roots share the keys, the same for the life of a checkpoint. ``ahead_max``: an event
    whose time is further ahead of its batch is malformed; by default one day, None for any, and any where times are plain
    integers. With ``time=hw.arrival()`` the time of an event is that of the batch that first took it. ``output="all"`` gives
    everything in one stream, each row with its kind; `split_output` takes it apart.
    """
    df = renamed_frame(df, rename)
    check_spark(df.sparkSession, "hw.aggregate")
    asked = Asked(arrow_schema(df), time, unit, sums, plan, strict)
    options = StreamOptions(disorder, source, idle, flush_when, flush_after, live, buckets, ahead_max)
    if df.isStreaming:
        options = options.with_watermark(df, time_column(time).name)
    call = Call.of(df, queries, order, asked, options, home)
    if df.isStreaming:
        return stream_aggregate(df, call.queries, asked, call.ties, options, output, call.homes)
    if output == "all":
        raise QueryError("output='all' is for streaming DataFrames: give 'results', 'aside' or 'accounts'")
    wanted = row_type(asked.root(call.queries).result_schema)
    shape = spark_shape(call.queries, asked.schema, time, unit, is_stream=False)
    watch(df.sparkSession, None, None)
    if output == "results":
        return shown_rows(call.rows(wanted), call.queries, shape)
    found = through_python(df, call.queries, asked, call.ties, output)
    return shown_aside(found, shape) if output == "aside" else found


@dataclass(frozen=True, slots=True)
class Call:
    """A checked call of `aggregate`: its queries, what is asked of the DataFrame, and the columns that break ties.

    ``homes``: the nodes of the sources of a stream that are not their own.
    """

    df: DataFrame
    queries: list[Query]
    asked: Asked
    ties: list[str]
    homes: Mapping[str, str]

    @classmethod
    def of(
        cls,
        df: DataFrame,
        queries: Query | Iterable[Query],
        order: str | Sequence[str] | None,
        asked: Asked,
        options: StreamOptions,
        home: Home = None,
    ) -> Call:
        if options.source is None or not df.isStreaming:
            home = check_column(home, "rows of a DataFrame have no source")
        home = check_home(home)
        listed = homed(check_queries(queries), home)
        homes = home if isinstance(home, Mapping) else {}
        call = cls(df, listed, asked, tie_breakers(df, time_column(asked.time).name, order), homes)
        if options.source is None:
            refuse_homeless(listed, HOMELESS_STREAM if df.isStreaming else HOMELESS)
        if not df.isStreaming:
            options.refuse_batch()
            if time_column(asked.time).reading == "arrival":
                raise QueryError(
                    f"time is {asked.time}: the rows of a batch DataFrame have no arrival; name the column that tells their times"
                )
        for name, value, known in (("sums", asked.sums, ("exact", "native")), ("plan", asked.plan, ("auto", "python"))):
            if value not in known:
                raise QueryError(f"{name} is {value!r}: give one of {', '.join(map(repr, known))}")
        return call

    def rows(self, wanted: StructType) -> DataFrame:
        """Result rows in ticks, with the columns ``wanted``: parts answer some of the queries each."""
        asked, division = self.asked, divided(self.queries, self.asked)
        parts: list[DataFrame] = []
        if division.fixed:
            parts += fixed_windows(EventFrame.of(self.df, asked), numbered(division.fixed, asked.unit), wanted)
        parts += (self._native_counts(family, wanted) for family in division.native_counts)
        parts += (self._python_counts(family, wanted) for family in division.python_counts)
        if division.others or not parts:
            parts.append(fitted_rows(through_python(self.df, division.others, asked, self.ties), wanted))
        return reduce(lambda one, other: one.unionByName(other), parts)

    def _native_counts(self, family: Sequence[Query], wanted: StructType) -> DataFrame:
        frame, replaced, over = self._over_positions(family, exact=False)
        columns = row_type(over.root(replaced).result_schema)
        found = fixed_windows(EventFrame.of(frame, over), numbered(replaced, "us"), columns)
        rows = reduce(lambda one, other: one.unionByName(other), found)
        return positions.full_windows(rows, family, wanted)

    def _python_counts(self, family: Sequence[Query], wanted: StructType) -> DataFrame:
        exact = any(depends_on_order(query) for query in map(positions.over_positions, family))
        frame, replaced, over = self._over_positions(family, exact)
        # Positions are an order in themselves: no rows need to be sorted again.
        return positions.full_windows(through_python(frame, replaced, over, None), family, wanted)

    def _over_positions(self, family: Sequence[Query], exact: bool) -> tuple[DataFrame, list[Query], Asked]:
        schema = self.asked.schema
        replaced = [positions.over_positions(query) for query in family]
        read = sorted(set().union(*(query.columns() for query in replaced)) - {positions.TIME})
        frame = positions.positioned(EventFrame.of(self.df, self.asked), self.ties, family, read, exact)
        known = positions.schema_with_positions(pa.schema([schema.field(name) for name in read]))
        return frame, replaced, Asked(known, positions.POSITION)


@dataclass(frozen=True, slots=True)
class Division:
    """``fixed``: fixed windows by Spark itself. ``native_counts`` and ``python_counts``: families of count windows that share the
    positions of events, by Spark itself and by leaves and roots over them. ``others``: leaves and roots over the events.
    """

    fixed: list[Query]
    native_counts: list[list[Query]]
    python_counts: list[list[Query]]
    others: list[Query]


def divided(queries: Sequence[Query], asked: Asked) -> Division:
    """Which queries of a call are answered together, and in which way."""
    native = {query.name for query in queries if choice(query, asked).is_native}
    counted = [query for query in queries if has_positions(query, asked)]
    named = native | {query.name for query in counted}
    return Division(
        [query for query in queries if query.name in native and not isinstance(query.window, CountWindow)],
        positions.families([query for query in counted if query.name in native]),
        positions.families([query for query in counted if query.name not in native]),
        [query for query in queries if query.name not in named],
    )


def renamed_frame(df: Any, rename: Mapping[str, str] | None) -> DataFrame:
    """A DataFrame with its columns under the names of which queries speak."""
    check_frame(df)
    renaming = Renaming.of(rename)
    renaming.check(df.columns)
    renamed: DataFrame = df.withColumnsRenamed(dict(renaming.names)) if renaming else df
    return renamed


def tie_breakers(df: DataFrame, time: str, order: str | Sequence[str] | None) -> list[str]:
    named = [order] if isinstance(order, str) else order
    if named is not None:
        unknown = [name for name in named if name not in df.columns]
        if unknown:
            raise DataError(f"order is {unknown[0]!r}: there is no such column; there is {', '.join(df.columns)}")
        refused = [field for field in df.schema if field.name in named and not _can_be_ordered(field.dataType)]
        if refused:
            type_name = refused[0].dataType.simpleString()
            raise DataError(f"order is {refused[0].name!r}: Spark has no order for {type_name}; name another column")
        return list(named)
    return [field.name for field in df.schema if field.name != time and _can_be_ordered(field.dataType)]


def _can_be_ordered(type_: DataType) -> bool:
    from pyspark.sql.types import ArrayType, AtomicType, NullType, StructType

    if isinstance(type_, ArrayType):
        return _can_be_ordered(type_.elementType)
    if isinstance(type_, StructType):
        return all(_can_be_ordered(field.dataType) for field in type_.fields)
    return isinstance(type_, AtomicType | NullType) and type_.typeName() not in _UNORDERED


def arrow_schema(df: DataFrame) -> pa.Schema:
    """The columns as they will come; those that Arrow has no type for can be in no query."""
    from pyspark.sql.pandas.types import to_arrow_type

    # Where a session does not tell capitals apart, v and V are one name.
    is_exact = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    refuse_doubled(df.columns, "the DataFrame", str if is_exact else str.lower)
    fields = []
    for field in df.schema:
        try:
            type_ = to_arrow_type(field.dataType, **in_utc(to_arrow_type))
        except Exception:
            type_ = pa.struct([])
        collated = getattr(field.dataType, "collation", "UTF8_BINARY") != "UTF8_BINARY"
        fields.append(pa.field(field.name, type_, metadata=COLLATED if collated else None))
    return pa.schema(fields)
