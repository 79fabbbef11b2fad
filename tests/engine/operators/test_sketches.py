"""Sketches: the stated error, the same bits in any order and grouping, and the same hash for ever."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.intake.chunk import Values
from headwater.engine.operators.hashing import hash_values
from headwater.engine.operators.sketches import (
    DDSketchColumn,
    HyperLogLogColumn,
    approx_distinct,
    approx_quantile,
    buckets_per_octave,
)
from headwater.errors import FormatError
from partials import int32, int64


def values_of(data: Any) -> Values:
    return Values(np.asarray(data), None, pa.float64())


def one_row(count: int) -> np.ndarray:
    return np.zeros(count, np.int32)


@pytest.mark.parametrize("precision", [4, 8, 12, 16])
@pytest.mark.parametrize("count", [0, 1, 10, 1_000, 100_000])
def test_distinct_counts_are_within_four_standard_errors(precision: int, count: int) -> None:
    data = np.random.default_rng(precision + count).permutation(np.arange(count) * 7919 - 10**6)
    column = HyperLogLogColumn.lift(precision, values_of(data), one_row(count), 1)
    error = 1.04 / math.sqrt(2**precision)
    assert abs(int(column.estimates()[0]) - count) <= 4 * error * count


def test_there_is_one_zero_and_one_nan() -> None:
    negative_nan = np.array([0xFFF8000000000001], np.uint64).view(np.float64)[0]
    assert approx_distinct([0.0, -0.0, math.nan, negative_nan], 8) == 2


def test_the_error_of_distinct_counts_is_the_stated_one() -> None:
    count, rounds = 5_000, 60
    rng = np.random.default_rng(11)
    estimates = [approx_distinct(rng.standard_normal(count), 10) for _ in range(rounds)]
    relative = (np.array(estimates) - count) / count
    assert np.sqrt(np.mean(relative**2)) < 1.25 * 1.04 / math.sqrt(2**10)
    assert abs(relative.mean()) < 0.02


def test_hashes_never_change() -> None:
    # These numbers are written into partials that outlive this release.
    assert hash_values(int64(0, 1, -1)).tolist() == [16294208416658607535, 10451216379200822465, 16490336266968443936]
    texts = np.array(["", "a", "é", b"a", Decimal("1.50"), Decimal("3")], object)
    hashes = hash_values(texts).tolist()
    assert hashes[1] == hashes[3] == 6857225946766476583
    assert hashes[5] == hash_values(int64(3))[0] == hash_values(np.array([3.0]))[0]
    assert hash_values(np.array([Decimal("1.5")], object))[0] == hashes[4]
    assert len(set(hashes)) == 5


@pytest.mark.parametrize("error", [0.5, 0.05, 0.01, 0.001, 1e-6])
def test_quantiles_are_within_the_error(error: float) -> None:
    rng = np.random.default_rng(1)
    data = np.concatenate([rng.lognormal(0, 3, 2_000), -rng.lognormal(0, 3, 2_000), np.zeros(50), [5e-324, 1.7e308]])
    column = DDSketchColumn.lift(error, values_of(data), one_row(len(data)), 1)
    ranked = np.sort(data)
    for q in (0.0, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0):
        exact = ranked[math.floor((len(data) - 1) * q)]
        assert abs(column.quantiles(q)[0] - exact) <= error * (1 + 1e-9) * abs(exact)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.9, 0.1, 0.01, 1e-6]))
def test_every_float_is_within_the_error_of_its_bucket(value: float, error: float) -> None:
    # Below the smallest normal number doubles lie too far apart for any relative error.
    distance = abs(approx_quantile([value], 0.5, error) - value)
    assert distance <= max(error * (1 + 1e-9) * abs(value), 5e-324)


def test_infinities_and_nan_lie_outside_all_buckets() -> None:
    data = [-math.inf, -1.0, 0.0, 1.0, math.inf, math.nan]
    found = [approx_quantile(data, i / 5, 0.01) for i in range(6)]
    assert found[0] == -math.inf
    assert found[2] == 0.0
    assert found[4] == math.inf
    assert math.isnan(found[5])
    assert found[1] == -found[3]


FLOATS = st.floats() | st.sampled_from([1.0, 2.0])


@given(st.lists(st.tuples(FLOATS, st.integers(0, 4)), max_size=120), st.randoms(), st.booleans())
def test_order_and_grouping_change_no_bit(events: list[tuple[float, int]], random: Any, distinct: bool) -> None:
    def lifted(chosen: list[tuple[float, int]], rows: list[int], count: int) -> Any:
        data = np.array([value + 0.0 for value, _ in chosen], np.float64)
        data[np.isnan(data)] = np.nan
        if distinct:
            return HyperLogLogColumn.lift(6, values_of(data), int32(*rows), count)
        return DDSketchColumn.lift(0.05, values_of(data), int32(*rows), count)

    whole = lifted(events, [0] * len(events), 1)
    shuffled = random.sample(events, len(events))
    parts = lifted(shuffled, [row for _, row in shuffled], 5)
    order = int64(*random.sample(range(5), 5))
    together = parts.take(order).combine_ranges(int64(0, 2), int64(2, 5)).combine_ranges(int64(0), int64(2))
    assert together.to_bytes() == whole.to_bytes()
    back = type(whole).from_bytes(whole.to_bytes())
    assert back.to_bytes() == whole.to_bytes()


def test_wide_keys_are_numbered_instead_of_tabled() -> None:
    data = np.array([1e-300, 1e300] * 30 + [1.0] * 30)
    column = DDSketchColumn.lift(1e-6, values_of(data), one_row(90), 1)
    assert len(column.keys) == 3
    assert column.weights.tolist() == [30, 30, 30]


def test_bytes_are_small() -> None:
    thousand = np.random.default_rng(2).standard_normal(1000)
    sketch = DDSketchColumn.lift(0.01, values_of(thousand), one_row(1000), 1)
    registers = HyperLogLogColumn.lift(12, values_of(np.arange(10**6)), one_row(10**6), 1)
    assert len(sketch.to_bytes()) < 1_500
    assert len(registers.to_bytes()) < 2.1 * 4096
    few = HyperLogLogColumn.lift(12, values_of([1, 2, 3]), one_row(3), 1)
    assert len(few.to_bytes()) < 30


def test_one_sketch_is_not_read_as_the_other() -> None:
    sketch = DDSketchColumn.lift(0.01, values_of([1.0]), one_row(1), 1)
    with pytest.raises(FormatError, match="another kind"):
        HyperLogLogColumn.from_bytes(sketch.to_bytes())


def test_buckets_are_as_few_as_the_error_allows() -> None:
    assert [buckets_per_octave(error) for error in (0.99, 0.5, 0.1, 0.01)] == [1, 1, 5, 50]
