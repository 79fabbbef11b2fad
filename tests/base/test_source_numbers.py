"""Many chains at once say what each of them says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.source_numbers import SMALLEST, Cached, SourceNumbers

SOURCES = st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=12)


@given(SOURCES, st.data())
def test_a_crowd_is_its_chains(sizes: list[int | None], data: st.DataObject) -> None:
    begin, chains = 0, []
    for size in sizes:
        chains.append(None if size is None else np.arange(begin, begin + size) * 7)
        begin += size or 0
    crowd = SourceNumbers.of(chains)
    assert crowd.are_known == (None not in sizes)
    some = data.draw(st.lists(st.tuples(st.integers(0, len(sizes) - 1), st.integers(-1, 4)), max_size=8))
    chain, place = np.array(some, np.int64).reshape(-1, 2).T
    are_there = [0 <= at < (sizes[number] or 0) for number, at in some]
    assert crowd.has(chain, place) == all(are_there)
    if all(are_there):
        assert crowd.at(chain, place).tolist() == [chains[number][at] for number, at in some]


def test_a_large_crowd_is_made_once_until_it_is_forgotten() -> None:
    made: list[tuple[str, ...]] = []
    remembered = Cached(lambda chains: made.append(chains) or len(made))
    many, few = tuple(map(str, range(SMALLEST))), ("a",)
    assert [remembered.of(many), remembered.of(many), remembered.of(few), remembered.of(few)] == [1, 1, 2, 3]
    remembered.forget()
    assert remembered.of(many) == 4
