"""Prefixes are in order, whatever was decided about them and in whatever order it is heard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import FormatError
from headwater.language.times import FOREVER
from headwater.protocols.steps import END, START
from headwater.protocols.windowed_crdt import (
    Limit,
    Prefix,
    PrefixDelta,
    Prefixes,
    Reach,
    Version,
    delta_from_bytes,
    delta_to_bytes,
    prefix_from_bytes,
    prefix_to_bytes,
)


def delta(start: int, end: int, steps: tuple[int, int] | None = None, decisions: int = 0) -> PrefixDelta:
    """What the events of a stretch add: their numbers."""
    parts = tuple([bytes([number]) for number in range(start, end)])
    return PrefixDelta("p", 1, decisions, start, end, Reach(end, end, b"%d" % end, end), parts, steps)


def prefix_at(end: int) -> Prefix:
    prefix = Prefix(Version(1, 0, 0)).extended(delta(0, 1, (START + 1, 0)))
    return prefix if end == 1 else prefix.extended(delta(1, end))


def test_a_limit_is_reached_with_what_is_open() -> None:
    prefix = prefix_at(3).limited(Limit(5, 9))
    assert prefix.step == 0 and prefix.objection(delta(3, 6, decisions=1)) == "beyond"
    prefix = prefix.extended(delta(3, 5, decisions=1))
    part = prefix.covering(9)
    assert part is not None and (part.low, part.high, part.index, len(part.parts)) == (1, 9, 5, 4)
    assert prefix.objection(delta(5, 6, decisions=1)) == "beyond"


def test_how_events_came_before_a_limit_is_of_no_matter() -> None:
    limit = Limit(3, 9)
    late, early = prefix_at(3).limited(limit), prefix_at(1).limited(limit).extended(delta(1, 3, decisions=1))
    assert late == early


def test_one_that_returns_goes_on_behind_the_steps_without_it() -> None:
    back = prefix_at(3).limited(Limit(3, 9)).returned(12, 120)
    assert (back.version, back.limit, back.step, back.reach.watermark) == (Version(1, 2, 3), None, 12, 120)
    assert back.objection(delta(3, 4, (13, 15), decisions=2)) is None
    part = back.covering(11)
    assert part is not None and part.parts == () and part.low == 10


def test_one_that_ends_has_reached_all_steps() -> None:
    ended = prefix_at(3).limited(Limit(3, END))
    assert ended.step == END and ended.reach.watermark == FOREVER and ended.covering(10**15) is not None


def test_a_prefix_beyond_a_limit_is_none_that_can_come_to_it() -> None:
    with pytest.raises(AssertionError, match="is beyond"):
        prefix_at(4).limited(Limit(3, 9))


def test_a_decision_counts_more_than_events_without_it() -> None:
    prefixes = Prefixes({"p": prefix_at(8)})
    assert prefixes.merge({"p": prefix_at(3).limited(Limit(3, 9))}) == ["p"]
    assert prefixes.merge({"p": prefix_at(9)}) == []


@given(st.lists(st.sampled_from(range(1, 9)), min_size=1, max_size=6), st.randoms())
def test_merging_is_a_join(ends: list[int], dice: object) -> None:
    """In any order, however often: the furthest is what is known in the end."""
    some = [prefix_at(end) for end in ends] + [prefix_at(3).limited(Limit(3, 9)), prefix_at(2).limited(Limit(3, 9))]
    shuffled = [*some, *some]
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    prefixes = Prefixes({"p": prefix_at(1)})
    for one in shuffled:
        prefixes.merge({"p": one})
    assert prefixes.chains["p"] == max(some, key=lambda one: one.version)


@pytest.mark.parametrize(
    "prefix",
    [prefix_at(4), prefix_at(3).limited(Limit(5, 9)), prefix_at(3).limited(Limit(3, END)), prefix_at(3).without(0)],
)
def test_prefixes_come_back(prefix: Prefix) -> None:
    assert prefix_from_bytes(prefix_to_bytes(prefix)) == prefix


@pytest.mark.parametrize(
    "bad",
    [
        lambda: prefix_from_bytes(prefix_to_bytes(Prefix(Version(1, 0, 9), limit=Limit(3, 9)))),
        lambda: prefix_from_bytes(prefix_to_bytes(Prefix(Version(1, 0, 1 << 63)))),
        lambda: prefix_from_bytes(prefix_to_bytes(Prefix(Version(0, 0, 1)))),
        lambda: delta_from_bytes(delta_to_bytes(delta(0, 1, (1, 1 << 70)))),
        lambda: delta_from_bytes(delta_to_bytes(PrefixDelta("p", 1, 0, 3, 3, Reach()))),
    ],
)
def test_what_cannot_be_is_refused(bad: object) -> None:
    with pytest.raises(FormatError):
        bad()  # type: ignore[operator]
