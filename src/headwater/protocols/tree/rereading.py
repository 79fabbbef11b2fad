"""Which stretches of a chain's sources hold the events between some times, so that only these are read again.

A mark says how far each source was at some moment. No event before it is later than the chain's latest time then, and none behind
it that counts is earlier than the watermarks then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.base.arrays import Int64Array
from headwater.protocols.membership import Mark


@dataclass(frozen=True, slots=True)
class Reread:
    """Of each source of a chain: from which offset to which, and its watermark at the first."""

    begins: Int64Array
    ends: Int64Array
    watermarks: Int64Array


def rereads(marks: Sequence[Mark], ends: Int64Array, spans: Sequence[tuple[int, int]]) -> list[Reread]:
    """The stretches in which all events with times in ``spans`` (both ends included) lie, one behind the other.

    ``marks``: oldest first; ``ends``: how far the sources are now.

    >>> import numpy as np
    >>> marks = [Mark(10 * k, np.array([k]), np.array([10 * k])) for k in range(8)]
    >>> [(r.begins.tolist(), r.ends.tolist()) for r in rereads(marks, np.array([8]), [(55, 58), (12, 14), (19, 20)])]
    [([1], [3]), ([5], [6])]
    """
    # Neither ever falls.
    latest, lowest = [mark.latest for mark in marks], [int(mark.watermarks.min()) for mark in marks]
    stretches: list[list[int]] = []
    for low, high in sorted(spans):
        begin = max(bisect_left(latest, low) - 1, 0)
        end = max(bisect_right(lowest, high), begin)
        if stretches and begin <= stretches[-1][1]:
            stretches[-1][1] = max(stretches[-1][1], end)
        else:
            stretches.append([begin, end])
    return [
        Reread(marks[begin].offsets, marks[end].offsets if end < len(marks) else ends, marks[begin].watermarks)
        for begin, end in stretches
    ]
