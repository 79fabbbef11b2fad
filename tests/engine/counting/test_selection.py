"""Cuts and positions found from samples, zones and the few keys inside them are those of all events sorted together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.engine.counting.selection import (
    Keys,
    find_cuts,
    find_stretches,
    find_zones,
    positions_inside,
    sampled_keys,
    zone_events_max,
)

TIMES = st.sampled_from([1, 5, 50, 1000]).flatmap(lambda span: st.lists(st.integers(-span, span), max_size=60))
NONE = np.empty(0, np.int64)
#: How many events a zone may hold before it is cut into several.
pieces = pytest.mark.parametrize("piece", [3, 20, 1 << 20])


@st.composite
def sources(draw):
    """The times of some sources, each with how long its batches are; the first are in order more often than not."""
    streams = draw(st.lists(TIMES, min_size=1, max_size=4))
    return [(np.array(sorted(t) if draw(st.booleans()) else t, np.int64), draw(st.integers(1, 60))) for t in streams]


drawn = given(streams=sources(), step=st.integers(1, 30), every=st.integers(1, 8))


def sorted_runs(streams):
    for source, (times, length) in enumerate(streams):
        for begin in range(0, len(times), length):
            batch = times[begin : begin + length]
            order = np.argsort(batch, kind="stable")
            yield source, batch[order], begin + order


def zones_of(streams, step, every, piece=1 << 20):
    """The zones, and how many runs they follow from."""
    runs = [sampled_keys(times, source, offsets, every) for source, times, offsets in sorted_runs(streams)]
    return find_zones(runs, step, piece), len(runs)


def looked_into(streams, zones):
    """The keys of all events with the stretches that they lie in, and how many lie in each."""
    keys = [(t, source, o) for source, (times, _) in enumerate(streams) for o, t in enumerate(times.tolist())]
    found = [stretches(times, source, zones.edges) for source, (times, _) in enumerate(streams)]
    at = np.concatenate(found)
    return keys, at, np.bincount(at, minlength=2 * len(zones.cuts) - 1)


def stretches(times, source, edges):
    found = find_stretches(times, source, np.arange(len(times)), edges)
    return found.for_events(found.numbers)


def true_positions(streams):
    keys = sorted((t, source, o) for source, (times, _) in enumerate(streams) for o, t in enumerate(times.tolist()))
    return {key: position for position, key in enumerate(keys)}


def columns_of(keys):
    return Keys(*np.array(keys, np.int64).reshape(-1, 3).T)


@pieces
@settings(max_examples=200)
@drawn
def test_between_zones_every_event_knows_the_cuts_before_it(piece, streams, step, every):
    zones, _ = zones_of(streams, step, every, piece)
    true = true_positions(streams)
    for key, stretch in zip(*looked_into(streams, zones)[:2]):
        if stretch % 2 == 0:
            assert true[key] // step == zones.cuts[stretch // 2]


@pieces
@settings(max_examples=200)
@drawn
def test_inside_zones_every_event_gets_its_position(piece, streams, step, every):
    zones, _ = zones_of(streams, step, every, piece)
    true = true_positions(streams)
    keys, at, counts = looked_into(streams, zones)
    # Zones may be looked into by several: each has the keys of some.
    for owner in range(2):
        rows = [row for row, stretch in enumerate(at.tolist()) if stretch % 4 == 1 + 2 * owner]
        inside = [keys[row] for row in rows]
        assert positions_inside(counts, at[rows] // 2, columns_of(inside)).tolist() == [true[key] for key in inside]
        positions, cuts = find_cuts(counts, at[rows] // 2, columns_of(inside), step)
        found = zip(cuts.times.tolist(), cuts.sources.tolist(), cuts.offsets.tolist())
        assert dict(zip(found, positions.tolist())) == {
            key: true[key] for key in inside if true[key] % step == 0 and true[key] > 0
        }


@settings(max_examples=300)
@drawn
def test_when_cuts_are_known_every_event_knows_those_before_it(streams, step, every):
    true = true_positions(streams)
    cuts = columns_of([key for key, position in true.items() if position % step == 0 and position > 0])
    for source, (times, _) in enumerate(streams):
        expected = [true[t, source, o] // step for o, t in enumerate(times.tolist())]
        assert stretches(times, source, cuts).tolist() == expected


@settings(max_examples=300)
@drawn
def test_zones_hold_no_more_than_was_promised(streams, step, every):
    zones, runs = zones_of(streams, step, every)
    counts = looked_into(streams, zones)[2][1::2]
    cuts = np.diff(zones.cuts)
    assert (cuts >= 1).all() and cuts.sum() == max(-(-len(true_positions(streams)) // step) - 1, 0)
    assert (counts <= cuts * zone_events_max(runs, every)).all()


def test_events_of_one_time_need_no_zone_of_their_own():
    streams = [(np.zeros(10_000, np.int64), 10_000)] * 2
    zones, _ = zones_of(streams, 5_000, 10)
    assert 0 < looked_into(streams, zones)[2][1::2].sum() <= 3 * zone_events_max(2, 10)


def test_a_zone_of_many_events_is_cut_into_several():
    streams = [(np.arange(10_000), 10_000)]
    assert len(zones_of(streams, 10, 100)[0].cuts) == 2
    zones, _ = zones_of(streams, 10, 100, 1_000)
    assert len(zones.cuts) == 12  # the very last event has one of its own
    assert looked_into(streams, zones)[2][1::2].max() <= 1_100
