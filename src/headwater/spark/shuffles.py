"""Which task gets which rows of a shuffle: numbers of tasks are columns of ours."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.spark.native.types import functions_of, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Spark puts a row on the task that the hash of its key says, so of four keys two or three often meet on one task. The keys of
#: buckets are ours to choose: small numbers whose hashes follow each other modulo this, and so modulo each number of tasks that
#: divides it: 2, 3, 4, 5, 6, 8, ..., 64, ..., 200.
TASKS = 4800
_TRIED = 200_000
_SEED = 42


def by_number(frame: DataFrame, count: int, column: str) -> DataFrame:
    """Rows with i in ``column`` in task i of ``count``."""
    if hasattr(type(frame), "repartitionById"):
        return frame.repartitionById(count, column)
    # Spark 4.0 only knows hashes: of keys that are chosen for theirs.
    f = functions_of(frame)
    labels = f.array(*map(f.lit, labels_of(count, count)))
    return frame.repartition(count, f.element_at(labels, f.col(quoted(column)).cast("int") + 1))


def bucket_labels(count: int) -> tuple[int, ...]:
    """The keys of ``count`` buckets, the same wherever and whenever they are asked for.

    >>> bucket_labels(2)[0] == bucket_labels(8)[0]
    True
    """
    return labels_of(count, TASKS)


@lru_cache
def labels_of(count: int, tasks: int) -> tuple[int, ...]:
    """Keys of which Spark puts the first on the first of ``tasks``, the second on the second, and so on, ``count`` in all."""
    places = murmur(np.arange(_TRIED, dtype=np.uint32)).astype(np.int32).astype(np.int64) % tasks
    found, first = np.unique(places, return_index=True)
    assert len(found) == tasks >= count
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
