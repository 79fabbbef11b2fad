"""Flows: one window query and a function of its windows, written as a chain.

    hot = (hw.flow("hot items").where(hw.col("kind") == "bid").key_by("auction")
             .window(hw.sliding("10 s", "2 s")).aggregate(n=hw.count()).per_window("shop.queries:most"))

Each step returns a new flow. What is wrong is refused as soon as it is written, in the words of a query of the flow's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from headwater.errors import Problem, QueryError, shown
from headwater.language import checks
from headwater.language.aggregations import Aggregation
from headwater.language.expressions import Expr, condition_or_given
from headwater.language.functions.function import ProcessingFunction
from headwater.language.functions.handlers import WindowRead, when_final
from headwater.language.functions.states import WindowedCRDT
from headwater.language.query import Query, query_of
from headwater.language.user_code import load_path, path_of
from headwater.language.windows import Window

PerWindow = Callable[[pa.Table], Any]
_ROWS_FORM: Final = "give an Arrow table, or rows as dicts"
_PATH_FORM: Final = "give a function of one window's Arrow table, or its path 'package.module:name'"


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow so far. Write it with `flow(name)`."""

    name: str
    condition: Expr | None = None
    keys: tuple[str, ...] = ()
    windows: Window | None = None
    lateness: Any = 0
    aggregates: tuple[tuple[str, Aggregation], ...] = ()
    #: What is called with each window's table; a path if it has one.
    function: str | PerWindow | None = None

    def where(self, condition: Any) -> Flow:
        """Only events for which the condition is true; of several all have to be.

        >>> from headwater.language.expressions import col
        >>> flow("bids").where(col("kind") == "bid").where(col("price") > 9).condition
        ((col('kind') == 'bid') & (col('price') > 9))
        """
        self._refuse_behind_aggregate("where")
        given = condition_or_given(condition)
        for problem in checks.condition("where", given):
            raise self._refused(problem)
        return replace(self, condition=given if self.condition is None else self.condition & given)

    def key_by(self, *columns: str) -> Flow:
        """A value for each key of these columns."""
        self._refuse_behind_aggregate("key_by")
        self._refuse_again("key_by", self.keys)
        if not columns:
            raise self._refused(Problem("key_by", columns, "name the key columns: key_by('house', 'room')"))
        return replace(self, keys=columns)

    def window(self, window: Window, lateness: object = 0) -> Flow:
        """The windows; with ``lateness`` late members change them, and rows are given anew, with a higher revision."""
        self._refuse_behind_aggregate("window")
        self._refuse_again("window", self.windows)
        return replace(self, windows=window, lateness=lateness)

    def aggregate(self, **aggregates: Aggregation) -> Flow:
        """What is computed of each window, by name. Without `per_window` these are the rows."""
        self._refuse_again("aggregate", self.aggregates)
        if self.windows is None:
            raise self._refused(Problem("window", None, "say it before aggregate: .window(hw.tumbling('10 s'))"))
        made = replace(self, aggregates=tuple(aggregates.items()))
        made.query()
        return made

    def per_window(self, function: str | PerWindow) -> Flow:
        """Call a function with each window's table, once for all partitions; what it gives are the rows.

        The table has the keys and aggregates, a row for each key. The rows get the window's bounds in front.
        """
        self._refuse_again("per_window", self.function)
        if not self.aggregates:
            raise self._refused(Problem("aggregate", None, "say it before per_window: .aggregate(n=hw.count())"))
        if not callable(function) and not _is_path(function):
            raise self._refused(Problem("per_window", function, _PATH_FORM))
        # A path is followed when the flow is run: the function may stand further down in the module of the flow.
        return replace(self, function=path_of(function) or function)

    def query(self) -> Query:
        """The window query of the flow; ask when it has aggregates."""
        if not self.aggregates:
            raise self._refused(Problem("aggregate", None, "say what is computed: .aggregate(n=hw.count())"))
        window: Any = self.windows
        return query_of(self.name, window, self.aggregates, self.keys, self.condition, lateness=self.lateness)

    def processing_function(self) -> type[ProcessingFunction]:
        """The flow as a function with one state and one handler; it has to have a `per_window`."""
        function = self._loaded()
        found = self.query()
        revises = found.lateness > 0
        windows = WindowedCRDT(
            dict(self.aggregates), found.window, keys=self.keys, where=self.condition, lateness=found.lateness
        )

        def rows(_: ProcessingFunction, w: WindowRead, windows: Any) -> Iterator[dict[str, Any]]:
            yield from rows_of(function(table_of(windows)), w, revises, self.name)

        parts = {"__module__": __name__, "windows": windows, "rows": when_final(windows, once=True)(rows)}
        return type(self.name, (ProcessingFunction,), parts)

    def _loaded(self) -> PerWindow:
        function: Any = load_path(self.function) if isinstance(self.function, str) else self.function
        if not callable(function):
            raise self._refused(Problem("per_window", self.function, _PATH_FORM))
        return function  # type: ignore[no-any-return]

    def _refuse_behind_aggregate(self, step: str) -> None:
        if self.aggregates:
            raise QueryError(f"flow {self.name!r}: {step} stands behind aggregate: say it before, it is about events")

    def _refuse_again(self, step: str, given: object) -> None:
        if given:
            raise QueryError(f"flow {self.name!r}: {step} stands there twice: say it once")

    def _refused(self, problem: Problem) -> QueryError:
        return QueryError(f"flow {self.name!r}: {problem.text()}", query=self.name, field=problem.field)


