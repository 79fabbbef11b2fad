"""What can be wrong with a condition, whatever the data: values without an order, bad patterns, bounds upside down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from headwater.errors import Problem, shown
from headwater.language.comparisons import COMPARISONS, compare, kind_of
from headwater.language.expressions import (
    BooleanChain,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Matches,
    Not,
    Range,
    compiled,
)


def problems(expr: Expr) -> Iterator[Problem]:
    """Everything wrong with a condition as it was written.

    >>> [problem.text("load") for problem in problems(Column("load") < None)]
    ["query 'load': condition is (col('load') < None): nothing compares with null: write col(...).is_null()"]
    """
    match expr:
        case Column():
            yield from _name_problems(expr.name)
        case Compare(op, left, right):
            if op not in COMPARISONS:
                yield Problem("comparison", op, f"use one of {' '.join(COMPARISONS)}")
            if not isinstance(left, Column) and not isinstance(right, Column):
                yield Problem("comparison", expr, "compare a column with something: col('load') > 0")
            yield from _operand_problems(expr, left, right)
        case BooleanChain():
            for operand in expr.operands():
                yield from problems(operand)
        case Not(inner):
            yield from problems(inner)
        case In(column, values):
            yield from problems(column)
            yield from _list_problems(expr, values)
        case Range(column, low, high):
            yield from _operand_problems(expr, column, low, high)
            if compare("<=", low, high) is not True:
                yield Problem("between", (low, high), "give the smaller bound first, both of one kind")
        case IsNull(column):
            yield from problems(column)
        case Matches(column, pattern):
            yield from problems(column)
            yield from _pattern_problems(pattern)


def _name_problems(name: object) -> Iterator[Problem]:
    if not isinstance(name, str) or not name:
        yield Problem("column", name, "name a column with text: col('load')")


def _operand_problems(expr: Expr, *operands: object) -> Iterator[Problem]:
    for value in operands:
        if isinstance(value, Column):
            yield from problems(value)
        elif value is None:
            yield Problem("condition", expr, "nothing compares with null: write col(...).is_null()")
        elif kind_of(value) is None or (isinstance(value, Decimal) and not value.is_finite()):
            right = "compare with a number, text, bool, bytes, date or datetime, or with another column"
            yield Problem("condition", expr, f"{right}, not with {shown(value)}")
        elif isinstance(value, str) and not value.isascii() and not _is_utf8(value):
            yield Problem("condition", expr, "text must have a UTF-8 form; it holds a lone surrogate")


def _list_problems(expr: In, values: object) -> Iterator[Problem]:
    form = f"list values of one kind: {expr.column!r}.isin([1, 2])"
    if not isinstance(values, tuple):
        yield Problem("isin", values, form)
        return
    yield from _operand_problems(expr, *values)
    if len({kind_of(value) for value in values}) != 1:
        yield Problem("isin", list(values), form)


def _pattern_problems(pattern: object) -> Iterator[Problem]:
    if not isinstance(pattern, str):
        yield Problem("matches", pattern, "write a regular expression as text")
        return
    try:
        compiled(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        yield Problem("matches", pattern, f"write a regular expression of Python's re ({error})")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
