"""From a program, as users write it, to the plan that all its nodes follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from types import CodeType
from typing import Any

import pyarrow as pa

from headwater.errors import QueryError
from headwater.language.functions.handlers import WindowRead
from headwater.language.functions.program import Program, Table
from headwater.language.query import Query
from headwater.language.windows import Band, Sliding
from headwater.node.holon.functions.events import FunctionEvents
from headwater.node.holon.functions.reading import ReadState, nothing_of
from headwater.node.holon.functions.setup import FunctionSetup
from headwater.node.holon.functions.windows import FunctionStage
from headwater.node.holon.kept_steps import KeptSteps
from headwater.node.holon.shared_program import ProgramPlan, StagePlan
from headwater.node.holon.stages import ONCE, QueryStage
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import StepGrid
from headwater.protocols.windowed_crdt import Prefix

#: The time column of what is inserted.
INSERTED_TIME = "time"
#: Windows of no fixed length can be read for so many steps of the grid.
STEPS_KEPT = 100


@dataclass(frozen=True, slots=True)
class PartitionsInput:
    """What all partitions have in common: their columns, and how time is told. ``every``: ticks between steps; None: by the
    windows of the program."""

    schema: pa.Schema
    time: str = "time"
    unit: str = "us"
    disorder: int = 0
    strict: bool = False
    every: int | None = None


def plan_of(program: Program, partitions: Iterable[str], given: PartitionsInput, generation: int = 1) -> ProgramPlan:
    """The plan of a program over these partitions; what does not fit their columns is refused."""
    names = tuple(sorted(partitions))
    _check_names(names)
    grid = StepGrid(given.every or program.step_grid(given.unit))
    tables = {table.number: _shared(table, given, program.function is not None) for table in program.tables}
    # Without declared states nothing is made of the events, but their times say where steps end.
    tables.setdefault(0, _input_table((), given))
    if program.function is None:
        return ProgramPlan(names, grid, (tables[0],), (StagePlan(once=QueryStage),), generation=generation)
    setup = _setup(program, tables, given, grid)
    stages = tuple(_stage_plan(setup, stage) for stage in range(1, program.levels))
    level_0 = (tables[0], *setup.inserted(0).values())
    events = partial(_events, setup, grid) if program.has_events else None
    return ProgramPlan(names, grid, level_0, stages, events, setup.retention, generation)


def _check_names(names: tuple[str, ...]) -> None:
    if not names:
        raise QueryError("there are no partitions: give one or more")
    for name in names:
        if not name or name.split("/")[0] == ONCE:
            right = f"names begin with something else than {ONCE!r}, which is what is computed once for all"
            raise QueryError(f"a partition cannot be called {name!r}: {right}")


def _input_table(queries: tuple[Query, ...], given: PartitionsInput) -> SharedTable:
    return SharedTable(0, queries, given.schema, given.time, given.unit, given.disorder, given.strict)


def _shared(table: Table, given: PartitionsInput, has_function: bool) -> SharedTable:
    queries = tuple(_with_own_aliases(query) for query in table.queries) if has_function else table.queries
    if table.columns is None:
        return _input_table(queries, given)
    schema = pa.schema([(INSERTED_TIME, pa.int64()), *table.columns.items()])
    return SharedTable(table.number, queries, schema, INSERTED_TIME, given.unit, None, given.strict)


def _own_alias(state: str, alias: str) -> str:
    """States share a table, and each has a value of its own type."""
    return f"{state}.{alias}"


def _with_own_aliases(query: Query) -> Query:
    aggregates = tuple((_own_alias(query.name, alias), aggregation) for alias, aggregation in query.aggregates)
    return replace(query, aggregates=aggregates)


def _setup(program: Program, tables: dict[int, SharedTable], given: PartitionsInput, grid: StepGrid) -> FunctionSetup:
    states = {
        query.name: read_state(query.resolved(given.unit), table.level, tables[table.number])
        for table in program.tables
        for query in table.queries
    }
    retention = max((_reach(state.query, grid) for state in states.values()), default=0)
    handlers = {
        stage: tuple(handler for handler in program.handlers if handler.stage == stage)
        for stage in range(1, program.levels)
    }
    for handler in program.handlers:
        levels = {states[name].level for name in handler.states}
        if len(levels) > 1:
            low = min(handler.states, key=lambda name: states[name].level)
            right = f"name only those of the last level in when_final, and read the others inside: self.{low}.value(w)"
            raise QueryError(
                f"function {program.name}: handler {handler.name!r} reads states of several stages: {right}"
            )
    _check_locals(program)
    return FunctionSetup(program, tables, states, given.time, given.unit, retention, handlers)


def _check_locals(program: Program) -> None:
    """Each stage has values of its own: a `Local` that two of them use would be two.

    What a method names is read from its code; what it reaches by other ways is not seen.
    """
    assert program.function is not None
    instance = program.function()
    users: dict[str, dict[tuple[int, bool], str]] = {}
    methods = [(handler.name, handler.stage, handler.once) for handler in program.handlers]
    if program.has_events:
        methods.append((program.has_events, 0, False))
    for name, stage, once in methods:
        prefix = name.rpartition(".")[0]
        code = getattr(attrgetter(name)(instance), "__code__", None)
        for local in program.locals:
            owner, _, attribute = local.rpartition(".")
            if owner == prefix and code is not None and attribute in _names_in(code):
                users.setdefault(local, {})[stage, once] = name
    for local, by_stage in users.items():
        if len(by_stage) > 1:
            one, other = sorted(by_stage.values())[:2]
            why = "each stage keeps values of its own, because stages run apart from each other"
            raise QueryError(
                f"function {program.name}: {local!r} is used by {one!r} and by {other!r}: {why}; write a hw.Local for each"
            )


def _names_in(code: CodeType) -> frozenset[str]:
    """All names that a method mentions, also within functions in it."""
    inner = [_names_in(const) for const in code.co_consts if isinstance(const, CodeType)]
    return frozenset(code.co_names).union(*inner)


def read_state(query: Query, level: int, table: SharedTable, has_own_aliases: bool = True) -> ReadState:
    """How the values of a state are read; ``has_own_aliases``: whether the table names them after the state."""
    nothing = nothing_of(query, table.schema, table.time, table.unit)
    columns = {alias: _own_alias(query.name, alias) if has_own_aliases else alias for alias, _ in query.aggregates}
    return ReadState(query.name, query, level, columns, nothing)


def _reach(query: Query, grid: StepGrid) -> int:
    """How long the windows of a state can be read after they became final."""
    window = query.window
    size = window.size if isinstance(window, Sliding | Band) else STEPS_KEPT * grid.every
    return int(size) + int(query.lateness) + 2 * grid.every


def _stage_plan(setup: FunctionSetup, stage: int) -> StagePlan:
    handlers = setup.handlers[stage]
    makers = {
        once: partial(_stage, setup, stage, once) if any(one.once == once for one in handlers) else None
        for once in (False, True)
    }
    return StagePlan(makers[False], makers[True], tuple(setup.inserted(stage).values()))


def _stage(
    setup: FunctionSetup, stage: int, once: bool, unit: str, prefix: Prefix, levels: Sequence[KeptSteps]
) -> FunctionStage:
    return FunctionStage(setup, stage, once, unit, prefix, levels)


def _events(
    setup: FunctionSetup, grid: StepGrid, partition: str, prefix: Prefix, levels: Sequence[KeptSteps]
) -> FunctionEvents:
    peek = partial(_peek, setup, partition, levels) if setup.program.unsafe else None
    return FunctionEvents(setup, partition, prefix, grid, peek)


def _peek(setup: FunctionSetup, unit: str, levels: Sequence[KeptSteps], name: str, w: WindowRead) -> Any:
    """What this node happens to know."""
    state = setup.states[name]
    kept = levels[state.level]
    if not any(state.is_final(w.end, step.time) for step in kept):
        return None
    return state.value(kept.window((name, w.start, w.end))[:1], unit)
