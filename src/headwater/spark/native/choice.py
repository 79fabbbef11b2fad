"""Which queries Spark answers by itself, under the same guarantees, and why the others go through Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from headwater.language.aggregations import FUNCTIONS, Aggregation
from headwater.language.homes import nodes_in_words
from headwater.language.query import Query
from headwater.language.time_columns import time_column
from headwater.language.windows import Band, CountWindow, Sliding
from headwater.node import RootNode
from headwater.spark.batch.initial_root import initial_root
from headwater.spark.native.expressions import NotNativeError, sql_of
from headwater.spark.native.types import can_be_least, is_fixed_width, is_plain, quoted, ticks

EXACT: Final = "exact, to the last bit"
SPARKS_OWN: Final = "Spark's own float sums: the last bits may depend on the order"
#: A slice is copied into each of its windows; with more of them the engine's ranges of slices are the better way.
OVERLAP_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Choice:
    """How one query is answered: ``why`` says what made it so, ``guarantee`` what holds for its values."""

    is_native: bool
    why: str
    guarantee: str = EXACT


@dataclass(frozen=True, slots=True)
class Asked:
    """Arguments of a call that hold for all its queries: columns, time and its unit, and how sums and plans are chosen."""

    schema: pa.Schema
    time: str = "time"
    unit: str = "us"
    sums: str = "exact"
    plan: str = "auto"
    strict: bool = False

    @property
    def ticks(self) -> tuple[str, str] | None:
        """The time of an event and the condition that it has one, in SQL; None if Spark cannot say it exactly."""
        column = time_column(self.time)
        return ticks(self.schema.field(column.name), self.unit) if column.is_plain else None

    @property
    def time_order(self) -> list[str]:
        """What sorts rows by time, in SQL; nothing where Spark's order of the column is not that of times.

        Then rows are sorted by what decides between events of one time: leaves and roots know the times themselves.
        """
        column = time_column(self.time)
        if self.ticks is not None:
            return [self.ticks[0]]
        return [quoted(column.name)] if column.is_plain else []

    def root(self, queries: Sequence[Query]) -> RootNode:
        """The initial root of queries over these events; queries that do not fit the columns are refused."""
        return initial_root(queries, self.schema, time=self.time, unit=self.unit, strict=self.strict)


def choice(query: Query, asked: Asked) -> Choice:
    """Whether a plan of Spark's own operators gives the rows that docs/semantics.md asks for.

    >>> import headwater as hw
    >>> columns = Asked(pa.schema([("time", pa.int64()), ("load", pa.float64())]), "time")
    >>> choice(hw.query("peak", hw.tumbling("1 s"), peak=hw.max("load")), columns).is_native
    True
    >>> choice(hw.query("mean", hw.tumbling("1 s"), mean=hw.avg("load")), columns).why
    "avg of floats is exact, which Spark's is not; sums='native' takes Spark's"
    """
    why = why_not_windows(query, asked) or why_not_events(query, asked) or why_not_aggregates(query, asked)
    if why is not None:
        return Choice(False, why)
    guarantee = SPARKS_OWN if any(_is_float_sum(a, asked.schema) for _, a in query.aggregates) else EXACT
    if isinstance(query.window, CountWindow):
        return Choice(True, "positions come from counts; only events near cuts are sorted", guarantee)
    return Choice(True, "windows are made of slices, and slices of plain arithmetic", guarantee)


def has_positions(query: Query, asked: Asked) -> bool:
    """Whether Spark can count the positions of a count window, which then becomes a fixed window over them."""
    if not isinstance(query.window, CountWindow) or query.distinct is not None:
        return False
    return why_not_windows(query, asked) is None and why_not_events(query, asked) is None


def why_not_windows(query: Query, asked: Asked) -> str | None:
    window = query.window
    if asked.plan == "python":
        return "the call asks for it with plan='python'"
    if asked.strict:
        return "strict looks at each event"
    if query.scope != "global":
        return f"scope is {query.scope!r}: nodes are {nodes_in_words(query)}"
    if query.emit_empty:
        return "windows without events are asked for"
    if not isinstance(window, Sliding | Band | CountWindow):
        return f"other events decide where {type(window).__name__.lower()} windows end"
    if not isinstance(window, Band) and _overlap(window, asked.unit) > OVERLAP_MAX:
        return f"more than {OVERLAP_MAX} windows overlap"
    return None


def _overlap(window: Sliding | CountWindow, unit: str) -> int:
    if isinstance(window, CountWindow):
        return -(-window.size // window.step)
    ticks = window.resolved(unit)
    return -(-ticks.size // ticks.slide)


def why_not_events(query: Query, asked: Asked) -> str | None:
    """What keeps Spark from filtering and grouping the events."""
    if asked.ticks is None:
        column = time_column(asked.time)
        held = f"{column.name!r} holds {asked.schema.field(column.name).type}" if column.is_plain else asked.time
        return f"time {held}" + ("" if column.is_plain else " is read by headwater")
    for key in query.keys:
        field = asked.schema.field(key)
        if not is_plain(field) or pt.is_null(field.type):
            return f"key {key!r} does not group by its bytes"
    if query.where is not None:
        try:
            sql_of(query.where, asked.schema)
        except NotNativeError as reason:
            return f"where: {reason}"
    return None


def why_not_aggregates(query: Query, asked: Asked) -> str | None:
    if query.distinct is not None:
        return "distinct keeps the first copy in order"
    reasons = (_why_not(aggregation, asked.schema, _sums(query, asked)) for _, aggregation in query.aggregates)
    return next((reason for reason in reasons if reason is not None), None)


def _sums(query: Query, asked: Asked) -> str:
    return "native" if "native" in (query.sums, asked.sums) else "exact"


def _why_not(aggregation: Aggregation, schema: pa.Schema, sums: str) -> str | None:
    function, column = aggregation.function, aggregation.column
    if not FUNCTIONS[function].native:
        return f"{function} is the engine's"
    if function == "count":
        return None
    assert column is not None
    field = schema.field(column)
    number = pt.is_integer(field.type) or pt.is_floating(field.type)
    if function in ("min", "max"):
        return None if can_be_least(field) else f"{function} of {field.type}"
    if not number:
        return f"{function} of {field.type}"
    if _is_float_sum(aggregation, schema) and sums == "exact":
        return f"{function} of floats is exact, which Spark's is not; sums='native' takes Spark's"
    return None


def _is_float_sum(aggregation: Aggregation, schema: pa.Schema) -> bool:
    if aggregation.function not in ("sum", "avg") or aggregation.column is None:
        return False
    return bool(pt.is_floating(schema.field(aggregation.column).type))


def sorts_rows(query: Query, schema: pa.Schema) -> bool:
    """Spark keeps the smallest text of a group by sorting all rows: such queries stay apart from the others."""
    columns = [a.column for _, a in query.aggregates if a.function in ("min", "max") and a.column is not None]
    return any(not is_fixed_width(schema.field(column).type) for column in columns)
