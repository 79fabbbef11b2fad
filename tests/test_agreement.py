"""The engine against the reference, step by step, on generated streams: every bit, every revision, every counter."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agreement import assert_agreement
from headwater.language.times import TIME_MAX
from strategies import (
    EXACT,
    FAR_APART,
    LONG_WINDOWS,
    SKETCHES,
    WINDOWS,
    Scenario,
    alike,
    bulk_scenarios,
    queries,
    scenarios,
)


@given(scenarios())
def test_engine_agrees_with_the_reference(scenario: Scenario):
    assert_agreement(scenario)


@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=25)
@given(data=st.data())
def test_engine_agrees_with_the_reference_on_every_kind_of_window(kind: str, data: st.DataObject):
    assert_agreement(data.draw(scenarios(queries(kinds=(kind,)))))


@given(scenarios(queries(kinds=("tumbling", "sliding", "band"), aggregates=EXACT | SKETCHES), query_count_max=5))
def test_engine_agrees_with_the_reference_on_many_fixed_windows(scenario: Scenario):
    assert_agreement(scenario)


@given(alike().flatmap(lambda drawn: scenarios(drawn, query_count_max=5)))
def test_engine_agrees_with_the_reference_on_windows_of_all_kinds_in_one_group(scenario: Scenario):
    assert_agreement(scenario)


@given(bulk_scenarios(queries(scopes=("global", "node"), aggregates=EXACT | SKETCHES)))
def test_engine_agrees_with_the_reference_on_hundreds_of_events(scenario: Scenario):
    assert_agreement(scenario)


@given(scenarios(queries(kinds=tuple(LONG_WINDOWS), durations="long"), bases=FAR_APART))
def test_engine_agrees_with_the_reference_on_windows_from_one_end_of_time_to_the_other(scenario: Scenario):
    assert_agreement(scenario)


@given(
    st.sampled_from([-TIME_MAX, TIME_MAX - 80]).flatmap(
        lambda end: scenarios(bases=st.integers(end, end + 60), changes_queries=False)
    )
)
def test_engine_agrees_with_the_reference_on_short_windows_at_the_ends_of_time(scenario: Scenario):
    assert_agreement(scenario)


@pytest.mark.slow(reason="thousands of examples")
@settings(max_examples=3_000, derandomize=False)
@given(scenarios(queries(aggregates=EXACT | SKETCHES), query_count_max=5, steps_max=30))
def test_engine_agrees_with_the_reference_on_thousands_of_fresh_streams(scenario: Scenario):
    assert_agreement(scenario)
