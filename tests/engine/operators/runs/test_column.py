"""Sorted runs: picking, merging and reading give what sorting everything gives."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.intake.chunk import Values
from headwater.engine.operators.runs import part as run_parts
from headwater.engine.operators.runs.column import RunColumn
from headwater.engine.operators.runs.kernels import SHORT_RUN
from headwater.language.aggregations import quantile
from headwater.reference.aggregates import value_of
from partials import int32, int64

FLOATS = st.floats(allow_nan=True).map(lambda x: math.nan if math.isnan(x) else x + 0.0)
ROWS = st.lists(st.lists(FLOATS | st.sampled_from([1.0, 2.0, math.nan]), max_size=40), max_size=5)
QS = np.array([0.0, 0.1, 1 / 3, 0.5, 0.9, 0.999, 1.0])


def expected_quantiles(rows: list[list[Any]], qs: Any = QS) -> list[list[Any]]:
    return [[value_of(quantile("x", float(q)), [{"x": v} for v in row]) for row in rows] for q in qs]


def same(actual: Any, expected: list[list[Any]]) -> bool:
    nan = np.array([[math.nan if value is None else value for value in row] for row in expected], np.float64)
    return np.array_equal(actual, nan.reshape(actual.shape), equal_nan=True)


def values_of(column: RunColumn, row: int) -> Any:
    part = column.parts[column.part[row]]
    return part.values[part.begins[column.place[row]] : part.ends[column.place[row]]]


def joined(rows: list[list[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(rows))


def ranges(draw: Any, count: int) -> tuple[Any, Any]:
    bounds = draw(st.lists(st.tuples(st.integers(0, count), st.integers(0, count)).map(sorted), max_size=6))
    return int64(*(lo for lo, _ in bounds)), int64(*(hi for _, hi in bounds))


@given(ROWS, st.data())
def test_quantiles_of_ranges_are_those_of_all_their_values(rows: list[list[float]], data: st.DataObject) -> None:
    lo, hi = ranges(data.draw, len(rows))
    column = RunColumn.of_rows(rows).combine_ranges(lo, hi)
    together = [joined(rows[a:b]) for a, b in zip(lo, hi)]
    assert column.counts().tolist() == [len(row) for row in together]
    expected = expected_quantiles(together)
    assert same(column.quantiles(QS), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_parts, "PICK_COST", 0)
        assert same(column.take(np.arange(len(lo))).quantiles(QS), expected)


@pytest.mark.parametrize("kind", ["float", "int", "few", "sorted", "nan"])
def test_picking_from_many_runs_equals_merging_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_parts, "PICK_COST", 0)
    rng = np.random.default_rng(3)
    rows = []
    for row in range(40):
        values = rng.standard_normal(rng.integers(0, 300))
        if kind == "int":
            values = rng.integers(-(2**63), 2**63 - 1, len(values), endpoint=True)
        elif kind == "few":
            values = np.round(values)
        elif kind == "sorted":
            values += 10 * row
        elif kind == "nan":
            values[values > 0.5] = np.nan
        rows.append(values.tolist())
    column = RunColumn.of_rows(rows)
    windows = column.combine_ranges(np.arange(30), np.arange(30) + 10)
    assert windows.pieces()[0][1]._picking_pays(10**6)
    merged = RunColumn.of_rows([joined(rows[i : i + 10]) for i in range(30)])
    picked = np.stack([windows.quantiles(QS[i : i + 1])[0] for i in range(len(QS))])
    assert np.array_equal(picked, merged.quantiles(QS), equal_nan=True)
    for rank in (0, 7):
        ranks = np.minimum(np.maximum(windows.counts() - 1, 0), rank)
        assert np.array_equal(windows.order_statistics(ranks), merged.order_statistics(ranks), equal_nan=kind != "int")


def test_the_extremes_of_int64_are_picked() -> None:
    low, high = -(2**63), 2**63 - 1
    filler = list(range(200))
    column = RunColumn.of_rows([[low, high, *filler], [high, high, *filler]]).combine_ranges(int64(0), int64(2))
    assert column.pieces()[0][1]._picking_pays(6)
    picked = [int(column.order_statistics(int64(rank))[0]) for rank in (0, 400, 401, 402, 403)]
    assert picked == [low, 199, high, high, high]
    assert column.quantiles(np.array([1.0]))[0, 0] == 2.0**63


def test_neighbours_beyond_2_to_53_are_interpolated_as_spark_does() -> None:
    # Different integers that are the same double: Spark compares the integers, then computes with doubles.
    values = [2**62, 2**62 + 1]
    assert RunColumn.of_rows([values]).quantiles(np.array([0.3]))[0, 0] == 2.0**62


def test_quantiles_are_those_of_the_newest_spark_and_never_fall() -> None:
    years = RunColumn.of_rows([[2012, 2013]])
    assert years.quantiles(np.array([0.3]))[0, 0] == 2012.3
    percents = np.arange(101) / 100
    large = RunColumn.of_rows([[10**18 + 128 * n for n in range(11)]])
    assert (np.diff(large.quantiles(percents)[0]) >= 0).all()


@pytest.mark.parametrize("pick_cost", [0, 20, 10**9])
@given(
    rows=st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), min_size=1, max_size=3),
    qs=st.lists(st.floats(0, 1), min_size=2, max_size=20).map(sorted),
)
def test_quantiles_never_fall_and_lie_between_the_extremes(
    pick_cost: int, rows: list[list[float]], qs: list[float]
) -> None:
    column = RunColumn.of_rows(rows).combine_ranges(int64(0), int64(len(rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_parts, "PICK_COST", pick_cost)
        found = column.quantiles(np.array(qs))[:, 0]
    assert (found[1:] >= found[:-1]).all()
    assert min(map(min, rows)) <= found[0] and found[-1] <= max(map(max, rows))
    assert found.tolist() == [row[0] for row in expected_quantiles([joined(rows)], qs)]


@given(
    low=st.floats(allow_nan=False, allow_infinity=False),
    ulps=st.integers(1, 4) | st.integers(1, 2**62),
    rest=st.sampled_from([5e-324, 2**-53, 0.5, 1 - 2**-53]) | st.floats(0, 1, exclude_min=True, exclude_max=True),
)
def test_no_quantile_lies_above_the_larger_neighbour(low: float, ulps: int, rest: float) -> None:
    word = int(np.float64(abs(low) + 0.0).view(np.int64))
    high = float(np.int64(min(word + ulps, 0x7FEFFFFFFFFFFFFF)).view(np.float64))
    for pair in ([abs(low), high], [-high, -abs(low)], [-high, high]):
        (found,) = RunColumn.of_rows([pair]).quantiles(np.array([rest]))[0].tolist()
        assert pair[0] <= found <= pair[1]


def test_many_quantiles_of_long_windows_are_read_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_parts, "BLOCK_VALUES", 64)
    monkeypatch.setattr(run_parts, "KEEP_VALUES", 64)
    rng = np.random.default_rng(4)
    rows = [rng.standard_normal(30).tolist() for _ in range(20)]
    windows = RunColumn.of_rows(rows).combine_ranges(np.arange(15), np.arange(15) + 5)
    qs = np.linspace(0, 1, 50)
    assert not windows.pieces()[0][1]._picking_pays(len(qs))
    together = [joined(rows[i : i + 5]) for i in range(15)]
    assert same(windows.quantiles(qs), expected_quantiles(together, qs))
    assert windows.pieces()[0][1]._merged is None
    assert windows.count_distinct().tolist() == [150] * 15


def test_enough_picking_ends_in_a_merged_copy_that_is_kept() -> None:
    rows = [np.random.default_rng(i).standard_normal(100).tolist() for i in range(8)]
    windows = RunColumn.of_rows(rows).combine_ranges(int64(0, 2, 0, 5), int64(4, 6, 4, 6))
    tangles = windows.pieces()[-1][1]
    together = [joined(rows[a:b]) for a, b in ((0, 4), (2, 6), (0, 4), (5, 6))]
    for _ in range(9):
        assert same(windows.quantiles(np.array([0.25])), expected_quantiles(together, [0.25]))
    assert tangles._merged is not None
    # Windows of the same rows are merged once, and what is one run already stays where it is.
    assert len(tangles._merged.values) == 800


@given(st.lists(st.tuples(st.none() | FLOATS, st.integers(-1, 3)), max_size=200))
def test_lift_sorts_the_values_of_each_row(events: list[tuple[float | None, int]]) -> None:
    data = np.array([0.0 if value is None else value for value, _ in events])
    valid = np.array([value is not None for value, _ in events], bool)
    column = RunColumn.lift(Values(data, valid, pa.float64()), int32(*(row for _, row in events)), 4)
    for row in range(4):
        members = sorted((v for v, r in events if r == row and v is not None), key=lambda v: (math.isnan(v), v))
        held = values_of(column, row)
        assert np.array_equal(held, np.array(members, np.float64), equal_nan=True)


@pytest.mark.parametrize("length", [0, 1, 2, SHORT_RUN - 1, SHORT_RUN, SHORT_RUN + 1, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_short_and_long_runs_are_sorted_alike(length: int, dtype: type) -> None:
    rng = np.random.default_rng(length)
    values = (rng.standard_normal(3 * length) * 100).astype(dtype)
    rows = np.repeat(int32(2, 0, 1), length)
    column = RunColumn.lift(Values(values, None, pa.float64()), rows, 3)
    for row, part in zip((2, 0, 1), np.split(values, 3)):
        assert np.array_equal(values_of(column, row), np.sort(part))


@given(ROWS.filter(len), st.data())
def test_rows_survive_taking_joining_and_bytes(rows: list[list[float]], data: st.DataObject) -> None:
    column = RunColumn.of_rows(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    taken = column.take(int64(*chosen))
    joined = RunColumn.concat([taken, column, column.take(int64())])
    names = [*chosen, *range(len(rows))]
    expected = [rows[i] for i in names]
    assert same(joined.quantiles(QS), expected_quantiles(expected))
    back = RunColumn.from_bytes(joined.to_bytes())
    assert same(back.quantiles(QS), expected_quantiles(expected))
    assert back.to_bytes() == RunColumn.of_rows(expected).to_bytes() == joined.to_bytes()


def test_taking_little_lets_go_of_the_rest() -> None:
    column = RunColumn.of_rows([list(map(float, range(1000))), [1.0]])
    assert column.take(int64(1)).nbytes < 100 < column.take(int64(0)).nbytes
    assert column.take(int64(0)).parts[0].values is column.parts[0].values


def test_many_small_parts_become_one() -> None:
    columns = [RunColumn.of_rows([[float(i)], [float(-i)]]) for i in range(100)]
    joined_column = RunColumn.concat(columns)
    assert len(joined_column.parts) == 1
    assert joined_column.combine_ranges(int64(0), int64(200)).quantiles(np.array([0.0, 1.0])).tolist() == [
        [-99.0],
        [99.0],
    ]


def test_only_rows_to_be_combined_are_copied() -> None:
    parts = [RunColumn.of_rows([np.arange(i, i + 1000.0).tolist() for i in range(10)]) for _ in range(3)]
    column = RunColumn.concat(parts)
    combined = column.combine_ranges(int64(0, 9, 11, 29), int64(1, 11, 12, 30))
    assert [len(part.values) for part in combined.parts] == [10_000, 10_000, 10_000, 2_000]
    assert combined.counts().tolist() == [1000, 2000, 1000, 1000]
    assert combined.quantiles(np.array([1.0])).tolist() == [[999.0, 1008.0, 1000.0, 1008.0]]


def test_bytes_are_small_where_values_repeat_or_are_close() -> None:
    few = RunColumn.of_rows([[20.5, 21.0] * 500])
    close = RunColumn.of_rows([list(range(10**9, 10**9 + 1000))])
    spread = RunColumn.of_rows([np.random.default_rng(1).standard_normal(1000).tolist()])
    assert len(few.to_bytes()) < 40
    assert len(close.to_bytes()) < 40
    assert 8000 * 0.8 < len(spread.to_bytes()) < 8000 * 1.01


def test_modes_and_distinct_counts_of_objects() -> None:
    column = RunColumn.of_rows([["b", "a", "b", "a"], ["é"], []])
    assert column.modes()[:2].tolist() == ["a", "é"]
    assert column.count_distinct().tolist() == [2, 1, 0]
    everything = column.combine_ranges(int64(0), int64(3))
    assert everything.count_distinct().tolist() == [3]


def test_nan_is_one_value_and_the_largest() -> None:
    column = RunColumn.of_rows([[math.nan, 1.0, math.nan], [math.inf]])
    assert column.count_distinct().tolist() == [2, 1]
    assert math.isnan(column.modes()[0])
    both = column.combine_ranges(int64(0), int64(2))
    assert both.order_statistics(int64(1)).tolist() == [math.inf]
    assert math.isnan(both.order_statistics(int64(2))[0])


def test_a_column_without_rows_gives_empty_windows() -> None:
    nothing = RunColumn.lift(Values(np.empty(0), None, pa.float64()), int32(), 0)
    empty = nothing.combine_ranges(int64(0, 0), int64(0, 0))
    assert empty.counts().tolist() == [0, 0]
    assert empty.count_distinct().tolist() == [0, 0]
    assert len(empty.modes()) == 2
    assert np.isnan(empty.quantiles(np.array([0.5]))).all()
    assert RunColumn.from_bytes(empty.to_bytes()).counts().tolist() == [0, 0]
    joined = RunColumn.concat([empty, RunColumn.of_rows([["a"]])])
    assert joined.modes()[2] == "a"
