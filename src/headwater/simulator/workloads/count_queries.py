"""Random count windows: of one event and of more than the stream has, several sizes at once, over all events and per key.

Each query adds the ids of its members up. An id is a random number of 39 bits that no two events share, so a sum says which
events a window holds, and not only how many.
"""

from __future__ import annotations

from random import Random
from typing import Any, Literal

import pyarrow as pa

from headwater.language import aggregations as agg
from headwater.language import windows as win
from headwater.language.query import Query, query_of
from headwater.language.windows import CountWindow
from headwater.simulator.workloads.queries import CONDITIONS, SCHEMA, draw_aggregation, draw_query

#: The column of ids, and how large they are.
MEMBER, MEMBER_BITS = "member", 39
Per = Literal["all", "key"]
COUNT_SCHEMA = SCHEMA.append(pa.field(MEMBER, pa.int64()))


class CountQueries:
    """Draws the queries of one run; often they share keys and conditions, and so positions and pieces."""

    def __init__(self, dice: Random, leaf_count: int, event_count: int) -> None:
        self._dice, self._leaf_count, self._event_count = dice, leaf_count, event_count
        self._shared = self._options() if dice.random() < 0.6 else None

    def draw(self, name: str) -> Query:
        """A query over count windows; now and then another beside them, for these share links and deltas."""
        dice = self._dice
        if dice.random() < 0.1:
            return draw_query(dice, name, is_splittable=True)
        options = dict(self._shared or self._options())
        per = options.pop("per")
        aggregates = [agg.sum(MEMBER), *(draw_aggregation(dice) for _ in range(dice.choice([0, 1, 1, 2])))]
        named = tuple((f"{name}_v{number}", aggregation) for number, aggregation in enumerate(aggregates))
        return query_of(name, self._window(per), named, **options)

    def _options(self) -> dict[str, Any]:
        dice = self._dice
        keys = dice.choice([(), (), ("k",), ("g", "k")])
        per = dice.choice(["all", "all", "key"]) if keys else "all"
        return {
            "per": per,
            "keys": keys,
            "where": dice.choice(CONDITIONS) if dice.random() < 0.25 else None,
            # What cannot be cut into pieces: copies, and positions that each node counts for itself.
            "distinct": "id" if dice.random() < 0.04 else None,
            "scope": "node" if dice.random() < 0.06 else "global",
        }

    def _window(self, per: Per) -> CountWindow:
        dice = self._dice
        size = self._size()
        if dice.random() < 0.6:
            return win.count_tumbling(size, per)
        # Steps so small that there are as many windows as events are rare, for each is compared with the reference.
        least = max(1, size // 8)
        return win.count_sliding(size, dice.choice([dice.randint(least, size), dice.randint(size, 2 * size)]), per)

    def _size(self) -> int:
        dice, events = self._dice, self._event_count
        kind = dice.choices(["one", "few", "some", "many", "most", "more"], [1, 2, 3, 5, 4, 1])[0]
        return {
            "one": 1,
            "few": dice.randint(1, max(1, self._leaf_count - 1)),
            "some": dice.randint(4, 30),
            "many": dice.randint(20, max(21, events // 6)),
            "most": dice.randint(events // 6 + 1, events // 2 + 2),
            "more": events * dice.randint(2, 50),
        }[kind]


def features(queries: list[Query], leaf_count: int, event_count: int) -> set[str]:
    """What is special about some queries, in words.

    >>> one = query_of("one", win.count_tumbling(1), (("n", agg.count()),))
    >>> sorted(features([one], 3, 100))
    ['tumbling', 'windows of one event', 'windows smaller than the number of leaves']
    """
    found = set()
    counted = [(query, query.window) for query in queries if isinstance(query.window, CountWindow)]
    for query, window in counted:
        is_sliding = window.step != window.size
        words = {
            "sliding" if is_sliding else "tumbling": True,
            "gaps between windows": window.step > window.size,
            "windows of one event": window.size == 1,
            "windows smaller than the number of leaves": window.size < leaf_count,
            "windows larger than the stream": window.size > event_count,
            "positions per key": window.per == "key",
            "positions over all, rows by key": window.per == "all" and bool(query.keys),
            "a condition": query.where is not None,
        }
        found |= {word for word, holds in words.items() if holds}
    sizes = {(query.keys, str(query.where), window.per): set[int]() for query, window in counted}
    for query, window in counted:
        sizes[query.keys, str(query.where), window.per].add(window.size)
    if any(len(some) > 1 for some in sizes.values()):
        found.add("several sizes at once")
    return found
