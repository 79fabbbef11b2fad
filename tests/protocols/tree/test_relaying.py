"""What a relay holds, and the whole way from leaves over relays to the root when everything goes wrong that can."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.protocols.delta import ChainRange, Delta, combine
from headwater.protocols.ledger import Position
from headwater.protocols.tree.relaying import Holding
from protocols.flow import Tree, merge, step

ALL = 1 << 20


def stretch(**chains: tuple[int, int, int]) -> Delta:
    return Delta({chain: ChainRange(*values) for chain, values in chains.items()})


def taken(*deltas: Delta) -> Holding:
    holding = Holding()
    assert all(holding.take(delta, 10) for delta in deltas)
    return holding


def held(holding: Holding) -> list[dict[str, ChainRange]]:
    return [dict(one.delta.ranges) for one in holding.held]


# --- one relay ---


def test_what_follows_is_taken_and_anything_else_is_not() -> None:
    holding = taken(stretch(a=(1, 4, 5)), stretch(a=(1, 5, 7)))
    for wrong in ((1, 8, 9), (1, 4, 5), (1, 6, 8)):
        assert not holding.take(stretch(a=wrong), 10)
    assert holding.ledger.positions == {"a": Position(1, 7)}
    assert holding.take(stretch(a=(1, 7, 8)), 10)


def test_each_delta_is_sent_once_and_again_when_no_answer_comes() -> None:
    one, two, three = stretch(a=(1, 0, 1)), stretch(b=(1, 0, 1)), stretch(a=(1, 1, 2))
    holding = taken(one, two, three)
    assert holding.next_to_send(20) == [one, two]
    assert holding.next_to_send(20) == [three]
    assert holding.next_to_send(20) == []
    holding.send_again()
    assert holding.next_to_send(ALL) == [one, two, three]


def test_a_delta_that_is_larger_than_allowed_goes_alone() -> None:
    holding = taken(stretch(a=(1, 0, 1)), stretch(a=(1, 1, 2)))
    assert [len(holding.next_to_send(1)) for _ in range(3)] == [1, 1, 0]


def test_what_the_root_has_is_let_go() -> None:
    holding = taken(stretch(a=(1, 0, 1)), stretch(b=(1, 0, 1)), stretch(a=(1, 1, 2)))
    holding.accepted({"a": Position(1, 1), "b": Position(1, 1)})
    assert held(holding) == [{"a": ChainRange(1, 1, 2)}]
    assert holding.ledger.positions["a"] == Position(1, 2)


def test_acceptances_of_several_chains_may_come_one_by_one() -> None:
    holding = taken(stretch(a=(1, 0, 1), b=(1, 0, 1)))
    holding.accepted({"a": Position(1, 1)})
    assert len(holding.held) == 1
    holding.accepted({"b": Position(1, 1)})
    assert holding.held == []


def test_a_rejection_keeps_what_fits_and_asks_for_the_rest() -> None:
    holding = taken(stretch(a=(1, 0, 1)), stretch(b=(1, 5, 6)), stretch(a=(1, 1, 2)), stretch(c=(1, 0, 1)))
    assert len(holding.next_to_send(ALL)) == 4
    assert holding.rejected({"a": Position(1, 1), "b": Position(1, 3), "c": Position(1, 0)}) == {
        "a": Position(1, 2),
        "b": Position(1, 3),
        "c": Position(1, 1),
    }
    assert holding.next_to_send(ALL) == [stretch(a=(1, 1, 2)), stretch(c=(1, 0, 1))]


def test_a_delta_that_cannot_be_accepted_takes_all_its_chains_along() -> None:
    holding = taken(stretch(a=(1, 0, 1), b=(1, 0, 1)), stretch(b=(1, 1, 2)))
    assert holding.rejected({"a": Position(1, 1)}) == {"a": Position(1, 1), "b": Position(1, 0)}
    assert holding.held == []


def test_a_new_owner_makes_void_what_the_old_one_sent() -> None:
    holding = taken(stretch(a=(1, 0, 1)), stretch(b=(1, 0, 1)))
    holding.next_to_send(ALL)
    assert holding.take(stretch(a=(2, 0, 1)), 10)
    assert held(holding) == [{"b": ChainRange(1, 0, 1)}, {"a": ChainRange(2, 0, 1)}]
    assert not holding.take(stretch(a=(1, 1, 2)), 10)
    # The other chain's delta is under way: it is not sent twice for that.
    assert holding.next_to_send(ALL) == [stretch(a=(2, 0, 1))]


def test_a_new_chain_does_not_send_everything_once_more() -> None:
    holding = taken(stretch(a=(1, 0, 1)))
    holding.next_to_send(ALL)
    assert holding.take(stretch(b=(1, 0, 1)), 10)
    assert holding.next_to_send(ALL) == [stretch(b=(1, 0, 1))]


def test_a_void_delta_of_several_chains_leaves_no_hole_in_the_others() -> None:
    holding = taken(stretch(b=(1, 0, 1)), stretch(a=(1, 0, 1), b=(1, 1, 2)))
    assert not holding.take(stretch(a=(2, 0, 1), b=(1, 2, 3)), 10)
    assert holding.ledger.positions["b"] == Position(1, 1)


def test_what_does_not_follow_is_not_combined() -> None:
    holding = taken(stretch(a=(1, 0, 1), b=(1, 0, 1)), stretch(a=(1, 1, 2)))
    holding.accepted({"a": Position(1, 2)})
    assert holding.take(stretch(a=(1, 2, 3)), 10)
    sent = [holding.next_to_send(ALL), holding.next_to_send(ALL)]
    assert [combine(deltas, merge).ranges["a"] for deltas in sent] == [ChainRange(1, 0, 1), ChainRange(1, 2, 3)]


def test_an_answer_that_was_overtaken_asks_for_nothing_that_is_safe() -> None:
    holding = taken(stretch(a=(1, 3, 5)), stretch(a=(1, 5, 6)))
    holding.accepted({"a": Position(1, 5)})
    assert holding.rejected({"a": Position(1, 3)}) == {"a": Position(1, 6)}
    assert held(holding) == [{"a": ChainRange(1, 5, 6)}]


def test_a_parent_that_stands_before_what_it_has_accepted_is_not_sent_the_same_for_ever() -> None:
    """Frame 315,024 of `make fuzz`: each answer brought the frame back, and each frame the answer."""
    holding = taken(stretch(a=(1, 3, 4)))
    holding.accepted({"a": Position(1, 3)})
    holding.next_to_send(ALL)
    assert holding.rejected({"a": Position(1, 1)}) == {"a": Position(1, 4)}
    assert not holding.has_unsent, "it may still be on its way"
    assert [holding.overdue(), holding.overdue()] == [0, 1], "it goes out again in its time"


@pytest.mark.parametrize("told", ["accepted", "rejected"])
def test_an_old_answer_to_a_relay_without_memory_does_not_stop_its_child(told: str) -> None:
    holding = Holding()
    getattr(holding, told)({"a": Position(1, 3)})
    # The child has nothing before 5: the root has it. Once it is asked for what is before, then it is believed.
    assert not holding.take(stretch(a=(1, 5, 6)), 10)
    assert holding.take(stretch(a=(1, 5, 6)), 10)


def test_what_only_a_parent_without_memory_had_is_taken_from_the_child_again() -> None:
    holding = taken(stretch(a=(1, 5, 7)))
    holding.rejected({"a": Position(1, 7)})
    assert holding.held == []
    assert holding.take(stretch(a=(1, 5, 7)), 10)


def test_what_the_root_has_is_not_taken_again() -> None:
    holding = taken(stretch(a=(1, 5, 7)))
    holding.accepted({"a": Position(1, 7)})
    assert not holding.take(stretch(a=(1, 5, 7)), 10)
    assert not holding.take(stretch(a=(1, 6, 8)), 10)


# --- the whole way ---

DO = (
    "happen",
    "read",
    "again",
    "pass on",
    "send again",
    "deliver",
    "deliver late",
    "double",
    "lose",
    "forget",
    "take over",
)
OFTEN = (3, 4, 1, 4, 1, 8, 2, 1, 1, 0.3, 0.3)


def disturb(tree: Tree, chance: random.Random, steps: int) -> None:
    """So many steps of ordinary work and of faults."""
    for what in chance.choices(DO, OFTEN, k=steps):
        leaf = chance.choice(list(tree.leaves.values()))
        relay = chance.choice(list(tree.relays.values()))
        match what:
            case "happen":
                tree.happen(chance.choice("abc"), chance.randint(1, 3))
            case "read":
                tree.read(leaf)
            case "again":
                tree.send_again(leaf)
            case "pass on":
                tree.pass_on(relay)
            case "send again":
                relay.holding.send_again()
            case "forget":
                tree.forget(relay)
            case "take over":
                tree.take_over(chance.choice("abc"), relay.name)
            case _ if tree.under_way:
                meet_a_message(tree, what, chance)
        tree.check_safe()


def meet_a_message(tree: Tree, what: str, chance: random.Random) -> None:
    place = 0 if what == "deliver" else chance.randrange(len(tree.under_way))
    link = tree.under_way[place]
    if what != "double":
        del tree.under_way[place]
    if what != "lose":
        tree.deliver(link)


@given(
    chance=st.randoms(use_true_random=True),
    steps=st.integers(0, 300),
    bytes_max=st.sampled_from([1, 300, ALL]),
)
def test_every_event_is_counted_once_and_arrives_in_the_end(chance: random.Random, steps: int, bytes_max: int) -> None:
    tree = Tree(bytes_max)
    disturb(tree, chance, steps)
    tree.heal(rounds=6)
    tree.check_complete()


def test_without_faults_nothing_is_sent_twice() -> None:
    tree = Tree()
    frames = 0
    for _ in range(5):
        for chain in "abc":
            tree.happen(chain, 2)
            tree.read(tree.owner(chain))
        for relay in tree.relays.values():
            while tree.under_way:
                frames += 1
                tree.deliver(tree.under_way.pop(0))
            tree.pass_on(relay)
        while tree.under_way:
            frames += 1
            tree.deliver(tree.under_way.pop(0))
    assert tree.heal(rounds=1) == 0
    tree.check_complete()
    # Each time: 3 leaves, 1 combination to the upper relay, 1 to the root, and its answer to 2 relays and 3 leaves.
    assert frames == 5 * (3 + 1 + 1 + 2 + 3)


def test_a_leaf_that_was_replaced_does_no_harm_and_learns_of_it() -> None:
    tree = Tree()
    tree.happen("a", 2)
    old = tree.owner("a")
    tree.read(old)
    tree.take_over("a", "high")
    tree.happen("a", 1)
    tree.read(old)
    tree.heal(rounds=4)
    tree.check_complete()
    assert old.stopped and not tree.owner("a").stopped


def test_a_step_is_a_gap_until_the_one_before_it_is_there() -> None:
    tree = Tree()
    tree.root.receive(step("a", 1, 1, ["a1"]))
    assert tree.root.events == {}
    tree.root.receive(step("a", 1, 0, ["a0"]))
    tree.root.receive(step("a", 1, 1, ["a1"]))
    assert tree.root.events == {"a0": 1, "a1": 1}
