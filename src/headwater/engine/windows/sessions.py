"""Sessions out of chains: rows of one key, each a chain of events at most the gap apart, joined where they touch.

Order of arrival plays no part: a row's bounds say all that matters, two rows belong together when the later one begins at most
the gap after the end of everything before it. So sessions merge across batches, sources and nodes without a decision by anyone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import Int32Array, Int64Array
from headwater.base.jit import njit


@dataclass(slots=True)
class Sessions:
    """Sessions sorted by (key, start): bounds [start, end) with end = last event + gap; rows lo to hi of the block."""

    key: Int32Array
    start: Int64Array
    end: Int64Array
    lo: Int64Array
    hi: Int64Array

    def __len__(self) -> int:
        return len(self.key)

    def take(self, indices: Int64Array) -> Sessions:
        return Sessions(self.key[indices], self.start[indices], self.end[indices], self.lo[indices], self.hi[indices])


@njit
def _join(
    first: Int64Array,
    last: Int64Array,
    key_starts: Int64Array,
    gap: int,
    begin: int,
    key: Int32Array,
    start: Int64Array,
    end: Int64Array,
    lo: Int64Array,
    hi: Int64Array,
) -> int:
    count = 0
    for k in range(len(key_starts) - 1):
        reach = np.int64(0)
        opened = False
        for row in range(key_starts[k], key_starts[k + 1]):
            if first[row] < begin:
                continue
            if not opened or first[row] > reach:
                key[count] = k
                start[count] = first[row]
                lo[count] = row
                reach = last[row] + gap
                opened = True
                count += 1
            elif last[row] + gap > reach:
                reach = last[row] + gap
            end[count - 1] = reach
            hi[count - 1] = row + 1
    return count


def join_rows(first: Int64Array, last: Int64Array, key_starts: Int64Array, gap: int, begin: int) -> Sessions:
    """The sessions of rows sorted by (key, first). Rows before ``begin`` do not count."""
    size = len(first)
    key = np.empty(size, np.int32)
    start, end, lo, hi = (np.empty(size, np.int64) for _ in range(4))
    count = _join(first, last, key_starts, gap, begin, key, start, end, lo, hi)
    return Sessions(key[:count], start[:count], end[:count], lo[:count], hi[:count])


def chain(first: Int64Array, last: Int64Array, gap: int) -> Int64Array:
    """The rows, sorted by ``first`` and all of one key, at which a new session begins.

    >>> chain(np.array([0, 10, 30]), np.array([0, 12, 30]), 10)
    array([0, 2])
    """
    first, last = np.asarray(first, np.int64), np.asarray(last, np.int64)
    begin = int(first[0]) if len(first) else 0
    return join_rows(first, last, np.array([0, len(first)]), gap, begin).lo
