"""Lists of names as bytes: read again they are the same, long ones from memory too, and damaged ones are refused each time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.names import SHORTEST, are_ascending, names_from_bytes, names_to_bytes
from headwater.errors import FormatError

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=2 * SHORTEST)


@given(NAMES)
def test_a_list_of_names_comes_back_from_its_bytes(names: list[str]) -> None:
    for _ in range(2):
        assert names_from_bytes(*names_to_bytes(names)) == tuple(names)


@given(NAMES)
def test_names_are_in_order_iff_sorted_and_each_once(names: list[str]) -> None:
    for some in (names, sorted(names), sorted(set(names))):
        assert are_ascending(tuple(some)) == (list(some) == sorted(set(some)))


@pytest.mark.parametrize("count", [1, SHORTEST])
@pytest.mark.parametrize(
    ("first", "data"), [(2, b"a"), (0, b"a"), (-1, b""), (1, b"\xff")], ids=["short", "long", "negative", "no text"]
)
def test_a_damaged_list_of_names_is_refused_every_time(count: int, first: int, data: bytes) -> None:
    lengths = np.array([first, *[1] * (count - 1)], np.int64)
    for _ in range(2):
        with pytest.raises(FormatError, match="a list of texts is damaged"):
            names_from_bytes(lengths, data + b"b" * (count - 1))
