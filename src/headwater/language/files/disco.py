"""Queries from Disco's strings: "TUMBLING,100,0;SESSION,60,2;TUMBLING,3,0,COUNT" with "SUM;AVG;MEDIAN".

One window per entry, `TYPE,length[,slide][,id][,measure]`: TUMBLING and SLIDING in time or COUNT, SESSION in time.
Lengths in time are milliseconds. Every window gets every function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from headwater.errors import Problem, QueryError
from headwater.language import aggregations, windows
from headwater.language.aggregations import Aggregation
from headwater.language.query import Query, query_of
from headwater.language.times import Nanos
from headwater.language.windows import Window

#: Each type: the lengths it has, and its window in time and in events.
_TYPES: Final[dict[str, tuple[int, Callable[..., Window], Callable[..., Window] | None]]] = {
    "TUMBLING": (1, windows.tumbling, windows.count_tumbling),
    "SLIDING": (2, windows.sliding, windows.count_sliding),
    "SESSION": (1, windows.session, None),
}
#: Disco's median of an even number of values is the larger of the middle two.
_FUNCTIONS: Final[dict[str, Callable[[str], Aggregation]]] = {
    "SUM": aggregations.sum,
    "AVG": aggregations.avg,
    "MIN": aggregations.min,
    "MAX": aggregations.max,
    "MEDIAN": lambda column: aggregations.median(column, method="upper"),
}
_FORM: Final = "write TUMBLING,size,id or SLIDING,size,slide,id (with ,COUNT behind for events) or SESSION,gap,id"


def from_disco(
    window_text: str,
    function_text: str,
    *,
    column: str = "value",
    keys: str | Iterable[str] = (),
    unit_ticks: int | None = None,
) -> list[Query]:
    """One query per window, named like its entry in the string, with every function under its name in lower case.

    Disco's lengths are milliseconds and stay so whatever the stream's unit is; `unit_ticks` says instead how many ticks
    of the stream stand for one of them (1: the string is in ticks).

    >>> for found in from_disco("TUMBLING,100,0;SESSION,60,2;TUMBLING,3,0,COUNT", "SUM;MEDIAN"):
    ...     print(found.name, found.window, [alias for alias, _ in found.aggregates])
    TUMBLING,100,0 Sliding(size='100 ms', slide='100 ms', offset=0) ['sum', 'median']
    SESSION,60,2 Session(gap='60 ms', max_duration=None) ['sum', 'median']
    TUMBLING,3,0,COUNT CountWindow(size=3, step=3, per='all') ['sum', 'median']
    """
    entries = [entry.strip() for entry in window_text.split(";")]
    aggregates = tuple((name.lower(), _function(name)(column)) for name in map(str.strip, function_text.split(";")))
    queries = []
    for index, entry in enumerate(entries):
        if entry in entries[:index]:
            raise QueryError.of(
                Problem("window", entry, "this window is there twice; give each an id of its own"), entry
            )
        queries.append(query_of(entry, _window(entry, unit_ticks), aggregates, keys))
    return queries


def _function(name: str) -> Callable[[str], Aggregation]:
    if name not in _FUNCTIONS:
        raise QueryError.of(Problem("function", name, f"Disco has {', '.join(_FUNCTIONS)}"))
    return _FUNCTIONS[name]


def _window(entry: str, unit_ticks: int | None) -> Window:
    kind, *parts = (part.strip() for part in entry.split(","))
    if kind not in _TYPES:
        raise QueryError.of(Problem("window", entry, _FORM), entry)
    length_count, in_time, in_events = _TYPES[kind]
    # Behind the lengths come an id, which is part of the query's name, and the measure; both may be left out.
    lengths, rest = parts[:length_count], parts[length_count:]
    measure = rest[1] if len(rest) == 2 else "TIME"
    make = {"TIME": in_time, "COUNT": in_events}.get(measure)
    numbers_fit = len(lengths) == length_count and all(_is_integer(part) for part in (*lengths, *rest[:1]))
    if make is None or len(rest) > 2 or not numbers_fit:
        raise QueryError.of(Problem("window", entry, _FORM), entry)
    sizes: list[Any] = [int(length) for length in lengths]
    if measure == "TIME":
        sizes = [Nanos(size * 1_000_000) if unit_ticks is None else size * unit_ticks for size in sizes]
    return make(*sizes)


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii()
