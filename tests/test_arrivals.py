"""Arrivals as times, and times too far ahead of arrivals: the engine and trees say what the reference says."""

import dataclasses
import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from agreement import assert_agreement
from headwater.cases.hosts import EngineHost
from headwater.cases.tree_host import TreeHost, apart, as_one, in_random_tree
from headwater.language.times import duration
from headwater.reference.history import Added, Arrived
from strategies import Scenario, scenarios
from test_tree import until_the_end

hosts = st.just(EngineHost()) | (st.sampled_from([as_one, apart]) | st.integers(0, 1000).map(in_random_tree)).map(
    TreeHost
)
LOAD = hw.query("load", hw.tumbling("10 s"), n=hw.count())
NOW = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)


def arriving(scenario: Scenario, arrival, **changes) -> Scenario:
    """The same, with events that arrive when ``arrival`` of their time says."""
    history = [
        dataclasses.replace(step, arrival=arrival(step.row["time"])) if isinstance(step, Arrived) else step
        for step in scenario.history
    ]
    return dataclasses.replace(scenario, settings=dataclasses.replace(scenario.settings, **changes), history=history)


@settings(max_examples=40)
@given(scenarios(), hosts, st.integers(0, 10), st.randoms(use_true_random=False))
def test_events_too_far_ahead_are_malformed_and_raise_no_watermark(scenario, host, ahead_max, dice):
    def arrival(time):
        return None if time is None or dice.random() < 0.1 else min(time, 2**62) - dice.randint(-5, 15)

    played = arriving(until_the_end(scenario), arrival, ahead_max=ahead_max)
    assert_agreement(played, host, ends_at_once=isinstance(host, TreeHost) is False)


def in_micros(query: hw.Query) -> hw.Query:
    """The same, its durations with their unit: over times that are no plain integers it has to be said."""
    window = query.window
    lengths = {name: getattr(window, name) for name in window.durations}
    said = {name: duration(f"{length} us") for name, length in lengths.items() if length}
    return dataclasses.replace(
        query, window=dataclasses.replace(window, **said), lateness=duration(f"{query.lateness} us")
    )


@dataclasses.dataclass
class WithUnits:
    """Another host, which gets its queries with units."""

    host: EngineHost | TreeHost

    def play(self, settings, history, *more):
        asked = tuple(map(in_micros, settings.queries))
        steps = [
            dataclasses.replace(step, query=in_micros(step.query)) if isinstance(step, Added) else step
            for step in history
        ]
        return self.host.play(dataclasses.replace(settings, queries=asked), steps, *more)


@settings(max_examples=25)
@given(scenarios(), hosts)
def test_times_of_arrival_are_times(scenario, host):
    played = arriving(until_the_end(scenario), lambda time: time, time=hw.arrival())
    assert_agreement(played, WithUnits(host), ends_at_once=isinstance(host, TreeHost) is False)


def events(*seconds: float) -> pa.Table:
    moments = [NOW + datetime.timedelta(seconds=each) for each in seconds]
    return pa.table({"time": pa.array(moments, pa.timestamp("us", "UTC"))})


def test_one_event_at_the_end_of_time_does_not_silence_its_source():
    engine = hw.Engine([LOAD], disorder=0)
    engine.push(events(0, 10**10, 1, 2, 30), now=NOW)
    assert engine.counters()["load"] | {"in": 0} == engine.counters()["load"] | {"in": 0, "malformed": 1, "dropped": 0}
    (aside,) = engine.side_output().to_pylist()
    assert aside["offset"] == 1 and "is too far ahead" in aside["reason"]
    assert engine.results()["load"]["n"].to_pylist() == [3]


def test_on_an_engine_times_are_judged_only_where_it_is_told_when_events_arrived():
    engine = hw.Engine([LOAD])
    engine.push(events(0, 10**9))
    assert engine.counters()["load"]["malformed"] == 0
    engine.push(events(3 * 86_400), now=NOW, ahead_max="7 d")
    engine.push(events(3 * 86_400), now=NOW, ahead_max=None)
    assert engine.counters()["load"]["malformed"] == 0
    engine.push(events(3 * 86_400), now=NOW)
    assert engine.counters()["load"]["malformed"] == 1


def test_plain_integers_are_judged_only_with_a_bound_of_their_own():
    engine = hw.Engine([LOAD], unit="s")
    engine.push({"time": [10**12]}, now=NOW)
    assert engine.counters()["load"]["malformed"] == 0
    engine.push({"time": [10**12]}, now=NOW, ahead_max="1 h")
    assert engine.counters()["load"]["malformed"] == 1


def test_windows_over_arrivals_on_an_engine():
    engine = hw.Engine([LOAD], time=hw.arrival())
    for second in (0, 3, 12):
        engine.push({"v": [1, 2]}, now=NOW + datetime.timedelta(seconds=second))
    engine.flush()
    assert engine.results()["load"]["n"].to_pylist() == [4, 2]


def test_arrivals_are_refused_where_there_are_none():
    with pytest.raises(hw.DataError, match=r"say when the events arrived, push\(..., now=...\)"):
        hw.Engine([LOAD], time=hw.arrival()).push({"v": [1]})
    with pytest.raises(hw.QueryError, match="the rows of a table have no arrival"):
        hw.run({"v": [1]}, LOAD, time=hw.arrival())


@pytest.mark.parametrize("now", ["noon", 2.5, True, 2**63])
def test_a_time_of_arrival_is_a_datetime_or_microseconds(now):
    with pytest.raises(hw.DataError, match="now is"):
        hw.Engine([LOAD], time=hw.arrival()).push({"v": [1]}, now=now)


@pytest.mark.parametrize("ahead_max", ["soon", -1, "-1 s"])
def test_a_bound_of_times_ahead_is_a_duration_or_none(ahead_max):
    with pytest.raises(hw.QueryError):
        hw.Engine([LOAD]).push(events(0), now=NOW, ahead_max=ahead_max)
