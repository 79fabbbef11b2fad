"""Who is there and how far everyone has come: the watermark of all never falls, and every decision is logged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.source_book import Decision
from headwater.language.times import FOREVER, NEVER
from headwater.protocols.advances import Advance, added, wrapped
from headwater.protocols.membership import DELTAS_PER_MARK_OF_FEW, Membership

TIMES = st.integers(-100, 100)


def named(*names: str) -> list[tuple[str, str]]:
    return [(name, "") for name in names]


def to(members: Membership, chain: str, *moves: tuple[int, int, int]) -> Advance:
    """The advance that gives the sources of a chain (by their place in it) so many more events and this watermark."""
    numbers = members.chains[chain].sources
    rises = [wrapped(watermark - int(members.watermarks[numbers[place]])) for place, _, watermark in moves]
    return Advance.of([place for place, _, _ in moves], [count for _, count, _ in moves], rises)


def two_chains() -> Membership:
    members = Membership()
    members.join("x", "leaf-x", named("a", "b"), 0)
    members.join("y", "leaf-y", named("c"), 0)
    return members


def told(members: Membership) -> dict[str, Any]:
    """The state with plain lists, so that it can be compared."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return value

    return {name: plain(value) for name, value in members.state().items()}


# --- watermarks ---


def test_the_watermark_of_all_waits_for_everyone() -> None:
    members = two_chains()
    assert members.watermark() == NEVER
    members.advance({"x": to(members, "x", (0, 1, 10), (1, 1, 20))}, 1)
    assert members.watermark() == NEVER
    members.advance({"y": to(members, "y", (0, 1, 15))}, 1)
    assert members.watermark() == 10
    members.finish()
    assert members.watermark() == FOREVER


def test_one_that_joins_goes_on_from_the_watermark_of_all() -> None:
    members = two_chains()
    members.advance({"x": to(members, "x", (0, 1, 10), (1, 1, 20))}, 1)
    members.advance({"y": to(members, "y", (0, 1, 15))}, 1)
    members.join("z", "leaf-z", named("d"), 2)
    assert members.watermark() == 10
    assert members.states("z")[0].watermark == 10
    assert members.decisions[-1] == Decision("joined", "d", 0, 10)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    act = st.one_of(
        st.tuples(st.just("advance"), st.sampled_from("xy"), st.integers(0, 3), TIMES),
        st.tuples(st.just("idle"), st.integers(1, 50)),
        st.tuples(st.just("join")),
    )
    return draw(st.lists(act, max_size=20))


@given(histories())
def test_the_watermark_never_falls_and_snapshots_hold_everything(acts: list[tuple[Any, ...]]) -> None:
    members, low = two_chains(), NEVER
    for now, act in enumerate(acts):
        apply(members, act, 10 * now)
        assert members.watermark() >= low
        low = members.watermark()
        active = members.watermarks[members.active]
        assert not len(active) or low >= active.min()
        assert told(Membership.restored(members.state())) == told(members)


def apply(members: Membership, act: tuple[Any, ...], now: int) -> None:
    match act:
        case ("advance", chain, count, time):
            number = int(members.chains[chain].sources[0])
            time = max(time, int(members.watermarks[number]))
            back = members.returning(chain, to(members, chain, (0, count, time)))
            members.decide_return(back, now)
            time = max(time, int(members.watermarks[number]))
            members.advance({chain: to(members, chain, (0, count, time))}, now)
            # A watermark alone does not bring a source back.
            assert members.active[number] or count == 0
            assert members.watermarks[number] == time
        case ("idle", silence):
            members.decide_idle(now, silence)
        case ("join",):
            members.join("z", "leaf-z", [*members_of(members, "z"), (f"s{len(members.names)}", "")], now)


def members_of(members: Membership, chain: str) -> list[tuple[str, str]]:
    known = members.chains.get(chain)
    return [] if known is None else named(*(members.names[number] for number in known.sources.tolist()))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), TIMES), min_size=1, max_size=10), st.data())
