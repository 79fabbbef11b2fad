"""Results of equal windows: where many queries ask about the same window, its partials are combined and lowered once for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import Int32Array, Int64Array
from headwater.base.jit import njit


@dataclass(slots=True)
class Twins:
    """Row i of the results is made of the same partials as row ``leaders[of_row[i]]``."""

    leaders: Int64Array
    of_row: Int64Array


@njit
def _find(query: Int32Array, start: Int64Array, end: Int64Array, leaders: Int64Array, of_row: Int64Array) -> int:
    count = 0
    i = 0
    while i < len(query):
        first, first_leader = i, count
        while i < len(query) and query[i] == query[first] and start[i] == start[first] and end[i] == end[first]:
            leaders[count] = i
            of_row[i] = count
            count += 1
            i += 1
        leader = first_leader
        while i < len(query) and start[i] == start[first] and end[i] == end[first]:
            of_row[i] = leader
            leader = leader + 1 if leader + 1 < count else first_leader
            i += 1
    return count


def find_twins(query: Int32Array, start: Int64Array, end: Int64Array) -> Twins:
    """The twins among rows sorted by window, query and key, all queries with the same keys: the first query of a window leads.

    >>> query, start, end = np.array([0, 0, 1, 1, 0], np.int32), np.array([0, 0, 0, 0, 5]), np.array([5, 5, 5, 5, 10])
    >>> find_twins(query, start, end)
    Twins(leaders=array([0, 1, 4]), of_row=array([0, 1, 0, 1, 2]))
    """
    leaders, of_row = np.empty(len(query), np.int64), np.empty(len(query), np.int64)
    count = _find(query, start, end, leaders, of_row)
    return Twins(leaders[:count].copy(), of_row)
