"""Events that the root may ask for: an answer is only given where all events of a piece are here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.engine.counting.held_events import HeldEvents
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.reorder import OrderedEvents
from headwater.engine.wire.looks import Look


def events_of(times: list[int]) -> OrderedEvents:
    count = len(times)
    return OrderedEvents(Chunk(np.array(times), 0, 0, ["s"]), np.zeros(count, np.int32), [])


def look_of(times: list[int]) -> Look:
    first, last = (np.array([time, 0, 0]) for time in (times[0], times[-1]))
    return Look(0, len(times), first, last, times[0], times[-1], [pa.array([0])])


@st.composite
def pieces(draw: st.DrawFn) -> list[list[int]]:
    """Pieces of events in order, one behind the other."""
    found, time = [], 0
    for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=10)):
        steps = draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
        found.append((time + np.cumsum(steps)).tolist())
        time = found[-1][-1]
    return found


@given(pieces(), st.integers(0, 10), st.sets(st.integers(0, 9)), st.integers(0, 20))
@example([[1, 3], [4]], 1, set(), 20)  # seed 155: of a piece that was sent before nothing is here
def test_a_stretch_is_only_called_whole_if_all_its_events_are_here(found, old_count, asked, events_max) -> None:
    held, old, new = HeldEvents(events_max), found[:old_count], found[old_count:]
    wanted = [piece for place, piece in enumerate(old) if place in asked]
    held.begin(old[-1][-1] if old else 0, [look_of(piece) for piece in wanted])
    for piece in old:
        held.add_again(events_of(piece))
    for piece in new:
        held.add(events_of(piece))
    for piece in found:
        if held.has_all(look_of(piece)):
            near = held.between(piece[0], piece[-1])
            assert near is not None and set(piece) <= set(near.chunk.times.tolist())
    if sum(map(len, found)) <= events_max:
        assert all(held.has_all(look_of(piece)) for piece in [*wanted, *new]), "nothing had to go"
