"""Counts, extremes, products and the fused kernels, each against a few lines of plain Python."""

from __future__ import annotations

import contextlib
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.engine.intake.chunk import Values
from headwater.engine.operators.extremes import MinMaxColumn
from headwater.engine.operators.numeric import CountColumn, lift_count, lift_numeric
from headwater.engine.operators.operator import Op
from headwater.engine.operators.products import ProductColumn
from headwater.engine.operators.sums.blocks import BLOCK
from headwater.engine.operators.sums.exact_sum import SumColumn
from headwater.errors import FormatError

KINDS = ("valid", "sum", "sumsq", "min", "max", "product")
OPS = [Op("count"), *(Op(kind, "x") for kind in KINDS)]
ROWS = 6
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

integers = st.integers(INT64_MIN, INT64_MAX) | st.sampled_from([0, 1, -1, 2, INT64_MIN, INT64_MAX, 2**62, 2**31])
floats = st.floats(allow_nan=True, allow_infinity=True).map(lambda value: value + 0.0)
events = st.one_of(
    *(
        st.lists(st.tuples(st.none() | values, st.integers(-1, ROWS - 1)), max_size=60)
        for values in (integers, floats, st.floats(-100, 100))
    )
)
Event = tuple[Any, int]


def lift(given_events: list[Event], ops: list[Op] = OPS, is_float: bool | None = None) -> dict[Op, Any]:
    """Lift (value or None, row) pairs; a column that has no floats is a column of integers."""
    known = [value for value, _ in given_events if value is not None]
    if is_float is None:
        is_float = any(isinstance(value, float) for value in known)
    dtype = np.float64 if is_float else np.int64
    data = np.array([0 if value is None else value for value, _ in given_events], dtype)
    valid = None if len(known) == len(given_events) else np.array([value is not None for value, _ in given_events])
    rows = np.array([row for _, row in given_events], np.int32)
    return lift_numeric(ops, Values(data, valid, pa.from_numpy_dtype(dtype)), rows, ROWS)


def members(given_events: list[Event], start: int, end: int) -> list[Any]:
    return [value for value, row in given_events if start <= row < end and value is not None]


def ordered(values: list[Any]) -> list[Any]:
    """Smallest first; NaN is larger than every number."""
    return sorted(values, key=lambda value: (value != value, value))


def same(got: Any, expected: Any) -> bool:
    return bool(got == expected) or (got != got and expected != expected)


def check_row(given_events: list[Event], lifted: dict[Op, Any], row: int, start: int, end: int) -> None:
    """Row ``row`` of each column is what plain Python says about the events in rows ``start:end``."""
    values = members(given_events, start, end)
    assert lifted[Op("count")].counts[row] == sum(start <= place < end for _, place in given_events)
    assert lifted[Op("valid", "x")].counts[row] == len(values)
    finite = [Fraction(value) for value in values if math.isfinite(value)]
    for kind, power in (("sum", 1), ("sumsq", 2)):
        numbers, exponent = lifted[Op(kind, "x")].to_python_ints()
        assert numbers[row] * Fraction(2) ** exponent == sum(value**power for value in finite)
    for kind, place in (("min", 0), ("max", -1)):
        extremes, present = lifted[Op(kind, "x")].values()
        assert present[row] == bool(values)
        assert not values or same(extremes[row], ordered(values)[place])


@given(events)
@example([(INT64_MAX, 0), (None, 1)])
@example([(INT64_MIN, 0), (INT64_MAX, 0), (INT64_MAX, 2)])
@example([(math.nan, 0), (math.nan, 1), (1.0, 1), (math.inf, 2), (-math.inf, 3)])
@example([(0.0, 0), (0.0, 1)])
@example([])
def test_every_operator_does_what_plain_python_does(given_events: list[Event]) -> None:
    lifted = lift(given_events)
    for row in range(ROWS):
        check_row(given_events, lifted, row, row, row + 1)


@given(events, st.lists(st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).map(sorted), max_size=60))
def test_ranges_combine_like_their_events(given_events: list[Event], ranges: list[list[int]]) -> None:
    lo, hi = (np.array([pair[side] for pair in ranges], np.int64) for side in (0, 1))
    combined = {op: column.combine_ranges(lo, hi) for op, column in lift(given_events).items()}
    for i, (start, end) in enumerate(ranges):
        check_row(given_events, combined, i, start, end)


