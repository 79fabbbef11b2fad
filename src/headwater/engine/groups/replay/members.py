"""Which kept events count in which window: pairs (window, event), and what is worked out from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.snapshots import pairs, snapshot
from headwater.engine.groups.replay.kept import LONG_AGO, Formed, KeptEvents
from headwater.engine.intake.chunk import Chunk, source_ranks
from headwater.engine.operators.operator import Op
from headwater.engine.operators.ragged import expand
from headwater.engine.results.aggregates import lower, type_read
from headwater.language.query import CONTEXT_SCOPES, Query
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, Punctuated, Sliding

#: The column in which events carry the number of their own key, where windows hold events of several keys.
OWN_KEY = "\0key"


@dataclass(slots=True)
class Pairs:
    """Event ``event[i]`` counts in window ``window[i]``; by window, in order within a window and key."""

    window: Int64Array
    event: Int64Array

    def counts(self, size: int) -> Int64Array:
        """How many events each of the windows has."""
        return np.bincount(self.window, minlength=size)

    def first_copies(self, chunk: Chunk, name: str | None) -> Pairs:
        """Only pairs whose event is the first of its id in the window; null is an id like others. Without a name, all pairs."""
        if name is None:
            return self
        window, event = self.window, self.event
        values = chunk.columns[name]
        data = values.data.astype(str) if values.data.dtype == object else values.data
        ids = np.unique(data, return_inverse=True)[1].astype(np.int64)
        if values.valid is not None:
            ids = np.where(values.valid, ids, len(ids))
        ranks = source_ranks(chunk.source_names)[chunk.source_ids]
        order = np.lexsort((chunk.offsets[event], ranks[event], chunk.times[event], ids[event], window))
        first = np.ones(len(order), np.bool_)
        first[1:] = (np.diff(window[order]) != 0) | (np.diff(ids[event][order]) != 0)
        chosen = np.sort(order[first])
        return Pairs(window[chosen], event[chosen])


def members(query: Query, kept: KeptEvents, formed: Formed, ranges: Int64Array) -> Pairs:
    """The members of windows. ``ranges``: rows (window, lo, hi) of the events that lie in them."""
    window = np.repeat(ranges[:, 0], ranges[:, 2] - ranges[:, 1])
    event = expand(ranges[:, 1], ranges[:, 2])
    if query.scope in CONTEXT_SCOPES:
        # Windows of one node that became one may overlap: an event is in their union once.
        code = np.unique(window * len(kept) + event)
        window, event = code // max(len(kept), 1), code % max(len(kept), 1)
    if isinstance(query.window, Sliding | Band) and kept.marks is not None:
        # The window must not have ended for the event's own source, allowed lateness included.
        member = formed.windows[window, 2] > np.maximum(kept.marks[event], LONG_AGO) - int(query.lateness)
        window, event = window[member], event[member]
    if isinstance(query.window, Punctuated) and not query.window.include_markers:
        member = ~kept.markers[0][event]
        window, event = window[member], event[member]
    return Pairs(window, event)


def numbered(codes: Int64Array, limit: int) -> tuple[Int64Array, Int64Array]:
    """The distinct codes (below ``limit``), sorted, and the place of each code among them.

    >>> numbered(np.array([7, 3, 7]), 10)
    (array([3, 7]), array([1, 0, 1]))
    """
    if limit > 4 * len(codes) + (1 << 16):
        found, place = np.unique(codes, return_inverse=True)
        return found, place.astype(np.int64)
    present = np.bincount(codes, minlength=limit) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]


def time_spans(times: Int64Array, ranges: Int64Array, size: int) -> tuple[Int64Array, Int64Array]:
    """The first and the last time of each window's events."""
    first, last = np.full(size, FOREVER), np.full(size, NEVER)
    filled = ranges[ranges[:, 1] < ranges[:, 2]]
    np.minimum.at(first, filled[:, 0], times[filled[:, 1]])
    np.maximum.at(last, filled[:, 0], times[filled[:, 2] - 1])
    return first, last


class Sayings:
    """What windows said, as numbers: equal rows have equal numbers, different ones never.

    A late copy of an id may take the place of the first one, and a window of one node may go from one union to another. Only
    windows that changed are emitted again, so these are compared by their values and not by their members.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._next = 0

    def numbers(self, query: Query, partials: Mapping[Op, Any], counts: Int64Array, chunk: Chunk) -> Int64Array:
        """What each row of ``partials`` says; ``counts`` are numbers of events, ``chunk`` tells the types of columns.

        >>> from headwater.language.aggregations import count
        >>> from headwater.engine.operators.numeric import CountColumn
        >>> from headwater.language.query import query
        >>> from headwater.language.windows import tumbling
        >>> numbers = np.array([2, 3, 2])
        >>> events = Chunk(numbers, 0, 0, [""])
        >>> Sayings().numbers(query("q", tumbling(5), n=count()), {Op("count"): CountColumn(numbers)}, numbers, events)
        array([0, 1, 0])
        """
        columns, types = [counts.tolist()], {name: values.type for name, values in chunk.columns.items()}
        for _, aggregation in query.aggregates:
            columns.append(lower(aggregation, partials, type_read(aggregation, types)).to_pylist())
        found = np.empty(len(counts), np.int64)
        for place, row in enumerate(zip(*columns, strict=True)):
            # As text: NaN is NaN there, and every bit of a number shows.
            found[place] = self._known.setdefault(repr(row), self._next)
            self._next += int(found[place] == self._next)
        return found

    def keep(self, used: Int64Array) -> None:
        """Forget what no window says any more."""
        numbers = set(used.tolist())
        self._known = {text: number for text, number in self._known.items() if number in numbers}

    state, restore = snapshot(pairs("_known"), "_next")
