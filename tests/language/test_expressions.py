"""Conditions: how they are built, what they mean for one row, and that whole columns agree with single rows."""

from __future__ import annotations

import datetime
import math
import pickle
from decimal import Decimal
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.intake.predicates import mask
from headwater.errors import DataError, QueryError
from headwater.language.checks import problems
from headwater.language.expressions import And, Compare, Expr, col
from language_strategies import COLUMNS, conditions, conditions_over_tables

NAN = math.nan


def first_problem(condition: Expr) -> str:
    return next(problems(condition)).text("q")


@given(conditions_over_tables())
def test_mask_of_columns_is_evaluate_of_each_row(case: tuple[Expr, pa.Table]) -> None:
    condition, table = case
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    rows = table.to_pylist()
    expected = [condition.evaluate(row) is True for row in rows]
    assert mask(condition, columns, len(table)).tolist() == expected


@given(conditions_over_tables())
def test_a_row_is_true_false_or_null_and_never_two_of_them(case: tuple[Expr, pa.Table]) -> None:
    condition, table = case
    columns = {name: table[name] for name in table.column_names}
    true, false = mask(condition, columns, len(table)), mask(~condition, columns, len(table))
    assert not (true & false).any()
    assert mask(condition | ~condition, columns, len(table)).tolist() == (true | false).tolist()


@given(conditions_over_tables(rows_max=4))
def test_a_slice_of_a_column_is_read_at_its_own_rows(case: tuple[Expr, pa.Table]) -> None:
    condition, table = case
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    whole = mask(condition, columns, len(table))
    for start in range(len(table)):
        part = {name: array.slice(start) for name, array in columns.items()}
        assert mask(condition, part, len(table) - start).tolist() == whole[start:].tolist()


@given(conditions(), conditions())
def test_conditions_are_equal_by_structure_and_hash_alike(left: Expr, right: Expr) -> None:
    again = pickle.loads(pickle.dumps(left))
    assert again == left
    assert hash(again) == hash(left)
    assert (left == right) is (left.key() == right.key())
    assert left.columns() <= set(COLUMNS)


@pytest.mark.parametrize(
    ("condition", "row", "truth"),
    [
        (col("x") > 0, {"x": 1}, True),
        (col("x") > 0, {"x": None}, None),
        (col("x") > 0, {}, None),
        (col("x") != 1, {"x": None}, None),
        (~(col("x") == 1), {"x": None}, None),
        ((col("x") == 1) | (col("y") == 1), {"x": None, "y": 1}, True),
        ((col("x") == 1) | (col("y") == 1), {"x": None, "y": 2}, None),
        ((col("x") == 1) & (col("y") == 1), {"x": None, "y": 2}, False),
        (col("x") == NAN, {"x": NAN}, True),
        (col("x") > math.inf, {"x": NAN}, True),
        (col("x") <= NAN, {"x": 10**400}, True),
        (col("x") == 0.0, {"x": -0.0}, True),
        (col("x") == 2.0**53, {"x": 2**53 + 1}, False),
        (col("x") == Decimal("0.1"), {"x": 0.1}, False),
        (col("x") < "b", {"x": "a"}, True),
        (col("x") < "b", {"x": 1}, None),
        (col("x").isin([1, 2]), {"x": 2.0}, True),
        (col("x").isin([1, 2]), {"x": 3}, False),
        (col("x").isin([1, 2]), {"x": None}, None),
        (col("x").isin([1, 2]), {"x": "1"}, None),
        (col("x").between(1, 3), {"x": 3}, True),
        (col("x").between(1, 3), {"x": 4}, False),
        (col("x").is_null(), {"x": None}, True),
        (col("x").is_null(), {"x": NAN}, False),
        (col("x").is_not_null(), {"x": 0}, True),
        (col("x").matches("a.c"), {"x": "abc"}, True),
        (col("x").matches("a"), {"x": "abc"}, False),
        (col("x").matches("12?"), {"x": 1}, True),
        (col("x").matches(".*"), {"x": None}, None),
        (col("open") & (col("x") > 0), {"open": True, "x": 1}, True),
        (5 < col("x"), {"x": 6}, True),  # noqa: SIM300
        (col("x") < col("y"), {"x": 1, "y": 2}, True),
        (col("t") < datetime.datetime(2024, 1, 1), {"t": datetime.datetime(2023, 1, 1, tzinfo=datetime.UTC)}, True),
    ],
)
def test_truth_of_one_row(condition: Expr, row: dict[str, object], truth: bool | None) -> None:
    assert condition.evaluate(row) is truth