@given(events, st.randoms(use_true_random=False))
def test_order_grouping_and_travel_leave_no_trace(given_events: list[Event], chance: random.Random) -> None:
    ops = [op for op in OPS if op.kind != "product"]
    is_float = any(isinstance(value, float) for value, _ in given_events)
    whole = lift(given_events, ops, is_float)
    shuffled = chance.sample(given_events, len(given_events))
    cut = chance.randrange(len(shuffled) + 1)
    halves = [lift(part, ops, is_float) for part in (shuffled[:cut], shuffled[cut:])]
    for op in ops:
        column = type(whole[op])
        travelled = column.from_bytes(halves[1][op].to_bytes())
        assert travelled.to_bytes() == halves[1][op].to_bytes()
        both = column.concat([halves[0][op], travelled]).take(np.arange(2 * ROWS).reshape(2, ROWS).T.ravel())
        places = 2 * np.arange(ROWS)
        assert both.combine_ranges(places, places + 2).to_bytes() == whole[op].to_bytes()
        assert len(column.concat([halves[0][op], travelled])) == 2 * ROWS


@given(events)
def test_an_empty_range_is_the_identity(given_events: list[Event]) -> None:
    for op, column in lift(given_events).items():
        if op.kind == "product":  # of floats: equal within the rounding, not to the bit
            continue
        nothing = column.combine_ranges(np.array([0, 3]), np.array([0, 3]))
        padded = type(column).concat([nothing, column])
        joined = padded.combine_ranges(np.arange(ROWS + 1) * 0, np.arange(ROWS + 1) + 2)
        direct = column.combine_ranges(np.arange(ROWS + 1) * 0, np.arange(ROWS + 1))
        assert joined.to_bytes() == direct.to_bytes()


@given(st.lists(st.tuples(integers, st.integers(0, 2)), max_size=8))
@example([(2**62, 0), (2, 0), (-1, 0)])
@example([(2**62, 0), (2, 0), (0, 0)])
@example([(INT64_MIN, 0), (-1, 0)])
@example([(3037000500, 0), (3037000500, 0)])
def test_products_of_integers_are_exact_or_overflow(given_events: list[Event]) -> None:
    op = Op("product", "x")
    column = lift(given_events, [op], is_float=False)[op].combine_ranges(np.array([0, 0, 1]), np.array([3, 2, 3]))
    for i, (start, end) in enumerate([(0, 3), (0, 2), (1, 3)]):
        product = math.prod(members(given_events, start, end))
        assert column.overflowed()[i] == (not INT64_MIN <= product <= INT64_MAX)
        assert column.values()[0][i] == (0 if column.overflowed()[i] else product)


@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 2)), max_size=30))
def test_products_of_floats_do_not_drift(given_events: list[Event]) -> None:
    op = Op("product", "x")
    column = lift(given_events, [op], is_float=True)[op]
    for i in range(3):
        exact = Fraction(math.prod(map(Fraction, members(given_events, i, i + 1)), start=Fraction(1)))
        value = float(column.values()[0][i])
        if abs(exact) >= 2**1024:
            assert abs(value) == math.inf
        else:
            assert abs(Fraction(value) - exact) <= abs(exact) * Fraction(1e-15) + Fraction(5e-324)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([math.inf, -2.0], -math.inf),
        ([math.inf, 0.0], math.nan),
        ([math.nan, 0.0], math.nan),
        ([-3.0, 0.0], 0.0),
        ([-1e300, -1e300, 1e-300, 1e-300], 1.0),
        ([5e-324, 5e-324, 2.0**1000, 2.0**1000], 2.0 ** (2000 - 2148)),
    ],
)
def test_products_with_special_values_follow_ieee(values: list[float], expected: float) -> None:
    op = Op("product", "x")
    products = lift([(value, 0) for value in values], [op])[op].values()[0]
    assert same(products[0], expected) or products[0] == pytest.approx(expected, rel=1e-15)


