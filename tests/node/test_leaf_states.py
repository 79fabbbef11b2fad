"""The table of a leaf's states: the page shows it, each of its kinds is handled, and a step beside it is an assertion."""

from pathlib import Path

import pyarrow as pa
import pytest

import headwater as hw
from headwater.node import LeafNode, NodeSettings
from headwater.node.leaf_states import EVENTS, OCCASIONS, QUESTIONS, REMEMBERED, TRANSITIONS, LeafState
from headwater.protocols.actions import PauseReading, SendMessage
from headwater.protocols.events import BatchArrived, MessageReceived, SourceEnded, TimerFired
from headwater.protocols.messages import Assign, Flush, Positions, Refuse
from headwater.simulator.instant import InstantTree

PAGE = Path(__file__).parents[2] / "docs" / "trees.md"
SCHEMA = pa.schema({"time": pa.int64()})
#: What a leaf handles, in the order in which the page has it.
KINDS = (*REMEMBERED, *OCCASIONS, *EVENTS, *QUESTIONS, Positions, Flush, Assign, Refuse)
COUNTS = hw.query("counts", hw.tumbling(10), n=hw.count())


def batch(*times: int) -> pa.RecordBatch:
    return pa.record_batch({"time": list(times)}, schema=SCHEMA)


def tree_of(**settings) -> tuple[InstantTree, LeafNode]:
    tree = InstantTree({"leaf": "root"}, [COUNTS], settings=NodeSettings(**settings), schema=SCHEMA)
    leaf = tree.nodes["leaf"]
    assert isinstance(leaf, LeafNode)
    return tree, leaf


def diagram() -> str:
    """The states and what leads from one to another, for Mermaid."""
    lines = ["stateDiagram-v2", *(f'    state "{state.value}" as {state.name}' for state in LeafState)]
    lines.append("    [*] --> WAITING")
    for state, row in TRANSITIONS.items():
        for after in LeafState:
            kinds = [kind for kind in KINDS if after in row.get(kind, ())]
            if kinds:
                lines.append(f"    {state.name} --> {after.name}: {_listed(kinds)}")
    return "\n".join(lines)


def _listed(kinds: list[type]) -> str:
    """Names of kinds, those that come together under one."""
    groups = {**dict.fromkeys(EVENTS, "events"), **dict.fromkeys(QUESTIONS, "questions")}
    return ", ".join(dict.fromkeys(groups.get(kind, kind.__name__) for kind in kinds))


def table() -> str:
    """Where each event may lead from each state, in Markdown; a dot: nowhere else; empty: it is passed over."""
    rows = [["", *(state.value for state in LeafState)], ["---"] * (1 + len(LeafState))]
    for kind in KINDS:
        nexts = [TRANSITIONS[state].get(kind) for state in LeafState]
        cells = ["" if after is None else ", ".join(s.value for s in LeafState if s in after) or "·" for after in nexts]
        rows.append([f"`{kind.__name__}`", *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def test_the_page_shows_the_table_as_it_is():
    page = PAGE.read_text(encoding="utf-8")
    for shown in (f"```mermaid\n{diagram()}\n```\n", f"\n{table()}\n"):
        assert shown in page, f"docs/trees.md should have, for the table in node/leaf_states.py:\n{shown}"


def test_every_state_can_be_reached_and_left_but_the_last():
    reached = {after for row in TRANSITIONS.values() for states in row.values() for after in states}
    assert reached == set(LeafState) - {LeafState.WAITING}
    left = {state for state, row in TRANSITIONS.items() if any(row.values())}
    assert left == set(LeafState) - {LeafState.STOPPED}
    assert set(KINDS) == {kind for row in TRANSITIONS.values() for kind in row}


def test_a_leaf_goes_from_waiting_through_running_and_flushing_to_done():
    tree, leaf = tree_of()
    assert leaf.state is LeafState.WAITING
    tree.open("leaf", "s", schema=SCHEMA)
    assert leaf.state is LeafState.RUNNING
    tree.push("s", batch(1, 5))
    leaf.hear(Flush())
    assert leaf.state is LeafState.FLUSHING
    for action in leaf.handle(TimerFired("send"), 0):
        tree._do("leaf", action)
    tree.settle()
    assert leaf.state is LeafState.DONE


def test_a_leaf_is_paused_while_no_delta_is_accepted_and_runs_on_when_one_is():
    tree, leaf = tree_of(steps_max=1)
    tree.open("leaf", "s", schema=SCHEMA)
    leaf.handle(BatchArrived("s", 0, batch(1)), 0)
    actions = leaf.handle(TimerFired("send"), 0)
    assert PauseReading() in actions and leaf.state is LeafState.PAUSED
    assert leaf.handle(BatchArrived("s", 1, batch(2)), 0) == []
    (frame,) = [action.frame for action in actions if isinstance(action, SendMessage)]
    answers = [a.frame for a in tree.root.handle(MessageReceived("leaf", frame), 0) if isinstance(a, SendMessage)]
    for answer in answers:
        leaf.handle(MessageReceived("root", answer), 0)
    assert leaf.state is LeafState.RUNNING


def test_a_leaf_reads_again_what_markers_have_not_cut_yet():
    marks = hw.query("marks", hw.punctuated(hw.col("time") == 99), n=hw.count())
    tree = InstantTree({"leaf": "root"}, [marks], schema=SCHEMA)
    tree.open("leaf", "s", schema=SCHEMA)
    tree.push("s", batch(1, 2))
    # It comes back without memory, and its log is not read yet.
    log, tree.sources["s"].batches = tree.sources["s"].batches, []
    leaf = tree.nodes["leaf"] = LeafNode("leaf", "root")
    tree.open("leaf", "s", schema=SCHEMA)
    assert leaf.state is LeafState.REREADING
    for start, events, watermark in log:
        leaf.handle(BatchArrived("s", start, events, watermark), 0)
    assert leaf.state is LeafState.RUNNING


@pytest.mark.parametrize("end", [Refuse("leaf", "why not"), Assign("leaf", "another", 99, 0, 0, 0, (), 1, "")])
def test_nothing_happens_to_a_leaf_that_was_stopped(end):
    tree, leaf = tree_of()
    tree.open("leaf", "s", schema=SCHEMA)
    assert leaf.hear(end) and leaf.state is LeafState.STOPPED
    assert leaf.handle(BatchArrived("s", 0, batch(1)), 0) == leaf.hear(Flush()) == []
    assert leaf.handle(MessageReceived("root", b"garbage"), 0) == []


def test_what_a_waiting_leaf_cannot_use_is_passed_over_and_the_rest_is_remembered():
    leaf = LeafNode("leaf", "root")
    assert leaf.handle(BatchArrived("s", 0, batch(1)), 0) == []
    leaf.handle(SourceEnded("s", 1), 0)
    leaf.hear(Flush())
    assert leaf.state is LeafState.WAITING
    leaf.check()


def test_a_step_that_is_not_in_the_table_is_an_assertion():
    tree, leaf = tree_of()
    tree.open("leaf", "s", schema=SCHEMA)
    leaf.state = LeafState.WAITING
    with pytest.raises(AssertionError, match="leaf went from waiting to running by SourceEnded"):
        leaf.handle(SourceEnded("s", 0), 0)


def test_a_leaf_whose_state_disagrees_with_what_it_knows_is_found_out():
    tree, leaf = tree_of()
    tree.open("leaf", "s", schema=SCHEMA)
    leaf.check()
    leaf.state = LeafState.PAUSED
    with pytest.raises(AssertionError, match="leaf is paused, and should be running"):
        leaf.check()
