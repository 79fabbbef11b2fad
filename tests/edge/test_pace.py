import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.edge.pace import AtRate, AtTimes
from headwater.errors import DataError


def batch_of(times: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"time": pa.array(times, pa.int64())})


@given(st.lists(st.integers(-(10**12), 10**12), max_size=20), st.floats(0.001, 1e9))
def test_no_event_is_due_before_one_that_was_before_it(times, per_s):
    due = AtTimes(0, per_s).due_ns(0, batch_of(times))
    assert (np.diff(due) >= 0).all()


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20, unique=True).map(sorted))
def test_events_in_order_are_due_at_their_times(times):
    assert AtTimes(times[0], 1_000_000).due_ns(7, batch_of(times)).tolist() == [(t - times[0]) * 1000 for t in times]


@given(st.integers(0, 100), st.integers(1, 100), st.floats(0.01, 1e6))
def test_a_rate_does_not_depend_on_how_events_are_cut_into_batches(first, count, rate):
    whole = AtRate(rate).due_ns(0, batch_of([0] * (first + count)))
    assert AtRate(rate).due_ns(first, batch_of([0] * count)).tolist() == whole[first:].tolist()


@pytest.mark.parametrize("make", [AtRate, lambda rate: AtTimes(0, rate)])
@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_rate_that_is_none_is_refused(make, rate):
    with pytest.raises(DataError, match="give a rate above 0"):
        make(rate)


@given(
    times=st.lists(st.integers(-50, 200), min_size=1, max_size=20),
    per_s=st.floats(0.001, 1e9),
    elapsed=st.integers(-(10**9), 10**12),
)
def test_what_is_due_is_found_without_working_out_all(times, per_s, elapsed):
    pace, batch = AtTimes(3, per_s), batch_of(times)
    due = pace.due_ns(0, batch)
    schedule = pace.schedule(0, batch)
    moments = [elapsed, *(int(moment) + step for moment in due for step in (-1, 0, 1))]
    assert [schedule.due(moment) for moment in moments] == [int((due <= moment).sum()) for moment in moments]
    assert [schedule.at_ns(place) for place in range(len(times))] == due.tolist()
