"""`headwater.aggregate`: window queries over any DataFrame.

What Spark can say under the guarantees of docs/semantics.md becomes a plan of its own operators (`native/`). For the rest a
leaf stands in front of each partition, and a root behind them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from headwater.errors import DataError, QueryError
from headwater.language.arguments import check_queries
from headwater.language.query import Query
from headwater.spark.batch.partition_leaves import depends_on_order, through_python
from headwater.spark.batch.plan import initial_root
from headwater.spark.batch.root import Output, fitted_rows, plain_rows
from headwater.spark.dataframe_streams.aggregate import stream_aggregate
from headwater.spark.dataframe_streams.plan import StreamOptions
from headwater.spark.native import positions
from headwater.spark.native.choice import Asked
from headwater.spark.native.division import divided
from headwater.spark.native.plan import EventFrame, fixed_windows, numbered
from headwater.spark.native.types import COLLATED
from headwater.spark.progress import watch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

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
) -> DataFrame:
    """Result rows of all queries over the rows of a DataFrame, as a DataFrame.

    ``order`` names the columns that decide between events of one time, for queries in which that matters (first, last, collect,
    count windows, distinct, users' own); by default all other columns do. Rows of a DataFrame come in no order, so none is late.

    Queries that Spark can answer by itself under the same guarantees are answered without Python; ``plan="python"`` sends all
    through Python. ``sums="native"`` takes Spark's own sums of floats, whose last bits may depend on the order.

    ``output="aside"`` gives the events that no result has instead, each with the reason, and ``output="accounts"`` how many
    events each query had and what became of them; both go through Python.

    Of a streaming DataFrame a streaming one is made (docs/streaming-aggregate.md); the arguments from ``disorder`` on are for
    these alone. ``disorder``: how far times may step back before an event is late. ``source``: the column that tells sources
    apart, each of which has a watermark; ``idle``: one that was silent for so long is not waited for. ``flush_when``: a condition
    for rows that are no events but say that the stream ends, ``flush_after``: it ends after such a silence. ``live``: show open
    windows too, when they change. ``buckets``: how many roots share the keys, the same for the life of a checkpoint.
    ``output="all"`` gives everything in one stream, each row with its kind; `split_output` takes it apart.
    """
    listed, ties = check_queries(queries), tie_breakers(df, time, order)
    options = StreamOptions(disorder, source, idle, flush_when, flush_after, live, buckets)
    if df.isStreaming:
        _check_words(sums, plan)
        settings: dict[str, Any] = {"time": time, "unit": unit, "strict": strict, "sums": sums, "output": output}
        return stream_aggregate(df, listed, arrow_schema(df), ties, options, **settings)
    options.refuse_batch()
    if output == "all":
        raise QueryError("output='all' is for streaming DataFrames: give 'results', 'aside' or 'accounts'")
    asked, columns = checked(df, listed, time, unit, sums, plan, strict)
    watch(df.sparkSession, None, None)
    if output != "results":
        return through_python(df, listed, asked, ties, output)
    return _Call(df, asked, ties, _struct(columns)).rows(listed)


def checked(
    df: DataFrame, queries: Sequence[Query], time: str, unit: str, sums: str, plan: str, strict: bool
) -> tuple[Asked, pa.Schema]:
    """What is asked of a DataFrame, and the columns of its result rows; whatever is wrong is said here, whoever answers."""
    _check_words(sums, plan)
    if df.isStreaming:
        raise DataError("this is a streaming DataFrame: give a batch DataFrame")
    asked = Asked(arrow_schema(df), time, unit, sums, plan, strict)
    return asked, initial_root(queries, asked.schema, time=time, unit=unit, strict=strict).result_schema


def _check_words(sums: str, plan: str) -> None:
    for name, value, words in (("sums", sums, ("exact", "native")), ("plan", plan, ("auto", "python"))):
        if value not in words:
            raise QueryError(f"{name} is {value!r}: give one of {', '.join(map(repr, words))}")


class _Call:
    """One call, taken apart: each part answers some queries, in rows of the same columns."""

    def __init__(self, df: DataFrame, asked: Asked, ties: Sequence[str], wanted: StructType) -> None:
        self._df = df
        self._asked = asked
        self._ties = ties
        self._wanted = wanted

    def rows(self, queries: Sequence[Query]) -> DataFrame:
        asked = self._asked
        division = divided(queries, asked)
        parts: list[DataFrame] = []
        if division.fixed:
            events = EventFrame.of(self._df, asked.schema, asked.time, asked.unit)
            parts += fixed_windows(events, numbered(division.fixed, asked.unit), self._wanted)
        parts += map(self._native_counts, division.native_counts)
        parts += map(self._python_counts, division.python_counts)
        if division.others or not parts:
            parts.append(fitted_rows(through_python(self._df, division.others, asked, self._ties), self._wanted))
        return reduce(lambda one, other: one.unionByName(other), parts)

    def _native_counts(self, family: Sequence[Query]) -> DataFrame:
        frame, replaced, schema = self._over_positions(family, exact=False)
        wanted = _struct(initial_root(replaced, schema, time=positions.POSITION).result_schema)
        events = EventFrame.of(frame, schema, positions.POSITION, "us")
        found = fixed_windows(events, numbered(replaced, "us"), wanted)
        rows = reduce(lambda one, other: one.unionByName(other), found)
        return positions.full_windows(rows, family, self._wanted)

    def _python_counts(self, family: Sequence[Query]) -> DataFrame:
        exact = any(depends_on_order(query) for query in map(positions.over_positions, family))
        frame, replaced, schema = self._over_positions(family, exact)
        over = Asked(schema, positions.POSITION)
        # Positions are an order in themselves: no rows need to be sorted again.
        rows = through_python(frame, replaced, over, None)
        return positions.full_windows(rows, family, self._wanted)

    def _over_positions(self, family: Sequence[Query], exact: bool) -> tuple[DataFrame, list[Query], pa.Schema]:
        asked = self._asked
        events = EventFrame.of(self._df, asked.schema, asked.time, asked.unit)
        replaced = [positions.over_positions(query) for query in family]
        read = sorted(set().union(*(query.columns() for query in replaced)) - {positions.TIME})
        frame = positions.positioned(positions.Ordered(events, self._ties), family, read, exact)
        known = pa.schema([asked.schema.field(name) for name in read])
        return frame, replaced, positions.schema_with_positions(known)


def _struct(schema: pa.Schema) -> StructType:
    from headwater.spark.types import spark_types

    return spark_types(plain_rows(schema))[1]


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
    # Of columns that share a name nobody can say which is meant.
    once = Counter(name.lower() for name in df.columns)
    fields = [field for field in df.schema if field.name != time and once[field.name.lower()] == 1]
    return [field.name for field in fields if _can_be_ordered(field.dataType)]


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

    fields = []
    for field in df.schema:
        try:
            type_ = to_arrow_type(field.dataType, timezone="UTC")
        except Exception:
            type_ = pa.struct([])
        collated = getattr(field.dataType, "collation", "UTF8_BINARY") != "UTF8_BINARY"
        fields.append(pa.field(field.name, type_, metadata=COLLATED if collated else None))
    return pa.schema(fields)
