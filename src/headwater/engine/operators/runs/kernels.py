"""The loops over sorted runs: sorting short ones, reading quantiles, picking from several runs without merging them.

Values are passed as 64-bit words. ``flip`` turns the bits of a float into an integer of the same order (NaN last, and equal
to itself); it is zero for integers. So one compiled loop serves both, and no comparison needs a case for NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.base.arrays import BoolArray, Float64Array, Int64Array
from headwater.base.jit import njit

FLIP_FLOAT = np.int64(2**63 - 1)
FLIP_NONE = np.int64(0)
#: Runs up to this length are sorted by insertion; NumPy's call costs more than that.
SHORT_RUN = 24


@njit
def _ordered(word: np.int64, flip: np.int64) -> np.int64:
    return word ^ ((word >> 63) & flip)


def flip_of(values: np.ndarray[Any, Any]) -> np.int64:
    """What makes the words of these values compare like them."""
    return FLIP_FLOAT if values.dtype.kind == "f" else FLIP_NONE


def sort_runs(values: np.ndarray[Any, Any], starts: Int64Array, runs: Int64Array | None = None) -> None:
    """Sort these runs (or all) in place: short ones in one loop, each long one by NumPy, which sorts with vectors.

    >>> values = np.array([3, 1, 2, 1])
    >>> sort_runs(values, np.array([0, 2, 4]))
    >>> values
    array([1, 3, 1, 2])
    """
    if runs is None:
        runs = np.arange(len(starts) - 1)
    lengths = starts[runs + 1] - starts[runs]
    if values.dtype == object:
        long_runs = runs[lengths > 1]
    else:
        long_runs = runs[lengths > SHORT_RUN]
        if len(long_runs) < len(runs):
            sort_short(values.view(np.int64), starts, flip_of(values))
    for begin, end in zip(starts[long_runs].tolist(), starts[long_runs + 1].tolist()):
        values[begin:end].sort()


@njit
def sort_short(words: Int64Array, starts: Int64Array, flip: np.int64) -> None:
    """Sort every run that is short; leave the others as they are."""
    for run in range(len(starts) - 1):
        begin, end = starts[run], starts[run + 1]
        if end - begin > SHORT_RUN:
            continue
        for i in range(begin + 1, end):
            word = words[i]
            rank = _ordered(word, flip)
            j = i
            while j > begin and _ordered(words[j - 1], flip) > rank:
                words[j] = words[j - 1]
                j -= 1
            words[j] = word


@njit
def _between(low: float, high: float, rest: float) -> float:
    """The value at ``rest`` of the way from low to high, as SPARK-57982 has it: it never falls as ``rest`` grows.

    Not (1 - rest) * low + rest * high, which falls: it rounds twice what may be one and the same number.
    """
    step = high - low
    if step == np.inf and low > -np.inf and high < np.inf:
        # Beyond the largest double, where Spark says infinity. Halves of such numbers are exact.
        return 2.0 * (0.5 * low + rest * (0.5 * high - 0.5 * low))
    return low + rest * step


@njit
def read_quantiles(
    values: NDArray[Any], begins: Int64Array, ends: Int64Array, qs: Float64Array, columns: Int64Array, out: Float64Array
) -> None:
    """``out[k, columns[row]]`` = quantile ``qs[k]`` of ``values[begins[row]:ends[row]]``, as Spark's percentile has it."""
    for row in range(len(begins)):
        run = values[begins[row] : ends[row]]
        column = np.uint64(columns[row])
        if len(run) == 0:
            out[:, column] = np.nan
            continue
        top = np.float64(len(run) - 1)
        for k in range(len(qs)):
            position = top * qs[k]
            below = np.floor(position)
            rest = position - below
            at = np.uint64(below)
            low = run[at]
            high = run[at + np.uint64(rest > 0.0)]
            # Told by the values themselves: two integers may be one double, and infinity less itself is NaN.
            out[k, column] = np.float64(low) if low == high else _between(np.float64(low), np.float64(high), rest)


