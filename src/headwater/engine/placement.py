"""Where a query is computed when its events are born on many nodes, what travels for it, and why: the decision charts of Disco.

Four ways: leaves cut events into slices and send partials; leaves wait for the root to say where markers cut, and send partials
then; leaves cut events into pieces for count windows and look into those in which one ends; or events travel to the root as
themselves, where nothing else will do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from headwater.base.count_limits import CountLimits
from headwater.language.aggregations import FUNCTIONS, Aggregation
from headwater.language.arguments import check_queries
from headwater.language.homes import nodes_in_words
from headwater.language.notebooks.html import html_table
from headwater.language.query import CONTEXT_SCOPES, Query
from headwater.language.windows import Between, CountWindow, Custom, Punctuated, Session

Way = Literal["slices", "cuts", "counts", "raw"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a query is computed over a tree: the ``way``, what a link carries for it (``travels``), and the reason (``why``)."""

    way: Way
    travels: str
    why: str


def needs_replay(query: Query) -> bool:
    """Whether a query's windows are computed from kept events.

    That is so where members depend on each other (distinct), where windows of several nodes are matched, where an event can still
    move bounds after its order was thought final (late markers, sessions of limited length), for a user's own cuts, and where
    positions are counted for each node by itself.
    """
    window = query.window
    if isinstance(window, CountWindow) and window.per == "all" and query.scope == "node":
        return True
    if query.distinct is not None or query.scope in CONTEXT_SCOPES or isinstance(window, Custom):
        return True
    if isinstance(window, Session):
        return window.max_duration is not None
    if isinstance(window, Punctuated) and not window.include_markers:
        return True
    return isinstance(window, Punctuated | Between) and query.lateness > 0


def placement(query: Query, round_trips: bool = True, counts: bool = False, small_max: int = 0) -> Placement:
    """Where a query is computed over a tree, and why.

    ``round_trips``: whether the root can answer leaves while events come; ``counts``: whether it does so for count windows.
    ``small_max``: not for those of at most this many events, of which a root computes more when all events come than by pieces.

    >>> import headwater as hw
    >>> placement(hw.query("load", hw.tumbling("1 s"), mean=hw.avg("load"))).way
    'slices'
    >>> placement(hw.query("thousand", hw.count_tumbling(1000), n=hw.count())).why
    'positions count the events of all nodes in one order'
    >>> placement(hw.query("thousand", hw.count_tumbling(1000), n=hw.count()), counts=True).way
    'counts'
    >>> placement(hw.query("work", hw.punctuated(hw.col("mark") == "go"), n=hw.count()), round_trips=False).way
    'raw'
    """
    if counts and isinstance(query.window, CountWindow) and query.window.size <= small_max:
        return Placement(
            "raw", "events", "a root computes windows of few events faster from all of them than from pieces"
        )
    if counts and isinstance(query.window, CountWindow) and not needs_replay(query):
        return Placement("counts", f"{_partials(query)}, events near cuts", "the root proves by keys where windows end")
    obstacle = _obstacle(query)
    if obstacle is not None:
        return Placement("raw", "events", obstacle)
    if isinstance(query.window, Punctuated | Between):
        if not round_trips:
            return Placement("raw", "events", "where markers of all nodes cut is known only when all events are there")
        return Placement("cuts", f"markers, then {_partials(query)}", "the root says where markers of all nodes cut")
    reason = "sessions of nodes merge" if isinstance(query.window, Session) else "window edges are known ahead"
    return Placement("slices", _partials(query), reason)


def _obstacle(query: Query) -> str | None:
    """Why a query cannot be split, None if it can."""
    window = query.window
    if query.distinct is not None:
        return f"copies of one {query.distinct!r} are found only where all events meet"
    if isinstance(window, CountWindow):
        return "positions count the events of all nodes in one order"
    if query.scope in CONTEXT_SCOPES:
        return f"scope {query.scope!r} compares the windows of all nodes"
    if isinstance(window, Custom):
        return "a user's own cuts are a function of all events in one order"
    if isinstance(window, Session | Punctuated | Between) and window.max_duration is not None:
        return "max_duration counts from the first event of a window, greedily in the order of all events"
    if isinstance(window, Punctuated | Between) and query.lateness > 0:
        return "a late marker moves bounds of windows whose events were sent already"
    if needs_replay(query):
        return "markers that are members of no window have to be told apart event by event"
    return None


def _partials(query: Query) -> str:
    """What a slice of the query holds."""
    kinds = []
    if any("run" in FUNCTIONS[aggregation.function].operators for _, aggregation in query.aggregates):
        kinds.append("sorted runs")
    if any(_is_ordered(aggregation) for _, aggregation in query.aggregates):
        kinds.append("values in their order")
    return ", ".join(["partials", *kinds])


def _is_ordered(aggregation: Aggregation) -> bool:
    """Whether each value has to arrive, with its place in the order."""
    return aggregation.follows_order and aggregation.function in ("collect", "rows", "user")


# --- in words ---


@dataclass(frozen=True, slots=True)
class Explained:
    """One query: ``computed`` is distributed or central; ``travels``: what links carry for it."""

    query: str
    computed: str
    travels: str
    why: str


HEAD = ("query", "computed", "travels", "why")


class Explanation(tuple[Explained, ...]):
    """One line for each query; printed, it is a table."""

    def __str__(self) -> str:
        rows = [HEAD, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]) for row in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_table(HEAD, self._rows())

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [(each.query, each.computed, each.travels, each.why) for each in self]


def explain(
    queries: Query | Iterable[Query], round_trips: bool = True, counts: bool = True, large_only: bool = True
) -> Explanation:
    """Say for each query whether leaves compute it next to its sources, or events travel to the root, and why.

    As `hw.stream` does it. ``counts``: whether count windows are distributed, of few events only if not ``large_only``; without,
    as with ``count_scheme="central"``.

    >>> import headwater as hw
    >>> print(explain([
    ...     hw.query("load", hw.tumbling("1 s"), mean=hw.avg("load")),
    ...     hw.query("mid", hw.session("5 s"), mid=hw.median("load")),
    ...     hw.query("million", hw.count_tumbling(1_000_000), total=hw.sum("load")),
    ... ]))
    query    computed     travels                     why
    load     distributed  partials                    window edges are known ahead
    mid      distributed  partials, sorted runs       sessions of nodes merge
    million  distributed  partials, events near cuts  the root proves by keys where windows end
    """
    lines = []
    for query in check_queries(queries):
        place = placement(query, round_trips, counts, CountLimits().small_max if large_only else 0)
        computed = "central" if place.way == "raw" else "distributed"
        nodes = "" if query.scope == "global" else f"; nodes are {nodes_in_words(query)}"
        lines.append(Explained(query.name, computed, place.travels, f"{place.why}{nodes}"))
    return Explanation(lines)
