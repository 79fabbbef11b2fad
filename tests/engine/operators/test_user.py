"""Users' own operators: lifted once per row in event order, combined as they say, lowered by their aggregate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.engine.operators.objects import fold_ranges
from headwater.engine.operators.partials import Op, lift, partials_from_bytes, partials_to_bytes
from headwater.engine.operators.user import UserColumn
from headwater.engine.results.aggregates import lower, operators_of
from headwater.errors import FormatError
from headwater.language.aggregations import apply
from headwater.language.user_code import Aggregate, Operator, aggregate_of
from partials import chunk_of, int32, int64

CALLS: list[list[Any]] = []


def total(values: Any) -> float:
    CALLS.append(values.tolist())
    return float(values.sum())


def add(a: Any, b: Any) -> Any:
    return a + b


TOTAL = Operator("total", total, add, 0.0)
COUNT = Operator("count", len, add, 0)
MEAN = Aggregate("mean", (TOTAL, COUNT), lambda total, count: total / count if count else None)
SUM = Aggregate("sum", (TOTAL,), lambda total: total)
TRAIL = aggregate_of("trail", "".join, add, str.upper, "", commutative=False, result_type=pa.string())


def test_lift_is_called_once_per_row_with_its_values_in_event_order() -> None:
    CALLS.clear()
    chunk = chunk_of([1.0, 2.0, None, 4.0, 8.0], times=[9, 5, 1, 5, 0])
    lifted = lift([Op("user", "x", TOTAL)], chunk, int32(0, 0, 0, 0, 2), 3)
    # Sources take turns (b, a, é, b, a): at time 5 the value 2.0 of source a comes before the 4.0 of source b.
    assert sorted(CALLS) == [[2.0, 4.0, 1.0], [8.0]]
    assert lifted[Op("user", "x", TOTAL)].partials == [7.0, 0.0, 8.0]


def test_aggregates_that_name_the_same_operator_share_its_work() -> None:
    ops = dict.fromkeys([*operators_of(apply(MEAN, "x"), pa.float64()), *operators_of(apply(SUM, "x"), pa.float64())])
    assert len(ops) == 2
    CALLS.clear()
    partials = lift(ops, chunk_of([1.0, 3.0]), int32(0, 0), 2)
    assert len(CALLS) == 1
    assert lower(apply(MEAN, "x"), partials, pa.float64()).to_pylist() == [2.0, None]
    assert lower(apply(SUM, "x"), partials, pa.float64()).to_pylist() == [4.0, 0.0]


def test_what_is_not_commutative_is_lowered_from_the_ordered_values() -> None:
    assert operators_of(apply(TRAIL, "x"), pa.string()) == (Op("ordered", "x"),)
    chunk = chunk_of(["c", "a", "b", None], times=[3, 1, 2, 0])
    partials = lift(operators_of(apply(TRAIL, "x"), pa.string()), chunk, int32(0, 1, 0, 1), 2)
    # The rows are joined in the wrong order on purpose.
    swapped = {op: column.take(int64(1, 0)).combine_ranges(int64(0, 0), int64(2, 0)) for op, column in partials.items()}
    assert lower(apply(TRAIL, "x"), swapped, pa.string()).to_pylist() == ["ABC", ""]


def test_bools_are_bools_for_the_user() -> None:
    def lower_kinds(kinds: list[str]) -> str:
        return kinds[0]

    kinds = aggregate_of("kinds", lambda values: [str(values.dtype)], add, lower_kinds, list, result_type=pa.string())
    partials = lift(operators_of(apply(kinds, "x"), pa.bool_()), chunk_of([True, False]), int32(0, 0), 1)
    assert lower(apply(kinds, "x"), partials, pa.bool_()).to_pylist() == ["bool"]


def test_bytes_name_the_operator_by_path() -> None:
    column = UserColumn(TOTAL, [1.0, 0.5])
    assert b"test_user:TOTAL" in column.to_bytes()
    assert UserColumn.from_bytes(column.to_bytes()).partials == [1.0, 0.5]


def test_an_operator_without_a_path_must_be_known() -> None:
    hidden = Operator("hidden", len, lambda a, b: a + b, 0)
    op = Op("user", "x", hidden)
    data = partials_to_bytes({op: UserColumn(hidden, [3])})
    assert partials_from_bytes(data, known=[op])[op].partials == [3]
    with pytest.raises(FormatError, match="'hidden' has no import path"):
        partials_from_bytes(data)
    with pytest.raises(FormatError, match="no import path; give the operator"):
        UserColumn.from_bytes(UserColumn(hidden, [3]).to_bytes())


def test_two_operators_of_one_name_do_not_travel_together() -> None:
    twins = [Operator("twin", len, lambda a, b: a + b, 0) for _ in range(2)]
    with pytest.raises(FormatError, match="same name"):
        partials_to_bytes({Op("user", "x", own): UserColumn(own, [1]) for own in twins})


@pytest.mark.parametrize("count", [0, 1, 2, 7, 33])
def test_folding_ranges_keeps_the_order_and_calls_little(count: int) -> None:
    letters = [chr(97 + i % 26) for i in range(count)]
    calls = []

    def joined(a: str, b: str) -> str:
        calls.append(a)
        return a + b

    bounds = [(a, b) for a in range(count + 1) for b in range(a, count + 1)]
    lo, hi = int64(*(a for a, _ in bounds)), int64(*(b for _, b in bounds))
    assert fold_ranges(letters, lo, hi, joined, str) == ["".join(letters[a:b]) for a, b in bounds]
    assert len(calls) <= len(bounds) + count * count.bit_length()


def test_an_empty_row_gets_an_identity_of_its_own() -> None:
    lists = Operator("lists", lambda values: values.tolist(), add, list)
    empty = UserColumn(lists, [[1], [2]]).combine_ranges(int64(0, 0), int64(0, 0)).partials
    assert empty == [[], []]
    assert empty[0] is not empty[1]


def test_partials_may_be_numpy_numbers() -> None:
    peak = Operator("peak", lambda values: values.max(), max, -np.inf)
    column = UserColumn.lift(peak, "x", chunk_of([1.0, 5.0]), int32(0, 0), 2)
    assert UserColumn.from_bytes(column.to_bytes(), peak).partials == [5.0, -np.inf]
