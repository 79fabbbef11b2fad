"""What a group is given at once: events of several sources, each with the watermark of its own."""

from itertools import permutations

import numpy as np
import pytest

import headwater as hw
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import scan_times
from headwater.engine.windows.registered import Registered

#: Time and watermark of an event: the first is too late, the second in time, the third behind in a window that is still open.
EVENTS = [(5, 10), (15, 0), (12, 14)]


@pytest.mark.parametrize("events", list(permutations(EVENTS)))
def test_each_event_is_late_by_the_watermark_of_its_own_source(events):
    times, watermarks = np.array(events, np.int64).T.copy()
    group = QueryGroup((), None)
    group.register([Registered(hw.query("n", hw.tumbling(10), n=hw.count()), 0)])
    group.prepare({})
    chunk = Chunk(times, np.arange(3), np.arange(3, dtype=np.int32), ["a", "b", "c"])
    (dropped,) = group.accept(chunk, {}, scan_times(times), watermarks)
    assert (dropped.chunk.times.tolist(), dropped.watermarks.tolist()) == ([5], [10])
    assert group.counters(0) == {"in": 3, "filtered": 0, "outside": 0, "member": 2, "late": 0, "dropped": 1}
