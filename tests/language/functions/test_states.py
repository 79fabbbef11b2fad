"""States: what they hold, and the queries that they are."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.language.functions.states import json_problems

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
STRANGE = st.sampled_from([(1,), {1}, b"x", float("inf"), object(), {1: 2}, 1 + 2j])


def test_a_state_of_one_aggregate_has_the_value_value() -> None:
    total = hw.WindowedCRDT(hw.sum("price"), hw.tumbling("1 s"), keys=["a", "b"], lateness="1 s")
    assert total.query("total") == hw.query(
        "total", hw.tumbling("1 s"), keys=["a", "b"], lateness="1 s", value=hw.sum("price")
    )


def test_a_state_of_several_aggregates_has_their_names() -> None:
    given: dict[str, Any] = {"n": hw.count(), "best": hw.max("price")}
    total = hw.WindowedLocal(given, hw.session("30 s"), where=hw.col("open"))
    given.clear()
    assert total.query("hot.total") == hw.query(
        "hot.total", hw.session("30 s"), scope="node", where=hw.col("open"), n=hw.count(), best=hw.max("price")
    )


def test_a_state_is_frozen() -> None:
    total, seen = hw.WindowedCRDT(hw.count(), hw.tumbling("1 s")), hw.Local(0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        total.keys = ("a",)  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.initial = 1  # type: ignore[misc]


def test_columns_are_pythons_types_or_arrows() -> None:
    columns = {"a": int, "b": float, "c": str, "d": bool, "e": pa.decimal128(10, 2)}
    state = hw.WindowedCRDT(hw.count(), hw.tumbling("1 s"), inserted_by="events", columns=columns)
    assert state.types() == {
        "a": pa.int64(),
        "b": pa.float64(),
        "c": pa.string(),
        "d": pa.bool_(),
        "e": pa.decimal128(10, 2),
    }


def test_a_declared_state_has_the_columns_of_the_input() -> None:
    assert hw.WindowedCRDT(hw.sum("price"), hw.tumbling("1 s")).types() is None


@given(JSON)
def test_a_local_takes_whatever_is_json_and_gives_it_back(value: Any) -> None:
    local = hw.Local(value)
    assert list(local.problems()) == []
    assert local.fresh() == value


@given(JSON, STRANGE)
def test_a_local_takes_nothing_else_however_deep_it_is(value: Any, strange: Any) -> None:
    assert list(json_problems("initial", [value, {"deep": strange}]))


def test_a_list_in_itself_is_nested_too_deep() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert [problem.right for problem in hw.Local(loop).problems()] == ["nest at most 50 deep"]
