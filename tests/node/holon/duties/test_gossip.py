"""Who is told what it lacks, by whom, and how often."""

from __future__ import annotations

from headwater.node.holon.duties.gossip import WORLD_PAUSE, Gossip, WorldPieces, pieces_of
from headwater.node.holon.settings import HolonSettings
from headwater.protocols.peers.gossip_messages import PIECE_BYTES, Digest, PrefixTold
from headwater.protocols.windowed_crdt import Prefix, PrefixDelta, Reach, Version

CHAINS = {"p": Prefix(Version(1, 0, 9), base=5)}
PLACES = {"p": (0, 9)}


def gossip_of(settings: HolonSettings | None = None) -> Gossip:
    """One that has known of nine events for a beat."""
    gossip = Gossip({"p": "p"}, settings or HolonSettings())
    gossip.made(PrefixDelta("p", 1, 0, 4, 9, Reach()))
    gossip.beat(PLACES, 3)
    return gossip


def answers(gossip: Gossip, place: tuple[int, int], rank: int | None, count: int, executed: int = 7) -> list[int]:
    """In which of so many digests of a peer that lacks the same it is told something."""
    found = []
    for beat in range(1, count + 1):
        gossip.heard("b", Digest("b", 1, beat, 1, chains={"p": place}))
        if list(gossip.missing("b", lambda _: rank, CHAINS, {"p": executed})):
            found.append(beat)
    return found


def test_the_owner_answers_at_once_and_others_when_it_does_not() -> None:
    assert answers(gossip_of(), (0, 4), None, 6) == [1, 3, 5]
    assert answers(gossip_of(), (0, 4), 0, 6) == [3, 6]
    assert answers(gossip_of(), (0, 4), 3, 6) == [6]


def test_who_lacks_only_what_came_within_a_beat_is_not_told() -> None:
    gossip = gossip_of()
    assert answers(gossip, (0, 9), None, 3) == []
    assert answers(gossip, (1, 0), None, 3) == []


def test_a_prefix_is_told_where_no_delta_fits_and_its_parts_are_enough() -> None:
    gossip = gossip_of()
    gossip.heard("b", Digest("b", 1, 1, 1, chains={"p": (0, 2)}))
    [message] = gossip.missing("b", lambda _: None, CHAINS, {"p": 5})
    assert isinstance(message, PrefixTold)
    assert answers(gossip_of(), (0, 2), None, 3, executed=4) == []


def test_a_world_is_sent_once_in_a_while_by_the_first_in_rank() -> None:
    def sent(rank: int) -> list[int]:
        gossip = gossip_of()
        found = []
        for beat in range(1, WORLD_PAUSE + 3):
            gossip.heard("b", Digest("b", 1, beat, 1, executed=(2, 9)))
            if gossip.lacks_world("b", [5, 9], rank):
                found.append(beat)
        return found

    assert sent(0) == [1, WORLD_PAUSE + 1]
    assert sent(1)[0] == 3


def test_who_is_not_behind_what_is_held_needs_no_world() -> None:
    gossip = gossip_of()
    gossip.heard("b", Digest("b", 1, 1, 1, executed=(5, 9)))
    assert not gossip.lacks_world("b", [5, 9], 0)


def test_a_new_life_is_noticed_and_old_digests_are_not_heard() -> None:
    gossip = gossip_of()
    beats = [(1, 5), (1, 4), (1, 6), (2, 1)]
    assert [gossip.heard("b", Digest("b", life, beat, 1)) for life, beat in beats] == [False, None, False, True]


def test_a_world_comes_whole_whatever_order_its_pieces_have() -> None:
    data = bytes(range(256)) * (PIECE_BYTES // 100)
    pieces = [*pieces_of(1, 7, data)]
    assert len(pieces) == 3
    coming = WorldPieces()
    assert [coming.add(piece) for piece in (pieces[2], pieces[0], pieces[2])] == [None] * 3
    assert coming.add(pieces[1]) == data
    assert coming.add(pieces[1]) is None
