"""A snapshot restored goes on as if nothing had happened, and bytes that are not a snapshot are refused by name."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.cases.hosts import EngineHost, Played
from headwater.errors import FormatError
from headwater.local.engine import Engine
from strategies import EXACT, SCHEMA, SKETCHES, Scenario, alike, bulk_scenarios, queries, scenarios


class RestoringHost(EngineHost):
    """An engine that is written down and read back before some of its steps."""

    def __init__(self, chosen: Any) -> None:
        super().__init__()
        self._chosen = chosen

    def changed(self, engine: Any, index: int) -> Any:
        return Engine.restore(engine.snapshot()) if self._chosen(index) else engine


def played(host: EngineHost, scenario: Scenario) -> Played:
    return host.play(scenario.settings, scenario.history, SCHEMA)


def assert_unnoticed(scenario: Scenario, chosen: Any) -> None:
    never, restored = played(EngineHost(), scenario), played(RestoringHost(chosen), scenario)
    assert repr(restored.emitted) == repr(never.emitted)
    assert restored.dropped == never.dropped
    assert restored.counters == never.counters


@given(scenarios(queries(aggregates=EXACT | SKETCHES)))
def test_an_engine_restored_before_every_step_says_the_same(scenario: Scenario):
    assert_unnoticed(scenario, lambda index: True)


@given(alike().flatmap(scenarios), st.integers(0, 40))
def test_an_engine_restored_once_says_the_same(scenario: Scenario, step: int):
    assert_unnoticed(scenario, lambda index: index == step)


@settings(max_examples=20)
@given(bulk_scenarios())
def test_an_engine_restored_before_every_step_says_the_same_of_hundreds_of_events(scenario: Scenario):
    assert_unnoticed(scenario, lambda index: True)


def engine_with_everything() -> Engine:
    """An engine with results and late events that nobody has taken yet."""
    engine = Engine(
        [
            hw.query("load", hw.tumbling(10), keys=["room"], total=hw.sum("load"), p=hw.median("load")),
            hw.query("visits", hw.session(5), keys=["room"], n=hw.count(), lateness=3),
            hw.query("three", hw.count_tumbling(3), last=hw.last("room")),
        ],
        disorder=2,
    )
    events = {"time": [1, 2, 15, 3, None], "load": [1.0, 2.5, -0.0, 4.0, 1.0], "room": ["a", "b", "a", None, "b"]}
    engine.push(pa.table(events), source="north")
    return engine


def test_results_and_late_events_that_were_not_taken_are_kept():
    never, restored = engine_with_everything(), Engine.restore(engine_with_everything().snapshot())
    assert restored.results().table.equals(never.results().table)
    assert restored.side_output().equals(never.side_output())
    assert restored.statistics == never.statistics
    assert restored.decisions == never.decisions
    assert restored.watermark == never.watermark
    for engine in (never, restored):
        engine.push(pa.table({"time": [30], "load": [1], "room": ["a"]}), source="north")
        engine.flush()
    assert restored.results().table.equals(never.results().table)


def test_a_snapshot_of_a_snapshot_is_the_same_snapshot():
    data = engine_with_everything().snapshot()
    assert Engine.restore(data).snapshot() == data


def test_a_snapshot_does_not_change_the_engine():
    once, twice = engine_with_everything(), engine_with_everything()
    twice.snapshot()
    assert once.snapshot() == twice.snapshot()


DATA = engine_with_everything().snapshot()


@settings(max_examples=300)
@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_a_changed_byte_is_a_format_error(place: int, change: int):
    damaged = bytearray(DATA)
    damaged[place] ^= change
    with pytest.raises(FormatError):
        Engine.restore(bytes(damaged))


@settings(max_examples=100)
@given(st.integers(0, len(DATA) - 1))
def test_a_shorter_snapshot_is_a_format_error(length: int):
    with pytest.raises(FormatError):
        Engine.restore(DATA[:length])


@given(st.binary(max_size=200))
def test_any_other_bytes_are_a_format_error(data: bytes):
    with pytest.raises(FormatError):
        Engine.restore(data)


def test_a_longer_snapshot_is_a_format_error():
    with pytest.raises(FormatError, match="damaged"):
        Engine.restore(DATA + b"\0")


def test_a_snapshot_of_another_version_is_refused_by_its_number():
    with pytest.raises(FormatError, match=r"has version 9; this release reads version \d"):
        Engine.restore(DATA[:4] + (9).to_bytes(2, "little") + DATA[6:])
