"""The zoo: names for aggregates, and the one set that is an aggregate of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.language.functions import crdts
from headwater.language.functions.crdts import OR_SET, added, last_changes, later_changes, removed
from headwater.language.user_code import load_path, path_of
from headwater.testing import check_laws

#: (time, element, whether it is added)
CHANGES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["", "tea", "milk", "+", "1-a"]), st.booleans()))


@pytest.mark.parametrize(
    ("made", "plain"),
    [
        (crdts.GCounter(), hw.sum("value")),
        (crdts.GCounter(None), hw.count()),
        (crdts.PNCounter("change"), hw.sum("change")),
        (crdts.MaxRegister(), hw.max("value")),
        (crdts.MinRegister(), hw.min("value")),
        (crdts.LWWRegister(), hw.last("value")),
        (crdts.FWWRegister(), hw.first("value")),
        (crdts.Average(), hw.avg("value")),
        (crdts.GSet(), hw.distinct("value")),
        (crdts.TopK("price", 3, ties=True, keep=["auction"]), hw.top("price", 3, ties=True, keep=["auction"])),
    ],
)
def test_a_name_is_an_aggregate(made: Any, plain: Any) -> None:
    assert made == plain


def text(change: tuple[int, str, bool]) -> str:
    time, element, is_added = change
    return added(element, time) if is_added else removed(element, time)


def in_the_set(changes: list[tuple[int, str, bool]]) -> list[str]:
    """The slow twin: change after change in the order of times, at the same time those that remove first."""
    found: set[str] = set()
    for _, element, is_added in sorted(changes, key=lambda change: (change[0], change[2])):
        (found.add if is_added else found.discard)(element)
    return sorted(found)


def lifted(changes: list[tuple[int, str, bool]]) -> dict[str, list[int]]:
    return last_changes(np.array([text(change) for change in changes], dtype=object))


@given(CHANGES)
def test_a_set_holds_what_was_added_last(changes: list[tuple[int, str, bool]]) -> None:
    assert OR_SET.lower(lifted(changes)) == in_the_set(changes)


@given(CHANGES, CHANGES, CHANGES)
def test_changes_join_in_any_order_and_any_number_of_times(one: Any, two: Any, three: Any) -> None:
    a, b, c = lifted(one), lifted(two), lifted(three)
    assert later_changes(a, b) == later_changes(b, a) == lifted(one + two)
    assert later_changes(later_changes(a, b), c) == later_changes(a, later_changes(b, c))
    assert later_changes(a, a) == a == later_changes(a, {})


def test_the_laws_of_aggregates_hold_for_the_set() -> None:
    values = st.none() | st.builds(
        lambda *change: text(change), st.integers(-3, 3), st.sampled_from("ab"), st.booleans()
    )
    check_laws(OR_SET, values, type=pa.string())


@given(CHANGES)
def test_a_partial_comes_back_from_its_bytes(changes: list[tuple[int, str, bool]]) -> None:
    (operator,) = OR_SET.operators
    assert operator.from_bytes(operator.to_bytes(lifted(changes))) == lifted(changes)


@given(CHANGES.filter(bool))
def test_the_sets_of_windows_are_those_of_their_own_events(changes: list[tuple[int, str, bool]]) -> None:
    ordered = sorted(changes, key=lambda change: change[0])
    table = pa.table({"time": [change[0] for change in ordered], "value": [text(change) for change in ordered]})
    basket = hw.query("basket", hw.tumbling(3), items=crdts.ORSet())
    rows = hw.run(table, basket, time="time")["basket"]
    expected = [[c for c in changes if start <= c[0] < start + 3] for start in (0, 3)]
    assert rows["items"].to_pylist() == [in_the_set(part) for part in expected if part]


def test_a_set_is_found_by_path_in_another_process() -> None:
    assert load_path(path_of(OR_SET) or "") is OR_SET
    assert load_path(path_of(OR_SET.operators[0]) or "") is OR_SET.operators[0]
    basket = hw.query("basket", hw.tumbling(3), items=crdts.ORSet())
    assert hw.from_json(hw.to_json(basket)) == [basket]


@pytest.mark.parametrize("change", ["tea", "+tea", "1", 7, "1 +tea"])
def test_what_is_no_change_is_refused(change: Any) -> None:
    with pytest.raises(hw.DataError, match=r"a change of an ORSet is .*: write it with crdts.added or crdts.removed"):
        last_changes(np.array([change], dtype=object))
