"""Aggregates: what is computed of a window, as data.

An `Aggregation` is a function's name, the column it reads and its parameter. The constructors below are what users
write. `FUNCTIONS` has one entry per function, from which checks, files, the engine, the reference and Spark's plans take
what they need to know of it. A new one needs besides its lowering (`engine/results/aggregates.py`) and its definition
(`reference/aggregates.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from headwater.errors import Problem, QueryError
from headwater.language import checks
from headwater.language.user_code import Aggregate, find_path

Method = Literal["linear", "lower", "upper", "nearest"]
METHODS: Final = ("linear", "lower", "upper", "nearest")
#: Kinds of operators whose partials depend on the order of events.
FOLLOW_ORDER: Final = frozenset({"ordered", "first", "last", "top"})
#: The most events that `top` keeps.
TOP_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A function over a column; `column` is None only for `count()`, which counts events.

    `parameter`: quantile (q, method), approx_distinct its precision, approx_quantile (q, error), user the `Aggregate`, top
    (k, ties, keep), rows the other columns, max_by and min_by the column that decides.

    >>> median("load")
    Aggregation(function='quantile', column='load', parameter=(0.5, 'linear'))
    """

    function: str
    column: str | None = None
    parameter: Any = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it reads, `column` the first of them."""
        if self.column is None:
            return ()
        match self.function:
            case "top":
                return (self.column, *self.parameter[2])
            case "rows":
                return (self.column, *self.parameter)
            case "max_by" | "min_by":
                return tuple(dict.fromkeys((self.column, self.parameter)))
        return (self.column,)

    @property
    def follows_order(self) -> bool:
        """Whether it matters which of two events comes first."""
        if self.function == "user":
            return not all(own.commutative for own in self.parameter.operators)
        return not FOLLOW_ORDER.isdisjoint(FUNCTIONS[self.function].operators)

    def problems(self) -> Iterator[Problem]:
        """Everything wrong with the aggregate as it was written."""
        if self.function not in FUNCTIONS:
            yield Problem("function", self.function, f"use one of {', '.join(FUNCTIONS)}")
            return
        if self.column is not None or self.function != "count":
            yield from checks.text(
                "column", self.column, f"name the column: hw.{self.function}({FUNCTIONS[self.function].form})"
            )
        check = FUNCTIONS[self.function].parameter_problems
        if check is not None:
            yield from check(self.column, self.parameter)
        elif self.parameter is not None:
            yield Problem("parameter", self.parameter, f"{self.function} takes none")


def _quantile_problems(_: Any, parameter: Any) -> Iterator[Problem]:
    if not isinstance(parameter, tuple) or len(parameter) != 2:
        yield Problem("parameter", parameter, "a quantile has (q, method)")
        return
    yield from _fraction_problems(parameter[0])
    yield from checks.one_of("method", parameter[1], METHODS)


def _sketch_quantile_problems(_: Any, parameter: Any) -> Iterator[Problem]:
    if not isinstance(parameter, tuple) or len(parameter) != 2:
        yield Problem("parameter", parameter, "an approximate quantile has (q, error)")
        return
    yield from _fraction_problems(parameter[0])
    if not _is_number(parameter[1]) or not 1e-6 <= parameter[1] < 1:
        yield Problem("error", parameter[1], "give a relative error from 0.000001 to below 1, such as 0.01")


def _fraction_problems(q: Any) -> Iterator[Problem]:
    if not _is_number(q) or not 0 <= q <= 1:
        yield Problem("q", q, "give a number from 0 to 1, such as 0.99")


def _precision_problems(_: Any, precision: Any) -> Iterator[Problem]:
    if type(precision) is not int or not 4 <= precision <= 18:
        yield Problem("precision", precision, "give an integer from 4 to 18, such as 12")


def _user_problems(_: Any, aggregate: Any) -> Iterator[Problem]:
    # A path that leads to an aggregate was followed by `apply`; one that is still here leads nowhere.
    found = find_path("aggregate", aggregate) if isinstance(aggregate, str) else aggregate
    if isinstance(found, Problem):
        yield found
    elif not isinstance(found, Aggregate):
        yield Problem("aggregate", aggregate, "give an Aggregate or the import path of one, 'package.module:name'")
    else:
        yield from found.problems()


def _top_problems(column: Any, parameter: Any) -> Iterator[Problem]:
    if not isinstance(parameter, tuple) or len(parameter) != 3:
        yield Problem("parameter", parameter, "top has (k, ties, keep)")
        return
    k, ties, keep = parameter
    if type(k) is not int or not 1 <= k <= TOP_MAX:
        yield Problem("k", k, f"give the number of best events, from 1 to {TOP_MAX:,}")
    yield from checks.flag("ties", ties)
    yield from _columns_problems("keep", (column,), keep, "name the columns to keep: keep=['house', 'room']")


def _rows_problems(column: Any, columns: Any) -> Iterator[Problem]:
    yield from _columns_problems("columns", (column,), columns, "name the columns: hw.rows(['house', 'load'])")


def _by_problems(_: Any, column: Any) -> Iterator[Problem]:
    yield from checks.text("by", column, "name the column that decides: hw.max_by('house', by='load')")


def _columns_problems(field: str, before: tuple[Any, ...], columns: Any, form: str) -> Iterator[Problem]:
    """The problems of more columns: each is named once, and none is one of those ``before``."""
    if not isinstance(columns, tuple):
        yield Problem(field, columns, form)
        return
    for index, name in enumerate(columns):
        yield from checks.text(field, name, form)
        if name in (*before, *columns[:index]):
            yield Problem(field, name, "this column is there already; name each once")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Function:
    """One aggregate function, as every host knows it.

    ``takes``: what its column must be, any scalar, ordered (also text and times) or a number. ``operators``: the kinds of the
    shared operators it is made of. ``gives``: the type of its result; "same" is the column's, "total" and "product" as wide as
    its kind of number goes, "list" a list of the column's, "rows" a list of structs of its columns, "kept" the first of these.
    ``fields``: of a query file, ``?`` marks those that may be left out.
    """

    takes: Literal["any", "ordered", "number"]
    operators: tuple[str, ...]
    gives: Literal["int64", "float64", "same", "total", "product", "list", "rows", "kept", "own"]
    fields: str = "column"
    #: It has a value even where there are no values; all others are null then.
    of_nothing: bool = False
    #: Its result can be beyond its type, and is null then.
    overflows: bool = False
    #: Spark's own operators can compute it under the same guarantees, over some types of columns.
    native: bool = False
    parameter_problems: Callable[[Any, Any], Iterator[Problem]] | None = None
    #: How its columns are named.
    form: str = "'load'"

    @property
    def others(self) -> str:
        """The field that names the columns which it reads besides the first."""
        return self.fields.split()[-1].rstrip("?")


FUNCTIONS: Final[dict[str, Function]] = {
    "count": Function("any", ("valid",), "int64", "column?", of_nothing=True, native=True),
    "sum": Function("number", ("sum", "valid"), "total", overflows=True, native=True),
    "avg": Function("number", ("sum", "valid"), "float64", native=True),
    "min": Function("ordered", ("min",), "same", native=True),
    "max": Function("ordered", ("max",), "same", native=True),
    "range": Function("number", ("min", "max"), "total", overflows=True, native=True),
    "quantile": Function("number", ("run",), "float64", "column q method?", parameter_problems=_quantile_problems),
    "mode": Function("ordered", ("run",), "same"),
    "count_distinct": Function("any", ("run",), "int64", of_nothing=True),
    "first": Function("any", ("first",), "same"),
    "last": Function("any", ("last",), "same"),
    "collect": Function("any", ("ordered",), "list", of_nothing=True),
    "distinct": Function("any", ("run",), "list", of_nothing=True),
    "top": Function(
        "ordered", ("top",), "rows", "column k? ties? keep?", of_nothing=True, parameter_problems=_top_problems
    ),
    "max_by": Function(
        "any", ("top",), "kept", "column by", parameter_problems=_by_problems, form="'house', by='load'"
    ),
    "min_by": Function(
        "any", ("top",), "kept", "column by", parameter_problems=_by_problems, form="'house', by='load'"
    ),
    "rows": Function(
        "any", ("top",), "rows", "columns", of_nothing=True, parameter_problems=_rows_problems, form="['house', 'load']"
    ),
    "variance": Function("number", ("sum", "sumsq", "valid"), "float64"),
    "stddev": Function("number", ("sum", "sumsq", "valid"), "float64"),
    "product": Function("number", ("product",), "product", overflows=True),
    "geometric_mean": Function("number", ("product",), "float64"),
    "approx_distinct": Function(
        "any", ("hll",), "int64", "column precision?", of_nothing=True, parameter_problems=_precision_problems
    ),
    "approx_quantile": Function(
        "number", ("ddsketch",), "float64", "column q error?", parameter_problems=_sketch_quantile_problems
    ),
    "user": Function("any", ("user",), "own", "aggregate column", of_nothing=True, parameter_problems=_user_problems),
}


@lru_cache(maxsize=4096, typed=True)
def _shared(function: str, column: str | None, parameter: Hashable, kinds: Hashable) -> Aggregation:
    return Aggregation(function, column, parameter)


def _aggregation(function: str, column: Any, parameter: Any = None) -> Aggregation:
    """One object for equal aggregates: a million queries then cost no more than their own few fields."""
    # True is equal to 1.0, and inside a tuple the cache would take one for the other.
    kinds = tuple(map(type, parameter)) if isinstance(parameter, tuple) else None
    try:
        return _shared(function, column, parameter, kinds)
    except (TypeError, QueryError):
        # Unhashable, or a column where its name was meant: the query says what is wrong.
        return Aggregation(function, column, parameter)


def count(column: str | None = None) -> Aggregation:
    """The number of events, or of values of a column that are not null."""
    return _aggregation("count", column)


def avg(column: str) -> Aggregation:
    """The mean as a double, rounded once from the exact sum."""
    return _aggregation("avg", column)


def value_range(column: str) -> Aggregation:
    """The largest value minus the smallest."""
    return _aggregation("range", column)


range_ = value_range


def median(column: str, method: Method = "linear") -> Aggregation:
    """The quantile 0.5; `method="upper"` gives sorted[n // 2]."""
    return quantile(column, 0.5, method)


def quantile(column: str, q: float, method: Method = "linear") -> Aggregation:
    """The exact quantile at position (n - 1) * q of the sorted values.

    Between two values `linear` interpolates like Spark's percentile; `lower`, `upper` and `nearest` (a tie goes to the
    even position) take one of them.

    >>> quantile("load", 0.99, method="lower").parameter
    (0.99, 'lower')
    """
    return _aggregation("quantile", column, (_float(q), method))


def mode(column: str) -> Aggregation:
    """The most frequent value; the smallest of them if several are."""
    return _aggregation("mode", column)


def count_distinct(column: str) -> Aggregation:
    """The number of different values, exactly."""
    return _aggregation("count_distinct", column)


def first(column: str) -> Aggregation:
    """The first value in order that is not null."""
    return _aggregation("first", column)


def last(column: str) -> Aggregation:
    """The last value in order that is not null."""
    return _aggregation("last", column)


def collect(column: str) -> Aggregation:
    """All values in order, as a list."""
    return _aggregation("collect", column)


def distinct(column: str) -> Aggregation:
    """The different values, as a list in their order."""
    return _aggregation("distinct", column)


def top(column: str, k: int = 1, *, ties: bool = False, keep: Iterable[str] = ()) -> Aggregation:
    """The `k` events with the largest values, the largest first, as a list of structs of the column and those to `keep`.

    Of equal values the earlier event comes first; with `ties` all that are equal to the last one are there too.

    >>> top("price", 3, keep=["auction", "bidder"]).columns
    ('price', 'auction', 'bidder')
    """
    return _aggregation("top", column, (k, ties, _columns_of(keep)))


def max_by(column: str, by: str) -> Aggregation:
    """The value of a column in the event in which another one, `by`, is largest; in the earliest if several are."""
    return _aggregation("max_by", column, by)


def min_by(column: str, by: str) -> Aggregation:
    """The value of a column in the event in which another one, `by`, is smallest; in the earliest if several are."""
    return _aggregation("min_by", column, by)


def rows(columns: Iterable[str]) -> Aggregation:
    """All events in order, as a list of structs of these columns."""
    named = _columns_of(columns)
    is_list = isinstance(named, tuple) and len(named) > 0
    return _aggregation("rows", named[0] if is_list else None, named[1:] if is_list else named)


def _columns_of(columns: Any) -> Any:
    # What is no list of names is kept: the check refuses it.
    return (columns,) if isinstance(columns, str) else tuple(columns) if isinstance(columns, Iterable) else columns


def variance(column: str) -> Aggregation:
    """The sample variance (Spark's var_samp), from exact sums."""
    return _aggregation("variance", column)


def stddev(column: str) -> Aggregation:
    """The sample standard deviation: the square root of the variance."""
    return _aggregation("stddev", column)


def product(column: str) -> Aggregation:
    """The product of the values."""
    return _aggregation("product", column)


def geometric_mean(column: str) -> Aggregation:
    """The n-th root of the product of n values."""
    return _aggregation("geometric_mean", column)


def approx_distinct(column: str, precision: int = 12) -> Aggregation:
    """The number of different values by HyperLogLog: an error of about 1.04 / sqrt(2**precision)."""
    return _aggregation("approx_distinct", column, precision)


def approx_quantile(column: str, q: float, error: float = 0.01) -> Aggregation:
    """The quantile by DDSketch: a value within a relative `error` of the exact one."""
    return _aggregation("approx_quantile", column, (_float(q), _float(error)))


def apply(aggregate: Aggregate | str, column: str) -> Aggregation:
    """An aggregate of the user's own, given as an `Aggregate` or by the import path of one."""
    found = find_path("aggregate", aggregate) if isinstance(aggregate, str) else aggregate
    # A path that leads nowhere is kept as text: the query that uses it refuses it under its own name.
    return _aggregation("user", column, aggregate if isinstance(found, Problem) else found)


def _float(value: Any) -> Any:
    # One type for 1 and 1.0 (and NumPy's floats), so that equal quantiles are one aggregate.
    return float(value) if hasattr(value, "__float__") and not isinstance(value, bool) else value


# Last, because from here on these names no longer mean Python's own in this module.
def sum(column: str) -> Aggregation:
    """The sum: exact for integers and decimals, correctly rounded for floats."""
    return _aggregation("sum", column)


def min(column: str) -> Aggregation:
    """The smallest value."""
    return _aggregation("min", column)


def max(column: str) -> Aggregation:
    """The largest value; NaN is larger than every number."""
    return _aggregation("max", column)
