"""Exact sums against `fractions.Fraction`: the value, the rounding, the laws and the byte form."""

from __future__ import annotations

import contextlib
import math
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.engine.intake.chunk import Values
from headwater.engine.operators.numeric import CountColumn, lift_numeric
from headwater.engine.operators.operator import Op
from headwater.engine.operators.sums.exact_sum import HEADROOM, SumColumn, layout, rebased, width_of
from headwater.errors import FormatError

LARGEST, SMALLEST, SMALLEST_NORMAL = 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308

finite = st.floats(allow_nan=False, allow_infinity=False)
ordinary = st.floats(-1e6, 1e6)
extreme = st.sampled_from(
    [0.0, 1.0, -1.0, LARGEST, -LARGEST, SMALLEST, -SMALLEST, SMALLEST_NORMAL, 2.0**53, 1e200, -1e16]
)
some_floats = st.lists(finite, max_size=40) | st.lists(ordinary, max_size=40) | st.lists(extreme, max_size=40)
any_float = finite | st.sampled_from([math.nan, math.inf, -math.inf])


def sum_of(values: list[float], rows: list[int] | None = None, row_count: int = 1, kind: str = "sum") -> SumColumn:
    """The sums of floats, all in one row unless ``rows`` says otherwise."""
    op = Op(kind, "x")
    where = np.zeros(len(values), np.int32) if rows is None else np.array(rows, np.int32)
    lifted = lift_numeric([op], Values(np.array(values, np.float64), None, pa.float64()), where, row_count)[op]
    assert isinstance(lifted, SumColumn)
    return lifted


def exact(column: SumColumn, row: int = 0) -> Fraction:
    numbers, exponent = column.to_python_ints()
    return Fraction(numbers[row]) * Fraction(2) ** exponent