def flow(name: str) -> Flow:
    """A flow of this name, over all events.

    >>> import headwater as hw
    >>> hot = flow("hot").key_by("auction").window(hw.tumbling("2 s")).aggregate(n=hw.count())
    >>> hot.query().keys, hot.query().window
    (('auction',), Sliding(size='2 s', slide='2 s', offset=0))
    """
    for problem in checks.text("name", name, "name the flow with text, such as 'hot items'"):
        raise QueryError(f"flow: {problem.text()}")
    return Flow(name)


def table_of(window: Any) -> pa.Table:
    """One window as a table: keyed ones are tables, of others there is one row.

    >>> table_of({"n": 3}).to_pylist()
    [{'n': 3}]
    """
    return window if isinstance(window, pa.Table) else pa.Table.from_pylist([dict(window)])


def rows_of(given: Any, w: WindowRead, revises: bool, name: str) -> Iterator[dict[str, Any]]:
    """What a function gave, as rows with the window's bounds in front; a column that it gave itself stands.

    >>> list(rows_of([{"auction": 7}], WindowRead(0, 10), False, "hot"))
    [{'window_start': 0, 'window_end': 10, 'auction': 7}]
    """
    bounds: dict[str, Any] = {"window_start": w.start, "window_end": w.end}
    if w.position is not None:
        bounds |= {"position_start": w.position[0], "position_end": w.position[1]}
    if revises:
        bounds["revision"] = w.revision
    for row in _listed(given, name):
        if not isinstance(row, Mapping):
            raise QueryError(f"flow {name!r}: per_window gave {shown(row)} among its rows: {_ROWS_FORM}")
        yield {**bounds, **row}


def _listed(given: Any, name: str) -> Iterable[Any]:
    if given is None:
        return ()
    if isinstance(given, pa.Table | pa.RecordBatch):
        rows: list[Any] = given.to_pylist()
        return rows
    if isinstance(given, Mapping):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return given
    raise QueryError(f"flow {name!r}: per_window gave {shown(given)}: {_ROWS_FORM}")


def _is_path(text: object) -> bool:
    if not isinstance(text, str):
        return False
    module, _, name = text.partition(":")
    return all(part.isidentifier() for part in (*module.split("."), *name.split(".")))
