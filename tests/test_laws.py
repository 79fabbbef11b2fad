"""Every aggregate obeys the laws that make its results the same in every plan; what breaks them is told so."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from headwater.language import aggregations as agg
from headwater.language.aggregations import FUNCTIONS, Aggregation
from headwater.language.user_code import Aggregate, Operator, aggregate_of
from headwater.testing import BrokenLawError, check_laws

FLOATS = st.floats() | st.sampled_from([1.0, 1e16, -1e16, 1e200, math.inf, math.nan])
INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
DECIMALS = st.integers(-(10**20), 10**20).map(lambda cents: Decimal(f"{cents}e-2"))
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "float": (pa.float64(), FLOATS),
    "int": (pa.int64(), INTEGERS),
    "decimal": (pa.decimal128(38, 2), DECIMALS),
    "text": (pa.string(), st.text(max_size=3)),
    "bytes": (pa.binary(), st.binary(max_size=3)),
    "bool": (pa.bool_(), st.booleans()),
}
NUMBERS = ("float", "int", "decimal")
BUILT_IN: list[Aggregation] = [
    agg.count(),
    agg.count("x"),
    agg.quantile("x", 0.3),
    agg.median("x", "upper"),
    agg.approx_distinct("x", 5),
    agg.approx_quantile("x", 0.9, 0.1),
    agg.top("x", 2),
    agg.top("x", 1, ties=True),
    agg.max_by("x", by="x"),
    agg.min_by("x", by="x"),
    agg.rows(["x"]),
    agg.distinct("x"),
    *(
        make("x")
        for make in (agg.sum, agg.avg, agg.min, agg.max, agg.value_range, agg.mode, agg.count_distinct, agg.first)
    ),
    *(make("x") for make in (agg.last, agg.collect, agg.variance, agg.stddev, agg.product, agg.geometric_mean)),
]
CASES = [
    (aggregation, name)
    for aggregation in BUILT_IN
    for name in (NUMBERS if FUNCTIONS[aggregation.function].takes == "number" else TYPES)
    if aggregation.column is not None or name == "float"
]


def test_every_function_is_checked() -> None:
    assert {aggregation.function for aggregation in BUILT_IN} == FUNCTIONS.keys() - {"user"}


@pytest.mark.parametrize(("aggregation", "name"), CASES, ids=str)
def test_built_in_aggregates_obey_the_laws(aggregation: Aggregation, name: str) -> None:
    type_, values = TYPES[name]
    check_laws(aggregation, st.none() | values, type=type_, examples=30)


def total(a: Any, b: Any) -> Any:
    return a + b


def pairwise(a: list[float], b: list[float]) -> list[float]:
    return [min(a[0], b[0]), max(a[1], b[1])]


COUNT = Operator("count", len, total, 0)
SUM = Operator("sum", lambda values: float(values.sum()), total, 0.0)
GOOD = {
    "mean": Aggregate("mean", (SUM, COUNT), lambda total, count: total / count if count else None),
    "spread": aggregate_of(
        "spread", lambda v: [v.min(), v.max()], pairwise, lambda p: p[1] - p[0], [math.inf, -math.inf]
    ),
    "list": aggregate_of("list", list, total, len, list, commutative=False, result_type=pa.int64()),
}
BAD = {
    "combine must be associative": aggregate_of(
        "halves", lambda v: v.mean(), lambda a, b: (a + b) / 2 if a and b else a + b, float, 0.0
    ),
    "commutative": aggregate_of("list", list, total, len, list, result_type=pa.int64()),
    "identity": aggregate_of("one off", lambda v: v.sum(), total, float, 1.0),
    "lifting the whole": aggregate_of("highest", lambda v: v.max(), total, float, 0.0),
    "journey as bytes": Aggregate(
        "rounded", (Operator("rounded", lambda v: float(v.sum()), total, 0.0, from_bytes=lambda data: 0.0),), float
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_users_aggregates_that_obey_pass(name: str) -> None:
    check_laws(GOOD[name])


@pytest.mark.parametrize("law", BAD)
def test_the_law_that_is_broken_is_named(law: str) -> None:
    with pytest.raises(BrokenLawError, match=law) as broken:
        check_laws(BAD[law], [1.0, 2.0, 4.0] if law != "lifting the whole" else [1.0, 2.0])
    assert BAD[law].name in str(broken.value)
    assert "values:" in str(broken.value)


def test_rounding_can_be_allowed() -> None:
    rough = aggregate_of("rough", lambda v: float(v.sum()), total, float, 0.0)
    with pytest.raises(BrokenLawError):
        check_laws(rough, st.floats(0.1, 1.0))
    check_laws(rough, st.floats(0.1, 1.0), relative=1e-12)


def test_sample_values_of_any_type_are_taken() -> None:
    longest = aggregate_of("longest", lambda words: max(map(len, words)), max, int, 0, result_type=pa.int64())
    check_laws(longest, ["", "a", "abc", None])
