"""Deltas: however they are grouped on their way, and whatever happens to them there, a receiver ends up with the same."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.language.times import NEVER
from headwater.protocols.advances import Advance, added, wrapped
from headwater.protocols.delta import ChainRange, Delta, combine, delta_body, read_delta
from headwater.protocols.ledger import Ledger, Position
from protocols.flow import events_of, merge, part
from protocols.generated import NUMBERS, advances, deltas

CHAINS = ("a", "b", "c")


@st.composite
def steps(draw: st.DrawFn) -> dict[str, list[Delta]]:
    """Some steps of each chain."""
    made = {}
    for chain in CHAINS:
        moves = draw(st.lists(advances(), max_size=6))
        made[chain] = [
            Delta({chain: ChainRange(1, at, at + 1)}, {chain: advance}, [part([f"{chain}{at}"])])
            for at, advance in enumerate(moves)
        ]
    return made


def interleaved(made: dict[str, list[Delta]], chance: random.Random) -> list[Delta]:
    """All steps, those of each chain in their order."""
    order = [chain for chain, deltas in made.items() for _ in deltas]
    chance.shuffle(order)
    rest = {chain: iter(deltas) for chain, deltas in made.items()}
    return [next(rest[chain]) for chain in order]


def grouped(deltas: list[Delta], chance: random.Random) -> list[Delta]:
    """Neighbours combined at random, several times over."""
    for _ in range(chance.randint(0, 3)):
        groups: list[list[Delta]] = []
        for delta in deltas:
            if groups and chance.random() < 0.5:
                groups[-1].append(delta)
            else:
                groups.append([delta])
        deltas = [combine(group, merge) for group in groups]
    return deltas


@dataclass
class Receiver:
    """What is left of everything that was accepted."""

    ledger: Ledger = field(default_factory=lambda: Ledger({chain: Position(1, 0) for chain in CHAINS}))
    events: Counter[str] = field(default_factory=Counter)
    moved: dict[str, Advance] = field(default_factory=dict)

    def receive(self, delta: Delta) -> bool:
        if self.ledger.objections(delta.ranges):
            return False
        self.ledger.accept(delta)
        self.events.update(events_of(delta))
        for chain, advance in delta.advances.items():
            self.moved[chain] = added([self.moved[chain], advance]) if chain in self.moved else advance
        return True


def one_by_one(made: dict[str, list[Delta]]) -> Receiver:
    receiver = Receiver()
    for chain in CHAINS:
        assert all(receiver.receive(delta) for delta in made[chain])
    return receiver


@given(made=steps(), chance=st.randoms())
def test_any_grouping_gives_the_same(made: dict[str, list[Delta]], chance: random.Random) -> None:
    receiver = Receiver()
    assert all(receiver.receive(delta) for delta in grouped(interleaved(made, chance), chance))
    assert receiver == one_by_one(made)


@given(made=steps(), chance=st.randoms())
def test_loss_copies_and_disorder_do_no_harm(made: dict[str, list[Delta]], chance: random.Random) -> None:
    receiver, whole = Receiver(), one_by_one(made)
    for _ in range(4):
        sent = grouped(interleaved(rest_of(made, receiver.ledger), chance), chance)
        arriving = [delta for delta in sent for _ in range(chance.choice([0, 1, 1, 2]))]
        chance.shuffle(arriving)
        for delta in arriving:
            receiver.receive(delta)
        assert receiver.events <= whole.events
    # At last everything that is missing by what the receiver tells gets through.
    for delta in interleaved(rest_of(made, receiver.ledger), chance):
        assert receiver.receive(delta)
    assert receiver == whole


def rest_of(made: dict[str, list[Delta]], ledger: Ledger) -> dict[str, list[Delta]]:
    """What has to be sent again, now that the receiver has told where it stands."""
    return {chain: deltas[ledger.positions[chain].at :] for chain, deltas in made.items()}


@given(made=steps(), chance=st.randoms())
def test_combining_is_associative(made: dict[str, list[Delta]], chance: random.Random) -> None:
    order = interleaved(made, chance)
    if order:
        at_once = combine(order, merge)
        assert combine(grouped(order, chance), merge) == at_once
        assert delta_body(combine(grouped(order, chance), merge)) == delta_body(at_once)


def test_one_delta_stays_what_it_is() -> None:
    delta = Delta({"a": ChainRange(1, 0, 2)}, {"a": Advance.of([0], [1], [2], 3)}, [part(["x"])])
    assert combine([delta], merge) == delta


@pytest.mark.parametrize(
    "stretch", [ChainRange(1, 6, 7), ChainRange(1, 4, 6), ChainRange(1, 3, 5), ChainRange(2, 5, 6), ChainRange(1, 2, 3)]
)
def test_what_does_not_follow_is_not_combined(stretch: ChainRange) -> None:
    with pytest.raises(ValueError, match="does not follow"):
        combine([Delta({"a": ChainRange(1, 3, 5)}), Delta({"a": stretch})], merge)


@given(st.lists(NUMBERS, min_size=1, max_size=6))
def test_watermarks_come_out_of_their_differences(watermarks: list[int]) -> None:
    rises = [wrapped(after - before) for before, after in zip([NEVER, *watermarks], watermarks)]
    moved = added([Advance.of([7], [1], [rise], rise) for rise in rises])
    assert wrapped(NEVER + int(moved.rises[0])) == wrapped(NEVER + moved.latest) == watermarks[-1]
    assert moved.counts.tolist() == [len(watermarks)]


@given(deltas())
def test_the_byte_form_comes_back(delta: Delta) -> None:
    assert read_delta(delta_body(delta)) == delta


def test_advances_with_other_sources_differ() -> None:
    one = Advance.of([0], [1], [2])
    assert one == Advance.of([0], [1], [2])
    assert one not in (Advance.of([1], [1], [2]), Advance.of([0], [1], [2], 3), Advance.of([], [], []), "0")