def as_float(value: Fraction) -> float:
    """The nearest float, with infinity beyond the largest one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def special_sum(values: list[float]) -> float:
    """What IEEE arithmetic makes of NaN and infinities, whatever the finite values are."""
    specials = [value for value in values if not math.isfinite(value)]
    return sum(specials) if specials else math.nan


@given(some_floats)
@example([LARGEST, LARGEST, -LARGEST, SMALLEST])
@example([1e16, 1.0, -1e16])
@example([SMALLEST, -SMALLEST])
def test_sum_is_exact_and_rounded_once(values: list[float]) -> None:
    total = sum((Fraction(value) for value in values), Fraction(0))
    column = sum_of(values)
    assert exact(column) == total
    assert column.to_float64()[0] == as_float(total)


@given(some_floats)
@example([1e200, 1e-200])
@example([LARGEST, SMALLEST])
def test_sum_of_squares_is_exact(values: list[float]) -> None:
    total = sum((Fraction(value) ** 2 for value in values), Fraction(0))
    column = sum_of(values, kind="sumsq")
    assert exact(column) == total
    assert column.to_float64()[0] == as_float(total)


@given(st.lists(any_float, min_size=1, max_size=12).filter(lambda values: not all(map(math.isfinite, values))))
def test_special_values_follow_ieee(values: list[float]) -> None:
    expected = special_sum(values)
    column = sum_of(values)
    np.testing.assert_equal(column.to_float64()[0], expected)
    np.testing.assert_equal(column.mean(np.array([len(values)]))[0], expected)
    squares = sum_of(values, kind="sumsq").to_float64()[0]
    np.testing.assert_equal(squares, math.nan if any(map(math.isnan, values)) else math.inf)


@given(some_floats.filter(len), st.integers(1, 2**40))
@example([SMALLEST], 2)  # half of the smallest float: a tie that goes to zero
@example([3 * SMALLEST], 2)
@example([SMALLEST_NORMAL], 3)
@example([1.0, 2.0**-52], 2)  # a tie between two floats
@example([LARGEST, LARGEST, LARGEST], 3)
def test_mean_is_the_exact_quotient_rounded_once(values: list[float], count: int) -> None:
    total = sum((Fraction(value) for value in values), Fraction(0))
    assert sum_of(values).mean(np.array([count]))[0] == as_float(total / count)


@given(st.lists(st.integers(-(2**200), 2**200), min_size=1, max_size=20), st.integers(-1200, 900), st.data())
def test_numbers_of_any_width_are_rounded_right(numbers: list[int], exponent: int, data: st.DataObject) -> None:
    column = SumColumn.from_python_ints(numbers, exponent)
    unit = Fraction(2) ** exponent
    assert column.to_float64().tolist() == [as_float(number * unit) for number in numbers]
    counts = data.draw(st.lists(st.integers(1, 2**32 - 1), min_size=len(numbers), max_size=len(numbers)))
    expected = [as_float(number * unit / count) for number, count in zip(numbers, counts)]
    assert column.mean(np.array(counts)).tolist() == expected


def test_mean_of_nothing_is_nan() -> None:
    assert np.isnan(SumColumn.zeros(1).mean(np.array([0]))[0])


@given(st.lists(st.integers(-(2**70), 2**70)))
def test_integers_come_back_if_they_fit(numbers: list[int]) -> None:
    values, fits = SumColumn.from_python_ints(numbers).to_int64()
    assert fits.tolist() == [-(2**63) <= number < 2**63 for number in numbers]
    assert values[fits].tolist() == [number for number in numbers if -(2**63) <= number < 2**63]


def test_fractions_have_no_integer_form() -> None:
    with pytest.raises(ValueError, match="fractions"):
        sum_of([0.5]).to_int64()
    assert sum_of([0.5, 1.5]).to_int64()[0].tolist() == [2]


@given(some_floats.filter(len), st.randoms(use_true_random=False))
def test_order_and_grouping_leave_no_trace(values: list[float], chance: random.Random) -> None:
    whole = sum_of(values).to_bytes()
    shuffled = chance.sample(values, len(values))
    rows = sorted(chance.randrange(5) for _ in shuffled)
    parts = sum_of(shuffled, rows, 5)
    one_by_one = SumColumn.concat([sum_of([value]) for value in shuffled])
    everything = np.array([0]), np.array([5])
    cut = chance.randrange(6)
    in_two = SumColumn.concat(
        [
            parts.combine_ranges(np.array([0]), np.array([cut])),
            SumColumn.from_bytes(parts.combine_ranges(np.array([cut]), np.array([5])).to_bytes()),
            SumColumn.zeros(1),
        ]
    )
    assert parts.combine_ranges(*everything).to_bytes() == whole
    assert one_by_one.combine_ranges(np.array([0]), np.array([len(values)])).to_bytes() == whole
    assert in_two.combine_ranges(np.array([0]), np.array([3])).to_bytes() == whole
    assert in_two.combine_ranges(*(np.array([i]) for i in (0, 3))).to_bytes() == whole


@given(st.lists(any_float, max_size=40), st.data())
def test_every_range_is_the_sum_of_its_rows(values: list[float], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(-1, 7), min_size=len(values), max_size=len(values)))
    column = sum_of(values, rows, 8)
    ranges = data.draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)).map(sorted), max_size=60))
    lo, hi = (np.array([pair[end] for pair in ranges], np.int64) for end in (0, 1))
    combined = column.combine_ranges(lo, hi)
    assert len(combined) == len(ranges)
    for i, (start, end) in enumerate(ranges):
        expected = sum_of([value for value, row in zip(values, rows) if start <= row < end])
        assert combined.take(np.array([i])).to_bytes() == expected.to_bytes()


@given(st.lists(some_floats, min_size=1, max_size=5))
def test_columns_join_whatever_their_units(groups: list[list[float]]) -> None:
    columns = [sum_of(values, list(range(len(values))), len(values)) for values in groups]
    joined = SumColumn.concat(columns)
    assert joined.to_float64().tolist() == [value + 0.0 for values in groups for value in values]
    assert joined.to_bytes() == sum_of(joined.to_float64().tolist(), list(range(len(joined))), len(joined)).to_bytes()


@given(st.lists(any_float, max_size=30))
def test_bytes_come_back(values: list[float]) -> None:
    column = sum_of(values, list(range(len(values))), len(values))
    restored = SumColumn.from_bytes(column.to_bytes())
    assert restored.to_bytes() == column.to_bytes()
    np.testing.assert_equal(restored.to_float64(), column.to_float64())


@given(st.binary(max_size=60))
def test_garbage_is_a_format_error(garbage: bytes) -> None:
    with contextlib.suppress(FormatError):
        SumColumn.from_bytes(garbage)


@given(st.lists(any_float, min_size=1, max_size=6), st.data())
def test_damaged_bytes_are_a_format_error_or_other_sums(values: list[float], data: st.DataObject) -> None:
    good = sum_of(values, list(range(len(values))), len(values)).to_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    damaged = bytearray(good)
    damaged[place] = data.draw(st.integers(0, 255))
    for bad in (bytes(damaged), good[:place], good + b"\0"):
        try:
            column = SumColumn.from_bytes(bad)
        except FormatError:
            continue
        assert SumColumn.from_bytes(column.to_bytes()).to_bytes() == column.to_bytes()


def test_partial_of_a_thousand_ordinary_values_is_small() -> None:
    values = np.random.default_rng(7).standard_normal(1_000_000)
    rows = np.repeat(np.arange(1000, dtype=np.int32), 1000)
    ops = [Op("count"), Op("sum", "x")]
    lifted = lift_numeric(ops, Values(values, None, pa.float64()), rows, 1000)
    assert sum(len(lifted[op].to_bytes()) for op in ops) / 1000 <= 24
    counts = lifted[ops[0]]
    assert isinstance(counts, CountColumn)
    assert counts.counts.tolist() == [1000] * 1000


def test_ordinary_data_takes_two_words() -> None:
    column = sum_of(np.random.default_rng(7).standard_normal(100_000).tolist())
    assert column.limbs.shape == (1, 2)
    assert SumColumn.from_bytes(column.to_bytes()).limbs.shape == (1, 2)


def test_an_outlier_widens_a_column_only_while_it_is_there() -> None:
    column = SumColumn.concat([sum_of([1.0, 2.0], [0, 1], 2), sum_of([1e300])])
    assert column.limbs.shape[1] > 2
    assert column.take(np.array([0, 1])).limbs.shape[1] == 2


@given(st.integers(-2200, 2000), st.integers(0, 2200))
def test_layout_has_room_above_every_value(low: int, spread: int) -> None:
    unit, width = layout(low, low + spread)
    assert unit <= low
    assert unit % 8 == 0
    assert 64 * width >= low + spread + HEADROOM + 1 - unit
    assert width == width_of(low & -8, low + spread)


@given(st.lists(st.integers(-(2**80), 2**80), min_size=1), st.integers(0, 20))
def test_rebasing_keeps_the_numbers(numbers: list[int], steps: int) -> None:
    column = SumColumn.from_python_ints(numbers)
    finer = rebased(column.limbs, 0, -8 * steps, 6)
    assert SumColumn(finer, -8 * steps, 0, 100).to_python_ints()[0] == [number << 8 * steps for number in numbers]
    np.testing.assert_equal(rebased(finer, -8 * steps, 0, 2), column.limbs)
