"""The failure detector: sure about the silent, at rest about those that beat, and not fooled by clocks or pauses of its own.

The four properties of accrual detectors are definitions 13 to 16 of the Fargo thesis.
"""

from __future__ import annotations

import math
import random
import statistics
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_files import FOLDER
from headwater.cases import read_cases
from headwater.protocols.peers.failure_detector import (
    SERIES_FROM,
    DetectorSettings,
    FailureDetector,
    log_share_above,
    phi_of,
)

MS = 1_000_000
BEAT = 100 * MS
SETTINGS = st.builds(
    DetectorSettings,
    threshold=st.floats(0.5, 20),
    window=st.integers(1, 20),
    deviation_ns_min=st.integers(1, 200).map(lambda ms: ms * MS),
    pause_ns=st.integers(0, 500).map(lambda ms: ms * MS),
    first_interval_ns=st.integers(50, 500).map(lambda ms: ms * MS),
)
#: Intervals between beats, of a peer that lives: none is longer than this.
INTERVAL_MAX = 2_000 * MS
INTERVALS = st.lists(st.integers(0, INTERVAL_MAX), max_size=30)
ANY_TIME = st.integers(-(2**63), 2**63 - 1)


def asked(detector: FailureDetector, start_ns: int, end_ns: int) -> int:
    """Ask as often as a host does, up to a time, which comes back: so that time passes for the detector."""
    for now_ns in range(start_ns, end_ns, detector.settings.first_interval_ns):
        detector.suspects(now_ns)
    return end_ns


def beaten(intervals: list[int], settings: DetectorSettings | None = None) -> tuple[FailureDetector, int]:
    """A detector that has heard ``a`` after these intervals, and the time of the last beat."""
    detector = FailureDetector(settings or DetectorSettings())
    beats = list(accumulate(intervals, initial=0))
    detector.heard("a", beats[0])
    for before, now_ns in pairwise(beats):
        detector.heard("a", asked(detector, before, now_ns))
    return detector, beats[-1]


def silence_until_suspected(detector: FailureDetector, since_ns: int, peer: str = "a") -> int:
    """How long nothing is heard until the peer is suspected, in ms."""
    return next(ms for ms in range(1, 1_000_000) if peer in detector.suspects(since_ns + ms * MS))


# --- the four properties ---


@given(settings=SETTINGS, intervals=INTERVALS, level=st.floats(1, 1000))
def test_definition_13_the_longer_a_dead_peer_is_silent_the_surer_one_is_without_a_bound(
    settings: DetectorSettings, intervals: list[int], level: float
) -> None:
    detector, last = beaten(intervals, settings)
    # Chernoff's bound for the normal distribution says where phi has passed the level at the latest.
    mean, deviation = INTERVAL_MAX + settings.first_interval_ns, INTERVAL_MAX + settings.deviation_ns_min
    silence = mean + settings.pause_ns + deviation * math.sqrt(2 * math.log(10) * (level + 1))
    assert detector.phi("a", asked(detector, last, last + math.ceil(silence))) > level


@given(settings=SETTINGS, intervals=INTERVALS)
def test_definition_14_at_each_beat_nothing_is_left_of_the_suspicion(
    settings: DetectorSettings, intervals: list[int]
) -> None:
    detector = FailureDetector(settings)
    now_ns = 0
    for interval in [0, *intervals]:
        now_ns = asked(detector, now_ns, now_ns + interval)
        detector.heard("a", now_ns)
        assert detector.phi("a", now_ns) == 0.0
        assert detector.suspects(now_ns) == []


@given(settings=SETTINGS, intervals=INTERVALS, steps=st.lists(st.integers(0, 3 * BEAT), max_size=50))
def test_definition_15_while_a_peer_is_silent_suspicion_never_falls(
    settings: DetectorSettings, intervals: list[int], steps: list[int]
) -> None:
    detector, last = beaten(intervals, settings)
    levels = [detector.phi("a", now_ns) for now_ns in accumulate(steps, initial=last)]
    assert levels == sorted(levels)
    assert all(map(math.isfinite, levels))


@given(settings=SETTINGS, intervals=INTERVALS)
def test_definition_16_of_a_peer_whose_beats_come_suspicion_has_a_bound(
    settings: DetectorSettings, intervals: list[int]
) -> None:
    detector = FailureDetector(settings)
    beyond = max(0, INTERVAL_MAX - settings.pause_ns) / settings.deviation_ns_min
    bound = -log_share_above(beyond) / math.log(10) * (1 + 1e-9)
    now_ns = 0
    for interval in intervals:
        detector.heard("a", now_ns)
        asked(detector, now_ns, now_ns + interval)
        assert detector.phi("a", now_ns + interval) <= bound
        now_ns += interval


# --- figures ---


