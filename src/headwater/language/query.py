"""Queries: what a user asks of a stream, complete and checked.

`query(...)` puts a window and its aggregates together with keys, a condition and the options. Everything wrong is
refused here, when it is written, with the query's name, the field, the value and the right form; what depends on the
data's columns is refused by `check_schema` before anything runs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from headwater.errors import Problem, QueryError
from headwater.language import checks
from headwater.language.aggregations import Aggregation
from headwater.language.expressions import Expr, condition_or_given
from headwater.language.schemas import check_schema, check_schemas
from headwater.language.times import Duration, Nanos, duration_or_given, in_ticks, ticks_problem
from headwater.language.windows import Band, CountWindow, Custom, Session, Sliding, Window

__all__ = ["RESERVED", "SCOPES", "Query", "check_schema", "check_schemas", "query", "query_of"]

Scope = Literal["global", "node", "ordinal", "matched", "overlap"]
Sums = Literal["exact", "native"]

SCOPES: Final = ("global", "node", "ordinal", "matched", "overlap")
CONTEXT_SCOPES: Final = frozenset(("ordinal", "matched", "overlap"))
#: Columns every result has or may have; no key or aggregate can take their names.
RESERVED: Final = frozenset(
    """query window_start window_end position_start position_end event_count revision replaces node first_time
    last_time""".split()
)
#: Of windows without events so many come at once, unless a query says otherwise: more is a mistake in a time.
EMPTY_MAX: Final = 10_000_000
_KEYS_FORM: Final = "name the key columns: keys=['house', 'room']"
_OPTIONS: Final = ("keys", "where", "distinct", "lateness", "emit_empty", "scope", "sums")
#: What others call our options.
_ALSO_CALLED: Final = {"by": "keys", "group_by": "keys", "groupby": "keys", "partition_by": "keys", "filter": "where"}


@dataclass(frozen=True, slots=True)
class Query:
    """One window query, checked when it is made. Write it with `query(...)`."""

    name: str
    window: Window
    aggregates: tuple[tuple[str, Aggregation], ...]
    keys: tuple[str, ...] = ()
    where: Expr | None = None
    distinct: str | None = None
    lateness: Duration = 0
    emit_empty: bool | int = False
    scope: Scope = "global"
    sums: Sums = "exact"
    #: The column that says at which node an event is at home; None: its source is. Doors write it, from their ``home=``.
    home: str | None = None

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise QueryError.of(problem, self.name)

    @property
    def empty_max(self) -> int:
        """How many windows without events may come at once."""
        return EMPTY_MAX if isinstance(self.emit_empty, bool) else self.emit_empty

    def columns(self) -> frozenset[str]:
        """Every column the query reads, the time aside.

        >>> import headwater.language.aggregations as agg, headwater.language.windows as win
        >>> sorted(query("load", win.tumbling("1 s"), avg=agg.avg("load"), keys=["house"]).columns())
        ['house', 'load']
        """
        read = {name for _, aggregation in self.aggregates for name in aggregation.columns}
        read.update(self.keys)
        if isinstance(self.window, Custom):
            read.update(self.window.columns)
        if self.distinct is not None:
            read.add(self.distinct)
        if self.home is not None:
            read.add(self.home)
        for expr in self.conditions():
            read |= expr.columns()
        return frozenset(read)

    def conditions(self) -> tuple[Expr, ...]:
        """Every condition the query evaluates: `where`, then its window's markers."""
        return (() if self.where is None else (self.where,)) + self.window.conditions()

    @property
    def can_revise(self) -> bool:
        """Whether a row that is out may be replaced by another while the stream runs.

        Late members change windows. A session that is out can still grow, and so can what several nodes' windows make together.

        >>> import headwater.language.aggregations as agg, headwater.language.windows as win
        >>> query("s", win.session("5 s"), n=agg.count()).can_revise, query("t", win.tumbling("5 s"), n=agg.count()).can_revise
        (True, False)
        """
        if self.scope in CONTEXT_SCOPES or isinstance(self.window, Session):
            return True
        return self.lateness > 0 and not isinstance(self.window, CountWindow)

    def own_columns(self, may_revise: bool = True) -> list[str]:
        """The columns that its rows have in a call of its own, without its name; ``may_revise``: in a call that can revise."""
        counts = isinstance(self.window, CountWindow)
        columns = ["window_start", "window_end", *(["position_start", "position_end"] if counts else [])]
        columns += [*self.keys, *(alias for alias, _ in self.aggregates), "event_count", "revision"]
        columns += ["replaces"] if may_revise and self.can_revise else []
        columns += ["node"] if self.scope == "node" else []
        return [*columns, "first_time", "last_time"] if counts else columns

    def _repr_html_(self) -> str:
        """The query for a notebook, field by field."""
        # What says it in words is about queries.
        from headwater.language.notebooks.html import html_facts
        from headwater.language.notebooks.words import query_facts

        return html_facts(f"query {self.name}", query_facts(self))

    def resolved(self, unit: str) -> Query:
        """The query with every duration in ticks of `unit` ("ns", "us", "ms", "s"); itself if they are already."""
        window = self.window.resolved(unit, self.name)
        late = ticks_problem(self.lateness, unit, "lateness")
        if late is not None:
            raise QueryError.of(late, self.name)
        if window is self.window and not isinstance(self.lateness, Nanos):
            return self
        return _with_ticks(self, window, in_ticks(self.lateness, unit))


