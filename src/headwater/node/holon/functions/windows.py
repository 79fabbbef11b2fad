"""Later stages: what a function's handlers do with windows that are final."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from headwater.errors import DataError, QueryError
from headwater.language.functions.function import bound, name_of
from headwater.language.functions.handlers import WindowRead
from headwater.language.functions.program import Handler
from headwater.node.holon.executed_steps import StepRows
from headwater.node.holon.functions.bound_states import HandlerState, LocalCell, lowest_time
from headwater.node.holon.functions.events import private_bytes
from headwater.node.holon.functions.inserting import Inserts
from headwater.node.holon.functions.reading import NotFinalYetError, StageReading
from headwater.node.holon.functions.rows import listed_rows, rows_table
from headwater.node.holon.functions.setup import FunctionSetup
from headwater.node.holon.kept_steps import KeptSteps
from headwater.node.holon.stages import Took, stage_chain, stage_watermark
from headwater.protocols.windowed_crdt import Prefix

#: A continuation: the state, the window, and the method that is called with it.
Continuation = tuple[str, WindowRead, str]


class FunctionStage:
    """The handlers of one stage of one unit. A step is taken whole or not at all: where one has to wait, nothing is left."""

    def __init__(
        self, setup: FunctionSetup, stage: int, once: bool, unit: str, prefix: Prefix, levels: Sequence[KeptSteps]
    ) -> None:
        known = json.loads(prefix.reach.private) if prefix.reach.private else {}
        self._setup, self._stage = setup, stage
        self._handlers = [handler for handler in setup.handlers[stage] if handler.once == once]
        self._reading = StageReading(setup.states, levels, unit, stage, setup.retention)
        names = frozenset(handler.name for handler in self._handlers)
        offsets, chain = known.get("inserted", {}), stage_chain(unit, stage)
        self._inserts = {
            state: Inserts(table, state, chain, unit, offsets.get(state, 0), prefix.reach)
            for state, table in setup.inserted(stage, names).items()
        }
        self._locals: Mapping[str, LocalCell] = setup.cells(known.get("locals", {}))
        self._row_count: int = known.get("rows", 0)
        self._later: list[Continuation] = [
            (state, WindowRead(start, end, revision, None if position is None else (position[0], position[1])), method)
            for state, (start, end, revision), position, method in known.get("later", [])
        ]
        states: dict[str, Any] = {
            name: HandlerState(name, self._reading, self, self._call_later) for name in setup.states
        }
        assert setup.program.function is not None
        self._instance = bound(setup.program.function, {**states, **self._locals})
        #: Nothing older may be inserted: how far this stage has come before the step.
        self._floor = prefix.reach.watermark
        self._asked: list[tuple[str, Any, Any, Any]] = []
        self._doing: tuple[Handler | None, WindowRead] | None = None

    def take(self, step: StepRows) -> Took | None:
        """Call the handlers for the windows that became final, or changed; None if one has to wait."""
        before = {name: json.dumps(cell.value) for name, cell in self._locals.items()}
        later, index = list(self._later), self._row_count
        self._reading.step, self._asked = step, []
        try:
            rows = [row for some in self._calls(step) for row in some]
        except NotFinalYetError:
            self._later = later
            for name, value in before.items():
                self._locals[name].value = json.loads(value)
            return None
        finally:
            self._doing = None
        for state, element, time, key in self._asked:
            self._inserts[state].insert(element, time, key)
        for inserts in self._inserts.values():
            inserts.close(stage_watermark(step.time))
        self._floor = stage_watermark(step.time)
        self._row_count += len(rows)
        parts = tuple(part for inserts in self._inserts.values() for part in inserts.take_parts())
        private = private_bytes(self._row_count, self._inserts, self._locals, self._later_state())
        return Took(index, rows_table(rows, self._setup.program.name) if rows else None, parts, private)

    # --- calls ---

    def _calls(self, step: StepRows) -> Iterator[list[dict[str, Any]]]:
        if step.rows:
            for handler, w, values in self._windows():
                yield self._call(handler, w, values)
        yield from self._continued()

    def _windows(self) -> Iterator[tuple[Handler, WindowRead, list[Any]]]:
        """In the order (end, start, handler): handlers of one window follow one another."""
        found = [
            (w.end, w.start, handler.order, handler, w, [values[name] for name in handler.states])
            for handler in self._handlers
            for w, values in self._reading.at_step(handler.states)
        ]
        for _, _, _, handler, w, values in sorted(found, key=lambda one: one[:3]):
            yield handler, w, values

    def _call(self, handler: Handler, w: WindowRead, values: list[Any]) -> list[dict[str, Any]]:
        self._doing = handler, w
        return self._rows_of(attrgetter(handler.name)(self._instance), handler.name, w, values)

    def _continued(self) -> Iterator[list[dict[str, Any]]]:
        """Continuations whose windows are final by now, in the order in which they were asked for."""
        waiting, self._later = self._later, []
        for state, w, method in waiting:
            if self._reading.is_final(state, w):
                self._doing = None, w
                call = attrgetter(method)(self._instance)
                yield self._rows_of(call, method, w, [self._reading.wait(state, w)])
            else:
                self._later.append((state, w, method))

    def _rows_of(self, method: Any, name: str, w: WindowRead, values: list[Any]) -> list[dict[str, Any]]:
        try:
            made = method(w, *values)
            if inspect.isasyncgen(made):
                return _awaited_rows(made)
            return listed_rows(_awaited(made) if inspect.iscoroutine(made) else made)
        except Exception as error:
            error.add_note(f"in {self._setup.program.name}.{name}, for the window [{w.start}, {w.end})")
            raise

    # --- what states ask ---

    def insert(self, state: str, element: Any, time: Any, key: Any) -> None:
        """Kept until the step is taken."""
        assert self._doing is not None
        handler, w = self._doing
        name = "a continuation" if handler is None else repr(handler.name)
        if state not in self._inserts or (handler is not None and state not in handler.inserts):
            raise QueryError(self._setup.wrong_inserter(state, "a continuation" if handler is None else handler.name))
        if w.revision:
            raise QueryError(
                f"handler {name} inserts into {state!r} for the window [{w.start}, {w.end}), which has changed since then:"
                " it would be inserted twice; insert where w.revision is 0, and only yield rows else"
            )
        lowest, floor = lowest_time(element, time, self._inserts[state].table.time), self._floor
        if lowest is not None and lowest < floor:
            raise DataError(
                f"handler {name} inserts into {state!r} at {lowest} for the window [{w.start}, {w.end}); windows up to {floor}"
                f" may be final already: insert at w.end - 1 or later"
            )
        self._asked.append((state, element, time, key))

    def _call_later(self, state: str, w: WindowRead, method: Any) -> None:
        self._later.append((state, w, name_of(self._instance, method)))

    def _later_state(self) -> list[Any]:
        return [[state, [w.start, w.end, w.revision], w.position, method] for state, w, method in self._later]


def _awaited(made: Any) -> Any:
    """What a coroutine returns; it may wait for windows only."""
    try:
        made.send(None)
    except StopIteration as stop:
        return stop.value
    made.close()
    raise QueryError(
        "a handler may await windows only, await self.daily.when(w): nothing else is the same on every node"
    )


def _awaited_rows(made: AsyncIterator[Any]) -> list[dict[str, Any]]:
    rows: list[Any] = []
    while True:
        try:
            rows.append(_awaited(made.__anext__()))
        except StopAsyncIteration:
            return listed_rows(rows)
