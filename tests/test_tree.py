"""A tree of nodes against the reference on generated streams: wherever events are born and whoever merges, the same rows."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from agreement import assert_agreement
from headwater.cases.tree_host import TreeHost, apart, as_one, in_random_tree
from headwater.reference.history import Advanced, Arrived, Emit, Flushed, Step, StreamSettings
from strategies import SCHEMA, WINDOWS, Scenario, bulk_scenarios, queries, scenarios

arrangements = st.sampled_from([as_one, apart]) | st.integers(0, 1000).map(in_random_tree)


def until_the_end(scenario: Scenario) -> Scenario:
    """Nothing follows a flush: leaves take nothing in any more."""
    ends = [i for i, step in enumerate(scenario.history) if isinstance(step, Flushed)]
    history = scenario.history[: ends[0] + 1] if ends else (*scenario.history, Flushed())
    return dataclasses.replace(scenario, history=type(scenario.history)(history))


@given(scenarios(), arrangements)
def test_a_tree_says_what_the_reference_says(scenario: Scenario, arrangement):
    assert_agreement(until_the_end(scenario), TreeHost(arrangement), ends_at_once=False)


@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=20)
@given(data=st.data())
def test_a_tree_says_what_the_reference_says_of_every_kind_of_window(kind: str, data: st.DataObject):
    scenario, arrangement = data.draw(scenarios(queries(kinds=(kind,)))), data.draw(arrangements)
    assert_agreement(until_the_end(scenario), TreeHost(arrangement), ends_at_once=False)


@settings(max_examples=20)
@given(bulk_scenarios(queries(scopes=("global", "node"))), arrangements)
def test_a_tree_says_what_the_reference_says_of_hundreds_of_events(scenario: Scenario, arrangement):
    assert_agreement(until_the_end(scenario), TreeHost(arrangement), ends_at_once=False)


def arrived(source: str, offset: int, time: int, node: str) -> Arrived:
    return Arrived(source, offset, dict.fromkeys(SCHEMA.names) | {"time": time}, node)


def ordinal(size: int, *history: Step) -> Scenario:
    query = hw.query("q", hw.count_tumbling(size), n=hw.count(), scope="ordinal")
    return Scenario(StreamSettings((query,), disorder=0), [*history, Flushed()])


def test_all_sources_advance_at_once_also_where_a_window_would_vanish_in_between():
    before = [arrived("b", 0, 0, "north"), Emit(), arrived("b", 1, 1, "north"), Emit()]
    scenario = ordinal(1, *before, arrived("a", 0, 2, "south"), Advanced(None, 3))
    assert_agreement(scenario, TreeHost(as_one), ends_at_once=False)


def test_a_window_that_vanishes_and_comes_back_while_sources_end_holds_as_before():
    before = [arrived("b", 0, 0, "north"), Emit(), arrived("b", 1, 0, "north"), Emit(), Advanced(None, 1)]
    scenario = ordinal(2, *before, arrived("a", 0, 2, "south"), Emit())
    assert_agreement(scenario, TreeHost(apart), ends_at_once=False)
