"""Profiles a DataFrame with one Spark job: how many events, how many groups of slice and key, and how long texts are.

Groups are counted with sketches (HyperLogLog, about 1 % off), for each partition and for all: one pass over the columns that are
needed, and a few kilobytes from each task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pt

from headwater.language.expressions import Expr
from headwater.language.query import Query
from headwater.language.windows import Band, Sliding
from headwater.spark.native.choice import Asked
from headwater.spark.native.expressions import NotNativeError, sql_of
from headwater.spark.native.plan import Grid, families, grids, numbered
from headwater.spark.native.types import floor_div, functions_of, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The standard error of a number of groups.
GROUPS_ERROR: Final = 0.01


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups that a grid of slices cuts the events of its queries into.

    ``group`` is SQL: a hash of slice and keys, null for events that do not count; ``key`` that of the keys alone.
    """

    grid: Grid
    keys: tuple[str, ...]
    group: str
    key: str


def groupings(queries: Sequence[Query], asked: Asked) -> list[Grouping]:
    """How queries of fixed windows share slices, as `fixed_windows` lets them; others have none."""
    if asked.ticks is None:
        return []
    found = families(numbered(queries, asked.unit), asked.schema)
    return [_grouping(grid, asked.schema, *asked.ticks) for family in found for grid in grids(family)]


def _grouping(grid: Grid, schema: pa.Schema, time: str, has_time: str) -> Grouping:
    query = grid.members[0].query
    since = time if grid.offset == 0 else f"({time} - {grid.offset}L)"
    kept = has_time if query.where is None else f"({has_time}) AND ({_condition(query.where, schema)})"
    hashed = (
        f"CASE WHEN {kept} THEN xxhash64({', '.join(columns)}) END"
        for columns in ([floor_div(since, grid.slice), *map(quoted, query.keys)], ["0", *map(quoted, query.keys)])
    )
    return Grouping(grid, query.keys, *hashed)


def _condition(where: Expr, schema: pa.Schema) -> str:
    try:
        return sql_of(where, schema)
    except NotNativeError:
        # Then it does not count fewer groups, here and in samples alike.
        return "true"


@dataclass(frozen=True, slots=True)
class Groups:
    """The number of groups: of each partition, added up, and of all events together."""

    in_partitions: int
    in_all: int


@dataclass(frozen=True, slots=True)
class PartitionSpan:
    """The events of one partition, or of all: how many, and from when to when."""

    partition: int | None
    events: int
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class FrameProfile:
    """Figures of a DataFrame. ``lengths``: mean bytes of each column of text; ``padded``: those in words of eight bytes."""

    partitions: int
    all: PartitionSpan
    largest: PartitionSpan
    groups: Mapping[str, Groups] = field(default_factory=dict)
    lengths: Mapping[str, float] = field(default_factory=dict)
    padded: Mapping[str, float] = field(default_factory=dict)

    @property
    def events(self) -> int:
        return self.all.events

    def windows(self, grouping: Grouping, window: Sliding | Band) -> int:
        """About how many windows of one query there will be, those of each key for themselves."""
        keys = self.groups[grouping.key].in_all
        if isinstance(window, Band) or self.all.low is None or self.all.high is None:
            return keys
        overlap = -(-window.size // window.slide)
        # Either every slice has windows of its own, or windows follow each other from the first event to the last.
        dense = self.all.high // window.slide - self.all.low // window.slide + overlap
        return min(self.groups[grouping.group].in_all * overlap, dense * keys)


def profiled(
    df: DataFrame, time: tuple[str, str] | None, asked: Iterable[Grouping], texts: Sequence[str]
) -> FrameProfile:
    """Run the one job. ``time``: of events, and the condition that they have one, in SQL; ``texts``: columns to be measured."""
    f = functions_of(df)
    found = list(dict.fromkeys(sql for one in asked for sql in (one.group, one.key)))
    seen = {
        "partition": "spark_partition_id()",
        "t": when(time),
        **{f"g{i}": group for i, group in enumerate(found)},
        **{f"length{i}": f"octet_length({quoted(name)})" for i, name in enumerate(texts)},
    }
    counted = {
        "events": "count(1)",
        "low": "min(t)",
        "high": "max(t)",
        **{f"g{i}": f"approx_count_distinct(g{i}, {GROUPS_ERROR})" for i in range(len(found))},
        **{f"length{i}": f"coalesce(sum(length{i}), 0L)" for i in range(len(texts))},
        **{f"padded{i}": f"coalesce(sum((length{i} + 7L) div 8L * 8L), 0L)" for i in range(len(texts))},
    }
    # Once more for all partitions together: sketches of them are one then.
    grouped = df.selectExpr(*_aliased(seen)).rollup("partition")
    rows = [row.asDict() for row in grouped.agg(*map(f.expr, _aliased(counted))).collect()]
    return _seen(rows, found, texts)


def _aliased(columns: Mapping[str, str]) -> list[str]:
    return [f"{sql} AS {name}" for name, sql in columns.items()]


def _seen(rows: Sequence[Mapping[str, Any]], found: Sequence[str], texts: Sequence[str]) -> FrameProfile:
    parts = [row for row in rows if row["partition"] is not None]
    if not parts:
        nothing = PartitionSpan(None, 0, None, None)
        return FrameProfile(0, nothing, nothing, {group: Groups(0, 0) for group in found})
    together = next(row for row in rows if row["partition"] is None)
    largest = max(parts, key=lambda row: int(row["events"]))
    groups = {group: Groups(sum(row[f"g{i}"] for row in parts), together[f"g{i}"]) for i, group in enumerate(found)}
    lengths = {name: together[f"length{i}"] / together["events"] for i, name in enumerate(texts)}
    padded = {name: together[f"padded{i}"] / together["events"] for i, name in enumerate(texts)}
    return FrameProfile(len(parts), _stretch(together), _stretch(largest), groups, lengths, padded)


def _stretch(row: Mapping[str, Any]) -> PartitionSpan:
    return PartitionSpan(row["partition"], row["events"], row["low"], row["high"])


def is_text(type_: pa.DataType) -> bool:
    """Columns whose values differ in length."""
    return bool(pt.is_string(type_) or pt.is_binary(type_))


def when(time: tuple[str, str] | None) -> str:
    """The time of an event in SQL, null where it has none; ``time``: it, and the condition that there is one."""
    return "CAST(NULL AS BIGINT)" if time is None else f"CASE WHEN {time[1]} THEN {time[0]} END"


def row_bytes(profile: FrameProfile, schema: pa.Schema, columns: Iterable[str], more: int = 0) -> float:
    """The size of a row of these columns and ``more`` of eight bytes, as Spark shuffles it."""
    listed = list(columns)
    count = len(listed) + more
    return (count + 63) // 64 * 8 + count * 8 + sum(_beside(profile, schema.field(name)) for name in listed)


def _beside(profile: FrameProfile, field: pa.Field) -> float:
    """What does not fit the eight bytes that each column has. Lists and structs are not looked at."""
    if pt.is_decimal(field.type) and field.type.precision > 18:
        return 16.0
    return profile.padded.get(field.name, 0.0)


def arrow_bytes(profile: FrameProfile, schema: pa.Schema, columns: Iterable[str]) -> float:
    """The size of an event of these columns, as Spark gives it to Python."""
    return sum(_arrow(profile, schema.field(name)) for name in columns)


def _arrow(profile: FrameProfile, field: pa.Field) -> float:
    try:
        values = field.type.bit_width / 8
    except ValueError:
        values = 4 + profile.lengths.get(field.name, 0.0)
    # A bit for each says whether it is null.
    return float(values) + 1 / 8
