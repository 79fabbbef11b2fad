"""Conditions as plain data, for JSON and YAML.

    {"column": "load", ">": 0}            {"column": "house", "in": ["a", "b"]}      {"column": "a", "<": {"column": "b"}}
    {"column": "load", "between": [0, 9]} {"column": "load", "is_null": true}        {"column": "kind", "matches": "a.*"}
    {"and": [..., ...]}                   {"or": [..., ...]}                         {"not": ...}

Literals that JSON does not have are written as an object with the name of their type: {"decimal": "0.1"},
{"float": "nan"}, {"datetime": "2024-02-29T12:00:00"}, {"date": "2024-02-29"}, {"bytes": "aGk="} (base64).
"""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import Any, Final

from headwater.errors import Problem, QueryError
from headwater.language.comparisons import COMPARISONS
from headwater.language.expressions import And, BooleanChain, Column, Compare, Expr, In, IsNull, Matches, Not, Or, Range

_CHAINS: Final[dict[str, type[And] | type[Or]]] = {"and": And, "or": Or}
_TESTS: Final = ("in", "between", "is_null", "matches")
_FORM: Final = "write a condition such as {'column': 'load', '>': 0}, {'and': [...]}, {'or': [...]} or {'not': ...}"
_LITERAL_FORM: Final = (
    "write a number, text, true, false, {'column': name}, or one of {'decimal': ...}, {'float': ...}, "
)
_READERS: Final[dict[str, Callable[[str], object]]] = {
    "decimal": Decimal,
    "float": float,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "bytes": lambda text: base64.b64decode(text, validate=True),
}


def condition_to_data(expr: Expr) -> dict[str, Any]:
    """A condition as plain data.

    >>> from headwater.language.expressions import col
    >>> condition_to_data((col("load") > 0) & ~col("house").isin(["a"]))
    {'and': [{'column': 'load', '>': 0}, {'not': {'column': 'house', 'in': ['a']}}]}
    """
    match expr:
        case BooleanChain():
            word = next(word for word, kind in _CHAINS.items() if isinstance(expr, kind))
            return {word: [condition_to_data(operand) for operand in expr.operands()]}
        case Not(inner):
            return {"not": condition_to_data(inner)}
        case Compare(op, left, right):
            side = {"column": left.name} if isinstance(left, Column) else {"value": _operand_to_data(left)}
            return side | {op: _operand_to_data(right)}
        case In(column, values):
            return {"column": column.name, "in": [_operand_to_data(value) for value in values]}
        case Range(column, low, high):
            return {"column": column.name, "between": [_operand_to_data(low), _operand_to_data(high)]}
        case IsNull(column):
            return {"column": column.name, "is_null": True}
        case Matches(column, pattern):
            return {"column": column.name, "matches": pattern}
    raise AssertionError(f"no condition: {expr!r}")


def condition_from_data(data: object, field: str = "where") -> Expr:
    """The condition that plain data describe; `field` is its place in the query, for messages.

    >>> condition_from_data({"or": [{"column": "load", "is_null": True}, {"column": "load", ">": 0}]})
    (col('load').is_null() | (col('load') > 0))
    >>> condition_from_data({"column": "load", "above": 0})
    Traceback (most recent call last):
    headwater.errors.QueryError: where is {'column': 'load', 'above': 0}: compare with exactly one of == != < <= > >= in
        between is_null matches
    """
    if not isinstance(data, Mapping):
        raise _refused(field, data, _FORM)
    for word, chain in _CHAINS.items():
        if word in data:
            operands = data[word]
            if len(data) != 1 or not isinstance(operands, list) or len(operands) < 2:
                raise _refused(field, data, f"write {{'{word}': [...]}} with two or more conditions")
            return reduce(chain, (condition_from_data(operand, f"{field}.{word}") for operand in operands))
    if "not" in data:
        if len(data) != 1:
            raise _refused(field, data, "write {'not': {...}} and nothing beside it")
        return Not(condition_from_data(data["not"], f"{field}.not"))
    return _comparison(data, field)


def _comparison(data: Mapping[str, Any], field: str) -> Expr:
    sides = [side for side in ("column", "value") if side in data]
    if len(sides) != 1:
        raise _refused(field, data, _FORM)
    tests = [word for word in data if word != sides[0]]
    if len(tests) != 1 or (tests[0] not in COMPARISONS and tests[0] not in _TESTS):
        raise _refused(field, data, f"compare with exactly one of {' '.join((*COMPARISONS, *_TESTS))}")
    test, given = tests[0], data[tests[0]]
    if test in COMPARISONS:
        left = Column(data["column"]) if "column" in data else _operand(data["value"], field)
        return Compare(test, left, _operand(given, field))
    if "column" not in data:
        raise _refused(field, data, f"'{test}' needs a column: {{'column': name, '{test}': ...}}")
    return _tested(Column(data["column"]), test, given, field)


def _tested(column: Column, test: str, given: Any, field: str) -> Expr:
    if test == "matches":
        return Matches(column, given)
    if test == "is_null":
        if not isinstance(given, bool):
            raise _refused(f"{field}.is_null", given, "use true or false")
        return IsNull(column) if given else Not(IsNull(column))
    if not isinstance(given, list) or (test == "between" and len(given) != 2):
        form = "write the two bounds, [low, high]" if test == "between" else "write the values, [..., ...]"
        raise _refused(f"{field}.{test}", given, form)
    values = tuple(_operand(value, f"{field}.{test}") for value in given)
    return Range(column, *values) if test == "between" else In(column, values)


def _operand_to_data(value: Any) -> Any:
    match value:
        case Column(name):
            return {"column": name}
        case float() if not math.isfinite(value):
            return {"float": repr(value)}
        case Decimal():
            return {"decimal": str(value)}
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case datetime.datetime():
            return {"datetime": value.isoformat()}
        case datetime.date():
            return {"date": value.isoformat()}
    return value


def _operand(data: Any, field: str) -> Any:
    if not isinstance(data, Mapping):
        return data
    kind = next(iter(data), None)
    text: Any = data.get(kind)
    if kind == "column" and len(data) == 1:
        return Column(text)
    if kind not in _READERS or len(data) != 1 or not isinstance(text, str):
        raise _refused(field, data, _LITERAL_FORM + "{'datetime': ...}, {'date': ...}, {'bytes': ...} with text")
    try:
        return _READERS[kind](text)
    except (ValueError, InvalidOperation) as error:
        raise _refused(field, data, f"this text is no {kind} ({error})") from error


def _refused(field: str, value: object, right: str) -> QueryError:
    return QueryError.of(Problem(field, dict(value) if isinstance(value, Mapping) else value, right))
