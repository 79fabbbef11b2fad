"""Windows, aggregates and queries in a few words, for pages and notebooks."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from headwater.language.aggregations import Aggregation
from headwater.language.expressions import Expr
from headwater.language.query import Query
from headwater.language.times import TICK_NANOS, Duration, Nanos
from headwater.language.user_code import path_of
from headwater.language.windows import Band, Between, CountWindow, Custom, Punctuated, Session, Sliding, Window

_W = TypeVar("_W", bound=Window)


def window_in_words(window: Window) -> str:
    """
    >>> import headwater.language.windows as win
    >>> [window_in_words(w) for w in (win.sliding("1 min", "10 s"), win.tumbling(10), win.session("5 s", "1 h"))]
    ['sliding 1 min every 10 s', 'tumbling 10 ticks', 'session 5 s, at most 1 h']
    >>> window_in_words(win.count_sliding(1_000, 10, per="key"))
    'count 1,000 every 10 by key'
    """
    match window:
        case Sliding(size=size, slide=slide, offset=offset):
            said = f"tumbling {_long(size)}" if size == slide else f"sliding {_long(size)} every {_long(slide)}"
            return f"{said} from {_long(offset)} on" if offset else said
        case Band(start=start, size=size):
            return f"band of {_long(size)} from {start:,} on"
        case Session(gap=gap, max_duration=longest):
            return f"session {_long(gap)}{_at_most(longest)}"
        case Punctuated(marker=marker, max_duration=longest):
            return f"punctuated by {_condition(marker)}{_at_most(longest)}"
        case Between(start=start, end=end, max_duration=longest):
            return f"between {_condition(start)} and {_condition(end)}{_at_most(longest)}"
        case CountWindow(size=size, step=step, per=per):
            every = "" if size == step else f" every {step:,}"
            return f"count {size:,}{every}{' by key' if per == 'key' else ''}"
        case Custom(function=function):
            return f"cut by {function if isinstance(function, str) else path_of(function)}"
    return repr(window)


def in_real_time(window: _W, unit: str | None) -> _W:
    """The window with durations of real time instead of ticks of ``unit``."""
    if unit is None:
        return window
    ticks = {name: value for name in window.durations if type(value := getattr(window, name)) is int and value}
    nanos = {name: Nanos(value * TICK_NANOS[unit]) for name, value in ticks.items()}
    return replace(window, **nanos) if nanos else window  # type: ignore[type-var]


def aggregate_in_words(aggregation: Aggregation) -> str:
    """
    >>> import headwater.language.aggregations as agg
    >>> [aggregate_in_words(a) for a in (agg.count(), agg.avg("load"), agg.quantile("load", 0.99))]
    ['count()', 'avg(load)', 'quantile(load, 0.99)']
    """
    name, parameter = aggregation.function, aggregation.parameter
    if name == "user":
        name, parameter = getattr(parameter, "name", str(parameter)), None
    if name in ("top", "rows"):
        k = [] if name == "rows" else [parameter[0]]
        return f"{name}({', '.join(map(str, [aggregation.column, *k, *aggregation.columns[1:]]))})"
    # Of a pair the first is what was asked for, the other how.
    asked = parameter[0] if isinstance(parameter, tuple) else parameter
    return f"{name}({', '.join(str(part) for part in (aggregation.column, asked) if part is not None)})"


def query_in_words(query: Query, unit: str | None = None) -> str:
    """What a query asks, on one line. ``unit``: of durations that are ticks; without it they stay ticks.

    >>> import headwater.language.aggregations as agg, headwater.language.windows as win
    >>> from headwater.language.query import query
    >>> query_in_words(query("load", win.tumbling("1 s"), keys=["house"], mean=agg.avg("load")))
    'avg(load), tumbling 1 s, by house'
    >>> query_in_words(query("n", win.sliding(60_000, 5_000), n=agg.count()), "ms")
    'count(), sliding 1 min every 5 s'
    """
    parts = [
        *(aggregate_in_words(asked) for _, asked in query.aggregates),
        window_in_words(in_real_time(query.window, unit)),
    ]
    if query.keys:
        parts.append(f"by {', '.join(query.keys)}")
    if query.where is not None:
        parts.append(f"where {_condition(query.where)}")
    return ", ".join(parts)


def query_facts(query: Query) -> list[tuple[str, str]]:
    """A query field by field; what it leaves out is empty."""
    aggregates = ", ".join(f"{alias} = {aggregate_in_words(asked)}" for alias, asked in query.aggregates)
    return [
        ("window", window_in_words(query.window)),
        ("aggregates", aggregates),
        ("keys", ", ".join(query.keys)),
        ("where", "" if query.where is None else _condition(query.where)),
        ("distinct", query.distinct or ""),
        ("lateness", _long(query.lateness) if query.lateness else ""),
        ("scope", "" if query.scope == "global" else query.scope),
        ("emit_empty", "yes" if query.emit_empty else ""),
        ("sums", "" if query.sums == "exact" else query.sums),
    ]


def _long(duration: Duration) -> str:
    return str(duration) if isinstance(duration, Nanos) else f"{duration:,} ticks"


def _at_most(longest: Duration | None) -> str:
    return "" if longest is None else f", at most {_long(longest)}"


def _condition(condition: Expr) -> str:
    """As it is written, without the brackets around all of it."""
    text = repr(condition)
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text
