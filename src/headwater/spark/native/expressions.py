"""Conditions as Spark SQL, where Spark decides every row exactly as headwater does.

Numbers compare by their exact value here, in Spark after a cast; so a literal is first rewritten into a bound of the column's own
type, and what cannot be is left to Python. Truth has three values in both.
"""

from __future__ import annotations

import datetime
import math
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from headwater.language.comparisons import COMPARISONS, FLIPPED, bound_below, float_below, is_nan
from headwater.language.expressions import BooleanChain, Column, Compare, Expr, In, IsNull, Matches, Not, Range, boolean
from headwater.spark.native.types import is_plain, quoted

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INT64: Final = range(-(2**63), 2**63)


class NotNativeError(Exception):
    """Spark would decide some row differently; the text says why."""


def sql_of(expr: Expr, schema: pa.Schema) -> str:
    """The condition as Spark SQL; `NotNativeError` if there is none that means the same.

    >>> from headwater.language.expressions import col
    >>> columns = pa.schema([("i", pa.int64()), ("x", pa.float64())])
    >>> sql_of((col("i") < 2.5) & ~col("x").is_null(), columns)
    '((CAST(`i` AS BIGINT) <= 2L) AND (NOT (`x` IS NULL)))'
    """
    match expr:
        case Compare(op, left, right):
            return _compared(op, left, right, schema)
        case BooleanChain():
            word = " OR " if expr.decisive else " AND "
            return f"({word.join(sql_of(operand, schema) for operand in expr.operands())})"
        case Not(inner):
            return f"(NOT {sql_of(inner, schema)})"
        case In(column, values):
            # Never of no comparison: an empty list is refused when a query is made.
            comparisons = dict.fromkeys(_to_literal("==", column.name, value, schema) for value in values)
            return f"({' OR '.join(comparisons)})"
        case Range():
            return sql_of(expr.bounds(), schema)
        case IsNull(column):
            return f"({quoted(column.name)} IS NULL)"
        case Matches():
            raise NotNativeError("patterns are Python's")
    return sql_of(boolean(expr), schema)


def _compared(op: str, left: Any, right: Any, schema: pa.Schema) -> str:
    if not isinstance(left, Column):
        op, left, right = FLIPPED[op], right, left
    if not isinstance(right, Column):
        return _to_literal(op, left.name, right, schema)
    sides = [_comparable(side.name, schema) for side in (left, right)]
    storages = {storage for _, storage in sides}
    if len(storages) > 1:
        raise NotNativeError(
            f"columns {left.name!r} and {right.name!r} are stored in two ways that Spark compares by a cast"
        )
    return f"({sides[0][0]} {_sql_op(op)} {sides[1][0]})"


def _to_literal(op: str, name: str, literal: Any, schema: pa.Schema) -> str:
    column, storage = _comparable(name, schema)
    match storage:
        case "integer":
            bound = _integer_bound(op, _ticks(literal))
        case "float":
            bound = _float_bound(op, literal)
        case "text":
            bound = op, f"CAST(X'{literal.encode().hex()}' AS STRING)"
        case _:
            bound = op, f"X'{bytes(literal).hex()}'"
    if isinstance(bound, bool):
        # The same for every value, and null where there is none.
        return f"(CASE WHEN {quoted(name)} IS NOT NULL THEN {bound} END)"
    return f"({column} {_sql_op(bound[0])} {bound[1]})"


def _sql_op(op: str) -> str:
    return "=" if op == "==" else op


def _comparable(name: str, schema: pa.Schema) -> tuple[str, str]:
    """A column as Spark should compare it, and how it is stored then."""
    field, column = schema.field(name), quoted(name)
    if not is_plain(field):
        raise NotNativeError(f"column {name!r} has a collation")
    if pt.is_integer(field.type) or pt.is_boolean(field.type):
        return f"CAST({column} AS BIGINT)", "integer"
    if pt.is_floating(field.type):
        return f"CAST({column} AS DOUBLE)", "float"
    if pt.is_string(field.type):
        return column, "text"
    if pt.is_binary(field.type):
        return column, "bytes"
    if pt.is_date(field.type):
        return f"CAST(unix_date({column}) AS BIGINT)", "integer"
    if pt.is_timestamp(field.type) and field.type.tz is not None:
        return f"unix_micros({column})", "integer"
    raise NotNativeError(f"column {name!r} holds {field.type}")


def _ticks(literal: Any) -> Any:
    """Timestamps and dates as the number that Spark keeps for them."""
    if isinstance(literal, datetime.datetime):
        zoned = literal if literal.tzinfo is not None else literal.replace(tzinfo=datetime.UTC)
        return (zoned - _EPOCH) // datetime.timedelta(microseconds=1)
    return literal.toordinal() - _EPOCH.toordinal() if isinstance(literal, datetime.date) else literal


def _integer_bound(op: str, literal: Any) -> tuple[str, str] | bool:
    """A comparison of integers with any number as one with an integer, or what it is for all of them."""
    if is_nan(literal) or not -(2**64) < literal < 2**64:
        return bool(COMPARISONS[op](0, 1 if is_nan(literal) or literal > 0 else -1))
    bound = bound_below(op, literal, math.floor(literal))
    if isinstance(bound, bool):
        return bound
    if bound[1] not in _INT64:
        return bool(COMPARISONS[bound[0]](0, bound[1]))
    # The smallest integer cannot be written as a literal: its sign is an operator.
    return bound[0], f"{bound[1]}L" if bound[1] > -(2**63) else "(-9223372036854775807L - 1L)"


def _float_bound(op: str, literal: Any) -> tuple[str, str] | bool:
    if is_nan(literal):
        return op, "CAST('NaN' AS DOUBLE)"
    bound = bound_below(op, literal, float_below(literal))
    return bound if isinstance(bound, bool) else (bound[0], f"CAST('{bound[1]!r}' AS DOUBLE)")
