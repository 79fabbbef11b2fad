"""Snapshots by fields: there and back, components where they stand, and states of older releases."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from headwater.base.snapshots import made_of, pairs, parts, record, restore_into, rows, snapshot, state_of, told


class Floor(NamedTuple):
    offset: int
    time: int


@dataclass
class Share:
    begin: int
    size: int


class Part:
    state, restore = snapshot("number")

    def __init__(self, number=0):
        self.number = number


class Whole:
    state, restore = snapshot(
        {
            "numbers": ["first", "part.number"],
            "floors": rows("floors", Floor),
            "shares": [record("share", Share), record("no_share", Share)],
            "by_key": pairs("by_key"),
            "parts": parts("parts"),
            "names": made_of("places", list, lambda names: {name: place for place, name in enumerate(names)}),
            "part": "part",
        }
    )

    def __init__(self):
        self.first, self.part, self.parts = 1, Part(2), [Part(3), Part(4)]
        self.floors, self.share, self.no_share = [Floor(5, 6)], Share(7, 8), None
        self.by_key, self.places = {9: "a", 10: "b"}, {"x": 0, "y": 1}


def test_what_is_declared_comes_back():
    whole, other = Whole(), Whole()
    other.first, other.part.number, other.floors, other.share, other.places = 0, 0, [], None, {}
    other.by_key, other.parts = {}, [Part(), Part()]
    standing = other.part
    other.restore(whole.state())
    assert other.state() == whole.state()
    assert other.floors == whole.floors and other.share == whole.share and other.by_key == whole.by_key
    assert other.places == whole.places and [part.number for part in other.parts] == [3, 4]
    assert other.part is standing and standing.number == 2


def test_the_state_is_a_tree_of_plain_values():
    assert Whole().state() == {
        "numbers": [1, 2],
        "floors": [[5, 6]],
        "shares": [[7, 8], None],
        "by_key": [[9, "a"], [10, "b"]],
        "parts": [3, 4],
        "names": ["x", "y"],
        "part": 2,
    }


def test_what_an_older_release_did_not_know_stays_as_it_is():
    whole = Whole()
    restore_into(whole, ["first", "part.number"], [11])
    assert state_of(whole, ["first", "part.number"]) == [11, 2]


def test_a_missing_name_or_component_is_an_error():
    with pytest.raises(KeyError):
        Whole().restore({})
    with pytest.raises(ValueError, match="shorter"):
        restore_into(Whole(), parts("parts"), [1])


def test_rows_under_keys_come_back_as_rows():
    whole = Whole()
    whole.by_key = {9: Share(1, 2)}
    assert state_of(whole, pairs("by_key", Share)) == [[9, [1, 2]]]
    restore_into(whole, pairs("by_key", Share), [[9, [3, 4]]])
    assert whole.by_key == {9: Share(3, 4)}


def test_what_is_only_told_is_left_to_the_owner():
    whole = Whole()
    before = whole.floors
    spec = told("floors", len)
    assert state_of(whole, spec) == 1
    restore_into(whole, spec, 5)
    assert whole.floors is before


def test_what_restore_is_given_goes_on_to_components():
    class Scaled:
        def __init__(self):
            self.number = 0

        def state(self):
            return self.number

        def restore(self, state, factor):
            self.number = state * factor

    class Owner:
        state, restore = snapshot("one", parts("several"))

        def __init__(self):
            self.one, self.several = Scaled(), [Scaled()]

    owner = Owner()
    owner.restore([2, [3]], 10)
    assert owner.state() == [20, [30]]
