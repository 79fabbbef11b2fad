"""What a stage reads: windows that are final, by the rows of the steps that are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.core import Core
from headwater.errors import QueryError
from headwater.language.functions.handlers import WindowRead
from headwater.language.functions.states import VALUE
from headwater.language.query import Query, query_of
from headwater.language.times import FOREVER
from headwater.language.windows import CountWindow, Session, tumbling
from headwater.node.holon.executed_steps import StepRows
from headwater.node.holon.kept_steps import FinalWindow, KeptSteps, windows_of

Bounds = tuple[int, int]


class NotFinalYetError(BaseException):
    """A stage has to wait. No `Exception`: a user's handler that catches all of these must not swallow it."""


@dataclass(frozen=True, slots=True)
class ReadState:
    """A windowed state as it is read: its query in ticks, its level, and the columns of its values under users' names."""

    name: str
    query: Query
    level: int
    columns: Mapping[str, str]
    nothing: Mapping[str, Any]

    @property
    def is_local(self) -> bool:
        return self.query.scope == "node"

    def is_final(self, end: int, time: int) -> bool:
        """Whether a window that ends then is final when the watermark of all is at ``time``, whether it has events or not."""
        if isinstance(self.query.window, CountWindow):
            return time == FOREVER
        # A session may be joined by an event at its very end; what was said of an open end is on the safe side.
        return time > end if isinstance(self.query.window, Session) else time >= end

    def value(self, windows: Sequence[FinalWindow], unit: str) -> Any:
        """The value of one window, by what came out of it so far: plain, a dict if there are several, a table if it has keys."""
        rows = [self._own(window.rows, unit) for window in windows]
        rows = [table for table in rows if len(table)]
        if self.query.keys:
            return self._table(rows)
        if not rows:
            return self._plain(dict(self.nothing))
        last = rows[-1].slice(len(rows[-1]) - 1)
        return self._plain({name: last.column(inside)[0].as_py() for name, inside in self.columns.items()})

    def _own(self, rows: pa.Table, unit: str) -> pa.Table:
        return rows.filter(pc.equal(rows.column("node"), unit)) if self.is_local else rows

    def has(self, window: FinalWindow, unit: str) -> bool:
        """Whether a window says something for this unit."""
        return len(self._own(window.rows, unit)) > 0

    def _plain(self, values: dict[str, Any]) -> Any:
        return values[VALUE] if list(values) == [VALUE] else values

    def _table(self, tables: list[pa.Table]) -> pa.Table:
        names = [*self.query.keys, *self.columns]
        if not tables:
            return pa.table({name: pa.nulls(0) for name in names})
        inside = [*self.query.keys, *self.columns.values()]
        found = tables[0] if len(tables) == 1 else _latest(tables, self.query.keys)
        # A key that has no events any more is no part of the window.
        found = found.filter(pc.greater(found.column("event_count"), 0))
        return found.select(inside).rename_columns(names)