@pytest.mark.parametrize(
    ("settings", "expected_ms"),
    [
        (DetectorSettings(), 581),
        (DetectorSettings(first_interval_ns=50 * MS, deviation_ns_min=25 * MS, pause_ns=150 * MS), 341),
    ],
)
@pytest.mark.parametrize("beats", [0, 1, 300])
def test_how_long_a_regular_peer_may_be_silent(settings: DetectorSettings, expected_ms: int, beats: int) -> None:
    detector, last = beaten([settings.first_interval_ns] * beats, settings)
    assert silence_until_suspected(detector, last) == expected_ms


def case_rows() -> list[dict[str, Any]]:
    (case,) = [case for case in read_cases(FOLDER / "holon.json") if case["id"] == "holon-failure-detector"]
    return list(case["rows"])


@pytest.mark.parametrize("row", case_rows(), ids=str)
def test_the_rows_of_holon(row: dict[str, Any]) -> None:
    """Where Holon says "started", ours is asked all the time; where it is not, the silence counts as a pause of its own."""
    detector = FailureDetector()
    detector.heard("1", 0)
    age = row["heartbeat_age_ms"] * MS
    if row["started"]:
        asked(detector, 0, age)
    assert detector.suspects(age) == [str(peer) for peer in row["expected_failed"]]


@given(INTERVALS)
def test_phi_is_that_of_a_detector_that_keeps_all_intervals(intervals: list[int]) -> None:
    """The slow twin: it forgets nothing, and reckons anew each time."""
    settings = DetectorSettings(window=5)
    detector, last = beaten(intervals, settings)
    known = [settings.first_interval_ns]
    for interval in intervals:
        past = known[-5:]
        deviation = max(statistics.pstdev(past), settings.deviation_ns_min)
        sure = statistics.mean(past) + settings.pause_ns + math.sqrt(2 * math.log(10) * settings.threshold) * deviation
        known.append(min(interval, math.ceil(sure)))
    past = known[-5:]
    deviation = max(statistics.pstdev(past), settings.deviation_ns_min)
    expected = phi_of(BEAT, statistics.mean(past) + settings.pause_ns, deviation)
    assert detector.phi("a", last + BEAT) == pytest.approx(expected, rel=1e-6, abs=1e-15)


# --- the share of a normal distribution ---


def log_share_by_fractions(z: float) -> float:
    """The same by Laplace's continued fraction, for z above 2."""
    below = 0.0
    for count in range(2_000, 0, -1):
        below = count / (z + below)
    return -z * z / 2 - math.log(math.sqrt(2 * math.pi) * (z + below))


@given(st.floats(2, 1e6) | st.floats(30, 40))
def test_the_logarithm_of_a_share_is_right_far_out(z: float) -> None:
    assert log_share_above(z) == pytest.approx(log_share_by_fractions(z), rel=1e-12)


@given(st.floats(-8, 2))
def test_the_logarithm_of_a_share_is_right_near_the_mean(z: float) -> None:
    assert math.exp(log_share_above(z)) == pytest.approx(statistics.NormalDist().cdf(-z), rel=1e-9)


def test_where_the_ways_to_reckon_meet_nothing_jumps() -> None:
    for place in (0.0, SERIES_FROM * math.sqrt(2)):
        nearby = [log_share_above(place + step * 1e-9) for step in range(-1_000, 1_000)]
        assert nearby == sorted(nearby, reverse=True)
        assert nearby[0] - nearby[-1] < 1e-3


@given(silence=st.floats(0, 1e300), mean=st.floats(0, 1e20), deviation=st.floats(1, 1e20))
def test_phi_is_a_number_whatever_the_silence(silence: float, mean: float, deviation: float) -> None:
    assert 0 <= phi_of(silence, mean, deviation) < math.inf


# --- hints ---


def test_a_peer_that_refuses_the_connection_is_suspected_at_once_and_until_it_is_heard() -> None:
    detector, last = beaten([BEAT] * 10)
    detector.refused("a", last + MS)
    assert detector.suspects(last + MS) == ["a"]
    assert detector.phi("a", last + MS) == detector.settings.threshold
    assert detector.phi("a", asked(detector, last, last + 1_000 * MS)) > detector.settings.threshold
    detector.heard("a", last + 1_000 * MS)
    assert detector.suspects(last + 1_000 * MS) == []


def test_a_peer_that_was_never_heard_and_refuses_is_suspected() -> None:
    detector = FailureDetector()
    detector.refused("a", 0)
    assert detector.suspects(0) == ["a"]


def test_a_peer_that_is_expected_and_never_heard_is_suspected_in_time() -> None:
    detector = FailureDetector()
    detector.expect("a", 0)
    assert silence_until_suspected(detector, 0) == 581


def test_to_expect_a_peer_that_is_known_changes_nothing() -> None:
    detector, last = beaten([BEAT] * 10)
    detector.expect("a", last + 90 * MS)
    assert silence_until_suspected(detector, last) == 581


def test_nothing_is_said_of_peers_that_are_unknown_or_forgotten() -> None:
    detector, last = beaten([BEAT] * 10)
    detector.forget("a")
    detector.forget("b")
    now_ns = asked(detector, last, last + 10_000 * MS)
    assert (detector.phi("a", now_ns), detector.phi("b", now_ns), detector.suspects(now_ns)) == (0.0, 0.0, [])


