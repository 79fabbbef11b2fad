"""In which stage a handler runs: behind everything that it reads.

Declared states, and those that ``events`` inserts into, are of level 0. A handler is one stage above the highest level of
its states, and what it inserts into is of the level of its stage. So a stage reads what earlier stages have made, and never
waits for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter


def stages_of(reads: Mapping[str, Sequence[str]], inserted_by: Mapping[str, str | None]) -> dict[str, int]:
    """The stage of each handler and the level of each state, by name.

    ``reads`` has the states of each handler, one or more; ``inserted_by`` the handler that inserts into each state, None for
    level 0. Raises `graphlib.CycleError`, whose second argument is the loop, where something would wait for itself.

    >>> stages_of({"daily": ["bids"], "trend": ["days", "bids"]}, {"bids": None, "days": "daily"})
    {'bids': 0, 'daily': 1, 'days': 1, 'trend': 2}
    """
    before = {**reads, **{state: [] if handler is None else [handler] for state, handler in inserted_by.items()}}
    heights: dict[str, int] = {}
    for name in TopologicalSorter(before).static_order():
        below = [heights[earlier] for earlier in before[name]]
        heights[name] = 1 + max(below) if name in reads else max(below, default=0)
    return heights
