"""A sink is accepted if what it holds is what the checkpoint has written, whatever was copied, restored and run elsewhere."""

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.logs import files
from headwater.spark.streaming.sinks import timeline
from headwater.spark.streaming.sinks.timeline import Claimant, Life, begin_life
from spark.streaming.sinks.streams import History

#: What may happen to checkpoints: one of several copies is started and runs so many batches, the last perhaps without being
#: finished, or it is copied.
EVENTS = st.lists(
    st.tuples(st.sampled_from(["run", "copy"]), st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=12
)


@given(EVENTS)
@settings(max_examples=300)
def test_a_life_and_a_batch_say_whether_a_sink_is_of_this_past(happened):
    """The slow twin remembers by which lives each copy's batches were written, and what is in the sink, batch by batch."""
    copies, written = [(History(), [])], []
    for number, (what, which, count, is_torn) in enumerate(happened):
        history, past = copies[which % len(copies)]
        if what == "copy":
            copies.append((deepcopy(history), list(past)))
            continue
        stream = history.start(f"life {number}")
        if written:
            # The one batch that is not done may be in the sink: its rows are compared when it is run.
            expected = written[: len(past)] == past[: len(written)] and len(written) <= len(past) + 1
            is_known = len(written) <= len(past) or written[-1] in {life.id for life in stream.lives}
            accepted = stream.wrote(written[-1], len(written) - 1)
            assert accepted == (expected and is_known), (written, past, stream.lives)
            if not accepted:
                continue
        del written[len(past) :]  # it is the same batch, or it is refused by its rows
        for _ in range(count):
            written.append(stream.life)
            past.append(stream.life)
            history.done += 1
        if is_torn:
            written.append(stream.life)


def test_a_checkpoint_keeps_its_lives_in_order_and_forgets_the_oldest(tmp_path, monkeypatch):
    monkeypatch.setattr(timeline, "LIVES_KEPT", 3)
    for number in range(6):
        lives = begin_life(tmp_path, number + 1, number, f"{number:x}")
    assert lives == [Life(number, f"{number:x}") for number in (2, 3, 4, 5)]


@pytest.mark.parametrize("ids", ["ab", "ba"])
def test_a_driver_that_sleeps_while_its_life_begins_locks_nobody_out_of_the_sink(tmp_path, monkeypatch, ids):
    sleeper, other = ids
    inner, woken = files.make, []

    def make(path):
        if not woken:
            # Another takes over, and writes up to batch 20.
            woken.append(path)
            begin_life(tmp_path, 8, 5, other)
        return inner(path)

    begin_life(tmp_path, 6, 0, "first")
    monkeypatch.setattr(files, "make", make)
    assert begin_life(tmp_path, 7, 5, sleeper) == [Life(0, "first"), Life(5, sleeper)]
    third = Claimant("s", begin_life(tmp_path, 9, 21, "c"))
    assert third.wrote(other, 20) and third.wrote(sleeper, 5) and not third.wrote(sleeper, 6)


def test_a_start_that_was_paused_is_not_the_newest_when_it_wakes(tmp_path):
    """Found by the simulator: the sink of its successor was refused from then on."""
    begin_life(tmp_path, 1, 0, "a")
    begin_life(tmp_path, 3, 2, "c")
    assert begin_life(tmp_path, 2, 0, "b") == [Life(0, "a"), Life(0, "b")]
    assert begin_life(tmp_path, 4, 9, "d") == [Life(0, "a"), Life(0, "b"), Life(2, "c"), Life(9, "d")]
