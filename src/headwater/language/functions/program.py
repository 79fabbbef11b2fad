"""Programs: what users write without a coordinator, in the one form that hosts run.

A processing function, a flow and plain queries all become a `Program`: tables of queries, and the handlers that read them.
The same program is made of the same code in every process, and its digest tells it from others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from headwater.errors import Problem, QueryError
from headwater.language.arguments import check_queries
from headwater.language.files.queries import to_json
from headwater.language.functions.flow import Flow
from headwater.language.functions.function import ProcessingFunction
from headwater.language.functions.grid import grid_of
from headwater.language.functions.handlers import takes
from headwater.language.functions.members import Feeding, FunctionLayout, NamedState, is_function_class, is_nested
from headwater.language.functions.states import Json, Local, WindowedState
from headwater.language.query import Query
from headwater.language.user_code import checked_path, load_path, path_of

#: What `program_of` takes.
_FORM = "give a class made of hw.ProcessingFunction, a flow, queries, or the import path of one, 'package.module:Name'"


@dataclass(frozen=True, slots=True)
class Table:
    """Queries over the same events: all declared states are one table, each inserted state is one of its own.

    ``number``: 0 is that of the declared states, whether there are any or not. ``level``: the stage that inserts.
    ``inserted_by``: "events", "event" or a handler; None: every event of the input gets in. ``columns``: the types of what is
    inserted; None: those of the input.
    """

    number: int
    level: int
    inserted_by: str | None
    queries: tuple[Query, ...]
    states: tuple[str, ...]
    columns: Mapping[str, pa.DataType] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Handler:
    """A method that is called when a window is final, by its dotted name.

    ``stage``: one above the levels of what it reads. ``order``: its place among all handlers of the program.
    """

    name: str
    stage: int
    states: tuple[str, ...]
    once: bool
    is_async: bool
    order: int
    inserts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """What a host runs. Without handlers the rows are those of the queries; without ``has_events`` the input has no method.

    ``locals`` holds the values with which local states begin. ``function`` is the class to make instances of, with `bound`;
    ``path`` the import path under which another process finds the same, and ``code`` those of functions that it calls besides.

    >>> import headwater as hw
    >>> bids = program_of(hw.query("bids", hw.tumbling("1 s"), n=hw.count()))
    >>> bids.levels, bids.tables[0].states, bids.step_grid("us")
    (1, ('bids',), 1000000)
    """

    name: str
    tables: tuple[Table, ...]
    handlers: tuple[Handler, ...] = ()
    locals: Mapping[str, Json] = field(default_factory=dict, hash=False)
    has_events: Feeding | None = None
    cut: int | None = None
    unsafe: bool = False
    function: type[ProcessingFunction] | None = None
    path: str | None = None
    code: tuple[Any, ...] = ()

    @property
    def levels(self) -> int:
        """How many stages there are, the reading of the input among them."""
        return 1 + max((handler.stage for handler in self.handlers), default=0)

    def table_of(self, state: str) -> Table:
        """The table that holds a state; ask for one of the program's."""
        return next(table for table in self.tables if state in table.states)

    def step_grid(self, unit: str) -> int:
        """How far apart canonical steps are, in ticks of ``unit``: what `grid_of` says of the windows of level 0."""
        return grid_of((query for table in self.tables if table.level == 0 for query in table.queries), unit)

    def digest(self) -> str:
        """A checksum of what the program means: the same in every process, another one for another program.

        It does not read code: a function is its import path. Where users' code in a query or flow has none, this refuses it.
        """
        text = json.dumps(self._described(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _described(self) -> dict[str, Any]:
        handlers = [[h.name, h.stage, h.states, h.once, h.is_async, h.order, h.inserts] for h in self.handlers]
        return {
            "name": self.name,
            "tables": [_table_described(table) for table in self.tables],
            "handlers": handlers,
            "locals": dict(self.locals),
            "settings": [self.has_events, self.cut, self.unsafe],
            # What a class was made of by a flow is in the rest; its path would say how it was asked for.
            "function": None if self.code or self.function is None else _address(self.function),
            "code": [_code_path(self.name, code) for code in self.code],
        }


def program_of(thing: Any) -> Program:
    """The program of a processing function's class, a flow, queries, or the import path of one of these.

    >>> import headwater as hw
    >>> class Bids(hw.ProcessingFunction):
    ...     total = hw.WindowedCRDT(hw.count(), hw.tumbling("1 s"))
    ...
    ...     @hw.when_final(total, once=True)
    ...     def report(self, w, total):
    ...         yield {"window_end": w.end, "bids": total}
    >>> program_of(Bids).handlers
    (Handler(name='report', stage=1, states=('total',), once=True, is_async=False, order=0, inserts=()),)
    >>> program_of(Bids())
    Traceback (most recent call last):
    headwater.errors.QueryError: program is an instance of Bids: give the class itself; each partition makes its own
    """
    if isinstance(thing, str):
        found = program_of(_loaded(thing))
        return replace(found, path=found.path or thing)
    if isinstance(thing, Flow):
        return _of_flow(thing)
    if is_function_class(thing) and thing is not ProcessingFunction:
        return _of_function(thing)
    if is_nested(thing):
        right = "give the class itself; each partition makes its own"
        raise QueryError(f"program is an instance of {type(thing).__name__}: {right}")
    if isinstance(thing, type) or callable(thing):
        raise QueryError(f"program is {thing!r}: {_FORM}")
    return _of_queries(check_queries(thing))


def _loaded(path: str) -> Any:
    found = load_path(path)
    if isinstance(found, str):
        raise QueryError(f"program is {path!r}, which is the text {found!r}: {_FORM}")
    return found


def _of_queries(queries: list[Query]) -> Program:
    names = tuple(query.name for query in queries)
    if not names:
        raise QueryError("queries is []: give one query or more")
    for index, name in enumerate(names):
        if name in names[:index]:
            raise QueryError.of(Problem("name", name, "another query has this name; name each once"), name)
    return Program(names[0] if len(names) == 1 else "queries", (Table(0, 0, None, tuple(queries), names),))


def _of_flow(flow: Flow) -> Program:
    if flow.function is None:
        return replace(_of_queries([flow.query()]), name=flow.name)
    made = _of_function(flow.processing_function())
    return replace(made, path=None, code=(flow.function,))


def _of_function(function: type[ProcessingFunction]) -> Program:
    layout, name = function.layout, function.__name__
    if layout.has_events is None and not layout.handlers:
        right = "write a method events, event or one with @hw.when_final above it that yields rows"
        raise QueryError(f"function {name}: nothing in it gives rows: {right}", query=name)
    if not takes(function.__init__, 1):
        right = "give each argument a default, or use it as a nested function"
        raise QueryError(f"function {name}: hosts make it without arguments: {right}", query=name)
    return Program(
        name,
        _tables(layout),
        _handlers(layout),
        {each.name: each.state.fresh() for each in layout.states if isinstance(each.state, Local)},
        layout.has_events,
        layout.cut,
        layout.unsafe,
        function,
        path_of(function),
    )


def _tables(layout: FunctionLayout) -> tuple[Table, ...]:
    windowed = [(each, each.state) for each in layout.states if isinstance(each.state, WindowedState)]
    declared = [(each, state) for each, state in windowed if state.is_declared]
    inserted = [(each, state) for each, state in windowed if not state.is_declared]
    queries = tuple(state.query(each.name) for each, state in declared)
    tables = [Table(0, 0, None, queries, tuple(each.name for each, _ in declared))] if declared else []
    tables += [_inserted(number, each, state, layout) for number, (each, state) in enumerate(inserted, 1)]
    return tuple(tables)


def _inserted(number: int, each: NamedState, state: WindowedState, layout: FunctionLayout) -> Table:
    level, queries = layout.heights[each.name], (state.query(each.name),)
    return Table(number, level, each.inserted_by, queries, (each.name,), state.types())


def _handlers(layout: FunctionLayout) -> tuple[Handler, ...]:
    inserts: dict[str | None, list[str]] = {each.name: [] for each in layout.handlers}
    for state in layout.states:
        inserts.get(state.inserted_by, []).append(state.name)
    return tuple(
        Handler(
            each.name,
            layout.heights[each.name],
            each.states,
            each.once,
            each.is_async,
            order,
            tuple(inserts[each.name]),
        )
        for order, each in enumerate(layout.handlers)
    )


def _table_described(table: Table) -> dict[str, Any]:
    columns = None if table.columns is None else {name: str(data_type) for name, data_type in table.columns.items()}
    return {
        "number": table.number,
        "level": table.level,
        "inserted_by": table.inserted_by,
        "queries": json.loads(to_json(table.queries)),
        "columns": columns,
    }


def _address(function: type[ProcessingFunction]) -> str:
    return path_of(function) or f"{function.__module__}:{function.__qualname__}"


def _code_path(name: str, code: Any) -> str:
    found = code if isinstance(code, str) else checked_path("per_window", code)
    if isinstance(found, Problem):
        raise QueryError.of(found, name)
    return found