def test_ten_million_factors_stay_within_a_trillionth() -> None:
    factors = 10_000_000
    data = np.tile(np.array([1.0 + 2.0**-20, 1.0 - 2.0**-21, 1.1, 1 / 1.1]), factors // 4)
    op = Op("product", "x")
    column = lift_numeric([op], Values(data, None, pa.float64()), np.zeros(factors, np.int32), 1)[op]
    assert isinstance(column, ProductColumn)
    logarithm = (
        math.log1p(2.0**-20) + math.log1p(-(2.0**-21)) + math.log1p(float(Fraction(1.1) * Fraction(1 / 1.1) - 1))
    ) * (factors // 4)
    assert math.log(column.values()[0][0]) == pytest.approx(logarithm, abs=1e-12)


def test_geometric_mean_is_the_root_of_the_product() -> None:
    op = Op("product", "x", "float")
    values = [(1e300, 0), (1e-300, 0), (8.0, 0), (-4.0, 1), (-1.0, 1), (-1.0, 2), (0.0, 3), (-1.0, 3)]
    means, present = lift(values, [op])[op].geometric_mean()
    np.testing.assert_allclose(means[:4], [2.0, 2.0, math.nan, 0.0], rtol=1e-14)
    assert present.tolist() == [True] * 4 + [False] * 2
    whole = lift([(10**18, 0)] * 5, [op], is_float=False)[op]
    np.testing.assert_allclose(whole.geometric_mean()[0][0], 1e18, rtol=1e-14)


def pattern(name: str, count: int, chance: np.random.Generator) -> np.ndarray:
    """Blocks of floats that take different paths through the kernels."""
    values = chance.standard_normal(count)
    match name:
        case "wide":
            values *= 2.0 ** chance.integers(-400, 400, count)
        case "grows":
            values *= 2.0 ** np.linspace(0, 300, count).astype(int)
        case "shrinks":
            values *= 2.0 ** -np.linspace(0, 300, count).astype(int)
        case "special":
            values[:: BLOCK // 3] = np.nan
            values[5 :: BLOCK // 2] = np.inf
            values[-1] = -np.inf
        case "huge":
            values *= 1e307
        case "tiny":
            values *= 1e-310
            values[BLOCK:] = 0.0
        case "zeros":
            values[: BLOCK - 7] = 0.0
            values[BLOCK:] = 0.0
    return values


@pytest.mark.parametrize("name", ["ordinary", "wide", "grows", "shrinks", "special", "huge", "tiny", "zeros"])
@pytest.mark.parametrize(("row_count", "gaps"), [(1, False), (10, False), (10, True), (BLOCK // 4, False)])
def test_blocks_of_every_kind_add_up(name: str, row_count: int, gaps: bool) -> None:
    chance = np.random.default_rng(7)
    count = BLOCK + 1000
    data = pattern(name, count, chance)
    rows = chance.integers(-1 if gaps else 0, row_count, count).astype(np.int32)
    valid = chance.random(count) < 0.9 if gaps else None
    lifted: dict[Op, Any] = lift_numeric(OPS[:-1], Values(data, valid, pa.float64()), rows, row_count)
    keep = rows >= 0 if valid is None else (rows >= 0) & valid
    where = rows[keep]
    known = data[keep]
    finite = np.isfinite(known)
    numbers, exponent = lifted[Op("sum", "x")].to_python_ints()
    total = sum(map(Fraction, known[finite].tolist()), Fraction(0))
    assert sum(numbers) * Fraction(2) ** exponent == total
    numbers, exponent = lifted[Op("sumsq", "x")].to_python_ints()
    assert sum(numbers) * Fraction(2) ** exponent == sum(Fraction(value) ** 2 for value in known[finite].tolist())
    np.testing.assert_equal(lifted[Op("count")].counts, np.bincount(rows[rows >= 0], minlength=row_count))
    np.testing.assert_equal(lifted[Op("valid", "x")].counts, np.bincount(where, minlength=row_count))
    for row in chance.integers(0, row_count, 3).tolist():
        mine = known[where == row]
        for kind, expected in (("min", np.fmin.reduce), ("max", np.maximum.reduce)):
            values, present = lifted[Op(kind, "x")].values()
            assert present[row] == (len(mine) > 0)
            assert len(mine) == 0 or same(values[row], expected(mine))
        if np.isfinite(mine).all() and name not in ("huge", "tiny"):  # math.fsum cannot cope with those
            assert lifted[Op("sum", "x")].to_float64()[row] == math.fsum(mine)


@pytest.mark.parametrize("scale", [1, 2**40, 2**52])
@pytest.mark.parametrize("row_count", [1, 10, BLOCK // 4])
def test_blocks_of_integers_add_up(scale: int, row_count: int) -> None:
    chance = np.random.default_rng(7)
    count = BLOCK + 1000
    data = chance.integers(-1000, 1000, count) * scale
    rows = chance.integers(0, row_count, count).astype(np.int32)
    lifted: dict[Op, Any] = lift_numeric(OPS[:-1], Values(data, None, pa.int64()), rows, row_count)
    sums, fits = lifted[Op("sum", "x")].to_int64()
    exact: dict[int, int] = {}
    for row, value in zip(rows.tolist(), data.tolist()):
        exact[row] = exact.get(row, 0) + value
    assert fits.tolist() == [abs(exact.get(row, 0)) < 2**63 for row in range(row_count)]
    assert sums.tolist() == [exact.get(row, 0) if fits[row] else 0 for row in range(row_count)]
    assert sum(lifted[Op("sumsq", "x")].to_python_ints()[0]) == sum(value * value for value in data.tolist())
    assert lifted[Op("min", "x")].values()[0].min() == data.min()
    assert lifted[Op("max", "x")].values()[0].max() == data.max()


@pytest.mark.parametrize("kind", KINDS)
def test_operators_alone_agree_with_all_together(kind: str) -> None:
    chance = np.random.default_rng(7)
    rows = chance.integers(0, 10, 5000).astype(np.int32)
    for data in (chance.standard_normal(5000), chance.integers(-(2**60), 2**60, 5000)):
        values = Values(data, None, pa.from_numpy_dtype(data.dtype))
        together = lift_numeric(OPS, values, rows, 10)
        alone = lift_numeric([Op(kind, "x")], values, rows, 10)
        assert alone[Op(kind, "x")].to_bytes() == together[Op(kind, "x")].to_bytes()
        assert list(alone) == [Op(kind, "x")]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=300), st.data())
def test_many_overlapping_ranges_combine_like_their_events(numbers: list[int], data: st.DataObject) -> None:
    count = len(numbers)
    lo = np.array(data.draw(st.lists(st.integers(0, count), min_size=1, max_size=10)) * 40)
    hi = np.array([data.draw(st.integers(start, count)) for start in lo[:10].tolist()] * 40)[: len(lo)]
    lo = np.minimum(lo, hi)
    values = np.array(numbers)
    small = np.where(values < 2, values + 1, 1)
    largest = MinMaxColumn.of(values, largest=True, is_float=False).combine_ranges(lo, hi)
    counts = CountColumn(values).combine_ranges(lo, hi)
    totals, _ = SumColumn.from_python_ints(numbers).combine_ranges(lo, hi).to_python_ints()
    rows = np.arange(count, dtype=np.int32)
    op = Op("product", "x")
    products = lift_numeric([op], Values(small, None, pa.int64()), rows, count)[op].combine_ranges(lo, hi)
    assert isinstance(products, ProductColumn)
    maxima, overflowed, exact = largest.values()[0], products.overflowed(), products.values()[0]
    for i, (start, end) in enumerate(zip(lo.tolist(), hi.tolist())):
        part = numbers[start:end]
        assert maxima[i] == max(part, default=0)
        assert counts.counts[i] == totals[i] == sum(part)
        product = math.prod(small[start:end].tolist())
        assert overflowed[i] == (product > INT64_MAX)
        assert overflowed[i] or exact[i] == product


def test_inputs_may_be_read_only_and_strided() -> None:
    data = np.arange(20.0)[::2]
    frozen = np.arange(10.0) * 2
    frozen.flags.writeable = False
    rows = np.zeros(10, np.int32)
    for array in (data, frozen):
        lifted = lift_numeric([Op("sum", "x")], Values(array, None, pa.float64()), rows, 1)[Op("sum", "x")]
        assert isinstance(lifted, SumColumn)
        assert lifted.to_float64()[0] == 90.0


def test_counting_alone_needs_no_column() -> None:
    rows = np.array([0, -1, 2, 2], np.int32)
    assert lift_count(rows, 3).counts.tolist() == [1, 0, 2]
    counted = lift_numeric([Op("count")], None, rows, 3)[Op("count")]
    assert isinstance(counted, CountColumn)
    assert counted.counts.tolist() == [1, 0, 2]


@given(st.sampled_from([CountColumn, SumColumn, MinMaxColumn, ProductColumn]), st.binary(max_size=40))
@example(CountColumn, bytes([1, *[255] * 8, 127, 0, 0]))
@example(MinMaxColumn, bytes([1, 0, *[255] * 6, 127, 0, *[255] * 6, 127, 0, 0]))
def test_garbage_is_a_format_error(column: type, garbage: bytes) -> None:
    for data in (garbage, b"\x01" + garbage):
        with contextlib.suppress(FormatError):
            column.from_bytes(data)  # type: ignore[attr-defined]


@given(events.filter(len), st.data())
def test_damaged_bytes_are_a_format_error_or_other_values(given_events: list[Event], data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(OPS))
    column = lift(given_events)[op]
    good = column.to_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    damaged = bytearray(good)
    damaged[place] = data.draw(st.integers(0, 255))
    for bad in (bytes(damaged), good[:place], good + b"\0"):
        try:
            restored = type(column).from_bytes(bad)
        except FormatError:
            continue
        assert type(column).from_bytes(restored.to_bytes()).to_bytes() == restored.to_bytes()
        assert restored.combine_ranges(np.array([0]), np.array([len(restored)])).nbytes > 0


def test_memory_is_what_the_arrays_hold() -> None:
    lifted = lift([(1.5, 0), (math.nan, 1)])
    for column in lifted.values():
        assert ROWS * 8 <= column.nbytes <= ROWS * 100
