"""Checks of single fields: each gives the `Problem`s of a value that is not what the field may hold, mostly none.

Fields are checked as plain objects: users come from JSON, notebooks and typos, whatever the annotations say. A check
returns a tuple rather than being a generator, which is what a million sound queries notice.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.errors import Problem
from headwater.language.expression_checks import problems
from headwater.language.expressions import Column, Expr
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
    if not isinstance(value, Expr):
        return (Problem(field, value, "write a condition over columns, such as col('kind') == 'stop'"),)
    if isinstance(value, Column):
        return (Problem(field, value, f"a column alone is no condition; write {value!r} == True"),)
    return [problem.inside(field) for problem in problems(value)]
