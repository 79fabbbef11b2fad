import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.edge.pace import Pace
from headwater.errors import DataError


def batch_of(times: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"time": pa.array(times, pa.int64())})


@given(st.lists(st.integers(-(10**12), 10**12), max_size=20), st.floats(0.001, 1e9))
def test_no_event_is_due_before_one_that_was_before_it(times, per_s):
    schedule = Pace(0, per_s).schedule(batch_of(times))
    due = [schedule.at_ns(place) for place in range(len(times))]
    assert due == sorted(due)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20, unique=True).map(sorted))
def test_events_in_order_are_due_at_their_times(times):
    assert Pace(times[0], 1_000_000).moments_ns(np.array(times)).tolist() == [(t - times[0]) * 1000 for t in times]


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(DataError, match="give a rate above 0"):
        Pace(0, rate)


@given(
    times=st.lists(st.integers(-50, 200), min_size=1, max_size=20),
    per_s=st.floats(0.001, 1e9),
    elapsed=st.integers(-(10**9), 10**12),
)
def test_what_is_due_is_found_without_working_out_all(times, per_s, elapsed):
    pace = Pace(3, per_s)
    due = pace.moments_ns(np.maximum.accumulate(np.array(times)))
    schedule = pace.schedule(batch_of(times))
    moments = [elapsed, *(int(moment) + step for moment in due for step in (-1, 0, 1))]
    assert [schedule.due(moment) for moment in moments] == [int((due <= moment).sum()) for moment in moments]
    assert [schedule.at_ns(place) for place in range(len(times))] == due.tolist()
