"""What a node claims, and when."""

from __future__ import annotations

from headwater.node.holon.duties.owning import LOOKS_MAX, VERSION_MAX, Backlog, Owning
from headwater.node.holon.settings import HolonSettings
from headwater.protocols.peers.ownership import PartitionOwner

SETTINGS = HolonSettings()
BEAT_NS = SETTINGS.beat_ns
UNITS = ["*", "p", "q", "r"]


def owning_alone() -> Owning:
    owning = Owning("a", UNITS, SETTINGS)
    owning.started(0)
    for beat in (1, 2):
        owning.beat(beat * BEAT_NS)
    return owning


def test_a_peer_that_comes_back_shares_again() -> None:
    owning = owning_alone()
    owning.joined("b", 2 * BEAT_NS)
    for beat in range(3, 12):
        owning.beat(beat * BEAT_NS)
    assert owning.living == ["a"] and owning.mine() == UNITS
    owning.heard("b", 12 * BEAT_NS)
    owning.told(dict.fromkeys(UNITS, PartitionOwner(9, "b")))
    assert owning.mine() == []
    counts = []
    for beat in range(12, 18):
        owning.heard("b", beat * BEAT_NS)
        owning.beat(beat * BEAT_NS)
        counts.append(len(owning.mine()))
    assert counts == [1, 2, 2, 2, 2, 2]


def test_one_that_was_paused_itself_suspects_nobody_and_takes_its_share_anew() -> None:
    owning = owning_alone()
    owning.heard("b", 2 * BEAT_NS)
    owning.told(dict.fromkeys(UNITS, PartitionOwner(9, "b")))
    assert owning.beat(60 * BEAT_NS) == [] and len(owning.mine()) == 1


def test_a_refused_connection_is_believed_at_once() -> None:
    owning = owning_alone()
    owning.heard("b", 2 * BEAT_NS)
    owning.told({"p": PartitionOwner(9, "b")})
    assert owning.refused("b", 2 * BEAT_NS + 1) == ["b"] and owning.mine() == UNITS
    assert owning.refused("stranger", 2 * BEAT_NS + 1) == []


def test_claims_that_nobody_can_have_made_are_not_heard() -> None:
    owning = owning_alone()
    owning.told({"p": PartitionOwner(VERSION_MAX, "z"), "unknown": PartitionOwner(1, "z")})
    assert owning.mine() == UNITS


def test_turns_begin_with_the_owner() -> None:
    owning = owning_alone()
    owning.heard("b", 2 * BEAT_NS)
    assert (owning.turn("*"), owning.rank, owning.rank_for("p")) == (0, 0, None)
    owning.told({"*": PartitionOwner(9, "b")})
    assert (owning.turn("*"), owning.rank_for("*"), owning.turn("no unit")) == (1, 0, 0)


def test_of_many_looks_the_oldest_count() -> None:
    backlog = Backlog()
    for look in range(3 * LOOKS_MAX):
        backlog.seen(look + 1, look)
    assert backlog.lag_ns(0, 1000) == 1000
    assert backlog.lag_ns(3 * LOOKS_MAX - 1, 1000) > 0 == backlog.lag_ns(3 * LOOKS_MAX, 1000)
