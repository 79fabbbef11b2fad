"""The value of every aggregate, straight from its definition: the slow twin of the engine's operators.

Sums and variances are added up as fractions and rounded once, quantiles sort, everything else reads as docs/semantics.md
says it. Values arrive in event order; the caller has already left out what `where` and `distinct` leave out.
"""

from __future__ import annotations

import decimal
import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from headwater.language.aggregations import FUNCTIONS, Aggregation

INT64 = range(-(2**63), 2**63)
DECIMAL_DIGITS = 38


def normal(value: Any) -> Any:
    """One NaN, and no -0.0.

    >>> normal(-0.0), normal(float("-nan"))
    (0.0, nan)
    """
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value


def order(value: Any) -> tuple[Any, ...]:
    """A sort key that is also an identity: null, then numbers, NaN the largest of them, then text as UTF-8 bytes.

    >>> sorted(["b", 2, None, math.nan, 1.5], key=order)
    [None, 1.5, 2, nan, 'b']
    """
    if value is None:
        return (0,)
    if isinstance(value, str | bytes):
        return (2, value.encode() if isinstance(value, str) else value)
    return (1, 1) if value != value else (1, 0, value)


def fits(aggregation: Aggregation, row: dict[str, Any]) -> bool:
    """The aggregate can take the row's value: null always, and a number where numbers are needed."""
    value = None if aggregation.column is None else row.get(aggregation.column)
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return value is None or FUNCTIONS[aggregation.function].takes != "number" or is_number


def value_of(aggregation: Aggregation, rows: Sequence[dict[str, Any]]) -> Any:
    """The aggregate over these rows, in order.

    >>> from headwater.language.aggregations import sum as total
    >>> value_of(total("x"), [{"x": 1e16}, {"x": 1.0}, {"x": None}, {"x": -1e16}])
    1.0
    """
    if aggregation.column is None:
        return len(rows)
    if aggregation.function in OF_ROWS:
        return OF_ROWS[aggregation.function](aggregation, rows)
    values = [row.get(aggregation.column) for row in rows]
    values = [value for value in values if value is not None]
    if not values and not FUNCTIONS[aggregation.function].of_nothing:
        return None
    return DEFINITIONS[aggregation.function](values, aggregation.parameter)


