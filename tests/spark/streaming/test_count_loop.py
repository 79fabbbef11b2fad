"""Count windows in micro-batches against the reference, under every exact scheme: leaves forget all from batch to batch."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.simulator.stream import StoryRun, count_windows

pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.mark.parametrize("crashes", [False, True])
@settings(max_examples=12, deadline=None)
@example(seed=11)  # a leaf that had just sent ended without what waited
@example(seed=2066)  # an idle source returned in the middle of a batch, of which the first half was accepted
@given(seed=st.integers(0, 2**32))
def test_count_windows_of_a_stream_are_those_of_the_reference(tmp_path_factory, crashes, seed):
    StoryRun(tmp_path_factory.mktemp("stream"), seed, crashes, draw=count_windows).play()
