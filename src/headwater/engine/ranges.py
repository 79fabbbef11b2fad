"""Ranges of rows: how to combine many of them at once, and which way is cheapest.

A window is a range ``[lo, hi)`` of the rows of its key. Windows overlap, so adding each up from its rows would touch a
row many times; prefix sums touch it once. The sums themselves are in `limbs` (several words) and here (plain integers).
"""

from __future__ import annotations

import numpy as np

from headwater.engine.arrays import Int64Array
from headwater.engine.jit import njit


def all_single(lo: Int64Array, hi: Int64Array) -> bool:
    """Whether every range is one row: then combining is only taking.

    >>> all_single(np.array([4, 0]), np.array([5, 1])), all_single(np.array([4]), np.array([4]))
    (True, False)
    """
    return bool((hi - lo == 1).all())


def touched(lo: Int64Array, hi: Int64Array) -> tuple[int, int]:
    """The stretch of rows that holds all ranges.

    >>> touched(np.array([4, 2]), np.array([5, 9]))
    (2, 9)
    """
    return (int(lo.min()), int(hi.max())) if len(lo) else (0, 0)


def adds_up_directly(lo: Int64Array, hi: Int64Array) -> bool:
    """Whether adding up row by row does less than prefix sums over the whole stretch.

    >>> adds_up_directly(np.array([0, 500]), np.array([2, 502])), adds_up_directly(np.arange(90), np.arange(90) + 10)
    (True, False)
    """
    first, last = touched(lo, hi)
    return int((hi - lo).sum()) <= 2 * (last - first)


def sum_ranges(values: Int64Array, lo: Int64Array, hi: Int64Array) -> Int64Array:
    """The sum of ``values[lo[i]:hi[i]]`` for each i, for one column of numbers or several side by side.

    >>> sum_ranges(np.array([1, 2, 3, 4]), np.array([0, 1, 2]), np.array([4, 3, 2]))
    array([10,  5,  0])
    """
    columns = values.reshape(len(values), -1)
    result = np.empty((len(lo), columns.shape[1]), np.int64)
    directly = adds_up_directly(lo, hi)
    first, last = touched(lo, hi)
    for k in range(columns.shape[1]):
        column = np.ascontiguousarray(columns[first:last, k])
        (_range_sums if directly else _prefix_differences)(column, lo, hi, first, result, k)
    return result.reshape(len(lo), *values.shape[1:])


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