def _top(aggregation: Aggregation, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    k, ties, _ = aggregation.parameter
    ranked = _ranked(rows, aggregation.columns[0])
    last = ranked[:k][-1:]
    more = [row for row in ranked[k:] if ties and _order_in(row, aggregation) == _order_in(last[0], aggregation)]
    return [_struct(row, aggregation) for row in [*ranked[:k], *more]]


def _ranked(rows: Sequence[dict[str, Any]], column: str, largest: bool = True) -> list[dict[str, Any]]:
    """The rows with a value, the best first; of equal ones the earlier first."""
    known = [row for row in rows if row.get(column) is not None]
    return sorted(known, key=lambda row: order(row[column]), reverse=largest)


def _order_in(row: dict[str, Any], aggregation: Aggregation) -> tuple[Any, ...]:
    return order(row[aggregation.columns[0]])


def _struct(row: dict[str, Any], aggregation: Aggregation) -> dict[str, Any]:
    return {name: normal(row.get(name)) for name in aggregation.columns}


def _by(aggregation: Aggregation, rows: Sequence[dict[str, Any]]) -> Any:
    best = _ranked(rows, aggregation.parameter, aggregation.function == "max_by")
    return normal(best[0].get(aggregation.columns[0])) if best else None


def _sum(values: list[Any], _: Any) -> Any:
    special = _special(values)
    if special is not None:
        return special
    if isinstance(values[0], Decimal):
        with decimal.localcontext(prec=1000):
            total = sum(values, Decimal(0))
        return total if len(total.as_tuple().digits) <= DECIMAL_DIGITS else None
    exact = sum(map(Fraction, values), Fraction(0))
    return _rounded(exact) if isinstance(values[0], float) else _within_int64(int(exact))


def _avg(values: list[Any], _: Any) -> float:
    special = _special(values)
    return _rounded(sum(map(Fraction, values), Fraction(0)) / len(values)) if special is None else special


def _variance(values: list[Any], _: Any) -> float | None:
    if len(values) < 2:
        return None
    if _special(values) is not None:
        return math.nan
    exact = [Fraction(value) for value in values]
    total, squares = sum(exact, Fraction(0)), sum((value * value for value in exact), Fraction(0))
    return _rounded((squares - total * total / len(exact)) / (len(exact) - 1))


def _stddev(values: list[Any], _: Any) -> float | None:
    variance = _variance(values, _)
    return None if variance is None else math.sqrt(variance)


def _product(values: list[Any], _: Any) -> Any:
    if _special(values) is not None:
        # Signs instead of the finite values, which might underflow on the way.
        return normal(math.prod((v > 0) - (v < 0) if math.isfinite(v) else v for v in values))
    exact = math.prod(map(Fraction, values), start=Fraction(1))
    return _within_int64(int(exact)) if isinstance(values[0], int) else _rounded(exact)


def _geometric_mean(values: list[Any], _: Any) -> float:
    """The n-th root of the product; of a negative product there is none."""
    sizes = [abs(float(value)) for value in values]
    if any(map(math.isnan, sizes)) or {0.0, math.inf} <= set(sizes):
        return math.nan
    if 0.0 in sizes:
        return 0.0
    is_negative = sum(value < 0 for value in values) % 2 == 1
    return math.nan if is_negative else math.exp(math.fsum(map(math.log, sizes)) / len(sizes))


def _quantile(values: list[Any], parameter: Any) -> Any:
    q, method = parameter
    ranked = sorted(values, key=order)
    position = (len(ranked) - 1) * q
    low, high = math.floor(position), math.ceil(position)
    if method != "linear":
        return ranked[{"lower": low, "upper": high, "nearest": round(position)}[method]]
    if order(ranked[low]) == order(ranked[high]):
        return float(ranked[low])
    lower, higher, rest = float(ranked[low]), float(ranked[high]), position - low
    if math.isfinite(lower) and math.isfinite(higher) and math.isinf(higher - lower):
        # The one place where Spark says infinity: the way between the neighbours is longer than the largest double.
        return 2 * (lower / 2 + rest * (higher / 2 - lower / 2))
    return lower + rest * (higher - lower)


def _range(values: list[Any], _: Any) -> Any:
    spread = max(values, key=order) - min(values, key=order)
    return _within_int64(spread) if isinstance(spread, int) else normal(spread)


def _mode(values: list[Any], _: Any) -> Any:
    times = Counter(map(order, values))
    return min(values, key=lambda value: (-times[order(value)], order(value)))


def _approx_distinct(values: list[Any], precision: int) -> int:
    from headwater.engine.operators.sketches import approx_distinct

    return int(approx_distinct(values, precision))


def _approx_quantile(values: list[Any], parameter: tuple[float, float]) -> float:
    from headwater.engine.operators.sketches import approx_quantile

    return float(approx_quantile(values, *parameter))


def _user(values: list[Any], aggregate: Any) -> Any:
    # As the engine has them: numbers in arrays of numbers, everything else as objects.
    array = np.array(values, dtype=None if all(isinstance(value, int | float) for value in values) else object)
    partials = [own.lift(array) if values else own.empty() for own in aggregate.operators]
    return aggregate.lower(*partials)


def _special(values: list[Any]) -> float | None:
    """The IEEE sum of infinities and NaN, or None if every value is finite."""
    special = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    return normal(sum(special)) if special else None


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _within_int64(exact: int) -> int | None:
    return exact if exact in INT64 else None


#: Those that are about several columns of each row.
OF_ROWS: dict[str, Callable[[Aggregation, Sequence[dict[str, Any]]], Any]] = {
    "top": _top,
    "max_by": _by,
    "min_by": _by,
    "rows": lambda aggregation, rows: [_struct(row, aggregation) for row in rows],
}
DEFINITIONS: dict[str, Callable[[list[Any], Any], Any]] = {
    "count": lambda values, _: len(values),
    "sum": _sum,
    "avg": _avg,
    "min": lambda values, _: min(values, key=order),
    "max": lambda values, _: max(values, key=order),
    "range": _range,
    "quantile": _quantile,
    "mode": _mode,
    "count_distinct": lambda values, _: len(set(map(order, values))),
    "first": lambda values, _: values[0],
    "last": lambda values, _: values[-1],
    "collect": lambda values, _: values,
    "distinct": lambda values, _: sorted({order(value): normal(value) for value in values}.values(), key=order),
    "variance": _variance,
    "stddev": _stddev,
    "product": _product,
    "geometric_mean": _geometric_mean,
    "approx_distinct": _approx_distinct,
    "approx_quantile": _approx_quantile,
    "user": _user,
}
