"""Streams in micro-batches against the reference: whatever arrives when, whoever joins, falls silent or dies."""

from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.simulator.stream import StoryRun
from headwater.spark.streaming.start.handle import Stream

pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.mark.parametrize("crashes", [False, True])
@settings(max_examples=15, deadline=None)
@example(seed=26)  # count windows in scopes over nodes forgot how many windows of a new key were out
@example(seed=35)
@example(
    seed=12
)  # a source's last events and its end came at one moment: the reference showed empty windows in between
@given(seed=st.integers(0, 2**32))
def test_batches_of_a_stream_say_what_the_reference_says(tmp_path_factory, crashes, seed):
    StoryRun(tmp_path_factory.mktemp("stream"), seed, crashes).play()


@settings(max_examples=10, deadline=None)
@example(seed=228, held_max=3)  # a query with empty windows came, and the root walked through all time before it
@given(seed=st.integers(0, 2**32), held_max=st.integers(1, 10))
def test_leaves_that_hold_too_much_stop_reading_until_they_may_cut(tmp_path_factory, seed, held_max):
    StoryRun(tmp_path_factory.mktemp("stream"), seed, crashes=False, held_max=held_max).play()


@pytest.mark.parametrize(("seed", "held_max"), [(1, 8), (5, 8)])
def test_a_stream_whose_leaf_holds_too_much_waits_for_others_without_running_batches(tmp_path, seed, held_max):
    """It asked for another batch after each, though leaves were told the same each time: as many as Spark could run."""
    run = StoryRun(tmp_path, seed, crashes=False, held_max=held_max)
    run.play()
    assert run.loop.committed < 100


@pytest.mark.parametrize("roots", [2, 3])
@settings(max_examples=5, deadline=None)
@example(seed=2**32 - 1)  # a query came for which events would have had to be shared in another way
@example(seed=1075)  # a root in a task replaced a row of the same batch
@given(seed=st.integers(0, 2**32))
def test_roots_that_share_the_keys_of_a_stream_say_what_the_reference_says(tmp_path_factory, roots, seed):
    StoryRun(tmp_path_factory.mktemp("stream"), seed, crashes=True, roots=roots).play()


def test_a_stream_that_is_over_is_flushed_already(tmp_path):
    run = StoryRun(tmp_path, seed=1, crashes=False)
    run.play()
    spark_query = SimpleNamespace(isActive=True, stop=lambda: None)
    stream = Stream(spark_query, run.loop.checkpoint, run.opened, run.loop.runner)
    # It waited for a batch that nobody will ever plan.
    stream.flush(timeout=0)
    with pytest.raises(hw.HeadwaterError, match="was flushed and is over, so nobody can remove a query"):
        stream.remove_query("any")
