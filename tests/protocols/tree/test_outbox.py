"""The outbox: everything that is not safe yet, in order, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.protocols.tree.outbox import Outbox

ACTS = st.lists(st.just(None) | st.integers(0, 20), max_size=30)


@given(first=st.integers(0, 5), acts=ACTS)
def test_an_outbox_keeps_exactly_what_is_not_accepted(first: int, acts: list[int | None]) -> None:
    """None adds a frame; a number says up to where everything is accepted, which may be old news or too good to be true."""
    box, safe, end = Outbox(first), first, first
    for act in acts:
        if act is None:
            assert box.add(str(end).encode()) == end
            end += 1
        else:
            box.accepted(act)
            safe = min(max(safe, act), end)
        assert (box.at, box.end) == (safe, end)
        assert box.frames == [str(at).encode() for at in range(safe, end)]
        assert box.nbytes == sum(len(str(at)) for at in range(safe, end))


@given(first=st.integers(0, 5), count=st.integers(0, 5), at=st.integers(0, 12))
def test_what_is_sent_again_begins_where_it_is_missing(first: int, count: int, at: int) -> None:
    box = Outbox(first)
    for place in range(first, first + count):
        box.add(str(place).encode())
    assert box.frames_from(at) == [str(place).encode() for place in range(max(first, at), first + count)]
    # To send again is not to let go.
    assert len(box.frames) == count
