"""Checks of single fields: each gives the `Problem`s of a value that is not what the field may hold, mostly none.

Fields are checked as plain objects: users come from JSON, notebooks and typos, whatever the annotations say. A check
returns a tuple rather than being a generator, which is what a million sound queries notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from headwater.errors import Problem, shown
from headwater.language import expressions as ex
from headwater.language.comparisons import COMPARISONS, compare, kind_of
from headwater.language.times import DURATION_FORM, DURATION_MAX, TIME_MAX, Nanos

Problems = Sequence[Problem]


def text(field: str, value: object, right: str) -> Problems:
    """Text that is not empty.

    >>> text("name", "", "name the query")[0].text()
    "name is '': name the query"
    """
    return () if isinstance(value, str) and value else (Problem(field, value, right),)


def flag(field: str, value: object) -> Problems:
    """True or False, and nothing that merely behaves like one."""
    return () if isinstance(value, bool) else (Problem(field, value, "use True or False"),)


def one_of(field: str, value: object, allowed: Sequence[str]) -> Problems:
    """One of a few words."""
    if isinstance(value, str) and value in allowed:
        return ()
    return (Problem(field, value, f"use one of {', '.join(map(repr, allowed))}"),)


def positive(field: str, value: object) -> Problems:
    """A duration above zero.

    >>> positive("slide", 0)[0].text("load")
    "query 'load': slide is 0: give a duration above 0, such as '10 s', or an integer of ticks"
    """
    return duration(field, value, above=0, right="give a duration above 0, such as '10 s', or an integer of ticks")


def not_negative(field: str, value: object) -> Problems:
    """A duration of zero or more."""
    return duration(field, value, above=-1, right="give a duration of 0 or more, such as '10 s'")


def positive_or_none(field: str, value: object) -> Problems:
    """A duration above zero, or None for none."""
    return () if value is None else positive(field, value)


def duration(field: str, value: object, above: int = -(2**100), right: str = "") -> Problems:
    """A duration, of any sign unless it must be above something."""
    if not isinstance(value, int) or isinstance(value, bool):
        return (Problem(field, value, DURATION_FORM),)
    # Real time is bounded by the coarsest tick, a second; a finer one is checked when the unit is known.
    longest = DURATION_MAX * 1_000_000_000 if isinstance(value, Nanos) else DURATION_MAX
    if not -longest <= int(value) <= longest:
        return (Problem(field, value, "give at most 2**61 ticks"),)
    return () if int(value) > above else (Problem(field, value, right),)


def time(field: str, value: object) -> Problems:
    """An event time."""
    if type(value) is int and abs(value) <= TIME_MAX:
        return ()
    return (Problem(field, value, "give a time as an integer of the stream's ticks, within 2**62 of 0"),)


def event_count(field: str, value: object) -> Problems:
    """A number of events."""
    if type(value) is int and 0 < value <= DURATION_MAX:
        return ()
    return (Problem(field, value, "give a number of events, an integer above 0"),)


def names(field: str, value: object) -> Problems:
    """Names of columns."""
    right = "name columns: ['door', 'room']"
    if not isinstance(value, tuple):
        return (Problem(field, value, right),)
    return [problem for name in value for problem in text(field, name, right)]


def condition(field: str, value: object) -> Problems:
    """A condition over columns."""
    if not isinstance(value, ex.Expr):
        return (Problem(field, value, "write a condition over columns, such as col('kind') == 'stop'"),)
    if isinstance(value, ex.Column):
        return (Problem(field, value, f"a column alone is no condition; write {value!r} == True"),)
    return [problem.inside(field) for problem in problems(value)]


def problems(expr: ex.Expr) -> Iterator[Problem]:
    """Everything wrong with a condition as it was written.

    >>> [problem.text("load") for problem in problems(ex.Column("load") < None)]
    ["query 'load': condition is (col('load') < None): nothing compares with null: write col(...).is_null()"]
    """
    match expr:
        case ex.Column():
            yield from _name_problems(expr.name)
        case ex.Compare(op, left, right):
            if op not in COMPARISONS:
                yield Problem("comparison", op, f"use one of {' '.join(COMPARISONS)}")
            if not isinstance(left, ex.Column) and not isinstance(right, ex.Column):
                yield Problem("comparison", expr, "compare a column with something: col('load') > 0")
            yield from _operand_problems(expr, left, right)
        case ex.BooleanChain():
            for operand in expr.operands():
                yield from problems(operand)
        case ex.Not(inner):
            yield from problems(inner)
        case ex.In(column, values):
            yield from problems(column)
            yield from _list_problems(expr, values)
        case ex.Range(column, low, high):
            yield from _operand_problems(expr, column, low, high)
            if compare("<=", low, high) is not True:
                yield Problem("between", (low, high), "give the smaller bound first, both of one kind")
        case ex.IsNull(column):
            yield from problems(column)
        case ex.Matches(column, pattern):
            yield from problems(column)
            yield from _pattern_problems(pattern)


def _name_problems(name: object) -> Iterator[Problem]:
    if not isinstance(name, str) or not name:
        yield Problem("column", name, "name a column with text: col('load')")


def _operand_problems(expr: ex.Expr, *operands: object) -> Iterator[Problem]:
    for value in operands:
        if isinstance(value, ex.Column):
            yield from problems(value)
        elif value is None:
            yield Problem("condition", expr, "nothing compares with null: write col(...).is_null()")
        elif kind_of(value) is None or (isinstance(value, Decimal) and not value.is_finite()):
            right = "compare with a number, text, bool, bytes, date or datetime, or with another column"
            yield Problem("condition", expr, f"{right}, not with {shown(value)}")
        elif isinstance(value, str) and not value.isascii() and not _is_utf8(value):
            yield Problem("condition", expr, "text must have a UTF-8 form; it holds a lone surrogate")


def _list_problems(expr: ex.In, values: object) -> Iterator[Problem]:
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
        ex.compiled(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        yield Problem("matches", pattern, f"write a regular expression of Python's re ({error})")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
