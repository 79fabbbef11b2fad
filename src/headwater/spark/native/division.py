"""Which queries of a call `aggregate` answers together, and in which way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.language.query import Query
from headwater.language.windows import CountWindow
from headwater.spark.native.choice import Asked, choice, has_positions
from headwater.spark.native.positions import families


@dataclass(frozen=True, slots=True)
class Division:
    """``fixed``: fixed windows by Spark itself. ``native_counts`` and ``python_counts``: families of count windows that share the
    positions of events, by Spark itself and by leaves and roots over them. ``others``: leaves and roots over the events.
    """

    fixed: list[Query]
    native_counts: list[list[Query]]
    python_counts: list[list[Query]]
    others: list[Query]


def divided(queries: Sequence[Query], asked: Asked) -> Division:
    native = {query.name for query in queries if choice(query, asked).is_native}
    counted = [query for query in queries if has_positions(query, asked)]
    named = native | {query.name for query in counted}
    return Division(
        [query for query in queries if query.name in native and not isinstance(query.window, CountWindow)],
        families([query for query in counted if query.name in native]),
        families([query for query in counted if query.name not in native]),
        [query for query in queries if query.name not in named],
    )
