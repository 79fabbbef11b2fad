"""What each kind of plant does to the code while it lasts, and that nothing of it stays."""

from __future__ import annotations

from random import Random

import pytest

import headwater as hw
from headwater.engine.counting import root as count_root
from headwater.language.times import FOREVER
from headwater.node import NodeSettings, RootNode
from headwater.protocols.delta import ChainRange
from headwater.protocols.events import QueryAdded
from headwater.protocols.ledger import Ledger, Position
from headwater.protocols.membership import Membership
from headwater.simulator.plants.count_windows import COUNT_PLANTS
from headwater.simulator.plants.planting import instead
from headwater.simulator.plants.tree import PLANTS, find_plant, planted
from headwater.simulator.world.storage import Storage

QUERY, ADDED = (hw.query(name, hw.tumbling(10), n=hw.count()) for name in ("q", "a"))


def ledger() -> Ledger:
    return Ledger({"a": Position(2, 3), "b": Position(1, 0)})


@pytest.mark.parametrize(
    ("plant", "stretch", "objection"),
    [
        ("double-count", ChainRange(2, 2, 3), "duplicate"),
        ("gap-accepted", ChainRange(2, 4, 5), "gap"),
        ("overlap-merged", ChainRange(2, 2, 4), "overlap"),
        ("epoch-unchecked", ChainRange(1, 3, 4), "old epoch"),
    ],
)
def test_a_ledger_overlooks_one_objection_while_its_plant_lasts(
    plant: str, stretch: ChainRange, objection: str
) -> None:
    with planted(plant):
        assert ledger().objections({"a": stretch}) == {}
    assert ledger().objections({"a": stretch}) == {"a": objection}


def test_half_a_delta_is_enough_for_half_accepted() -> None:
    ranges = {"a": ChainRange(2, 9, 10), "b": ChainRange(1, 0, 1)}
    with planted("half-accepted"):
        assert ledger().objections(ranges) == {}
        assert ledger().objections({"a": ranges["a"]}) == {"a": "gap"}


def test_the_watermark_is_one_too_high_but_not_at_the_end() -> None:
    members = Membership()
    members.join("leaf", "leaf-1", [("a", "")], now_ns=0)
    members.raise_to(0, 7)
    with planted("watermark-off-by-one"):
        assert members.watermark() == 8
        members.finish()
        assert members.watermark() == FOREVER


def test_ties_go_by_arrival() -> None:
    names = ["b", "a"]
    with planted("tie-by-arrival"):
        assert count_root.source_ranks(names).tolist() == [0, 1]
    assert count_root.source_ranks(names).tolist() == [1, 0]


def test_the_right_one_is_the_first_argument_of_the_wrong_one() -> None:
    with instead(Ledger, "cut_of", lambda right, book, chain: right(book, chain) + 1)():
        book = ledger()
        book.open("c", 4)
        assert book.cut_of("c") == 5
    assert book.cut_of("c") == 4


def test_what_is_done_before_its_record_is_durable_stands_before_it() -> None:
    def kinds() -> list[str]:
        root = RootNode("root", [QUERY], settings=NodeSettings(checkpoint_every=1))
        return [type(action).__name__ for action in root.handle(QueryAdded(ADDED), 0)]

    with planted("rows-before-the-record"):
        assert kinds() == ["Noted", "Record", "Checkpoint"]
    assert kinds() == ["Record", "Noted", "Checkpoint"]


def test_a_record_that_was_not_synced_may_be_lost_and_a_checkpoint_is_synced_all_the_same() -> None:
    lost = set()
    for seed in range(20):
        storage = Storage()
        with planted("fsync-left-out"):
            storage.checkpoint(b"all")
            storage.record(b"more")
        storage.disk.lose(Random(seed))
        lost |= {(checkpoint, len(records)) for checkpoint, records in storage.lives()}
    assert lost == {(b"all", 0), (b"all", 1)}


def test_a_source_is_idle_after_half_of_the_time() -> None:
    members = Membership()
    members.join("leaf", "leaf-1", [("a", ""), ("b", "")], now_ns=0)
    members.raise_to(1, 7)
    assert members.decide_idle(60, 100) == []
    with planted("idle-too-early"):
        assert members.decide_idle(60, 100) == ["a"]


def test_without_a_name_nothing_is_planted_and_an_unknown_one_is_refused_with_those_there_are() -> None:
    with planted(None):
        assert ledger().objections({"a": ChainRange(2, 4, 5)}) == {"a": "gap"}
    with pytest.raises(ValueError, match="there is no plant 'moon'; there are double-count, "):
        find_plant("moon")
    assert not PLANTS.keys() & COUNT_PLANTS.keys()
