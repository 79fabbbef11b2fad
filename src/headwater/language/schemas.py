"""A query against the columns of its data: what can only be refused once the types are known.

Every Arrow type falls into one kind: numbers, text, bytes, timestamps and dates compare within their kind; a column of
type null has no values and fits everywhere; nested types can only be counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from headwater.errors import Problem, QueryError
from headwater.language.aggregations import FUNCTIONS, Aggregation
from headwater.language.comparisons import kind_of
from headwater.language.expressions import BooleanChain, Column, Compare, Expr, In, Matches, Not, Range
from headwater.language.time_columns import time_column, time_problems

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
    """`check_schema` for many queries: a million of them read the schema once."""
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
    """What is known of the data: types and kinds by name, and all names as they stand there."""

    types: dict[str, pa.DataType]
    kinds: dict[str, str | None]
    names: tuple[str, ...]


def _columns(schema: pa.Schema) -> _Columns:
    # Names that occur twice are left out: it would be unclear which column is meant.
    types = {name: schema.field(name).type for name in schema.names if schema.names.count(name) == 1}
    return _Columns(types, {name: type_kind(data_type) for name, data_type in types.items()}, tuple(schema.names))


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
            yield Problem("keys", key, f"keys are text, integers or bools, the column holds {columns.types[key]}")
    for alias, aggregation in query.aggregates:
        if aggregation.column is not None:
            yield from _misfit(alias, aggregation, aggregation.column, columns)
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
        what = "the data has several columns of this name" if name in columns.names else "the data has no such column"
        there = ", ".join(map(repr, columns.names)) or "none"
        yield Problem(field, name, f"{what}; its columns are {there}")


def _is_key(data_type: pa.DataType) -> bool:
    if pt.is_dictionary(data_type):
        return type_kind(data_type) == "text"
    return bool(pt.is_integer(data_type) or pt.is_boolean(data_type) or type_kind(data_type) in ("text", "null"))


def _misfit(alias: str, aggregation: Aggregation, column: str, columns: _Columns) -> Iterator[Problem]:
    field, function = f"aggregate {alias!r}.column", aggregation.function
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
