"""Parts of a batch that was lifted at once are what each part alone is lifted to."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.slices.stretches import Stretches

times_of = st.lists(st.integers(0, 60), min_size=1, max_size=40).map(sorted)


@given(times_of, st.data())
def test_stretches_are_slices_that_end_where_parts_do_too(times: list[int], data: st.DataObject):
    ends = sorted(data.draw(st.sets(st.integers(1, len(times)), max_size=4)))
    starts = np.arange(times[0] // 10 * 10, times[-1] + 1, 10)
    bounds = np.append(np.searchsorted(times, starts), len(times))
    bounds[0] = 0
    found = Stretches.of(starts, bounds, ends)
    part, stretches = 0, []
    for number, (start, begin, end) in enumerate(zip(found.starts, found.bounds, found.bounds[1:], strict=False)):
        while part < len(ends) and number == found.firsts[part]:
            part += 1
        stretches += [(part, int(start), at) for at in range(begin, end)]
    wanted = [(sum(end <= at for end in ends), time // 10 * 10, at) for at, time in enumerate(times)]
    assert stretches == wanted
