"""Cuts found from samples, zones and the few keys inside them are those of all events sorted together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.engine.counting import selection
from headwater.engine.counting.selection import (
    Inside,
    SelectedCuts,
    find_cuts,
    find_zones,
    look_inside,
    sampled,
    stretches,
)

TIMES = st.sampled_from([1, 5, 50, 1000]).flatmap(lambda span: st.lists(st.integers(-span, span), max_size=60))


@st.composite
def sources(draw):
    """The times of some sources, each with how long its batches are; the first are in order more often than not."""
    streams = draw(st.lists(TIMES, min_size=1, max_size=4))
    return [(np.array(sorted(t) if draw(st.booleans()) else t, np.int64), draw(st.integers(1, 60))) for t in streams]


def sorted_runs(streams):
    for source, (times, length) in enumerate(streams):
        for begin in range(0, len(times), length):
            batch = times[begin : begin + length]
            order = np.argsort(batch, kind="stable")
            yield source, batch[order], begin + order


def cuts_of(streams, step, every):
    runs = list(sorted_runs(streams))
    zones = find_zones([sampled(times, every) for _, times, _ in runs], step)
    assert (zones.low < zones.high).all() and (zones.low[1:] >= zones.high[:-1]).all()
    looks = [look_inside(times, source, offsets, zones.low, zones.high) for source, times, offsets in runs]
    found = []
    for zone in range(len(zones.low)):
        columns = (np.concatenate([getattr(look, n)[look.zone == zone] for look in looks]) for n in KEYS)
        before, latest = sum(look.before[zone] for look in looks), max(look.latest[zone] for look in looks)
        found.append(find_cuts(int(before), int(latest), Inside(NONE, NONE, NONE, *columns), step))
    columns = [np.concatenate([NONE, *(getattr(cuts, name) for cuts in found)]) for name in SelectedCuts.__slots__]
    return SelectedCuts(*columns).take(np.argsort(columns[0]))


KEYS = ("times", "sources", "offsets")
NONE = np.empty(0, np.int64)


@pytest.mark.parametrize("piece", [3, 20, 1 << 20])
@settings(max_examples=100)
@given(streams=sources(), step=st.integers(1, 30), every=st.integers(1, 8))
def test_cuts_are_those_of_all_events_in_order(piece, streams, step, every):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "ZONE_EVENTS", piece)
        cuts = cuts_of(streams, step, every)
    ordered = sorted((t, source, o) for source, (times, _) in enumerate(streams) for o, t in enumerate(times.tolist()))
    wanted = [(p, *ordered[p], ordered[p - 1][0]) for p in range(step, len(ordered), step)]
    assert wanted == [tuple(row) for row in np.stack([getattr(cuts, n) for n in SelectedCuts.__slots__]).T.tolist()]
    position = {key: place for place, key in enumerate(ordered)}
    for source, (times, _) in enumerate(streams):
        expected = [position[t, source, o] // step for o, t in enumerate(times.tolist())]
        assert stretches(times, source, np.arange(len(times)), cuts).tolist() == expected
