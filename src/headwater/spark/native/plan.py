"""Fixed windows as a plan of Spark's own operators: one groupBy of all events into slices, and windows from slices.

The first groupBy sees every event, so it is long arithmetic and fixed-width columns only. The table of slices is small; each of
them is joined with the windows it lies in, for all queries at once, and grouped again. Queries share grids of equal slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.language.query import Query
from headwater.language.windows import Band, Sliding
from headwater.spark.native.aggregates import Operators
from headwater.spark.native.choice import Asked, sorts_rows
from headwater.spark.native.expressions import sql_of
from headwater.spark.native.types import floor_div, functions_of, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


#: For each query that shares a pass over the events, slices may be shorter by this factor than the shortest window needs.
FINER_MAX = 8


@dataclass(frozen=True, slots=True)
class Numbered:
    """A query in ticks, with its place among all queries of the call."""

    number: int
    query: Query
    window: Sliding | Band


def numbered(queries: Iterable[Query], unit: str) -> list[Numbered]:
    """The queries of fixed windows among these."""
    found: list[Numbered] = []
    for query in queries:
        if isinstance(query.window, Sliding | Band):
            found.append(Numbered(len(found), query, query.window.resolved(unit, query.name)))
    return found


@dataclass(frozen=True, slots=True)
class Grid:
    """Slices [k * slice + offset, (k + 1) * slice + offset), of which all windows of its queries are made."""

    slice: int
    offset: int
    members: tuple[Numbered, ...]

    @property
    def is_window(self) -> bool:
        """The slices are the windows of the one query."""
        window = self.members[0].window
        return len(self.members) == 1 and isinstance(window, Sliding) and window.size == window.slide == self.slice

    @property
    def has_bands(self) -> bool:
        return any(isinstance(member.window, Band) for member in self.members)

    @property
    def is_regular(self) -> bool:
        """Every slice lies in as many windows of a query as every other."""
        return not self.has_bands and all(
            member.window.size % member.window.slide == 0
            for member in self.members
            if isinstance(member.window, Sliding)
        )

    def windows(self) -> list[tuple[int, int, int, int, int]]:
        """All windows a slice may be part of; unless the grid is regular, some slices are not part of some.

        Of each the number of its query, its size, its slide (0: a band), its offset, and how far it begins behind the newest.
        """
        found = []
        for member in self.members:
            number, window = member.number, member.window
            if isinstance(window, Band):
                found.append((number, window.size, 0, window.start, 0))
            else:
                offset, lags = window.offset % window.slide, range(0, window.size, window.slide)
                found += [(number, window.size, window.slide, offset, lag) for lag in lags]
        return found


def grids(members: Sequence[Numbered]) -> list[Grid]:
    """Slices for all queries: one grid if that is not much finer than each would have alone, else several.

    >>> import headwater as hw
    >>> queries = [hw.query(str(n), hw.tumbling(n), n=hw.count()) for n in (60, 90, 700_001)]
    >>> [grid.slice for grid in grids([Numbered(i, q, q.window) for i, q in enumerate(queries)])]
    [30, 700001]
    """
    together = _grid(members)
    if _is_worth_it(together):
        return [together]
    found: list[Grid] = []
    for member in members:
        for place, grid in enumerate(found):
            wider = _grid([*grid.members, member])
            if _is_worth_it(wider):
                found[place] = wider
                break
        else:
            found.append(_grid([member]))
    return found


def _grid(members: Sequence[Numbered]) -> Grid:
    first = _offset(members[0].window)
    slice_ = gcd(*(_finest_slice(m.window) for m in members), *(_offset(m.window) - first for m in members))
    return Grid(slice_, first % slice_, tuple(members))


def _finest_slice(window: Sliding | Band) -> int:
    """The longest slice that windows of this kind, in ticks, are made of: 2 for windows of 10 every 4."""
    return window.size if isinstance(window, Band) else gcd(window.size, window.slide)


def _offset(window: Sliding | Band) -> int:
    return window.start if isinstance(window, Band) else window.offset


def _is_worth_it(grid: Grid) -> bool:
    finest = min(_finest_slice(member.window) for member in grid.members)
    return finest <= grid.slice * FINER_MAX * len(grid.members)


@dataclass(frozen=True, slots=True)
class EventFrame:
    """A DataFrame of events, the schema of its columns, and how it says when an event was and whether it has a time."""

    frame: DataFrame
    schema: pa.Schema
    time: str
    has_time: str

    @classmethod
    def of(cls, frame: DataFrame, asked: Asked) -> EventFrame:
        assert asked.ticks is not None, "only queries whose times Spark can read get here"
        return cls(frame, asked.schema, *asked.ticks)

    def filtered(self, query: Query) -> DataFrame:
        """The events that count for a query."""
        kept = self.frame.where(self.has_time)
        return kept if query.where is None else kept.where(sql_of(query.where, self.schema))


def fixed_windows(events: EventFrame, members: Sequence[Numbered], wanted: StructType) -> list[DataFrame]:
    """The result rows of tumbling, sliding and band queries, as few DataFrames of the ``wanted`` columns."""
    found = []
    for family in families(members, events.schema):
        kept = events.filtered(family[0].query)
        found += [_rows(kept, events, grid, wanted) for grid in grids(family)]
    return found


def condition_key(query: Query) -> object:
    """Equal for queries that want the same events."""
    return None if query.where is None else query.where.key()


def families(members: Sequence[Numbered], schema: pa.Schema) -> list[list[Numbered]]:
    """Queries of the same keys and condition share slices; those that make Spark sort its rows do not spoil it for the rest."""
    found: dict[object, list[Numbered]] = {}
    for member in members:
        key = member.query.keys, condition_key(member.query), sorts_rows(member.query, schema)
        found.setdefault(key, []).append(member)
    return list(found.values())


def _rows(kept: DataFrame, events: EventFrame, grid: Grid, wanted: StructType) -> DataFrame:
    operators = Operators(events.schema)
    values = {
        member.number: {alias: operators.value(a) for alias, a in member.query.aggregates} for member in grid.members
    }
    keys = grid.members[0].query.keys
    slices = _slices(kept, events, grid, operators, keys)
    windows = _own_windows(slices, grid) if grid.is_window else _windows(slices, grid, operators, len(keys))
    for step in operators.steps:
        if step:
            windows = windows.selectExpr("*", *(f"{sql} AS {name}" for name, sql in step.items()))
    return _result(windows, grid, values, wanted)


def _slices(kept: DataFrame, events: EventFrame, grid: Grid, operators: Operators, keys: Sequence[str]) -> DataFrame:
    f = functions_of(kept)
    time = events.time if grid.offset == 0 else f"({events.time} - {grid.offset}L)"
    groups = [f"{floor_div(time, grid.slice)} AS slice", *(f"{quoted(key)} AS k{i}" for i, key in enumerate(keys))]
    made = [f.expr(f"{one.lift} AS {one.name}") for one in operators.kept.values()]
    return kept.groupBy(*map(f.expr, groups)).agg(*made)


def _own_windows(slices: DataFrame, grid: Grid) -> DataFrame:
    """Slices that are windows already."""
    return slices.selectExpr("*", f"{grid.members[0].number} AS query", f"{_begin(grid)} AS start")


def _begin(grid: Grid) -> str:
    # Not null, which Spark cannot know of a quotient: it would look at every event to make sure.
    return f"coalesce(slice, 0L) * {grid.slice}L + {grid.offset}L"


def _windows(slices: DataFrame, grid: Grid, operators: Operators, key_count: int) -> DataFrame:
    """Windows from slices: each slice is joined with its windows, of all queries, and grouped by them."""
    f = functions_of(slices)
    keys = [f"k{i}" for i in range(key_count)]
    begun = slices.selectExpr("*", f"{_begin(grid)} AS begin").drop("slice")
    if keys:
        # All slices of a key at one place: then their windows are as well, and those, which are more, need not move.
        begun = begun.repartition(*keys)
    table, said = _table(slices.sparkSession, grid)
    both = begun.crossJoin(f.broadcast(table))
    start = f"begin - pmod(begin - {said['shift']}, {said['slide']}) - lag"
    if grid.has_bands:
        start = f"CASE WHEN {said['slide']} = 0L THEN {said['shift']} ELSE {start} END"
    placed = both.selectExpr("*", f"{start} AS start")
    if not grid.is_regular:
        placed = placed.where(f"begin >= start AND begin < start + {said['size']}")
    combined = [f.expr(f"{one.combine} AS {one.name}") for one in operators.kept.values()]
    many = ["query"] if len(grid.members) > 1 else []
    windows = placed.groupBy(*keys, *many, "start").agg(*combined)
    return windows if many else windows.selectExpr("*", f"{grid.members[0].number} AS query")


def _table(spark: SparkSession, grid: Grid) -> tuple[DataFrame, dict[str, str]]:
    """The windows that a slice lies in, and how to say their fields: as a column, or as a number if all have the same."""
    names = ("query", "size", "slide", "shift")
    rows = [(str(query), *(f"{number}L" for number in numbers)) for query, *numbers in grid.windows()]
    said = {name: name if len(set(column)) > 1 else column[0] for name, column in zip(names, zip(*rows))}
    values = ", ".join(f"({', '.join(row)})" for row in rows)
    return spark.sql(f"SELECT * FROM VALUES {values} AS w({', '.join(names)}, lag)"), said


def _result(windows: DataFrame, grid: Grid, values: Mapping[int, Mapping[str, str]], wanted: StructType) -> DataFrame:
    """The columns of result rows; null where a query has none of a name."""
    f = functions_of(windows)
    names = {member.number: f"CAST(X'{member.query.name.encode().hex()}' AS STRING)" for member in grid.members}
    sizes = {member.number: f"{member.window.size}L" for member in grid.members}
    keys = {key: f"k{i}" for i, key in enumerate(grid.members[0].query.keys)}
    columns = {
        "query": _of_query(names),
        "window_start": "start",
        "window_end": f"start + {_of_query(sizes)}",
        "event_count": "n",
        "revision": "0L",
    } | keys
    aliases = {alias for of_query in values.values() for alias in of_query}
    columns |= {
        alias: _choice({n: of[alias] for n, of in values.items() if alias in of}, len(values)) for alias in aliases
    }
    picked = [f.expr(columns.get(field.name, "NULL")).cast(field.dataType).alias(field.name) for field in wanted.fields]
    return windows.select(*picked)


def _of_query(values: Mapping[int, str]) -> str:
    """SQL for a value that differs by query, looked up by the query's number."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return f"map({', '.join(f'{number}, {value}' for number, value in values.items())})[query]"


def _choice(values: Mapping[int, str], query_count: int) -> str:
    """SQL for the column of one name, whose expression may differ by query or be missing."""
    by_value: dict[str, list[int]] = {}
    for number, sql in values.items():
        by_value.setdefault(sql, []).append(number)
    if len(by_value) == 1 and len(values) == query_count:
        return next(iter(by_value))
    cases = (f"WHEN query IN ({', '.join(map(str, numbers))}) THEN {sql}" for sql, numbers in by_value.items())
    return f"CASE {' '.join(cases)} END"
