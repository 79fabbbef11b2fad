"""The engine against the reference, step by step, on generated streams: every bit, every revision, every counter."""

from hypothesis import given

from agreement import assert_agreement
from strategies import EXACT, SKETCHES, Scenario, queries, scenarios


@given(scenarios())
def test_the_engine_says_what_the_reference_says(scenario: Scenario):
    assert_agreement(scenario)


@given(scenarios(queries(kinds=("tumbling", "sliding", "band"), aggregates=EXACT | SKETCHES), query_count_max=5))
def test_so_it_does_with_many_fixed_windows(scenario: Scenario):
    assert_agreement(scenario)
