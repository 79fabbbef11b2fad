"""Where queries are computed when their events are born on many nodes, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.base.count_limits import CountLimits
from headwater.engine.placement import placement
from headwater.language.arguments import check_queries
from headwater.language.homes import nodes_in_words
from headwater.language.notebooks.html import html_table
from headwater.language.query import Query


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
    queries: Query | Iterable[Query], round_trips: bool = True, counts: bool = False, large_only: bool = False
) -> Explanation:
    """Say for each query whether leaves compute it next to its sources, or events travel to the root, and why.

    >>> import headwater as hw
    >>> print(explain([
    ...     hw.query("load", hw.tumbling("1 s"), mean=hw.avg("load")),
    ...     hw.query("mid", hw.session("5 s"), mid=hw.median("load")),
    ...     hw.query("thousand", hw.count_tumbling(1000), total=hw.sum("load")),
    ... ]))
    query     computed     travels                why
    load      distributed  partials               window edges are known ahead
    mid       distributed  partials, sorted runs  sessions of nodes merge
    thousand  central      events                 positions count the events of all nodes in one order
    """
    lines = []
    for query in check_queries(queries):
        place = placement(query, round_trips, counts, CountLimits().small_max if large_only else 0)
        computed = "central" if place.way == "raw" else "distributed"
        nodes = "" if query.scope == "global" else f"; nodes are {nodes_in_words(query)}"
        lines.append(Explained(query.name, computed, place.travels, f"{place.why}{nodes}"))
    return Explanation(lines)
