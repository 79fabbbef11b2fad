"""What nodes without a root tell each other comes back as it was, or is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.protocols.frames import FrameError, frame, open_frame
from headwater.protocols.peers.decisions import JobStopped
from headwater.protocols.peers.gossip_messages import (
    COUNT_MAX,
    PIECES_MAX,
    Digest,
    EntryTold,
    PeerMessage,
    PrefixTold,
    WorldPiece,
    heard,
    told,
)
from headwater.protocols.peers.ownership import PartitionOwner
from headwater.protocols.windowed_crdt import Limit, Prefix, PrefixDelta, Reach, StepPart, Version

NAMES = st.text(max_size=4)
COUNTS = st.integers(0, COUNT_MAX)
STEPS = st.integers(-(2**63), 2**63 - 1)
DIGESTS = st.builds(
    Digest,
    NAMES,
    COUNTS,
    COUNTS,
    COUNTS,
    st.lists(STEPS, max_size=4).map(tuple),
    st.dictionaries(NAMES, st.tuples(COUNTS, COUNTS), max_size=4),
    st.dictionaries(NAMES, st.builds(PartitionOwner, COUNTS, NAMES), max_size=4),
    st.dictionaries(NAMES, COUNTS, max_size=4),
    st.dictionaries(NAMES, COUNTS, max_size=4),
    COUNTS,
)
PREFIX = Prefix(Version(1, 2, 9), Reach(5, 7, b"s", 3), (StepPart(2, 4, 3, Reach(5, 7)),), (b"y",), 1, 4, Limit(9, 6))
SAMPLES: list[PeerMessage] = [
    Digest("a", 1, 2, 3, (4,), {"p": (0, 5)}, {"p": PartitionOwner(1, "a")}, {"p": 7}, {"*/1": 8}, 9),
    PrefixDelta("p", 1, 0, 0, 3, Reach(5, 7, b"s", 4), (b"x",), (1, 4)),
    PrefixTold("p", PREFIX),
    WorldPiece(1, 5, 0, 1, b"world"),
    EntryTold(1, 4, JobStopped(7)),
]


@given(DIGESTS)
def test_a_digest_comes_back(digest: Digest) -> None:
    assert heard(told(digest)) == digest


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_each_kind_comes_back_under_its_number(message: PeerMessage) -> None:
    kind, _ = open_frame(told(message))
    assert heard(told(message)) == message
    assert kind == 12 + SAMPLES.index(message)


@given(st.sampled_from(SAMPLES), st.data())
def test_damaged_bodies_are_refused_or_read_as_something_else(message: PeerMessage, data: st.DataObject) -> None:
    kind, body = open_frame(told(message))
    damaged = bytearray(body)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for bad in (damaged, damaged[:cut]):
        try:
            heard(frame(kind, bytes(bad)))
        except FrameError:
            continue


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (WorldPiece(1, 5, 3, 3, b""), "no world that can be"),
        (WorldPiece(1, 5, 0, PIECES_MAX + 1, b""), "no world that can be"),
        (Digest("a", COUNT_MAX + 1, 0, 1), "further than anybody can"),
        (EntryTold(1, COUNT_MAX + 1, JobStopped(1)), "no decision log is so long"),
    ],
)
def test_what_cannot_be_is_refused(message: PeerMessage, problem: str) -> None:
    with pytest.raises(FrameError, match=problem):
        heard(told(message))


def test_a_kind_of_other_nodes_is_refused() -> None:
    with pytest.raises(FrameError, match="without a root has the kind 1"):
        heard(frame(1, b""))
