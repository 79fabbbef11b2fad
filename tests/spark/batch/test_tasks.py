"""Leaves and the root as tasks run them, without Spark: whoever reads which file, the rows are those of the reference."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from agreement import assert_agreement
from headwater.cases.tree_host import TreeHost, apart, in_random_tree
from headwater.protocols.actions import SendMessage
from headwater.protocols.events import MessageReceived
from headwater.protocols.messages import Hello, decode, encode
from headwater.spark.batch import files
from headwater.spark.batch.initial_root import assignment, initial_root, initial_root_bytes, root_of
from headwater.spark.batch.plan import plan_queries
from spark.answers import assert_same, expected, without_spark, write
from strategies import SCHEMA, WINDOWS, Scenario, queries, rows, scenarios
from test_tree import until_the_end

NAMES = ("a.parquet", "b/a.parquet", "b.parquet", "é.parquet")


def flat(lists: list[list]) -> list:
    return [each for some in lists for each in some]


def some_files(names: tuple[str, ...] = NAMES, rows_min: int = 0) -> st.SearchStrategy[dict]:
    stretches = st.integers(-10, 60).flatmap(lambda base: st.lists(rows(base), min_size=rows_min, max_size=7))
    return st.fixed_dictionaries(
        {name: st.lists(stretches, min_size=min(rows_min, 1), max_size=2).map(flat) for name in names}
    )


def renamed(drawn: list[hw.Query]) -> list[hw.Query]:
    """Each query under a name of its own, and so its columns."""
    made = []
    for number, query in enumerate(drawn):
        values = tuple((f"q{number}_{alias}", aggregation) for alias, aggregation in query.aggregates)
        made.append(hw.Query(f"q{number}", query.window, values, *(getattr(query, s) for s in query.__slots__[3:])))
    return made


@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=25)
@given(data=st.data())
def test_tasks_say_what_the_reference_says(kind, data):
    asked = renamed(data.draw(st.lists(queries(kinds=(kind,)), min_size=1, max_size=3)))
    events, disorder = data.draw(some_files()), data.draw(st.sampled_from([None, None, 0, 5]))
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), events, SCHEMA)
        tasks = data.draw(st.integers(1, 4))
        plan = plan_queries(folder, asked, None, tasks, True, disorder=disorder)
        assert len(plan.tasks) == tasks
        roots, relays = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2))
        assert_same(expected(events, asked, disorder), without_spark(plan, asked, roots, relays))


@settings(max_examples=25)
@given(data=st.data())
def test_tasks_say_what_the_reference_says_when_files_are_split(data):
    asked = renamed(data.draw(st.lists(queries(scopes=("global",)), min_size=1, max_size=3)))
    events = data.draw(some_files())
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(files, "TASK_BYTES", 1)
        write(Path(folder), events, SCHEMA)
        plan = plan_queries(folder, asked, None, 2, True)
        sources = [piece.source for task in plan.tasks for piece in task]
        assert len(sources) >= sum(-(-len(rows) // 3) for rows in events.values())
        assert_same(expected(events, asked), without_spark(plan, asked))


@given(
    scenarios(queries(kinds=("punctuated", "between", "session"))),
    st.integers(0, 1000).map(in_random_tree) | st.just(apart),
)
def test_a_tree_without_a_way_down_says_the_same(scenario: Scenario, arrangement):
    assert_agreement(until_the_end(scenario), TreeHost(arrangement, round_trips=False), ends_at_once=False)


@settings(max_examples=30)
@given(asked=st.lists(queries(), min_size=1, max_size=3), disorder=st.sampled_from([None, 5]))
def test_what_leaves_are_told_is_what_the_root_would_answer(asked, disorder):
    fresh = initial_root_bytes(initial_root(renamed(asked), SCHEMA, disorder=disorder))
    sources = (("a", "north"), ("b", ""))
    actions = root_of(fresh).handle(MessageReceived("7", encode(Hello("7", "7", sources=sources))), 0)
    (answer,) = [decode(action.frame) for action in actions if isinstance(action, SendMessage)]
    assert assignment(fresh, "7", sources) == answer
