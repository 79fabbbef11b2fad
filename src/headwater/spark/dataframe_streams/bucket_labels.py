"""Names for buckets that Spark spreads evenly over its tasks.

Spark puts a key on the task that its hash says, so of four keys two or three often meet on one task. The keys of buckets are
ours to choose: small numbers whose hashes follow each other, whatever usual number of tasks there is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

#: Hashes follow each other modulo this, and so modulo each number of tasks that divides it: 2, 3, 4, 5, 6, 8, ..., 64, ..., 200.
TASKS = 4800
_TRIED = 200_000
_SEED = 42


@lru_cache
def bucket_labels(count: int) -> tuple[int, ...]:
    """The keys of so many buckets, the same wherever and whenever they are asked for.

    >>> bucket_labels(2)[0] == bucket_labels(8)[0]
    True
    """
    places = murmur(np.arange(_TRIED, dtype=np.uint32)).astype(np.int32).astype(np.int64) % TASKS
    found, first = np.unique(places, return_index=True)
    assert len(found) == TASKS >= count
    return tuple(first[:count].tolist())


def murmur(numbers: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Spark's `hash` of an integer: Murmur3 with its seed."""
    with np.errstate(over="ignore"):
        word = numbers * np.uint32(0xCC9E2D51)
        word = (word << np.uint32(15)) | (word >> np.uint32(17))
        mixed = np.uint32(_SEED) ^ (word * np.uint32(0x1B873593))
        mixed = (mixed << np.uint32(13)) | (mixed >> np.uint32(19))
        mixed = mixed * np.uint32(5) + np.uint32(0xE6546B64)
        mixed ^= np.uint32(4)  # bytes
        mixed ^= mixed >> np.uint32(16)
        mixed *= np.uint32(0x85EBCA6B)
        mixed ^= mixed >> np.uint32(13)
        mixed *= np.uint32(0xC2B2AE35)
        return mixed ^ (mixed >> np.uint32(16))