def test_numpy_literals_are_kept_as_plain_python() -> None:
    condition = col("x") > np.float64(1.5)
    assert isinstance(condition, Compare)
    assert type(condition.right) is float


def test_one_and_true_are_different_literals() -> None:
    assert (col("x") == 1) != (col("x") == True)  # noqa: E712
    assert (col("x") == 1) != (col("x") == 1.0)
    assert (col("x") == NAN) == (col("x") == float("nan"))


@pytest.mark.parametrize(
    "write",
    [
        lambda: (col("a") > 1) and (col("b") > 2),
        lambda: not (col("a") > 1),
        lambda: 1 < col("a") < 5,
        lambda: col("a") > 1 & col("b"),
        lambda: (col("a") > 1) & True,
        lambda: (col("a") > 1) | "b",
    ],
)
def test_words_and_chains_are_refused_with_the_operators_to_use(write: object) -> None:
    with pytest.raises(QueryError, match=r"& \| ~"):
        write()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (col("x") == None, r"col\('x'\) == None.*is_null"),  # noqa: E711
        (col("x") > [1], r"compare with a number, text.*not with \[1\]"),
        (col("x") > Decimal("nan"), "compare with a number"),
        (col("x") > "\ud800", "UTF-8"),
        (col("x").isin([]), r"isin is \[\]: list values of one kind"),
        (col("x").isin("abc"), r"isin is 'abc': list values of one kind"),  # type: ignore[arg-type]
        (col("x").isin([1, "a"]), r"isin is \[1, 'a'\]: list values of one kind"),
        (col("x").isin([1, None]), "is_null"),
        (col("x").between(3, 1), r"between is \(3, 1\): give the smaller bound first"),
        (col("x").between(1, "a"), "both of one kind"),
        (col("x").matches("["), r"matches is '\[': write a regular expression"),
        (col("x").matches(5), "matches is 5"),  # type: ignore[arg-type]
        (col("") > 1, "column is '': name a column"),
        (col(5) > 1, "column is 5: name a column"),  # type: ignore[arg-type]
        (Compare("=", col("x"), 1), r"comparison is '=': use one of == !="),
        (Compare("<", 1, 2), "compare a column"),
        (~(col("y") > 1) & ((col("x") > 1) | (col("z") == None)), "is_null"),  # noqa: E711
    ],
)
def test_what_is_wrong_is_said_with_the_right_form(condition: Expr, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(first_problem(condition))


def test_a_long_chain_needs_no_deep_recursion() -> None:
    condition = reduce(or_, [col("x") == number for number in range(20_000)])
    assert condition.evaluate({"x": 19_999}) is True
    assert hash(condition) == hash(condition)
    assert condition.columns() == {"x"}
    assert mask(condition, {"x": pa.array([5, -5])}, 2).tolist() == [True, False]
    assert not list(problems(condition))


def test_chains_that_group_differently_are_different() -> None:
    a, b, c = col("a") > 1, col("b") > 1, col("c") > 1
    assert And(And(a, b), c) != And(a, And(b, c))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(DataError, match=r"'x' is missing; the batch has 'y'"):
        mask(col("x") > 1, {"y": pa.array([1])}, 1)


def test_a_null_inside_a_dictionary_is_a_null() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert mask(col("x") == "a", {"x": array}, 3).tolist() == [True, False, False]
    assert mask(col("x").is_null(), {"x": array}, 3).tolist() == [False, True, True]


def test_dates_in_milliseconds_are_days() -> None:
    array = pa.array([datetime.date(2024, 2, 29), None], pa.date64())
    assert mask(col("x") == datetime.date(2024, 2, 29), {"x": array}, 2).tolist() == [True, False]


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), min_size=1), st.data())
def test_integer_and_float_columns_compare_exactly(integers: list[int], data: st.DataObject) -> None:
    near = st.sampled_from(integers).map(float) | st.floats()
    floats = data.draw(st.lists(near, min_size=len(integers), max_size=len(integers)))
    columns = {"i": pa.array(integers, pa.int64()), "f": pa.array(floats, pa.float64())}
    for condition in (col("i") < col("f"), col("i") == col("f"), col("f") <= col("i"), col("f") != col("i")):
        expected = [condition.evaluate({"i": i, "f": f}) for i, f in zip(integers, floats, strict=True)]
        assert mask(condition, columns, len(integers)).tolist() == expected
