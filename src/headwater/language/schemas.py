"""A query against the columns of its data: what can only be refused once the types are known.

Every Arrow type falls into one kind: numbers, text, bytes, timestamps and dates compare within their kind; a column of
type null has no values and fits everywhere; nested types can only be counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from headwater.errors import DataError, Problem, QueryError
from headwater.language.aggregations import FUNCTIONS, Aggregation
from headwater.language.comparisons import kind_of
from headwater.language.expressions import BooleanChain, Column, Compare, Expr, In, Matches, Not, Range
from headwater.language.time_columns import time_column, time_problems
from headwater.language.times import Nanos, try_duration

if TYPE_CHECKING:
    from headwater.language.query import Query

_KIND_TESTS: Final[tuple[tuple[str, tuple[Callable[[Any], bool], ...]], ...]] = (
    ("number", (pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_boolean)),
    ("text", (pt.is_string, pt.is_large_string, pt.is_string_view)),
    ("bytes", (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary)),
    ("timestamp", (pt.is_timestamp,)),
    ("date", (pt.is_date,)),
    ("clock", (pt.is_time, pt.is_duration)),
    ("null", (pt.is_null,)),
)


_KEYS_ARE: Final = "keys are text, integers, bools, dates, times, decimals or bytes"


def check_schema(query: Query, schema: pa.Schema, time: str) -> None:
    """Refuse a query that does not fit the columns of its data; call it before anything runs.

    >>> from headwater.language.aggregations import avg
    >>> from headwater.language.query import query
    >>> from headwater.language.windows import tumbling
    >>> columns = pa.schema([("time", pa.int64()), ("house", pa.string())])
    >>> check_schema(query("load", tumbling("1 s"), mean=avg("house")), columns, "time")
    Traceback (most recent call last):
    headwater.errors.QueryError: query 'load': aggregate 'mean'.column is 'house': avg needs numbers, the column holds
        string
    """
    check_schemas((query,), schema, time)


def check_schemas(queries: Iterable[Query], schema: pa.Schema, time: str) -> None:
    """`check_schema` for many queries as they were written: a million of them read the schema once."""
    listed = list(queries)
    check_columns(listed, schema, time)
    check_durations(listed, schema, time)


def check_durations(queries: Iterable[Query], schema: pa.Schema, time: str) -> None:
    """Refuse durations without a unit where times are timestamps or dates: nobody means so many microseconds.

    >>> from headwater.language.aggregations import count
    >>> from headwater.language.query import query
    >>> from headwater.language.windows import tumbling
    >>> check_durations([query("n", tumbling(10), n=count())], pa.schema([("at", pa.timestamp("us"))]), "at")
    Traceback (most recent call last):
    headwater.errors.QueryError: query 'n': window.size is 10: the time column 'at' holds timestamp[us]; write a duration
        with its unit, such as '10 s'
    """
    if not has_calendar_times(schema, time):
        return
    for query in queries:
        for field in query.window.durations:
            for problem in unitless(f"window.{field}", getattr(query.window, field), schema, time):
                raise QueryError.of(problem, query.name)
        for problem in unitless("lateness", query.lateness, schema, time):
            raise QueryError.of(problem, query.name)


def check_unit_of(field: str, given: object, schema: pa.Schema, time: str) -> None:
    """`check_durations` for a duration that a door takes, such as `disorder`."""
    for problem in unitless(field, given, schema, time):
        raise QueryError.of(problem)


def unitless(field: str, given: object, schema: pa.Schema, time: str) -> Iterator[Problem]:
    """The problem of a duration that is a plain number of ticks; zero needs no unit."""
    value = None if given is None else try_duration(given)
    if value and not isinstance(value, Nanos) and has_calendar_times(schema, time):
        column = time_column(time)
        held = f"the time column {time!r} holds {schema.field(time).type}" if column.is_plain else f"times are {time}"
        yield Problem(field, given, f"{held}; write a duration with its unit, such as '{value} s'")


def has_calendar_times(schema: pa.Schema, time: str) -> bool:
    """Whether the time column says itself what its values mean: a timestamp or a date, not a number."""
    if not time_column(time).is_plain:
        return True
    return schema.names.count(time) == 1 and type_kind(schema.field(time).type) in ("timestamp", "date")


def check_columns(queries: Iterable[Query], schema: pa.Schema, time: str) -> None:
    """Refuse queries that do not fit the columns, whatever unit their durations are in."""
    columns = _columns(schema)
    for query in queries:
        for problem in _schema_problems(query, columns, time):
            raise QueryError.of(problem, query.name)


def check_condition(field: str, expr: Expr, schema: pa.Schema) -> None:
    """Refuse a condition that stands alone and does not fit the columns."""
    columns = _columns(schema)
    for name in sorted(expr.columns()):
        for problem in _missing(field, name, columns):
            raise QueryError.of(problem)
    for problem in _incomparable(field, expr, columns):
        raise QueryError.of(problem)


class _Columns(NamedTuple):
    """What is known of the data: types and kinds by name."""

    types: dict[str, pa.DataType]
    kinds: dict[str, str | None]


def refuse_doubled(names: Sequence[str], place: str = "the data", plain: Callable[[str], str] = str) -> None:
    """Refuse columns that share a name, or a ``plain`` form of it, whether a query reads them or not.

    >>> refuse_doubled(["time", "load", "load"])
    Traceback (most recent call last):
    headwater.errors.DataError: the data has 2 columns 'load': it is unclear which one is meant; rename or drop all but
        one
    """
    counts = Counter(map(plain, names))
    for name in names:
        if (count := counts[plain(name)]) > 1:
            raise DataError(
                f"{place} has {count} columns {name!r}: it is unclear which one is meant; rename or drop all but one"
            )


def _columns(schema: pa.Schema) -> _Columns:
    refuse_doubled(schema.names)
    types = {field.name: field.type for field in schema}
    return _Columns(types, {name: type_kind(data_type) for name, data_type in types.items()})


def type_kind(data_type: pa.DataType) -> str | None:
    """The kind of an Arrow type, None for a nested one; a dictionary is of the kind of its values.

    >>> type_kind(pa.int8()), type_kind(pa.dictionary(pa.int32(), pa.string())), type_kind(pa.list_(pa.int8()))
    ('number', 'text', None)
    """
    if pt.is_dictionary(data_type):
        return type_kind(data_type.value_type)
    return next((kind for kind, tests in _KIND_TESTS if any(test(data_type) for test in tests)), None)


def _schema_problems(query: Query, columns: _Columns, time: str) -> Iterator[Problem]:
    # Only the first problem is ever looked at, so whatever follows a check of `_missing` has its column.
    if time_column(time).reading != "arrival":
        yield from _missing("time", time_column(time).name, columns)
    yield from time_problems(time, columns.types)
    for key in query.keys:
        yield from _missing("keys", key, columns)
        if not _is_key(columns.types[key]):
            held = columns.types[key]
            # Which of two floats that look alike are one key would be decided by their last bits.
            advice = "; cast it to integers or decimals" if pt.is_floating(held) else ""
            yield Problem("keys", key, f"{_KEYS_ARE}, the column holds {held}{advice}")
    if query.home is not None:
        yield from _missing("home", query.home, columns)
        if not _is_name(columns.types[query.home]):
            held = columns.types[query.home]
            yield Problem("home", query.home, f"nodes are named by text or integers, the column holds {held}")
    for alias, aggregation in query.aggregates:
        for place, name in enumerate(aggregation.columns):
            yield from _misfit(alias, aggregation, name, columns, is_first=place == 0)
    if query.distinct is not None:
        yield from _missing("distinct", query.distinct, columns)
        if columns.kinds[query.distinct] is None:
            held = columns.types[query.distinct]
            yield Problem("distinct", query.distinct, f"an id is a plain value, the column holds {held}")
    for field, expr in _conditions(query):
        for name in sorted(expr.columns()):
            yield from _missing(field, name, columns)
        yield from _incomparable(field, expr, columns)


def _conditions(query: Query) -> Iterator[tuple[str, Expr]]:
    if query.where is not None:
        yield "where", query.where
    for field, expr in zip(query.window.markers, query.window.conditions(), strict=True):
        yield f"window.{field}", expr


def _missing(field: str, name: str, columns: _Columns) -> Iterator[Problem]:
    if name not in columns.types:
        there = ", ".join(map(repr, columns.types)) or "none"
        yield Problem(field, name, f"the data has no such column; its columns are {there}")


def _is_key(data_type: pa.DataType) -> bool:
    data_type = data_type.value_type if pt.is_dictionary(data_type) else data_type
    return type_kind(data_type) is not None and not pt.is_floating(data_type)


def _is_name(data_type: pa.DataType) -> bool:
    return bool(pt.is_integer(data_type) or type_kind(data_type) in ("text", "null"))


def _misfit(alias: str, aggregation: Aggregation, column: str, columns: _Columns, is_first: bool) -> Iterator[Problem]:
    function = aggregation.function
    field = f"aggregate {alias!r}.{'column' if is_first else FUNCTIONS[function].others}"
    yield from _missing(field, column, columns)
    kind, data_type = columns.kinds[column], columns.types[column]
    if kind == "null" or function == "count":
        return
    if FUNCTIONS[function].takes == "number" and (kind != "number" or pt.is_boolean(data_type)):
        yield Problem(field, column, f"{function} needs numbers, the column holds {data_type}")
    elif kind is None:
        yield Problem(field, column, f"{function} needs plain values, the column holds {data_type}")


def _incomparable(field: str, expr: Expr, columns: _Columns) -> Iterator[Problem]:
    """Comparisons that would be null for every row."""
    match expr:
        case BooleanChain():
            for operand in expr.operands():
                yield from _incomparable(field, operand, columns)
        case Not(inner):
            yield from _incomparable(field, inner, columns)
        case Compare(_, left, right):
            yield from _of_one_kind(field, expr, (left, right), columns)
        case In(column, values):
            yield from _of_one_kind(field, expr, (column, *values[:1]), columns)
        case Range(column, low, _):
            yield from _of_one_kind(field, expr, (column, low), columns)
        case Matches(column):
            if columns.kinds[column.name] is None:
                held = columns.types[column.name]
                yield Problem(field, expr, f"column {column.name!r} holds {held}, which has no text")


def _of_one_kind(field: str, expr: Expr, operands: tuple[Any, ...], columns: _Columns) -> Iterator[Problem]:
    kinds = {_operand_kind(operand, columns) for operand in operands} - {"null"}
    if len(kinds) > 1 or kinds & {None, "clock"}:
        held = [f"{side.name!r} holds {columns.types[side.name]}" for side in operands if isinstance(side, Column)]
        yield Problem(field, expr, f"column {', '.join(held)}: compare it with a value of its own kind")


def _operand_kind(operand: Any, columns: _Columns) -> str | None:
    return columns.kinds[operand.name] if isinstance(operand, Column) else kind_of(operand)
