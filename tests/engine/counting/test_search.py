"""Cuts found among pieces are those of the events in one order, and nothing is settled that could be otherwise."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.counting.search import search
from headwater.engine.slices.order_slicer import position_cuts


@st.composite
def pieces(draw):
    """Events of some leaves, each cut into pieces at random; returns the pieces in the order of their first keys."""
    found = []
    for leaf in range(draw(st.integers(1, 4))):
        times = sorted(draw(st.lists(st.integers(0, 30), max_size=20)))
        keys = [(time, leaf, offset) for offset, time in enumerate(times)]
        while keys:
            size = draw(st.integers(1, len(keys)))
            found.append(keys[:size])
            keys = keys[size:]
    return sorted(found)


def searched(some, windows, frontier, base=0):
    first, last = ([piece[i] for piece in some] for i in (0, -1))
    columns = [tuple(np.array([key[i] for key in keys], np.int64) for i in range(3)) for keys in (first, last)]
    counts = np.array([len(piece) for piece in some], np.int64)
    zeros = np.zeros(len(some), np.int64)
    return search(zeros, *columns, counts, np.array([base], np.int64), np.array(windows, np.int64), frontier)


@given(pieces(), st.integers(1, 12), st.integers(1, 12), st.integers(0, 31), st.integers(0, 5))
def test_settled_pieces_lie_between_the_cuts_of_the_order(some, size, step, frontier, base):
    if not some:
        return
    found = searched(some, [[size, step, 0]], frontier, base)
    order = {key: base + place for place, key in enumerate(sorted(key for piece in some for key in piece))}
    cuts = position_cuts(np.array([[size, step, 0]]), 0, base + len(order) + 1)
    place = base
    for piece, settled, position in zip(some, found.settled, found.position):
        if settled:
            assert piece[-1][0] < frontier
            assert position == place
            place += len(piece)
            for key in piece:
                true = np.searchsorted(cuts, order[key], side="right")
                assert (
                    true
                    == np.searchsorted(cuts, position, side="right")
                    == np.searchsorted(cuts, position + len(piece) - 1, side="right")
                )


@given(pieces(), st.integers(1, 12), st.integers(0, 31))
def test_looking_into_what_is_asked_settles_every_cut_below_the_frontier(some, size, frontier):
    windows = [[size, size, 0]]
    for _ in range(200):
        if not some:
            return
        found = searched(some, windows, frontier)
        if not found.asked.any():
            break
        split = []
        for piece, asked, low, high in zip(some, found.asked, found.low, found.high):
            assert not asked or low <= high and piece[0][0] <= high and piece[-1][0] >= low
            split.extend([[key] for key in piece] if asked else [piece])
        some = sorted(split)
    sure = sum(len(piece) for piece in some if piece[-1][0] < frontier)
    assert sum(len(piece) for piece, is_settled in zip(some, found.settled) if is_settled) >= sure // size * size


@given(pieces(), st.integers(1, 12))
def test_at_the_end_of_the_stream_everything_but_what_is_asked_is_settled(some, size):
    while some:
        found = searched(some, [[size, size, 0]], 2**62)
        if not found.asked.any():
            assert found.settled.all()
            return
        some = sorted(
            p for piece, asked in zip(some, found.asked) for p in ([[k] for k in piece] if asked else [piece])
        )
