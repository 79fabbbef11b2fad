"""The papers' baselines say what the reference says; what tells them apart is the work that they do for it."""

import pytest
from hypothesis import given, settings

from agreement import assert_agreement
from headwater.cases.hosts import EngineHost
from strategies import Scenario, queries, scenarios

BASELINES = ("cebuffer", "debucket", "desw")


@pytest.mark.parametrize("mode", BASELINES)
@given(scenario=scenarios())
def test_every_mode_says_what_the_reference_says(mode: str, scenario: Scenario):
    assert_agreement(scenario, EngineHost(mode))


@pytest.mark.parametrize("mode", BASELINES)
@given(scenario=scenarios(queries(kinds=("sliding", "count_sliding"))))
def test_so_it_does_where_windows_overlap(mode: str, scenario: Scenario):
    assert_agreement(scenario, EngineHost(mode))