@njit
def select(
    words: Int64Array, starts: Int64Array, first: Int64Array, last: Int64Array, ranks: Int64Array, flip: np.int64
) -> tuple[Int64Array, Int64Array]:
    """The value at ``ranks[row]`` of the sorted union of runs ``first[row]`` to ``last[row]``, and the one behind it.

    Quickselect whose pivot is any value still in question: each round cuts every run by binary search, so a window of many
    slices is read in a few microseconds instead of being merged. The pivots come from a fixed sequence of pseudo-random
    numbers; they change the time it takes, never the answer. A rank of -1 stands for an empty row.
    """
    at_rank, after_rank = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
    widest = 0
    for row in range(len(first)):
        widest = max(widest, last[row] - first[row])
    lows = np.empty(widest, np.int64)
    highs = np.empty(widest, np.int64)
    cuts = np.empty(widest, np.int64)
    seed = np.uint64(0x9E3779B97F4A7C15)
    for row in range(len(first)):
        rank = ranks[row]
        if rank < 0:
            at_rank[row] = 0
            after_rank[row] = 0
            continue
        runs = last[row] - first[row]
        left = np.int64(0)
        for run in range(runs):
            lows[run] = starts[first[row] + run]
            highs[run] = starts[first[row] + run + 1]
            left += highs[run] - lows[run]
        while True:
            seed = seed * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            pivot = words[_nth(lows, highs, runs, np.int64(seed >> np.uint64(33)) % left)]
            key = _ordered(pivot, flip)
            below = np.int64(0)
            for run in range(runs):
                cuts[run] = _lower_bound(words, lows[run], highs[run], key, flip)
                below += cuts[run] - lows[run]
            if rank < below:
                for run in range(runs):
                    highs[run] = cuts[run]
                left = below
                continue
            equal = np.int64(0)
            for run in range(runs):
                # No value is larger than the largest key, so nothing follows it.
                cut = highs[run] if key == FLIP_FLOAT else _lower_bound(words, cuts[run], highs[run], key + 1, flip)
                equal += cut - cuts[run]
                lows[run] = cut
            if rank < below + equal:
                break
            rank -= below + equal
            left -= below + equal
        at_rank[row] = pivot
        after_rank[row] = pivot
        if rank + 1 >= below + equal:
            nearest = FLIP_FLOAT
            for run in range(runs):
                # What was cut off above is larger than the pivot too: look on to the true end of the run.
                if lows[run] < starts[first[row] + run + 1]:
                    nearest = min(nearest, _ordered(words[lows[run]], flip))
            after_rank[row] = _ordered(nearest, flip)
    return at_rank, after_rank


@njit
def _nth(lows: Int64Array, highs: Int64Array, runs: int, n: np.int64) -> np.int64:
    """The place of the n-th value still in question, run by run."""
    for run in range(runs):
        size = highs[run] - lows[run]
        if n < size:
            return np.int64(lows[run] + n)
        n -= size
    return np.int64(-1)


@njit
def _lower_bound(words: Int64Array, low: np.int64, high: np.int64, key: np.int64, flip: np.int64) -> np.int64:
    """The first place in ``[low, high)`` whose value is not below ``key``."""
    while low < high:
        middle = (low + high) >> 1
        if _ordered(words[middle], flip) < key:
            low = middle + 1
        else:
            high = middle
    return low


@njit
def interpolate(low: Float64Array, high: Float64Array, same: BoolArray, positions: Float64Array) -> Float64Array:
    """Spark's formula for values already picked; ``same`` is told by the values themselves, before they became doubles."""
    out = np.empty(len(positions), np.float64)
    for row in range(len(positions)):
        below = np.floor(positions[row])
        rest = positions[row] - below
        if rest == 0.0 or same[row]:
            out[row] = low[row]
        else:
            out[row] = _between(low[row], high[row], rest)
    return out


@njit
def count_distinct(words: Int64Array, begins: Int64Array, ends: Int64Array) -> Int64Array:
    """How many different values each sorted run holds."""
    out = np.empty(len(begins), np.int64)
    for row in range(len(begins)):
        distinct = 0
        for i in range(begins[row], ends[row]):
            if i == begins[row] or words[i] != words[i - 1]:
                distinct += 1
        out[row] = distinct
    return out


@njit
def most_frequent(words: Int64Array, begins: Int64Array, ends: Int64Array) -> Int64Array:
    """Where the most frequent value of each sorted run stands; the smallest of them if several are. Empty: where it begins."""
    out = np.empty(len(begins), np.int64)
    for row in range(len(begins)):
        best = begins[row]
        longest = 0
        begin = begins[row]
        for i in range(begins[row], ends[row]):
            if words[i] != words[begin]:
                begin = i
            if i - begin + 1 > longest:
                longest = i - begin + 1
                best = begin
        out[row] = best
    return out


@njit
def copy_runs(words: Int64Array, begins: Int64Array, ends: Int64Array, places: Int64Array, out: Int64Array) -> None:
    """The values of each row, written from its place on."""
    for row in range(len(begins)):
        at = places[row] - begins[row]
        for i in range(begins[row], ends[row]):
            out[np.uint64(i + at)] = words[np.uint64(i)]
