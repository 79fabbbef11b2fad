"""Combining ranges of partials that are Python objects, with as few calls of ``combine`` as can be had for any operator.

Only associativity is used: nothing is subtracted, repeated or swapped. So it serves users' own operators as they come.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from headwater.base.arrays import Int64Array


def fold_ranges(
    partials: Sequence[Any],
    lo: Int64Array,
    hi: Int64Array,
    combine: Callable[[Any, Any], Any],
    empty: Callable[[], Any],
) -> list[Any]:
    """Combine ``partials[lo[i]:hi[i]]`` from left to right for each i; nothing at all is ``empty()``.

    >>> import numpy as np
    >>> fold_ranges(["a", "b", "c"], np.array([0, 1, 2]), np.array([3, 3, 2]), lambda a, b: a + b, str)
    ['abc', 'bc', '']
    """
    ranges = list(zip(lo.tolist(), hi.tolist()))
    distinct = dict.fromkeys(ranges)
    calls = sum(max(end - begin - 1, 0) for begin, end in distinct)
    fold = _directly if calls <= len(partials) * max(len(partials), 1).bit_length() else _by_table
    folded = fold(partials, list(distinct), combine)
    by_range = dict(zip(distinct, folded))
    return [by_range[key] if key[0] < key[1] else empty() for key in ranges]


def _directly(partials: Sequence[Any], ranges: list[tuple[int, int]], combine: Callable[[Any, Any], Any]) -> list[Any]:
    return [functools.reduce(combine, partials[begin:end]) if begin < end else None for begin, end in ranges]


def _by_table(partials: Sequence[Any], ranges: list[tuple[int, int]], combine: Callable[[Any, Any], Any]) -> list[Any]:
    """One call per range, from a table of partials combined towards the middle of blocks of 2, 4, 8 ... rows.

    The first and last row of a range lie in the two halves of exactly one block; the range is what lies before its middle
    plus what lies behind it.
    """
    levels: dict[int, list[Any]] = {}
    folded = []
    for begin, end in ranges:
        if end - begin <= 1:
            folded.append(partials[begin] if begin < end else None)
            continue
        level = (begin ^ (end - 1)).bit_length() - 1
        if level not in levels:
            levels[level] = _towards_middles(partials, 1 << level, combine)
        folded.append(combine(levels[level][begin], levels[level][end - 1]))
    return folded


def _towards_middles(partials: Sequence[Any], half: int, combine: Callable[[Any, Any], Any]) -> list[Any]:
    """Entry i: all from i up to its block's middle, or from the middle up to and with i."""
    table = list(partials)
    for middle in range(half, len(partials), 2 * half):
        for i in range(middle - 2, middle - half - 1, -1):
            table[i] = combine(partials[i], table[i + 1])
        for i in range(middle + 1, min(middle + half, len(partials))):
            table[i] = combine(table[i - 1], partials[i])
    return table
