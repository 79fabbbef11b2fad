"""The engine against the reference, step by step, on generated streams: every bit, every revision, every counter."""

from hypothesis import given
from strategies import EXACT, SCHEMA, SKETCHES, Scenario, queries, scenarios

from headwater.cases import HOSTS, explain_difference
from headwater.cases.differences import text_table


def assert_agreement(scenario: Scenario) -> None:
    """What the engine emits at each step, and what it counts, is what the reference says."""
    expected = HOSTS["reference"].play(scenario.settings, scenario.history)
    actual = HOSTS["engine"].play(scenario.settings, scenario.history, SCHEMA)
    wanted, found = ({index: rows for index, rows in played.emitted if rows} for played in (expected, actual))
    for index in sorted(wanted.keys() | found.keys()):
        text = explain_difference(wanted.get(index, []), found.get(index, []))
        assert not text, f"after step {index}, {scenario.history[index]}:\n{text}"
    assert [row[:4] for rows in wanted.values() for row in rows] == [row[:4] for rows in found.values() for row in rows]
    counts = [(name, expected.counters[name], actual.counters.get(name)) for name in expected.counters]
    wrong = [line for line in counts if line[1] != line[2]]
    assert not wrong, "\n" + text_table(["query", "expected", "actual"], wrong)
    assert actual.dropped == {place for place in expected.dropped if place[0] in expected.counters} | {
        place for place in actual.dropped if place[0] not in expected.counters
    }


@given(scenarios())
def test_the_engine_says_what_the_reference_says(scenario: Scenario):
    assert_agreement(scenario)


@given(scenarios(queries(kinds=("tumbling", "sliding", "band"), aggregates=EXACT | SKETCHES), query_count_max=5))
def test_so_it_does_with_many_fixed_windows(scenario: Scenario):
    assert_agreement(scenario)
