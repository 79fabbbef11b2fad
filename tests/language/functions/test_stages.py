"""Stages: whatever graph of states and handlers is written, its stages are in the order of reading, or it is refused."""

from __future__ import annotations

import graphlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.language.functions.program import program_of
from headwater.language.functions.stages import stages_of


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, str | None]]:
    """Handlers with the states that they read, and who inserts into each state."""
    states = [f"state{index}" for index in range(draw(st.integers(1, 5)))]
    handlers = [f"handler{index}" for index in range(draw(st.integers(1, 5)))]
    reads = {name: draw(st.lists(st.sampled_from(states), min_size=1, unique=True)) for name in handlers}
    return reads, {name: draw(st.none() | st.sampled_from(handlers)) for name in states}


def waits_for_itself(reads: dict[str, list[str]], inserted_by: dict[str, str | None]) -> bool:
    """The slow twin: whether some handler reaches itself along what it needs."""
    needs = {name: {inserted_by[state] for state in states} - {None} for name, states in reads.items()}
    for _ in reads:
        needs = {name: found.union(*(needs[other] for other in found if other)) for name, found in needs.items()}
    return any(name in found for name, found in needs.items())


@given(graphs())
def test_stages_are_in_the_order_of_reading_or_there_is_a_loop(graph: Any) -> None:
    reads, inserted_by = graph
    if waits_for_itself(reads, inserted_by):
        with pytest.raises(graphlib.CycleError):
            stages_of(reads, inserted_by)
        return
    heights = stages_of(reads, inserted_by)
    for handler, states in reads.items():
        assert heights[handler] == 1 + max(heights[state] for state in states)
    for state, handler in inserted_by.items():
        assert heights[state] == (0 if handler is None else heights[handler])


@given(graphs())
def test_a_class_of_this_graph_has_these_stages_or_is_refused_by_name(graph: Any) -> None:
    reads, inserted_by = graph
    window = hw.tumbling("1 s")
    states = {name: hw.WindowedCRDT(hw.count(), window, inserted_by=by) for name, by in inserted_by.items()}

    def report(self: Any, w: Any, *values: Any) -> None: ...

    def copied(code: Any) -> Any:
        return type(code)(code.__code__, code.__globals__)

    handlers = {name: hw.when_final(*(states[state] for state in read))(copied(report)) for name, read in reads.items()}
    if waits_for_itself(reads, inserted_by):
        with pytest.raises(hw.QueryError, match=r"function Drawn: handler 'handler\d' inserts into state 'state\d'"):
            type("Drawn", (hw.ProcessingFunction,), states | handlers)
        return
    program = program_of(type("Drawn", (hw.ProcessingFunction,), states | handlers))
    stage = {handler.name: handler.stage for handler in program.handlers}
    assert [handler.order for handler in program.handlers] == list(range(len(handlers)))
    assert program.levels == 1 + max(stage.values())
    for handler in program.handlers:
        assert handler.stage == 1 + max(program.table_of(state).level for state in handler.states)
        assert all(program.table_of(state).inserted_by == handler.name for state in handler.inserts)
        # Whatever it inserts is read by later stages alone.
        readers = [other for other in program.handlers if set(other.states) & set(handler.inserts)]
        assert all(reader.stage > handler.stage for reader in readers)
    for table in program.tables:
        assert table.level == (0 if table.inserted_by is None else stage[table.inserted_by])
