"""Conditions over columns: what `where` and markers are written in.

`col("load") > 0` builds a small frozen tree. Truth is SQL's: a comparison with null is null, and a row counts only if
the value is True. How values compare is said in `comparisons.py`.

`==` on a column builds a comparison; conditions themselves compare by structure, through `key()`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, NoReturn

import numpy as np

from headwater.errors import Problem, QueryError
from headwater.language.comparisons import as_text, compare

Key = tuple[Any, ...]

_GROUPING: Final = "combine conditions with & | ~, each comparison in parentheses: (col('a') > 1) & (col('b') < 2)"


class Expr:
    """A condition: combine with `&`, `|`, `~`; evaluate one row with `evaluate`."""

    __slots__ = ()

    def key(self) -> Key:
        """The structure as nested tuples: equal keys, equal conditions.

        >>> (col("a") > 1).key()
        ('>', ('column', 'a'), ('int', 1))
        """
        return _key(self)

    def columns(self) -> frozenset[str]:
        """Every column the condition reads."""
        return frozenset(_columns(self))

    def evaluate(self, row: Mapping[str, object]) -> bool | None:
        """The truth of one row: True, False or None (null). A column the row lacks is null."""
        return _evaluate(self, row)

    def __and__(self, other: object) -> And:
        return And(boolean(self), boolean(other))

    def __or__(self, other: object) -> Or:
        return Or(boolean(self), boolean(other))

    def __invert__(self) -> Not:
        return Not(boolean(self))

    def __rand__(self, other: object) -> NoReturn:
        # Only reached for what is no condition: `1 & col("b")`, out of `col("a") > 1 & col("b") < 2`.
        raise QueryError.of(Problem("condition", other, _GROUPING))

    __ror__ = __rand__

    def __bool__(self) -> NoReturn:
        raise QueryError(f"{self!r} has no truth of its own: {_GROUPING} (not 'and', 'or', 'not', 'in', 'a < b < c')")

    def __eq__(self, other: object) -> Any:
        return isinstance(other, Expr) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Column(Expr):
    """A column, from `col(name)`; every comparison starts here."""

    name: str

    def __eq__(self, other: object) -> Any:
        return Compare("==", self, literal(other))

    def __ne__(self, other: object) -> Any:
        return Compare("!=", self, literal(other))

    def __lt__(self, other: object) -> Compare:
        return Compare("<", self, literal(other))

    def __le__(self, other: object) -> Compare:
        return Compare("<=", self, literal(other))

    def __gt__(self, other: object) -> Compare:
        return Compare(">", self, literal(other))

    def __ge__(self, other: object) -> Compare:
        return Compare(">=", self, literal(other))

    def __hash__(self) -> int:
        return hash(self.key())

    def isin(self, values: Iterable[object]) -> In:
        """The value is one of these."""
        return In(self, _listed(values))

    def between(self, low: object, high: object) -> Range:
        """The value is in [low, high], both included."""
        return Range(self, literal(low), literal(high))

    def is_null(self) -> IsNull:
        """The value is missing."""
        return IsNull(self)

    def is_not_null(self) -> Not:
        """The value is there."""
        return Not(IsNull(self))

    def matches(self, pattern: str) -> Matches:
        """The whole value, as text, matches this regular expression (Python's `re`)."""
        return Matches(self, pattern)

    def __repr__(self) -> str:
        return f"col({self.name!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compare(Expr):
    """Two operands, each a column or a literal, and one of == != < <= > >=."""

    op: str
    left: Any
    right: Any

    def __repr__(self) -> str:
        return f"({self.left!r} {self.op} {self.right!r})"


class BooleanChain(Expr):
    """And, Or: long chains lean to the left, so they are walked in a loop, not by recursion."""

    __slots__ = ()
    left: Expr
    right: Expr
    sign: ClassVar[str]
    #: The value of one operand that decides the whole chain.
    decisive: ClassVar[bool]

    def operands(self) -> list[Expr]:
        """The operands of the chain.

        >>> len(((col("a") > 1) & (col("b") > 2) & (col("c") > 3)).operands())
        3
        """
        found: list[Expr] = []
        node: Expr = self
        while isinstance(node, BooleanChain) and node.sign == self.sign:
            found.append(node.right)
            node = node.left
        return [node, *reversed(found)]

    def __repr__(self) -> str:
        return f"({f' {self.sign} '.join(map(repr, self.operands()))})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class And(BooleanChain):
    """Both are true."""

    left: Expr
    right: Expr
    sign: ClassVar[str] = "&"
    decisive: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Or(BooleanChain):
    """At least one is true."""

    left: Expr
    right: Expr
    sign: ClassVar[str] = "|"
    decisive: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(Expr):
    """The condition is false."""

    inner: Expr

    def __repr__(self) -> str:
        return f"~{self.inner!r}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class In(Expr):
    """The column's value is one of the values."""

    column: Column
    values: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"{self.column!r}.isin({list(self.values)!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Range(Expr):
    """The column's value is in [low, high]."""

    column: Column
    low: Any
    high: Any

    def bounds(self) -> And:
        """The same condition as two comparisons."""
        return And(Compare(">=", self.column, self.low), Compare("<=", self.column, self.high))

    def __repr__(self) -> str:
        return f"{self.column!r}.between({self.low!r}, {self.high!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IsNull(Expr):
    """The column's value is missing."""

    column: Column

    def __repr__(self) -> str:
        return f"{self.column!r}.is_null()"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Matches(Expr):
    """The column's value, as text, matches the whole pattern."""

    column: Column
    pattern: str

    def __repr__(self) -> str:
        return f"{self.column!r}.matches({self.pattern!r})"


def col(name: str) -> Column:
    """A column of the stream, to be compared.

    >>> condition = (col("load") > 0) & col("house").isin(["a", "b"])
    >>> condition
    ((col('load') > 0) & col('house').isin(['a', 'b']))
    >>> condition.evaluate({"load": 2.5, "house": "a"}), condition.evaluate({"load": None, "house": "a"})
    (True, None)
    """
    return Column(name)


def boolean(value: object) -> Expr:
    """A condition as an operand of a condition; a bare column means "is true".

    >>> boolean(col("open"))
    (col('open') == True)
    """
    if isinstance(value, Column):
        return Compare("==", value, True)
    if isinstance(value, Expr):
        return value
    raise QueryError.of(Problem("condition", value, _GROUPING))


def condition_or_given(value: Any) -> Any:
    """A condition as it is kept in a query; what is none is kept too, and the query refuses it."""
    return boolean(value) if isinstance(value, Expr) else value


def literal(value: object) -> object:
    """A value as it is kept in a condition: NumPy's scalars become plain Python."""
    return value.item() if isinstance(value, np.generic) else value


def _listed(values: Any) -> Any:
    # Text is iterable too, but nobody means its letters: kept as it is, the query refuses it.
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        return values
    return tuple(literal(value) for value in values)


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled once."""
    return re.compile(pattern)


def _key(expr: Expr) -> Key:
    match expr:
        case Column(name):
            return ("column", name)
        case Compare(op, left, right):
            return (op, _operand_key(left), _operand_key(right))
        case BooleanChain():
            return (expr.sign, *map(_key, expr.operands()))
        case Not(inner):
            return ("~", _key(inner))
        case In(column, values):
            return ("in", column.name, *map(_operand_key, values))
        case Range(column, low, high):
            return ("between", column.name, _operand_key(low), _operand_key(high))
        case IsNull(column):
            return ("is_null", column.name)
        case Matches(column, pattern):
            return ("matches", column.name, pattern)
    raise AssertionError(f"no condition: {expr!r}")


def _operand_key(value: Any) -> Key:
    if isinstance(value, Expr):
        return _key(value)
    # The type is part of the key: 1, 1.0 and True are equal in Python. NaN is not equal to itself, its name is.
    return (type(value).__name__, "nan" if isinstance(value, float) and math.isnan(value) else value)


def _columns(expr: Expr) -> Iterator[str]:
    match expr:
        case Column(name):
            yield name
        case Compare(_, left, right):
            yield from (side.name for side in (left, right) if isinstance(side, Column))
        case BooleanChain():
            for operand in expr.operands():
                yield from _columns(operand)
        case Not(inner):
            yield from _columns(inner)
        case In(column) | Range(column) | IsNull(column) | Matches(column):
            yield column.name


def _evaluate(expr: Expr, row: Mapping[str, object]) -> bool | None:
    match expr:
        case Compare(op, left, right):
            return compare(op, _operand_value(left, row), _operand_value(right, row))
        case BooleanChain():
            return _decide([_evaluate(operand, row) for operand in expr.operands()], expr.decisive)
        case Not(inner):
            value = _evaluate(inner, row)
            return None if value is None else not value
        case In(column, values):
            return _decide([compare("==", row.get(column.name), value) for value in values], True)
        case Range():
            return _evaluate(expr.bounds(), row)
        case IsNull(column):
            return row.get(column.name) is None
        case Matches(column, pattern):
            found = row.get(column.name)
            return None if found is None else compiled(pattern).fullmatch(as_text(found)) is not None
    return _evaluate(boolean(expr), row)


def _decide(values: list[bool | None], decisive: bool) -> bool | None:
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def _operand_value(value: Any, row: Mapping[str, object]) -> object:
    return row.get(value.name) if isinstance(value, Column) else value
