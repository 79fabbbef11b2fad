"""Windows without events (emit_empty): which they are, how many may come at once, and how the rest follows later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.errors import DataError
from headwater.language.query import Query

#: About so many windows without events come at once where the rest can follow later.
EMPTY_STEP = 1 << 18


def check_empty(query: Query, shown: Sequence[tuple[int, range]], held: int) -> None:
    """Refuse to show so many windows without events that memory would end before they do."""
    count = sum(len(starts) for _, starts in shown) - held
    low, high = min((r[0] for _, r in shown if r), default=0), max((r[-1] for _, r in shown if r), default=0)
    if count > query.empty_max and high - low > query.window.slide:  # type: ignore[attr-defined]
        raise DataError(
            f"query {query.name!r}: emit_empty is {query.emit_empty}, and between {low} and {high} lie {count} windows without "
            f"events, more than {query.empty_max}; is a time wrong? If they are all wanted, give emit_empty={count}"
        )


def paced(after: int, until: int, slide: int, keys: int, begin: int, end: int) -> int:
    """The next step of a watermark to ``until`` that shows about `EMPTY_STEP` windows without events at most.

    There are such windows between the watermarks ``begin`` and ``end`` only.

    >>> paced(0, 10**15, 10, 1 << 17, 0, 10**15), paced(0, 15, 10, 1, 0, 15), paced(0, 10**15, 10, 1 << 17, 0, 18)
    (20, 15, 1000000000000000)
    >>> paced(0, 10**15, 10, 1 << 18, begin=10, end=25)
    20
    """
    begin = max(after, begin)
    ticks = max(EMPTY_STEP // keys, 1) * slide
    return until if end - begin <= ticks else begin + ticks


def rows_of(number: int, size: int, shown: Sequence[tuple[int, range]], held: Mapping[int, set[int]]) -> Int64Array:
    """Rows (query, start, end, key) of the windows that are not held."""
    tables = [np.empty((0, 4), np.int64)]
    for key, starts in shown:
        if starts:
            # Not np.arange with a step: it counts in floats, too coarse for times at the ends of int64.
            empty = starts[0] + starts.step * np.arange(len(starts))
            empty = empty[~np.isin(empty, np.array(sorted(held.get(key, ())), np.int64))]
            tables.append(
                np.stack((np.full(len(empty), number), empty, empty + size, np.full(len(empty), key)), axis=1)
            )
    return np.concatenate(tables)