_FIELDS: Final = tuple(field.name for field in fields(Query))


def query(
    name: str,
    window: Window,
    *,
    keys: str | Iterable[str] = (),
    where: Expr | None = None,
    distinct: str | None = None,
    lateness: object = 0,
    emit_empty: bool | int = False,
    scope: Scope = "global",
    sums: Sums = "exact",
    **aggregates: Aggregation,
) -> Query:
    """A window query: its name, its window, and one keyword per aggregate.

    ``emit_empty`` shows windows without events too; a number says how many of them may come at once, by default ten million.

    >>> import headwater.language.aggregations as hw
    >>> from headwater.language.expressions import col
    >>> from headwater.language.windows import sliding
    >>> load = query("load", sliding("1 min", "5 s"), avg=hw.avg("load"), keys=["house"], where=col("load") > 0)
    >>> load.keys, load.where
    (('house',), (col('load') > 0))
    >>> query("load", sliding("1 min", 0), avg=hw.avg("load"))
    Traceback (most recent call last):
    headwater.errors.QueryError: query 'load': window.slide is 0: give a duration above 0, such as '10 s',
        or an integer of ticks
    """
    return query_of(name, window, tuple(aggregates.items()), keys, where, distinct, lateness, emit_empty, scope, sums)


def _with_ticks(query: Query, window: Window, lateness: int) -> Query:
    # Not dataclasses.replace: it would check again what was checked, three times the price for a million queries.
    copy = object.__new__(Query)
    for field in _FIELDS:
        object.__setattr__(copy, field, getattr(query, field))
    object.__setattr__(copy, "window", window)
    object.__setattr__(copy, "lateness", lateness)
    return copy


def query_of(
    name: str,
    window: Window,
    aggregates: tuple[tuple[str, Aggregation], ...],
    keys: Any = (),
    where: Any = None,
    distinct: str | None = None,
    lateness: Any = 0,
    emit_empty: bool | int = False,
    scope: Scope = "global",
    sums: Sums = "exact",
    home: str | None = None,
) -> Query:
    """`query` with the aggregates as pairs, for code that writes queries; any result column's name is possible."""
    where, lateness = condition_or_given(where), duration_or_given(lateness)
    return Query(name, window, aggregates, _names(keys), where, distinct, lateness, emit_empty, scope, sums, home)


