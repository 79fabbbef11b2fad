"""Every aggregate, lifted from chunks, combined from any split and lowered, against its plain definition."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.operators.partials import Op, lift
from headwater.engine.results.aggregates import LOWERINGS, lower, lower_many, operators_of, overflows, result_type
from headwater.language import aggregations as agg
from headwater.language.aggregations import Aggregation
from headwater.reference.aggregates import DEFINITIONS, OF_ROWS, order, value_of
from partials import chunk_of, in_order, int32, int64

FLOATS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.5, -2.25, 1e16, -1e16, 1e200, 5e-324, math.inf, -math.inf, math.nan])
INTEGERS = st.integers(-3, 9) | st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63), 10**15 + 1])
DECIMALS = st.integers(-(10**4), 10**4).map(lambda cents: Decimal(cents).scaleb(-2))
WIDE_CENTS = st.integers(-(10**38) + 1, 10**38 - 1)
WORDS = st.sampled_from(["", "a", "b", "ab", "é", "\U0001f600", "\uffff"])
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "float": (pa.float64(), FLOATS | st.floats(width=64).map(lambda x: x + 0.0)),
    "float32": (pa.float32(), st.floats(width=32).map(lambda x: x + 0.0)),
    "int": (pa.int64(), INTEGERS),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "decimal": (pa.decimal128(9, 2), DECIMALS),
    "text": (pa.string(), WORDS),
    "bool": (pa.bool_(), st.booleans()),
    "null": (pa.null(), st.none()),
}
NUMBERS = ("float", "int", "decimal", "null")
ORDERED = (*NUMBERS, "text", "bool")
NARROW = ("float32", "int8")
FRACTIONS = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]) | st.floats(0, 1)
METHODS = st.sampled_from(["linear", "lower", "upper", "nearest"])
EXACT: list[tuple[Aggregation, tuple[str, ...]]] = [
    (agg.count(), ORDERED),
    (agg.count("x"), ORDERED),
    (agg.sum("x"), NUMBERS),
    (agg.avg("x"), NUMBERS),
    (agg.min("x"), ORDERED),
    (agg.max("x"), ORDERED),
    (agg.value_range("x"), NUMBERS),
    (agg.mode("x"), ORDERED),
    (agg.count_distinct("x"), ORDERED),
    (agg.first("x"), ORDERED),
    (agg.last("x"), ORDERED),
    (agg.collect("x"), ORDERED),
    (agg.variance("x"), NUMBERS),
    (agg.stddev("x"), NUMBERS),
    (agg.product("x"), ("int", "int8", "null")),
    (agg.approx_distinct("x", 6), ORDERED),
    (agg.approx_quantile("x", 0.5, 0.02), NUMBERS),
    *((make("x"), NARROW) for make in (agg.sum, agg.min, agg.mode, agg.last)),
]
EXACT_PAIRS = [(aggregation, name) for aggregation, names in EXACT for name in names]
CLOSE_PAIRS = [
    (aggregation, name)
    for aggregation in (agg.product("x"), agg.geometric_mean("x"))
    for name in ("float", "decimal", "int8")
    if (aggregation.function, name) != ("product", "int8")
]
#: Where each event goes: one of three partials, of one of two windows, or none; and its time.
PLACES = st.tuples(st.integers(0, 2), st.integers(-1, 1), st.integers(0, 4))


def combined_and_lowered(
    aggregation: Aggregation, type_: pa.DataType, events: list[tuple[Any, tuple[int, int, int]]]
) -> tuple[pa.Array, list[Any]]:
    """The aggregate of both windows, put together from three partials each; and what it should be."""
    chunk = chunk_of([value for value, _ in events], type_, [time for _, (_, _, time) in events])
    rows = np.array([3 * window + part if window >= 0 else -1 for _, (part, window, _) in events], np.int32)
    ops = operators_of(aggregation, type_)
    partials = lift(ops, chunk, rows, 6)
    partials = {op: column.combine_ranges(int64(0, 3), int64(3, 6)) for op, column in partials.items()}
    values = chunk_values(chunk, type_)
    expected = []
    for window in range(2):
        members = [{"x": values[i]} for i in in_order(chunk) if events[i][1][1] == window]
        expected.append(value_of(aggregation, members))
    return lower(aggregation, partials, type_), expected


def chunk_values(chunk: Any, type_: pa.DataType) -> list[Any]:
    values = chunk.columns["x"]
    known = [True] * len(values.data) if values.valid is None else values.valid.tolist()
    plain = [bool(value) for value in values.data] if pa.types.is_boolean(type_) else values.data.tolist()
    return [value if there else None for value, there in zip(plain, known)]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return order(a) == order(b)


@pytest.mark.parametrize(("aggregation", "name"), EXACT_PAIRS, ids=str)
@given(data=st.data())
def test_any_split_lowers_to_the_definition(aggregation: Aggregation, name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    events = data.draw(st.lists(st.tuples(st.none() | values, PLACES), max_size=14))
    lowered, expected = combined_and_lowered(aggregation, type_, events)
    assert lowered.type == result_type(aggregation, type_)
    assert all(map(same, lowered.to_pylist(), expected)), (lowered.to_pylist(), expected)


@pytest.mark.parametrize("name", NUMBERS)
@given(data=st.data())
def test_any_split_has_the_quantiles_of_the_definition(name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    aggregation = agg.quantile("x", data.draw(FRACTIONS), data.draw(METHODS))
    events = data.draw(st.lists(st.tuples(st.none() | values, PLACES), max_size=14))
    lowered, expected = combined_and_lowered(aggregation, type_, events)
    assert lowered.type == result_type(aggregation, type_)
    assert all(map(same, lowered.to_pylist(), expected)), (lowered.to_pylist(), expected)


@pytest.mark.parametrize(("aggregation", "name"), CLOSE_PAIRS, ids=str)
@given(data=st.data())
def test_products_are_within_a_billionth_of_a_thousandth(
    aggregation: Aggregation, name: str, data: st.DataObject
) -> None:
    type_, values = TYPES[name]
    events = data.draw(st.lists(st.tuples(st.none() | values, PLACES), max_size=14))
    lowered, expected = combined_and_lowered(aggregation, type_, events)
    assert lowered.type == pa.float64()
    for have, want in zip(lowered.to_pylist(), expected):
        assert same(have, want) or math.isclose(have, want, rel_tol=1e-12, abs_tol=1e-320)


@given(st.lists(WIDE_CENTS, min_size=1, max_size=8))
def test_decimal_sums_are_exact_or_null(cents: list[int]) -> None:
    type_ = pa.decimal128(38, 2)
    chunk = chunk_of([Decimal(f"{number}e-2") for number in cents], type_)
    partials = lift(operators_of(agg.sum("x"), type_), chunk, np.zeros(len(cents), np.int32), 1)
    lowered = lower(agg.sum("x"), partials, type_)
    is_beyond = abs(sum(cents)) >= 10**38
    assert lowered[0].as_py() == (None if is_beyond else Decimal(f"{sum(cents)}e-2"))
    assert overflows(agg.sum("x"), lowered, partials, type_) == is_beyond


@pytest.mark.parametrize(
    ("aggregation", "values", "expected"),
    [
        (agg.sum("x"), [2**62, 2**62, -1], 2**63 - 1),
        (agg.sum("x"), [2**62, 2**62], None),
        (agg.product("x"), [2**32, 2**31], None),
        (agg.product("x"), [2**32, 2**31, -1], -(2**63)),
        (agg.value_range("x"), [-(2**63), 0], None),
        (agg.avg("x"), [2**63 - 1, 2**63 - 1], 2.0**63),
    ],
)
def test_integers_are_exact_or_null(aggregation: Aggregation, values: list[int], expected: Any) -> None:
    partials = lift(operators_of(aggregation, pa.int64()), chunk_of(values), np.zeros(len(values), np.int32), 1)
    lowered = lower(aggregation, partials, pa.int64())
    assert lowered[0].as_py() == expected
    assert overflows(aggregation, lowered, partials, pa.int64()) == (expected is None)


TIMES = [pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.date32(), pa.date64(), pa.time32("s"), pa.duration("ms")]


@pytest.mark.parametrize("type_", TIMES, ids=str)
@pytest.mark.parametrize("make", [agg.min, agg.max, agg.mode, agg.first, agg.last, agg.collect])
def test_times_keep_their_type(type_: pa.DataType, make: Any) -> None:
    # A day in milliseconds for date64, which holds whole days.
    numbers = [86_400_000, None, 0] if type_ == pa.date64() else [3, None, 1]
    values = pa.array(numbers, pa.int32() if "32" in str(type_) else pa.int64()).cast(type_)
    aggregation = make("x")
    partials = lift(operators_of(aggregation, type_), chunk_of(values), int32(0, 0, 0), 1)
    lowered = lower(aggregation, partials, type_)
    assert lowered.type == result_type(aggregation, type_)
    known = [value for value in values.to_pylist() if value is not None]
    expected = {"min": min(known), "mode": min(known), "max": max(known), "first": known[0], "last": known[-1]}
    assert lowered[0].as_py() == expected.get(aggregation.function, known)


def test_dictionary_columns_lower_to_their_values() -> None:
    column = pa.array(["b", "a"]).dictionary_encode()
    partials = lift([Op("min", "x")], chunk_of(column), int32(0, 0), 1)
    assert result_type(agg.min("x"), column.type) == pa.string()
    assert lower(agg.min("x"), partials, column.type).to_pylist() == ["a"]


def test_unsigned_64_bit_integers_are_decimals() -> None:
    chunk = chunk_of(pa.array([2**64 - 1, 1], pa.uint64()))
    type_ = chunk.columns["x"].type
    partials = lift(operators_of(agg.sum("x"), type_), chunk, int32(0, 0), 1)
    assert lower(agg.sum("x"), partials, type_).to_pylist() == [Decimal(2**64)]


def test_an_aggregate_of_nothing_is_null_or_zero() -> None:
    for aggregation, expected in [
        (agg.count("x"), 0),
        (agg.count_distinct("x"), 0),
        (agg.approx_distinct("x"), 0),
        (agg.collect("x"), []),
        *((make("x"), None) for make in (agg.sum, agg.avg, agg.min, agg.mode, agg.first, agg.variance, agg.product)),
        (agg.quantile("x", 0.5), None),
        (agg.approx_quantile("x", 0.5), None),
    ]:
        nothing = lift(operators_of(aggregation, pa.float64()), chunk_of([], pa.float64()), int32(), 0)
        empty = {op: column.combine_ranges(int64(0), int64(0)) for op, column in nothing.items()}
        assert lower(aggregation, empty, pa.float64()).to_pylist() == [expected], aggregation


def test_many_quantiles_are_read_together_and_in_place() -> None:
    rng = np.random.default_rng(5)
    chunk = chunk_of(pa.array(rng.standard_normal(500)))
    rows = rng.integers(0, 7, 500).astype(np.int32)
    wanted = [agg.count("x"), *(agg.quantile("x", q / 40) for q in range(41)), agg.quantile("x", 0.5, "upper")]
    partials = lift([Op("run", "x"), Op("valid", "x")], chunk, rows, 8)
    together = lower_many(wanted, partials, {"x": pa.float64()})
    for aggregation, array in zip(wanted, together):
        assert array.equals(lower(aggregation, partials, pa.float64()))
    assert together[1].null_count == 1


@given(st.lists(st.floats(-1e6, 1e6) | st.sampled_from([1e200, -1e200, 5e-324]), min_size=2, max_size=20))
def test_variance_is_rounded_once(values: list[float]) -> None:
    variance = agg.variance("x")
    chunk = chunk_of(values, pa.float64())
    partials = lift(operators_of(variance, pa.float64()), chunk, np.zeros(len(values), np.int32), 1)
    expected = value_of(variance, [{"x": value} for value in values])
    assert same(lower(variance, partials, pa.float64())[0].as_py(), expected)


def test_variance_of_very_many_values() -> None:
    variance, count = agg.variance("x"), 70_000
    chunk = chunk_of(pa.array(np.arange(float(count)) + 1e9))
    partials = lift(operators_of(variance, pa.float64()), chunk, np.zeros(count, np.int32), 1)
    assert lower(variance, partials, pa.float64()).to_pylist() == [count * (count + 1) / 12]


def test_every_function_has_a_lowering_and_a_definition():
    assert set(LOWERINGS) == {*DEFINITIONS, *OF_ROWS} == set(agg.FUNCTIONS)