def test_suspects_are_named_in_order_and_each_by_its_own_silence() -> None:
    detector = FailureDetector()
    for peer in ("c", "a", "b"):
        detector.heard(peer, 0)
    for ms in range(0, 2_000, 100):
        detector.heard("b", ms * MS)
    assert detector.suspects(1_900 * MS) == ["a", "c"]


# --- what a peer learns to be like ---


def test_a_peer_that_beats_slowly_is_known_to_after_some_beats() -> None:
    detector, now_ns = FailureDetector(), 0
    suspected = []
    for _ in range(60):
        detector.heard("a", now_ns)
        now_ns = asked(detector, now_ns, now_ns + 1_000 * MS)
        suspected.append(detector.suspects(now_ns) == ["a"])
    assert suspected[0] and not any(suspected[5:])


def test_who_comes_back_after_an_hour_has_not_learned_to_beat_once_an_hour() -> None:
    before = [BEAT] * 10 + [3_600_000 * MS]
    at_once, back = beaten(before)
    assert silence_until_suspected(at_once, back) < 1_500
    later, last = beaten(before + [BEAT] * 100)
    assert silence_until_suspected(later, last) == 581


# --- pauses of the detector itself, and clocks ---


@given(pause=st.integers(0, 2**62), peers=st.integers(1, 5), seed=st.integers(0, 5))
def test_after_a_pause_of_its_own_nobody_is_suspected_who_beat_before(pause: int, peers: int, seed: int) -> None:
    detector, chance, now_ns = FailureDetector(), random.Random(seed), 0
    names = [str(number) for number in range(peers)]
    for _ in range(20):
        for name in names:
            detector.heard(name, now_ns + chance.randrange(5 * MS))
        now_ns += BEAT
    assert detector.suspects(now_ns + pause) == []
    assert silence_until_suspected(detector, now_ns + pause, "0") <= 581


def test_after_a_pause_of_its_own_those_that_were_silent_before_are_suspected_no_later_than_without() -> None:
    paused, last = beaten([BEAT] * 20)
    now_ns = asked(paused, last, last + 400 * MS) + 10_000 * MS
    assert paused.suspects(now_ns) == []
    assert silence_until_suspected(paused, now_ns) <= 181


def test_pauses_again_and_again_do_not_hide_who_is_gone() -> None:
    detector, last = beaten([BEAT] * 20)
    levels = [detector.phi("a", last + count * 10_000 * MS) for count in range(1, 20)]
    assert levels[-1] > detector.settings.threshold


ACTS = st.lists(st.tuples(st.sampled_from(["heard", "refused", "expect", "phi", "suspects"]), ANY_TIME), max_size=30)


@given(acts=ACTS, start=ANY_TIME)
def test_clocks_that_leap_do_no_lasting_harm(acts: list[tuple[str, int]], start: int) -> None:
    """Whatever the clock did: after a window of regular beats all is as with a clock that never leapt."""
    detector = FailureDetector(DetectorSettings(window=10))
    for act, now_ns in acts:
        if act == "suspects":
            detector.suspects(now_ns)
        else:
            assert math.isfinite(getattr(detector, act)("a", now_ns) or 0.0)
    # Two beats more than the window: a clock that was set back by less than a step stands still that long.
    for beat in range(14):
        detector.heard("a", start + beat * BEAT)
    assert silence_until_suspected(detector, start + 13 * BEAT) == 581


@pytest.mark.parametrize("leap_ms", [-3_600_000, -1_000, 1_000, 3_600_000])
def test_one_leap_suspects_nobody_and_hides_nobody(leap_ms: int) -> None:
    detector, last = beaten([BEAT] * 20)
    now_ns = last + leap_ms * MS
    assert detector.suspects(now_ns) == []
    assert silence_until_suspected(detector, now_ns) <= 581


def test_moments_that_are_told_late_make_time_no_faster() -> None:
    """Frames bear the time at which they came; other things are asked before they are looked at."""
    plain, last = beaten([BEAT] * 20)
    late, _ = beaten([BEAT] * 20)
    for ms in range(10, 400, 10):
        late.suspects(last + ms * MS)
        late.heard("b", last + ms * MS - 40 * MS)
    asked(plain, last, last + 390 * MS)
    assert late.phi("a", last + 400 * MS) == plain.phi("a", last + 400 * MS)


# --- settings ---


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"threshold": 0.0}, "threshold is 0.0: give a number above 0"),
        ({"threshold": math.nan}, "threshold is nan"),
        ({"threshold": math.inf}, "threshold is inf"),
        ({"window": 0}, "window is 0: give at least 1"),
        ({"deviation_ns_min": 0}, "deviation_ns_min is 0"),
        ({"pause_ns": -1}, "pause_ns is -1: give at least 0"),
        ({"first_interval_ns": 0}, "first_interval_ns is 0"),
    ],
)
def test_settings_under_which_nothing_can_be_detected_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"failure detector: {says}"):
        DetectorSettings(**wrong)
