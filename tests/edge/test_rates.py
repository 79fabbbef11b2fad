import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.edge.rates import SECOND_NS, TokenBucket
from headwater.errors import DataError

sizes = st.lists(st.integers(1, 10_000), min_size=1, max_size=30)


@given(sizes, st.integers(1_000, 10**9))
def test_frames_that_come_together_leave_one_after_another_at_the_rate(frames, rate):
    bucket = TokenBucket(rate)
    moments = [bucket.leaves_ns(size, 0) for size in frames]
    assert moments == sorted(moments)
    exact_ns = sum(frames) * 8 * SECOND_NS / rate
    assert exact_ns <= moments[-1] <= exact_ns + len(frames)


@given(sizes, st.integers(0, 10**9))
def test_a_link_that_was_quiet_has_nothing_to_make_up_for(frames, pause_ns):
    bucket = TokenBucket(8_000_000)
    last_ns = [bucket.leaves_ns(size, 0) for size in frames][-1]
    now_ns = last_ns + pause_ns
    assert bucket.leaves_ns(1000, now_ns) == now_ns + 1_000_000


def test_a_burst_leaves_at_once():
    bucket = TokenBucket(8_000, burst_bytes=1000)
    assert [bucket.leaves_ns(500, 0) for _ in range(3)] == [0, 0, SECOND_NS // 2]


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(DataError, match="bits_per_s"):
        TokenBucket(rate)
