"""Operators by example: events lifted into two rows, rows combined, partials read."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from headwater.engine.operators.partials import Op, lift, partials_from_bytes, partials_to_bytes
from headwater.language.user_code import Operator
from partials import chunk_of, int32, int64

#: The first and third event add to row 0, the second to row 1, the last to none.
ROWS = int32(0, 1, 0, -1)


def lifted(op: Op, values: list[Any]) -> Any:
    return lift([op], chunk_of(values), ROWS, 2)[op]


def together(op: Op, values: list[Any]) -> Any:
    """The partial of both rows combined, and come back from its bytes."""
    column = lifted(op, values).combine_ranges(int64(0), int64(2))
    return partials_from_bytes(partials_to_bytes({op: column}), [op])[op]


def test_counts_leave_out_events_of_no_row():
    assert lifted(Op("count"), [1, 2, 3, 4]).counts.tolist() == [2, 1]


def test_nulls_are_not_values():
    assert lifted(Op("valid", "x"), [1, None, 3, 4]).counts.tolist() == [2, 0]


def test_a_sum_of_floats_is_exact_in_any_grouping():
    values = [1e16, 1.0, -1e16, 5.0]
    assert lifted(Op("sum", "x"), values).to_float64().tolist() == [0.0, 1.0]
    assert together(Op("sum", "x"), values).to_float64().tolist() == [1.0]


def test_nan_is_the_largest_value():
    values, present = together(Op("max", "x"), [1.0, math.nan, 3.0, 9.0]).values()
    assert math.isnan(values[0]) and present.tolist() == [True]
    assert together(Op("min", "x"), [1.0, math.nan, 3.0, 9.0]).values()[0].tolist() == [1.0]


def test_a_product_beyond_64_bits_is_known_to_be():
    product = together(Op("product", "x"), [2**40, 2**40, 1, 1])
    assert product.overflowed().tolist() == [True]
    assert together(Op("product", "x"), [-2, 3, 4, 1]).values()[0].tolist() == [-24]


def test_sorted_runs_give_quantiles_and_the_mode():
    runs = together(Op("run", "x"), [4, 1, 4, 9])
    assert runs.quantiles(int64(0, 1) * 0.5).tolist() == [[1.0], [4.0]]
    assert (runs.modes().tolist(), runs.count_distinct().tolist()) == ([4], [2])


@pytest.mark.parametrize(("kind", "expected"), [("first", ["a"]), ("last", ["c"]), ("ordered", ["a", "b", "c"])])
def test_ordered_values_keep_their_place_in_the_order(kind: str, expected: list[str]):
    assert together(Op(kind, "x"), ["a", "b", "c", "d"]).values.tolist() == expected


def test_decimals_are_added_as_whole_numbers_of_their_last_digit():
    assert together(Op("sum", "x"), [Decimal("1.50"), None, Decimal("0.25"), Decimal(1)]).partials == [175]


def test_sketches_are_close():
    assert together(Op("hll", "x", 12), [1, 2, 1, 9]).estimates().tolist() == [2]
    assert together(Op("ddsketch", "x", 0.01), [10, 10, 1000, 9]).quantiles(1.0)[0] == pytest.approx(1000, rel=0.01)


def test_a_users_operator_is_lifted_once_per_row():
    longest = Operator("longest", lambda words: max(map(len, words)), max, 0)
    assert lifted(Op("user", "x", longest), ["ab", "c", "d", "long"]).partials == [2, 1]
