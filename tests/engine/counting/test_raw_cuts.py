"""Cuts among raw events: found by sorting them, they are those of the events in one order."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.engine.counting.piece_table import (
    AT,
    BLOCK,
    COUNT,
    IS_RAW,
    NUMBER,
    O1,
    O2,
    S1,
    S2,
    SEQUENCE,
    T1,
    T2,
    WIDTH,
)
from headwater.engine.counting.raw_cuts import clusters, cut_cluster
from headwater.engine.counting.search import key_order, search
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.reorder import OrderedEvents
from headwater.engine.slices.order_slicer import position_cuts

#: Names that do not sort as they are numbered.
NAMES = ["c", "a", "b"]
RANKS = np.array([2, 0, 1])


@st.composite
def runs(draw):
    """Runs of events (time, source, offset) of a sequence each, and whether they are here; ordered as a root has them."""
    found = []
    for sequence in range(draw(st.integers(1, 3))):
        for source in range(draw(st.integers(1, 3))):
            times = sorted(draw(st.lists(st.integers(0, 12), max_size=12)))
            keys = [(time, source, offset) for offset, time in enumerate(times)]
            while keys:
                size = draw(st.integers(1, len(keys)))
                found.append((sequence, keys[:size], draw(st.integers(0, 5)) > 0))
                keys = keys[size:]
    return found


def in_order(key):
    return key[0], RANKS[key[1]], key[2]


def table_of(some):
    """Rows, sorted as for a search, and the raw events behind them, a block for each run."""
    some = sorted(some, key=lambda run: (run[0], in_order(run[1][0])))
    rows, events = np.zeros((WIDTH, len(some)), np.int64), {}
    for place, (sequence, keys, is_raw) in enumerate(some):
        times, sources, offsets = (np.array(column) for column in zip(*keys))
        rows[[SEQUENCE, T1, S1, O1], place] = sequence, *keys[0]
        rows[[T2, S2, O2], place] = keys[-1]
        rows[[COUNT, BLOCK, AT, IS_RAW, NUMBER], place] = len(keys), place, 0, is_raw, place
        events[place] = OrderedEvents(
            Chunk(times, offsets, sources.astype(np.int32), NAMES), np.zeros(len(keys), np.int32), []
        )
    return rows, events


def searched(rows, base, windows, frontier):
    first, last = (rows[T1], RANKS[rows[S1]], rows[O1]), (rows[T2], RANKS[rows[S2]], rows[O2])
    return search(rows[SEQUENCE], first, last, rows[COUNT], base, windows, frontier)


def keys_of(rows, events, place):
    start, count = rows[AT, place], rows[COUNT, place]
    chunk = events[int(rows[BLOCK, place])].chunk
    return list(zip(*(column.tolist() for column in chunk.places(np.arange(start, start + count)))))


@given(runs(), st.integers(1, 6), st.integers(0, 13), st.integers(0, 4))
@example([(0, [(5, 0, 0)], True), (1, [(1, 0, 0), (2, 0, 1)], True), (1, [(1, 1, 0), (2, 1, 1)], True)], 3, 13, 0)
def test_no_piece_of_a_cluster_holds_its_cuts_any_more(some, size, frontier, begun):
    """Sequences are told apart even if the first pieces of one hold no cut (it went on for ever)."""
    if not some:
        return
    rows, events = table_of(some)
    count = int(rows[SEQUENCE].max()) + 1
    base, windows = np.full(count, begun), np.array([[size, size, 0]])
    places = {
        (sequence, key): base[sequence] + place
        for sequence in range(count)
        for place, key in enumerate(sorted((k for s, keys, _ in some if s == sequence for k in keys), key=in_order))
    }
    cuts = position_cuts(windows, 0, 10**3)
    for _ in range(100):
        found = searched(rows, base, windows, frontier)
        whole = clusters(rows, found, base, windows)
        if not whole:
            break
        for cluster in whole:
            made = cut_cluster(rows, cluster, events, RANKS)
            assert made.shape[1] > len(cluster.places)  # else it would go on for ever
            first = min(places[int(q), key] for q, key in zip(made[SEQUENCE], zip(*made[T1 : O1 + 1].tolist())))
            settled = cuts[(cuts > first) & (cuts <= found.sure[made[SEQUENCE, 0]])]
            for place in range(made.shape[1]):
                at = [places[int(made[SEQUENCE, place]), key] for key in keys_of(made, events, place)]
                assert not any(min(at) < cut <= max(at) for cut in settled)
        is_kept = np.ones(rows.shape[1], np.bool_)
        is_kept[np.concatenate([cluster.places for cluster in whole])] = False
        rows = np.concatenate(
            [rows[:, is_kept], *(cut_cluster(rows, cluster, events, RANKS) for cluster in whole)], axis=1
        )
        rows = rows[:, np.lexsort((rows[O1], RANKS[rows[S1]], rows[T1], rows[SEQUENCE]))]
        assert int(rows[COUNT].sum()) == len(places)
    else:
        raise AssertionError("there are always more cuts to find")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 3)), max_size=30))
def test_keys_are_sorted_as_by_three_columns(keys):
    times, ranks, offsets = (np.array([key[i] for key in keys], np.int64) for i in range(3))
    order = key_order(times, ranks, offsets)
    assert [keys[place] for place in order] == sorted(keys)
    assert order.tolist() == np.lexsort((offsets, ranks, times)).tolist()