def test_advances_may_be_combined(moves: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """In one or in many: where the sources stand is the same."""
    model, singly, at_once = two_chains(), two_chains(), two_chains()
    advances = []
    for move in moves:
        advances.append(to(model, "x", move))
        model.advance({"x": advances[-1]}, 1)
    for advance in advances:
        singly.advance({"x": advance}, 1)
    cut = data.draw(st.integers(1, len(advances)))
    for group in (advances[:cut], advances[cut:]):
        if group:
            at_once.advance({"x": added(group)}, 1)
    assert singly.states("x") == at_once.states("x")
    assert singly.chains["x"].latest == at_once.chains["x"].latest


# --- decisions ---


def test_silent_sources_are_not_waited_for_and_those_that_ended_are_not_silent() -> None:
    members = two_chains()
    members.advance({"x": to(members, "x", (0, 3, 10), (1, 1, FOREVER))}, 100)
    assert members.decide_idle(now_ns=150, silence_ns=100) == ["c"]
    assert members.watermark() == 10
    assert members.decide_idle(now_ns=150, silence_ns=100) == []
    assert members.decide_idle(now_ns=200, silence_ns=100) == ["a"]
    assert members.decisions[-2:] == [Decision("idle", "c", 0, NEVER), Decision("idle", "a", 3, 10)]


def test_who_is_furthest_ahead_is_not_idle_so_that_the_watermark_comes_up_to_it() -> None:
    """Found by the simulator: a leaf held events up to its watermark, read no more, and was silent for ever."""
    members = two_chains()
    members.advance({"x": to(members, "x", (0, 1, 10), (1, 1, 30)), "y": to(members, "y", (0, 1, 20))}, 0)
    assert members.decide_idle(100, 50) == ["a", "c"]
    assert members.watermark() == 30
    assert members.silent_at(50) is None
    # Once another is ahead of it, it is as silent as any.
    members.decide_return([0], 120)
    members.advance({"x": to(members, "x", (0, 1, 40))}, 120)
    assert members.silent_at(50) == 50
    assert members.decide_idle(120, 50) == ["b"]


def test_when_the_stream_is_ending_all_may_be_idle() -> None:
    members = Membership()
    members.join("x", "leaf-x", named("a"), 0)
    members.advance({"x": to(members, "x", (0, 1, 10))}, 0)
    assert members.decide_idle(100, 50) == []
    assert members.decide_idle(100, 50, is_ending=True) == ["a"]
    assert not members.active.any() and members.watermark() == 10


def test_one_that_returns_is_not_behind_the_others() -> None:
    members = two_chains()
    members.decide_idle(100, 50, is_ending=True)
    members.decide_return([0, 1], 100)
    members.advance({"x": to(members, "x", (0, 1, 30), (1, 1, 40))}, 100)
    assert members.watermark() == 30
    assert members.returning("y", Advance.of([0], [1], [5])) == [2]
    members.decide_return([2], 110)
    assert members.states("y")[0].watermark == 30
    assert members.decisions[-1] == Decision("returned", "c", 0, 30)
    assert members.watermark() == 30


# --- joining ---


def test_a_chain_may_get_more_sources_but_no_other_ones() -> None:
    members = two_chains()
    assert members.problems("x", named("a", "b", "d")) is None
    members.join("x", "leaf-x2", named("a", "b", "d"), 5)
    assert [state.name for state in members.states("x")] == ["a", "b", "d"]
    assert members.chains["x"].node == "leaf-x2"
    assert len([one for one in members.decisions if one.source == "a"]) == 1


@pytest.mark.parametrize(
    ("chain", "names", "says"),
    [
        ("x", ("a", "a"), "twice"),
        ("x#cuts", ("d", "e"), "no chain may be called so"),
        ("y", ("c", "a"), "belongs to another chain"),
        ("z", ("b",), "belongs to another chain"),
    ],
)
def test_a_chain_is_refused_with_the_reason(chain: str, names: tuple[str, ...], says: str) -> None:
    assert says in str(two_chains().problems(chain, named(*names)))


# --- where to go on ---


def test_a_chain_goes_on_where_it_was_accepted() -> None:
    members = two_chains()
    members.advance({"x": to(members, "x", (0, 3, 10), (1, 1, 20))}, 1)
    first, second = members.states("x")
    assert (first.offset, first.watermark, first.hold, first.hold_watermark) == (3, 10, 3, 10)
    assert (second.offset, second.watermark) == (1, 20)


def test_marks_hold_events_until_they_are_settled() -> None:
    members = two_chains()
    members.mark("x")
    members.advance({"x": Advance.of([0], [3], [wrapped(10 - NEVER)], wrapped(12 - NEVER))}, 1)
    members.mark("x")
    members.advance({"x": Advance.of([0], [2], [5], 8)}, 1)
    assert members.latest == 20
    assert (members.states("x")[0].hold, members.states("x")[0].hold_watermark) == (0, NEVER)
    members.settle(12)
    assert members.states("x")[0].hold == 0
    members.settle(13)
    state = members.states("x")[0]
    assert (state.offset, state.watermark, state.hold, state.hold_watermark) == (5, 15, 3, 10)


def test_floors_are_told_as_far_as_events_are_read_again() -> None:
    members = two_chains()
    members.advance({"x": to(members, "x", (0, 1, 10), (1, 1, 10))}, 0)
    members.mark("y")
    members.decide_idle(100, 50, is_ending=True)
    members.decide_return([0, 1], 100)
    members.advance({"x": to(members, "x", (0, 1, 30), (1, 1, 30))}, 100)
    members.decide_return([2], 110)
    assert members.states("y")[0].floors == ((0, 30),)
    assert members.states("x")[0].floors == ()


def test_where_a_source_has_ended_is_told_to_whoever_reads_it_again() -> None:
    members = two_chains()
    members.mark("x")
    members.advance({"x": to(members, "x", (0, 3, FOREVER))}, 0)
    assert members.states("x")[0].floors == ((3, FOREVER),), "no source tells its end where a flush has put it"
    members.advance({"x": to(members, "x", (0, 2, FOREVER))}, 0)
    assert members.states("x")[0].floors == ((3, FOREVER),), "what comes behind it is late, and moves no end"
    members.forget_marks()
    members.mark("x")
    assert members.states("x")[0].floors == ()


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=20),
    steps=st.lists(
        st.lists(st.tuples(st.integers(0, 19), st.integers(0, 2), st.integers(0, 9)), max_size=20), max_size=6
    ),
    joins_at=st.integers(0, 6),
)
def test_many_chains_move_at_once_as_they_would_one_by_one(
    sizes: list[int], steps: list[list[tuple[int, int, int]]], joins_at: int
) -> None:
    together, apart = Membership(), Membership()
    for members in (together, apart):
        for number, size in enumerate(sizes):
            members.join(f"c{number}", "leaf", named(*(f"{number}/{place}" for place in range(size))), 0)
    for now, step in enumerate(steps):
        if now == joins_at:
            for members in (together, apart):
                members.join("c0", "leaf", named("late"), now)
        moves = {f"c{chain}": Advance.of([place], [1], [rise], rise) for chain, place, rise in step}
        known = {chain: one for chain, one in moves.items() if together.has_all({chain: one})}
        assert together.has_all(moves) == (known == moves)
        together.advance(known, now)
        for chain, one in known.items():
            apart.advance({chain: one}, now)
    assert told(together) == told(apart)
    assert (together.latest, together.watermark()) == (apart.latest, apart.watermark())


def test_chains_among_many_are_marked_after_every_few_deltas() -> None:
    members = Membership()
    names = [f"c{number}" for number in range(20)]
    for name in names:
        members.join(name, "leaf", named(f"{name}/a"), 0)
    for _ in range(2 * DELTAS_PER_MARK_OF_FEW):
        members.mark_sometimes(names)
        members.mark_sometimes(["c0"])
    assert {len(members.chains[name].marks) for name in names[1:]} == {2}
    assert len(members.chains["c0"].marks) >= 2 * DELTAS_PER_MARK_OF_FEW