def _latest(tables: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    """The last row of each key, the keys in the order of the first table that has them."""
    table = pa.concat_tables(tables, promote_options="permissive")
    listed = zip(*(table.column(name).to_pylist() for name in keys))
    places = {key: place for place, key in enumerate(listed)}
    return table.take(pa.array(list(places.values()), pa.int64()))


def nothing_of(query: Query, schema: pa.Schema, time: str, unit: str) -> dict[str, Any]:
    """The values of a window without events, by the columns of the query.

    >>> import headwater as hw
    >>> asked = hw.query("q", hw.tumbling(10), n=hw.count(), total=hw.sum("x"), keys=["k"])
    >>> nothing_of(asked, pa.schema({"time": pa.int64(), "x": pa.int64(), "k": pa.string()}), "time", "us")
    {'n': 0, 'total': None}
    """
    empty = query_of("nothing", tumbling(1), query.aggregates, emit_empty=True)
    core = Core([empty], time=time, unit=unit, schema=schema)
    ends = pa.array([0, 2], pa.int64()).cast(schema.field(time).type)
    columns = [ends if field.name == time else pa.nulls(2, field.type) for field in schema]
    core.push([pa.RecordBatch.from_arrays(columns, schema=schema)])
    core.advance(2)
    rows = core._take()[0]
    row = rows.filter(pc.equal(rows.column("window_start"), 1)).to_pylist()[0]
    return {alias: row[alias] for alias, _ in query.aggregates}


class StageReading:
    """What one unit's stage can read, as of the step that it takes. ``levels``: the steps below, by level."""

    def __init__(
        self, states: Mapping[str, ReadState], levels: Sequence[KeptSteps], unit: str, stage: int, retention: int
    ) -> None:
        self.states, self._levels = states, levels
        self._unit, self._stage = unit, stage
        self._retention = retention
        self.step: StepRows | None = None

    @property
    def time(self) -> int:
        """The watermark of all, as of the step."""
        assert self.step is not None, "outside of a step nothing is final"
        return self.step.time

    def at_step(self, names: Sequence[str]) -> Iterator[tuple[WindowRead, dict[str, Any]]]:
        """The windows of these states that came out at the step, in the order (end, start), with their values."""
        assert self.step is not None
        found: dict[Bounds, dict[str, FinalWindow]] = {}
        for window in windows_of(self.step):
            name, start, end = window.key
            if name in names and self.states[name].has(window, self._unit):
                found.setdefault((end, start), {})[name] = window
        for (end, start), windows in sorted(found.items()):
            revision = max(int(pc.max(window.rows.column("revision")).as_py()) for window in windows.values())
            position = (start, end) if isinstance(self.states[names[0]].query.window, CountWindow) else None
            values = {name: self._known(name, start, end, self.step.number) for name in names}
            bounds = self._bounds(start, end, windows)
            yield WindowRead(*bounds, revision, position), values

    def _bounds(self, start: int, end: int, windows: Mapping[str, FinalWindow]) -> Bounds:
        """Times, also of count windows, whose bounds are positions: there those of the first and last event."""
        rows = next(iter(windows.values())).rows
        if "first_time" not in rows.schema.names or rows.column("first_time")[0].as_py() is None:
            return start, end
        return pc.min(rows.column("first_time")).as_py(), pc.max(rows.column("last_time")).as_py() + 1

    def _known(self, name: str, start: int, end: int, number: int) -> Any:
        """A value by all that came out of a window up to a step of its level."""
        state = self.states[name]
        windows = self._levels[state.level].window((name, start, end))
        return state.value([window for window in windows if window.number <= number], self._unit)

    def value(self, name: str, w: WindowRead) -> Any:
        """The value with which a window became final; it has to be final by now."""
        state = self._readable(name)
        start, end = _key(w)
        if not self.is_final(name, w):
            raise QueryError(
                f"state {name!r}: the window [{start}, {end}) is not final yet; in an async handler,"
                f" await self.{name}.when(w), or self.{name}.then(w, self.method)"
            )
        self._check_kept(name, end)
        windows = self._levels[state.level].window((name, start, end))
        return state.value(windows[:1], self._unit)

    def is_final(self, name: str, w: WindowRead) -> bool:
        """Whether a window is final as of the step."""
        return self._readable(name).is_final(_key(w)[1], self.time)

    def wait(self, name: str, w: WindowRead) -> Any:
        """The same; where the window is not final yet the stage waits."""
        state = self._readable(name)
        start, end = _key(w)
        if not self.is_known(name, w):
            raise NotFinalYetError
        self._check_kept(name, end)
        return state.value(self._levels[state.level].window((name, start, end))[:1], self._unit)

    def is_known(self, name: str, w: WindowRead) -> bool:
        """Whether this node knows a window to be final, which others may not yet as of the step."""
        state = self._readable(name)
        return self.is_final(name, w) or any(
            state.is_final(_key(w)[1], step.time) for step in self._levels[state.level]
        )

    def _readable(self, name: str) -> ReadState:
        state = self.states[name]
        if state.level >= self._stage:
            raise QueryError(
                f"state {name!r} is inserted by a handler of this stage or a later one: a window would wait for itself; "
                "read it in a handler behind that one, @hw.when_final"
            )
        return state

    def _check_kept(self, name: str, end: int) -> None:
        if end <= self.time - self._retention and self.time < FOREVER:
            raise QueryError(
                f"state {name!r}: the window that ends at {end} is too long ago to be read; windows are kept for "
                f"{self._retention} ticks: carry its value in a hw.Local"
            )


def _key(w: WindowRead) -> Bounds:
    return w.position if w.position is not None else (w.start, w.end)
