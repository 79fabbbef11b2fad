"""Errors a user can meet, each with what is wrong and what would be right.

A description (window, aggregate, condition) does not know the query it will be part of, so it does not raise on its
own: it lists its `Problem`s, and `query(...)` turns the first one into a `QueryError` that names the query.
"""

from __future__ import annotations

from typing import NamedTuple


class HeadwaterError(Exception):
    """The base of every error headwater raises on purpose."""


class Problem(NamedTuple):
    """One thing wrong in a description: where, what was found, and what would be right there.

    >>> print(Problem("window.slide", 0, "give a duration above 0").text("load"))
    query 'load': window.slide is 0: give a duration above 0
    """

    field: str
    value: object
    right: str

    def text(self, query: object = None) -> str:
        """The message, with the query's name in front if it is known."""
        where = "" if query is None else f"query {shown(query)}: "
        return f"{where}{self.field} is {shown(self.value)}: {self.right}"

    def inside(self, outer: str) -> Problem:
        """The same problem seen from the description that holds the field.

        >>> Problem("slide", 0, "give a duration above 0").inside("window").field
        'window.slide'
        """
        return Problem(f"{outer}.{self.field}" if self.field else outer, self.value, self.right)


class QueryError(HeadwaterError, ValueError):
    """A query that cannot be run; the message names the query, the field, the value and the right form.

    >>> try:
    ...     raise QueryError.of(Problem("window.size", -1, "give a duration above 0"), "load")
    ... except QueryError as error:
    ...     print(error, "|", error.query, error.field, error.value)
    query 'load': window.size is -1: give a duration above 0 | load window.size -1
    """

    def __init__(self, message: str, *, query: object = None, field: str | None = None, value: object = None) -> None:
        super().__init__(message)
        self.query = query
        self.field = field
        self.value = value

    @classmethod
    def of(cls, problem: Problem, query: object = None) -> QueryError:
        """The error for one problem of the query of this name."""
        return cls(problem.text(query), query=query, field=problem.field, value=problem.value)


class DataError(HeadwaterError, ValueError):
    """Data that cannot be used: a missing column, or a malformed event where `strict=True` asked for an error."""


class FormatError(HeadwaterError, ValueError):
    """Bytes or a file that cannot be decoded: truncated, of another kind, or of an unknown version."""


def shown(value: object, length_max: int = 80) -> str:
    """A value as it stands in a message: its repr, shortened when it is long.

    >>> shown("x" * 100, length_max=10)
    "'xxxxxx..."
    """
    text = repr(value)
    return text if len(text) <= length_max else text[: length_max - 3] + "..."