def _names(keys: Any) -> Any:
    # What is no list of names is kept: the check refuses it.
    return (keys,) if isinstance(keys, str) else tuple(keys) if isinstance(keys, Iterable) else keys


def _problems(query: Query) -> Iterator[Problem]:
    yield from checks.text("name", query.name, "name the query with text, such as 'load'")
    yield from _window_problems(query.window, query)
    yield from _column_problems(query.keys, query.distinct)
    yield from _aggregate_problems(query.aggregates, query.keys)
    if query.where is not None:
        yield from checks.condition("where", query.where)
    yield from checks.not_negative("lateness", query.lateness)
    yield from checks.one_of("sums", query.sums, ("exact", "native"))
    if query.home is not None:
        yield from checks.text("home", query.home, "name the column that says where an event is at home")
        if query.scope == "global":
            yield Problem(
                "home", query.home, "in scope 'global' all nodes are one: leave it out, or give another scope"
            )


def _window_problems(window: object, query: Query) -> Iterator[Problem]:
    if not isinstance(window, Window):
        yield Problem("window", window, "give a window, such as tumbling('10 s') or session('30 s')")
        return
    for problem in window.problems():
        yield problem.inside("window")
    yield from checks.one_of("scope", query.scope, SCOPES)
    if query.scope in CONTEXT_SCOPES and not window.is_context:
        yield Problem("scope", query.scope, "windows with known ends are alike on all nodes: use 'global' or 'node'")
    if isinstance(query.emit_empty, bool) or type(query.emit_empty) is not int or query.emit_empty < 1:
        yield from checks.flag("emit_empty", query.emit_empty)
    if query.emit_empty and not isinstance(window, Sliding | Band):
        yield Problem("emit_empty", True, "only tumbling, sliding and band windows can be empty: leave it False")


def _column_problems(keys: object, distinct: object) -> Iterator[Problem]:
    if not isinstance(keys, tuple):
        yield Problem("keys", keys, _KEYS_FORM)
        return
    for index, key in enumerate(keys):
        yield from checks.text("keys", key, _KEYS_FORM)
        if key in RESERVED:
            yield Problem("keys", key, _rename_form(key))
        if key in keys[:index]:
            yield Problem("keys", key, "name each key column once")
    if distinct is not None:
        yield from checks.text("distinct", distinct, "name the column that holds the id: distinct='id'")


def _aggregate_problems(aggregates: object, keys: tuple[str, ...]) -> Iterator[Problem]:
    if not isinstance(aggregates, tuple) or not aggregates:
        yield Problem("aggregates", aggregates, "ask for at least one, such as n=hw.count()")
        return
    seen: set[str] = set()
    for alias, aggregation in aggregates:
        yield from checks.text("aggregates", alias, "name the result column with text")
        field = f"aggregate {alias!r}"
        if not isinstance(aggregation, Aggregation):
            yield Problem(field, aggregation, _not_an_aggregate(alias))
        elif alias in RESERVED:
            yield Problem(field, alias, f"results have a column of this name; take another ({_reserved()})")
        elif alias in keys:
            yield Problem(field, alias, "a key column has this name; take another")
        elif alias in seen:
            yield Problem(field, alias, "an aggregate of this name exists; name each once")
        else:
            for problem in aggregation.problems():
                yield problem.inside(field)
        seen.add(alias)


def _not_an_aggregate(alias: str) -> str:
    close = difflib.get_close_matches(alias, _OPTIONS, n=1)
    meant = _ALSO_CALLED.get(alias, close[0] if close else None)
    hint = f"; did you mean {meant}=?" if meant else ""
    return f"give an aggregate, such as {alias}=hw.avg('load'){hint}"


def _rename_form(key: str) -> str:
    return f"results have a column of this name; give it another on the way in, rename={{{key!r}: 'own_{key}'}} ({_reserved()})"


def _reserved() -> str:
    return ", ".join(sorted(RESERVED))
