"""One look at a DataFrame, by Spark itself: how many events there are, in how many groups of slice and key, how long texts are.

Groups are counted with sketches (HyperLogLog, below 1 % off), for each partition and for all: one pass over the columns that are
needed, and a few kilobytes from each task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pt

from headwater.query import Query
from headwater.spark.expressions import NotNativeError, sql_of
from headwater.spark.native import Events, families
from headwater.spark.native_grids import Grid, Numbered, grids
from headwater.spark.native_types import floor_div, functions_of, quoted, ticks
from headwater.windows import Band, Sliding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Two to the power of this are the registers of a sketch.
REGISTERS_LOG: Final = 14


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups that a grid of slices cuts the events of some queries into."""

    grid: Grid
    keys: tuple[str, ...]
    group: str

    @classmethod
    def of(cls, grid: Grid, events: Events) -> Grouping:
        """``group`` is SQL: a hash of slice and keys, null for events that do not count."""
        query = grid.members[0].query
        time = events.time if grid.offset == 0 else f"({events.time} - {grid.offset}L)"
        hashed = ", ".join([floor_div(time, grid.slice), *map(quoted, query.keys)])
        return cls(grid, query.keys, f"CASE WHEN {_condition(query, events)} THEN xxhash64({hashed}) END")


def _condition(query: Query, events: Events) -> str:
    if query.where is None:
        return events.has_time
    try:
        return f"({events.has_time}) AND ({sql_of(query.where, events.schema)})"
    except NotNativeError:
        return events.has_time


def groupings(queries: Sequence[Query], events: Events, unit: str) -> list[Grouping]:
    """How queries of fixed windows share slices; others have none."""
    numbered = []
    for query in queries:
        if isinstance(query.window, Sliding | Band):
            window = query.window.resolved(unit, query.name)
            numbered.append(Numbered(len(numbered), query, window))
    found = [grid for family in families(numbered, events.schema) for grid in grids(family)]
    return [Grouping.of(grid, events) for grid in found]


@dataclass(frozen=True, slots=True)
class Groups:
    """How many there are in each partition, added up, and in all events."""

    in_partitions: int
    in_all: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """The events of one partition, or of all: how many, and from when to when."""

    partition: int | None
    events: int
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen. ``lengths``: mean bytes of each column of text; ``padded``: the same in whole words of eight bytes."""

    partitions: int
    all: Stretch
    largest: Stretch
    groups: Mapping[str, Groups] = field(default_factory=dict)
    lengths: Mapping[str, float] = field(default_factory=dict)
    padded: Mapping[str, float] = field(default_factory=dict)

    @property
    def events(self) -> int:
        return self.all.events


def look(df: DataFrame, schema: pa.Schema, time: tuple[str, str] | None, asked: Iterable[Grouping]) -> Look:
    """Run the one job; ``time`` is that of events and the condition that they have one, in SQL."""
    f = functions_of(df)
    found = list({one.group: one for one in asked})
    texts = [one.name for one in schema if is_text(one.type)]
    when = "CAST(NULL AS BIGINT)" if time is None else f"CASE WHEN {time[1]} THEN {time[0]} END"
    counted = {
        "events": "count(1)",
        "low": f"min({when})",
        "high": f"max({when})",
        **{f"g{i}": f"hll_sketch_agg({group}, {REGISTERS_LOG})" for i, group in enumerate(found)},
        **{f"length{i}": f"sum(octet_length({quoted(name)}))" for i, name in enumerate(texts)},
        **{f"padded{i}": f"sum({_padded(quoted(name))})" for i, name in enumerate(texts)},
    }
    by_partition = df.groupBy(f.expr("spark_partition_id() AS partition")).agg(*_aliased(f, counted))
    together = {
        "partitions": "count(1)",
        "events": "sum(events)",
        "low": "min(low)",
        "high": "max(high)",
        "largest": "max_by(struct(partition, events, low, high), events)",
        **{f"parts{i}": f"sum(hll_sketch_estimate(g{i}))" for i in range(len(found))},
        **{f"all{i}": f"hll_sketch_estimate(hll_union_agg(g{i}))" for i in range(len(found))},
        **{name: f"sum({name})" for i in range(len(texts)) for name in (f"length{i}", f"padded{i}")},
    }
    row = by_partition.agg(*_aliased(f, together)).collect()[0].asDict()
    return _seen(row, found, texts)


def _aliased(f: Any, columns: Mapping[str, str]) -> list[Any]:
    return [f.expr(sql).alias(name) for name, sql in columns.items()]


def _seen(row: Mapping[str, Any], found: Sequence[str], texts: Sequence[str]) -> Look:
    events = row["events"] or 0
    largest = row["largest"] or (0, 0, None, None)
    return Look(
        row["partitions"],
        Stretch(None, events, row["low"], row["high"]),
        Stretch(*largest),
        {group: Groups(row[f"parts{i}"] or 0, row[f"all{i}"] or 0) for i, group in enumerate(found)},
        {name: (row[f"length{i}"] or 0) / max(1, events) for i, name in enumerate(texts)},
        {name: (row[f"padded{i}"] or 0) / max(1, events) for i, name in enumerate(texts)},
    )


def _padded(column: str) -> str:
    return f"(octet_length({column}) + 7L) div 8L * 8L"


def is_text(type_: pa.DataType) -> bool:
    """Columns whose values differ in length."""
    return bool(pt.is_string(type_) or pt.is_binary(type_))


def event_time(schema: pa.Schema, time: str, unit: str) -> tuple[str, str] | None:
    """The time of an event and the condition that it has one, in SQL; None if Spark cannot say it exactly."""
    return ticks(schema.field(time), unit)


def row_bytes(look: Look, schema: pa.Schema, columns: Iterable[str], more: int = 0) -> float:
    """The size of a row of these columns, and so many long ones beside, as Spark shuffles it."""
    listed = list(columns)
    count = len(listed) + more
    return (count + 63) // 64 * 8 + count * 8 + sum(_beside(look, schema.field(name)) for name in listed)


def _beside(look: Look, field: pa.Field) -> float:
    """What does not fit the eight bytes that each column has. Lists and structs are not looked at."""
    if pt.is_decimal(field.type) and field.type.precision > 18:
        return 16.0
    return look.padded.get(field.name, 0.0)


def arrow_bytes(look: Look, schema: pa.Schema, columns: Iterable[str]) -> float:
    """The size of an event of these columns, as Spark gives it to Python."""
    return sum(_arrow(look, schema.field(name)) for name in columns)


def _arrow(look: Look, field: pa.Field) -> float:
    try:
        values = field.type.bit_width / 8
    except ValueError:
        values = 4 + look.lengths.get(field.name, 0.0)
    # A bit for each says whether it is null.
    return values + 1 / 8
