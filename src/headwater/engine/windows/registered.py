"""A query as the engine holds it: its number of registration and the stretch of event time in which it lives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.language.query import Query
from headwater.language.times import FOREVER, NEVER


@dataclass(slots=True)
class Registered:
    """A query with its number; its windows are those that start from ``begin`` on and before ``stop`` (if it is running out).

    ``origin``: the position at which the first of its count windows starts. ``shape`` is equal for queries that read and give
    the same columns.
    """

    query: Query
    number: int
    begin: int = NEVER
    stop: int = FOREVER
    origin: int = 0
    shape: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        query = self.query
        if query.where is not None or query.window.is_context:
            self.shape = (self.number,)
        else:
            # Equal aggregations mostly are one object; where they are not, looking at both is only slower.
            named = tuple([(alias, id(aggregation)) for alias, aggregation in query.aggregates])
            self.shape = (query.keys, query.distinct, query.scope, query.home, named)


def one_of_each(entries: Iterable[Registered]) -> list[Registered]:
    """One query of each shape: a million queries differ in their windows, seldom in their columns."""
    found: dict[tuple[object, ...], Registered] = {}
    for entry in entries:
        found.setdefault(entry.shape, entry)
    return list(found.values())
