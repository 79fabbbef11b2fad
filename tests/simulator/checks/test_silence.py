"""When a source may be called idle, by the checker's own account."""

import pytest

from headwater.simulator.checks.silence import Silence
from headwater.simulator.checks.truth import ViolationError


def decided(silence, what, now_ns):
    silence.note("decided", {"what": what, "source": "a"}, now_ns)


@pytest.fixture
def silence():
    made = Silence(idle_ns=100)
    decided(made, "joined", 1000)
    return made


def test_a_source_is_idle_when_it_was_silent_for_long_enough_and_not_before(silence):
    with pytest.raises(ViolationError, match="a was called idle after a silence of 99 ns; it may be after 100"):
        decided(silence, "idle", 1099)
    decided(silence, "idle", 1100)


@pytest.mark.parametrize("what", ["accepted", "returned"])
def test_silence_begins_anew_with_what_is_accepted_and_with_a_return(silence, what):
    if what == "accepted":
        silence.note("accepted", {"sources": {"a": [0, 1, 5]}}, 1080)
    else:
        decided(silence, "returned", 1080)
    with pytest.raises(ViolationError, match="a silence of 99 ns"):
        decided(silence, "idle", 1179)


def test_a_clock_that_begins_anew_lets_silence_begin_anew(silence):
    silence.look(10)
    silence.note("cut done", {}, 30)
    with pytest.raises(ViolationError, match="a silence of 99 ns"):
        decided(silence, "idle", 109)
    decided(silence, "idle", 110)


def test_a_leap_of_the_clock_is_silence(silence):
    decided(silence, "idle", 10**12)


def test_without_a_limit_nobody_is_called_idle_too_early():
    silence = Silence(None)
    decided(silence, "joined", 0)
    decided(silence, "idle", 1)
