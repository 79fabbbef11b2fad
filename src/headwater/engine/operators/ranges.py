"""Ranges of rows: how to combine many of them at once, and which way is cheapest.

A window is a range ``[lo, hi)`` of the rows of its key. Windows overlap, so adding each up from its rows would touch a
row many times; prefix sums touch it once. The sums themselves are in `limbs` (several words) and here (plain integers).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.jit import njit


class Survey(NamedTuple):
    """What decides how ranges are combined: the rows ``first:last`` hold them all, and ``total`` counts every overlap.

    >>> survey(np.array([4, 2]), np.array([5, 9]))
    Survey(first=2, last=9, total=8, longest=7, all_single=False)
    """

    first: int
    last: int
    total: int
    longest: int
    all_single: bool

    @property
    def adds_up_directly(self) -> bool:
        """Whether adding up row by row does less than prefix sums over the whole stretch.

        >>> survey(np.array([0, 500]), np.array([2, 502])).adds_up_directly
        True
        >>> survey(np.arange(90), np.arange(90) + 10).adds_up_directly
        False
        """
        return self.total <= 2 * (self.last - self.first)


def survey(lo: Int64Array, hi: Int64Array) -> Survey:
    """Look once at all ranges ``lo[i]:hi[i]``."""
    first, last, total, longest, single = _survey(lo, hi)
    return Survey(int(first), int(last), int(total), int(longest), bool(single))


def sum_ranges(values: Int64Array, lo: Int64Array, hi: Int64Array, seen: Survey | None = None) -> Int64Array:
    """The sum of ``values[lo[i]:hi[i]]`` for each i, for one column of numbers or several side by side.

    >>> sum_ranges(np.array([1, 2, 3, 4]), np.array([0, 1, 2]), np.array([4, 3, 2]))
    array([10,  5,  0])
    """
    seen = seen or survey(lo, hi)
    # Not reshape(..., -1): of no rows NumPy cannot tell how wide they are.
    columns = values.reshape(len(values), int(np.prod(values.shape[1:])))
    result = np.empty((len(lo), columns.shape[1]), np.int64)
    add_up = _range_sums if seen.adds_up_directly else _prefix_differences
    for k in range(columns.shape[1]):
        add_up(np.ascontiguousarray(columns[seen.first : seen.last, k]), lo, hi, seen.first, result, k)
    return result.reshape(len(lo), *values.shape[1:])


@njit
def _survey(lo: Int64Array, hi: Int64Array) -> tuple[np.int64, np.int64, np.int64, np.int64, bool]:
    if len(lo) == 0:
        return np.int64(0), np.int64(0), np.int64(0), np.int64(0), True
    first, last, total, longest, shortest = lo[0], hi[0], np.int64(0), np.int64(0), hi[0] - lo[0]
    for i in range(len(lo)):
        length = hi[i] - lo[i]
        first = min(first, lo[i])
        last = max(last, hi[i])
        total += length
        longest = max(longest, length)
        shortest = min(shortest, length)
    return first, last, total, longest, shortest == 1 and longest == 1


@njit
def _range_sums(values: Int64Array, lo: Int64Array, hi: Int64Array, first: int, result: Int64Array, k: int) -> None:
    for i in range(len(lo)):
        total = np.int64(0)
        for j in range(lo[i] - first, hi[i] - first):
            total += values[j]
        result[i, k] = total


@njit
def _prefix_differences(
    values: Int64Array, lo: Int64Array, hi: Int64Array, first: int, result: Int64Array, k: int
) -> None:
    sums = np.empty(len(values) + 1, np.int64)
    sums[0] = 0
    for i in range(len(values)):
        sums[i + 1] = sums[i] + values[i]
    for i in range(len(lo)):
        result[i, k] = sums[np.uint64(hi[i] - first)] - sums[np.uint64(lo[i] - first)]
