"""Positions from zones of keys are those of all events sorted together, and zones hold no more than was promised."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.counting.test_selection import sorted_runs, sources
from headwater.engine.counting.key_zones import (
    Keys,
    edge_rows,
    find_key_zones,
    positions_inside,
    sampled_keys,
    zone_events_max,
)

STREAMS_STEP_EVERY = (sources(), st.integers(1, 30), st.integers(1, 8))


def read(streams, step, every):
    """The zones, and for each run its keys and where the stretches begin in it."""
    runs = list(sorted_runs(streams))
    zones = find_key_zones([sampled_keys(times, source, offsets, every) for source, times, offsets in runs], step)
    return zones, [(run, edge_rows(run[1], run[0], run[2], zones.edges)) for run in runs]


def true_positions(streams):
    keys = sorted((t, source, o) for source, (times, _) in enumerate(streams) for o, t in enumerate(times.tolist()))
    return {key: position for position, key in enumerate(keys)}


@settings(max_examples=300)
@given(*STREAMS_STEP_EVERY)
def test_between_zones_every_event_knows_the_cuts_before_it(streams, step, every):
    zones, found = read(streams, step, every)
    true = true_positions(streams)
    for (source, times, offsets), rows in found:
        assert rows[0] == 0 and rows[-1] == len(times) and (np.diff(rows) >= 0).all()
        for stretch, (begin, end) in enumerate(zip(rows[:-1].tolist(), rows[1:].tolist())):
            keys = zip(times[begin:end].tolist(), [source] * (end - begin), offsets[begin:end].tolist())
            if stretch % 2 == 0:
                assert {true[key] // step for key in keys} <= {int(zones.cuts[stretch // 2])}


@settings(max_examples=300)
@given(*STREAMS_STEP_EVERY)
def test_inside_zones_every_event_gets_its_position(streams, step, every):
    _, found = read(streams, step, every)
    true = true_positions(streams)
    inside, stretches = [], []
    for (source, times, offsets), rows in found:
        for stretch in range(1, len(rows) - 1, 2):
            some = slice(rows[stretch], rows[stretch + 1])
            inside += [(t, source, o) for t, o in zip(times[some].tolist(), offsets[some].tolist())]
            stretches += [stretch // 2] * (rows[stretch + 1] - rows[stretch])
    counts = np.sum([np.diff(rows) for _, rows in found], axis=0) if found else np.zeros(1, np.int64)
    keys = Keys(*np.array(inside, np.int64).reshape(-1, 3).T)
    assert positions_inside(counts, np.array(stretches, np.int64), keys).tolist() == [true[key] for key in inside]


@settings(max_examples=300)
@given(*STREAMS_STEP_EVERY)
def test_zones_hold_no_more_than_was_promised(streams, step, every):
    zones, found = read(streams, step, every)
    counts = sum((np.diff(rows)[1::2] for _, rows in found), np.zeros(len(zones.cuts) - 1, np.int64))
    cuts = np.diff(zones.cuts)
    assert (cuts >= 1).all() and cuts.sum() == max(-(-len(true_positions(streams)) // step) - 1, 0)
    assert (counts <= cuts * zone_events_max(len(found), every)).all()


def test_events_of_one_time_need_no_zone_of_their_own():
    streams = [(np.zeros(10_000, np.int64), 10_000)] * 2
    _, found = read(streams, 5_000, 10)
    assert 0 < sum(np.diff(rows)[1::2].sum() for _, rows in found) <= 3 * zone_events_max(2, 10)
