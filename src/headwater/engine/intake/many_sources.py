"""Events of many sources in one batch: how many each source has and how far it has come, found in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import BoolArray, Int64Array, frozen
from headwater.base.jit import njit


@dataclass(slots=True)
class SourceShares:
    """For each source of a batch, by its place in a list: the events it has, and its watermark behind them.

    ``odd``: sources that need a closer look, because an event is late or offsets do not follow on.
    """

    counts: Int64Array
    watermarks: Int64Array
    odd: BoolArray


@njit
def _walk(
    times: Int64Array,
    which: Int64Array,
    offsets: Int64Array,
    disorder: int,
    next_offsets: Int64Array,
    watermarks: Int64Array,
    counts: Int64Array,
    odd: BoolArray,
) -> None:
    for i in range(len(times)):
        s, time = which[i], times[i]
        if offsets[i] != next_offsets[s] or time < watermarks[s]:
            odd[s] = True
        next_offsets[s] += 1
        counts[s] += 1
        if disorder >= 0 and time - disorder > watermarks[s]:
            watermarks[s] = time - disorder


def shares(
    times: Int64Array,
    which: Int64Array,
    offsets: Int64Array,
    disorder: int | None,
    next_offsets: Int64Array,
    watermarks: Int64Array,
) -> SourceShares:
    """What each source has of a batch; event i is of source ``which[i]``.

    >>> none = np.zeros(2, np.int64)
    >>> found = shares(np.array([5, 3, 4]), np.array([0, 1, 0]), np.array([0, 0, 1]), 2, none, none)
    >>> found.counts, found.watermarks, found.odd
    (array([2, 1]), array([3, 1]), array([False, False]))
    """
    size = len(next_offsets)
    found = SourceShares(np.zeros(size, np.int64), watermarks.copy(), np.zeros(size, np.bool_))
    _walk(
        frozen(times, np.int64),
        frozen(which, np.int64),
        frozen(offsets, np.int64),
        -1 if disorder is None else disorder,
        next_offsets.copy(),
        found.watermarks,
        found.counts,
        found.odd,
    )
    return found
