"""States of processing functions: what is kept of a stream, declared as attributes of the function's class.

`WindowedCRDT` is one for all partitions, `WindowedLocal` one for each, and both are window queries: what may stand in one
is what may stand in a query, and is refused in the same words. `Local` is a small value of one partition. A state is a
description; in a run the function's instance shows in its place what the host put there.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self, TypeAlias, overload

import pyarrow as pa

from headwater.errors import Problem, QueryError
from headwater.language.aggregations import Aggregation
from headwater.language.expressions import Expr, condition_or_given
from headwater.language.query import Query, Scope, query_of
from headwater.language.schemas import check_columns
from headwater.language.time_columns import arrival
from headwater.language.times import Duration, duration_or_given
from headwater.language.windows import Window

if TYPE_CHECKING:
    from headwater.holon.plain import CRDTReplica

#: A value that is JSON.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

#: The name of the value of a state with one aggregate.
VALUE: Final = "value"
#: So deep a `Local` may be nested.
DEPTH_MAX: Final = 50
_TYPES: Final[dict[Any, pa.DataType]] = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
_JSON_FORM: Final = "give what is JSON: None, a bool, a number, text, lists and dicts of these"


class UnboundState:
    """A state of an instance that nothing runs: it can be named, as in ``@hw.when_final(hot.counts)``, and not used.

    >>> class Bids:
    ...     seen = Local(0)
    >>> Bids().seen.value
    Traceback (most recent call last):
    headwater.errors.QueryError: Bids.seen.value: a state has values only in a run; hosts make instances of their own and
        call the handlers
    """

    __slots__ = ("instance", "state")
    instance: object
    state: State

    def __init__(self, instance: object, state: State) -> None:
        object.__setattr__(self, "instance", instance)
        object.__setattr__(self, "state", state)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # what Python itself asks of any object
            raise AttributeError(name)
        raise self._unusable(name)

    def __setattr__(self, name: str, value: object) -> None:
        raise self._unusable(name)

    def _unusable(self, name: str) -> QueryError:
        where = f"{type(self.instance).__name__}.{self.state.name}"
        return QueryError(
            f"{where}.{name}: a state has values only in a run; hosts make instances of their own and call the handlers"
        )


@dataclass(frozen=True, eq=False)
class State:
    """What all states have in common: a name, which is that of the attribute, and their place in an instance.

    On the class an attribute is the description itself. On an instance it is what the host put into ``_states`` under
    its name, and an `UnboundState` where nothing runs.
    """

    name: str | None = field(default=None, init=False)

    def __set_name__(self, owner: type, name: str) -> None:
        # A second name is no name: the class that gives it is refused. Not here, where Python would wrap the error.
        if self.name is None:
            object.__setattr__(self, "name", name)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Any: ...
    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        states = vars(instance).get("_states")
        return UnboundState(instance, self) if states is None else states[self.name]

    def __set__(self, instance: object, value: object) -> NoReturn:
        right = (
            f"write self.{self.name}.value = ..." if isinstance(self, Local) else f"write self.{self.name}.insert(...)"
        )
        raise QueryError(f"{type(instance).__name__}.{self.name} is a state and stays one: {right}")


@dataclass(frozen=True, eq=False)
class Local(State):
    """A value of this partition that is kept, moves with it and is changed by handlers: ``self.seen.value += 1``.

    >>> class Bids:
    ...     seen = Local({"bids": 0})
    >>> Bids.seen.name, Bids.seen.fresh()
    ('seen', {'bids': 0})
    """

    initial: Json

    def __post_init__(self) -> None:
        # A copy: what the caller does with a list later is no part of the description.
        if next(self.problems(), None) is None:
            object.__setattr__(self, "initial", copy.deepcopy(self.initial))

    def problems(self) -> Iterator[Problem]:
        """What keeps the value from being written down.

        >>> [problem.text() for problem in Local({"seen": {1, 2}}).problems()]
        ["initial['seen'] is {1, 2}: give what is JSON: None, a bool, a number, text, lists and dicts of these"]
        """
        yield from json_problems("initial", self.initial)

    def fresh(self) -> Json:
        """The value as it was given, to be changed by one partition alone."""
        return copy.deepcopy(self.initial)


def json_problems(field: str, value: object, depth: int = 0) -> Iterator[Problem]:
    """What in a value is not JSON, or would come back as something else."""
    if depth > DEPTH_MAX:
        yield Problem(field, value, f"nest at most {DEPTH_MAX} deep")
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from json_problems(f"{field}[{index}]", entry, depth + 1)
    elif isinstance(value, dict):
        for key, entry in value.items():
            if type(key) is not str:
                yield Problem(f"a key of {field}", key, "JSON has text as keys")
            else:
                yield from json_problems(f"{field}[{key!r}]", entry, depth + 1)
    elif type(value) is float and not isfinite(value):
        yield Problem(field, value, "JSON has no such number; use None, or the text of it")
    elif value is not None and type(value) not in (bool, int, float, str):
        yield Problem(field, value, _JSON_FORM)


@dataclass(frozen=True, eq=False)
class WindowedState(State):
    """A state that is a window query: ``aggregate`` is one aggregate, or several by name, of each window.

    Nothing says how events get in: then every event of the input does (``where`` says which count). ``inserted_by`` names
    the method that inserts instead, ``"events"``, ``"event"`` or a handler; ``columns`` are then what it inserts.
    """

    scope: ClassVar[Scope]

    aggregate: Aggregation | Mapping[str, Aggregation]
    window: Window
    _: KW_ONLY
    keys: Any = ()
    where: Expr | None = None
    lateness: Duration | str = 0
    inserted_by: str | None = None
    columns: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "where", condition_or_given(self.where))
        put(self, "lateness", duration_or_given(self.lateness))
        for name in ("aggregate", "columns"):
            if isinstance(given := getattr(self, name), Mapping):
                put(self, name, MappingProxyType(dict(given)))

    def replica(self, partition: str, partitions: Iterable[str], unit: str = "us") -> CRDTReplica:
        """The state as a plain object, as one partition of several knows it, without any function or host.

        >>> import headwater as hw
        >>> hw.WindowedCRDT(hw.count(), hw.tumbling(10)).replica("a", ["a", "b"]).global_watermark
        -9223372036854775808
        """
        # It computes, and descriptions do not.
        from headwater.holon.plain import CRDTReplica

        return CRDTReplica(self, partition, partitions, unit)

    @property
    def is_declared(self) -> bool:
        """Whether every event of the input gets in by itself."""
        return self.inserted_by is None

    def query(self, name: str) -> Query:
        """The query that the state is, under this name; what is wrong in it is refused as in any query.

        >>> import headwater as hw
        >>> bids = hw.WindowedLocal(hw.count(), hw.tumbling("1 s"), keys="auction")
        >>> bids.query("hot.bids").aggregates, bids.query("hot.bids").keys, bids.query("hot.bids").scope
        ((('value', Aggregation(function='count', column=None, parameter=None)),), ('auction',), 'node')
        """
        several = isinstance(self.aggregate, Mapping)
        aggregates = tuple(self.aggregate.items()) if several else ((VALUE, self.aggregate),)  # type: ignore[union-attr]
        return query_of(name, self.window, aggregates, self.keys, self.where, lateness=self.lateness, scope=self.scope)

    def types(self) -> dict[str, pa.DataType] | None:
        """The Arrow types of what is inserted; None: the columns are those of the input.

        >>> import headwater as hw
        >>> hw.WindowedCRDT(hw.sum("price"), hw.tumbling(10), inserted_by="events", columns={"price": int}).types()
        {'price': DataType(int64)}
        """
        if self.is_declared:
            return None
        return {name: arrow_type(given) for name, given in (self.columns or {}).items()}

    def column_problems(self) -> Iterator[Problem]:
        """What is wrong with the columns by themselves; the query is right."""
        if self.is_declared:
            if self.columns is not None:
                right = "the columns are those of the input; leave it out, or say inserted_by="
                yield Problem("columns", dict(self.columns), right)
            return
        columns: Any = self.columns
        if columns is not None and not isinstance(columns, Mapping):
            yield Problem("columns", columns, "give names and types, such as columns={'price': int}")
            return
        for name, given in (columns or {}).items():
            if not isinstance(name, str) or not name:
                yield Problem("columns", name, "name columns with text: columns={'price': int}")
            elif not isinstance(arrow_type(given), pa.DataType):
                yield Problem(f"columns[{name!r}]", given, "give int, float, str, bool or an Arrow type")
        for name in sorted(self.query("state").columns() - set(columns or {})):
            right = f"it is read, and what is inserted has no such column; say its type, columns={{{name!r}: int}}"
            yield Problem("columns", dict(columns or {}), f"{name!r} is missing: {right}")

    def check_types(self, name: str) -> None:
        """Refuse a query that does not fit the types of what is inserted."""
        types = self.types()
        if types is not None:
            # The time of what is inserted is said where it is inserted, and is no business of this schema.
            check_columns([self.query(name)], pa.schema(list(types.items())), arrival())


@dataclass(frozen=True, eq=False)
class WindowedCRDT(WindowedState):
    """A state that all partitions share: the values of a window are those of all events, the same everywhere.

    >>> import headwater as hw
    >>> total = hw.WindowedCRDT(hw.count(), hw.tumbling("1 s"), where=hw.col("kind") == "bid")
    >>> total.window, total.is_declared
    (Sliding(size='1 s', slide='1 s', offset=0), True)
    """

    scope: ClassVar[Scope] = "global"


@dataclass(frozen=True, eq=False)
class WindowedLocal(WindowedState):
    """The same of one partition alone: the values of a window are those of its own events."""

    scope: ClassVar[Scope] = "node"


def arrow_type(given: Any) -> Any:
    """The Arrow type of a column; what is none stays what it is, and is refused."""
    return _TYPES.get(given, given) if isinstance(given, type) else given
