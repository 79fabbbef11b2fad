"""Where count windows end among pieces of streams: proven by keys, or undecided with the pieces that have to be looked into.

A piece is some events of one leaf, known by their number, their first and their last key. Keys are (time, source, offset). From
the keys alone follows, for every piece, how many events surely lie before it and how many may lie up to its end. A cut behind the
c-th event is proven when no piece may hold it inside; a piece that may is undecided until its leaf is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import BoolArray, Int64Array, frozen
from headwater.base.jit import njit
from headwater.engine.slices.order_slicer import next_position_cut

#: A key as three columns: times, ranks of sources, offsets.
Keys = tuple[Int64Array, Int64Array, Int64Array]
FAR = np.int64(2**62)


@dataclass(slots=True)
class KnownPieces:
    """What is known of some pieces.

    ``settled``: no cut lies in the piece, nor is one in front of it undecided; ``position``: the place in the order from which
    its events may be counted, on the right side of every cut. ``asked``: what lies in it between the times ``low`` and ``high``
    decides where the cut behind position ``cut`` is, and it lies before the frontier, or may.
    """

    settled: BoolArray
    position: Int64Array
    asked: BoolArray
    cut: Int64Array
    low: Int64Array
    high: Int64Array
    #: How many events of its sequence lie before a piece for sure, and up to its end at most.
    before: Int64Array
    upto: Int64Array
    #: By sequence: how many events lie before the frontier for sure; none of those is missing.
    sure: Int64Array


def search(
    sequence: Int64Array,
    first: Keys,
    last: Keys,
    counts: Int64Array,
    base: Int64Array,
    windows: Int64Array,
    frontier: int,
) -> KnownPieces:
    """Look for cuts before the time ``frontier``: no event before it is missing.

    Pieces are sorted by sequence and first key. Sequence q has counted ``base[q]`` events before; ``windows`` has rows
    (size, step, origin), as of `next_position_cut`.

    >>> zeros = np.zeros(2, np.int64)
    >>> keys = lambda *times: (np.array(times), zeros, zeros)
    >>> found = search(zeros, keys(1, 7), keys(5, 9), np.array([3, 2]), zeros[:1], np.array([[3, 3, 0]]), 10)
    >>> found.settled, found.position, found.asked
    (array([ True,  True]), array([0, 3]), array([False, False]))
    """
    count = len(counts)
    none, zeros = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    asked = none.copy(), zeros.copy(), zeros.copy(), zeros.copy()
    found = KnownPieces(none, zeros, *asked, np.empty(count, np.int64), np.empty(count, np.int64), base.copy())
    by_last = key_order(*last) if len(base) == 1 else np.lexsort((last[2], last[1], last[0], sequence))
    sequence, counts, base, windows = (plain(array) for array in (sequence, counts, base, windows))
    (t1, s1, o1), (t2, s2, o2) = (tuple(map(plain, keys)) for keys in (first, last))
    _bounds(sequence, t1, s1, o1, t2, s2, o2, counts, by_last, base, found.before, found.upto)
    _decide(
        sequence, t1, t2, counts, base, windows, np.int64(frontier), found.before, found.upto, found.sure,
        found.settled, found.position, found.asked, found.cut, found.low, found.high,
    )  # fmt: skip
    return found


def plain(array: Int64Array) -> Int64Array:
    """The array in the one type and layout for which kernels are compiled."""
    return frozen(array, np.int64)


def key_order(times: Int64Array, ranks: Int64Array, offsets: Int64Array) -> Int64Array:
    """The permutation that sorts keys. Most times are there once, and runs of them ascend: quicker than by three columns.

    >>> key_order(np.array([2, 1, 1]), np.array([0, 1, 0]), np.array([0, 0, 0]))
    array([2, 1, 0])
    """
    order = np.argsort(times, kind="stable")
    _order_ties(order, plain(times), plain(ranks), plain(offsets))
    return order


@njit
def _order_ties(order: Int64Array, times: Int64Array, ranks: Int64Array, offsets: Int64Array) -> None:
    begin = 0
    for end in range(1, len(order) + 1):
        if end < len(order) and times[order[end]] == times[order[begin]]:
            continue
        for i in range(begin + 1, end):
            moved = order[i]
            j = i
            while j > begin and _after(
                times[moved], ranks[order[j - 1]], offsets[order[j - 1]], times[moved], ranks[moved], offsets[moved]
            ):
                order[j] = order[j - 1]
                j -= 1
            order[j] = moved
        begin = end


@njit
def _after(t1: np.int64, s1: np.int64, o1: np.int64, t2: np.int64, s2: np.int64, o2: np.int64) -> bool:
    """Whether the first key lies behind the second."""
    if t1 != t2:
        return bool(t1 > t2)
    if s1 != s2:
        return bool(s1 > s2)
    return bool(o1 > o2)


@njit
def _bounds(
    sequence: Int64Array, t1: Int64Array, s1: Int64Array, o1: Int64Array,
    t2: Int64Array, s2: Int64Array, o2: Int64Array, counts: Int64Array, by_last: Int64Array,
    base: Int64Array, before: Int64Array, upto: Int64Array,
) -> None:  # fmt: skip
    """How many events of its sequence lie before a piece for sure, and up to its end at most.

    Two sweeps over the pieces, in the order of their first keys (i) and of their last keys (j).
    """
    n = len(counts)
    j = 0
    ended = np.int64(0)
    for i in range(n):
        if i == 0 or sequence[i] != sequence[i - 1]:
            ended = base[sequence[i]]
            while j < n and sequence[by_last[j]] < sequence[i]:
                j += 1
        while j < n and sequence[by_last[j]] == sequence[i]:
            p = by_last[j]
            if not _after(t1[i], s1[i], o1[i], t2[p], s2[p], o2[p]):
                break
            ended += counts[p]
            j += 1
        before[i] = ended
    i = 0
    begun = np.int64(0)
    for j in range(n):
        p = by_last[j]
        if j == 0 or sequence[p] != sequence[by_last[j - 1]]:
            begun = base[sequence[p]]
            while i < n and sequence[i] < sequence[p]:
                i += 1
        while i < n and sequence[i] == sequence[p] and not _after(t1[i], s1[i], o1[i], t2[p], s2[p], o2[p]):
            begun += counts[i]
            i += 1
        upto[p] = begun


@njit
def _decide(
    sequence: Int64Array, t1: Int64Array, t2: Int64Array, counts: Int64Array, base: Int64Array, windows: Int64Array,
    frontier: np.int64, before: Int64Array, upto: Int64Array, sures: Int64Array,
    settled: BoolArray, position: Int64Array, asked: BoolArray, cuts: Int64Array, low: Int64Array, high: Int64Array,
) -> None:  # fmt: skip
    n = len(counts)
    begin = 0
    while begin < n:
        q = sequence[begin]
        end = begin
        sure = base[q]  # events before the frontier for sure, none of which is missing
        begun = base[q]  # events before the frontier at most
        while end < n and sequence[end] == q:
            # The end of time is the end of the stream: then nothing is missing at all.
            if t2[end] < frontier or frontier >= FAR:
                sure += counts[end]
            if t1[end] < frontier:
                begun += counts[end]
            end += 1
        sures[q] = sure
        undecided = next_position_cut(windows, sure)
        cut, lowest, highest, since = np.int64(-1), np.int64(0), np.int64(0), begin
        for i in range(begin, end + 1):
            inside = next_position_cut(windows, before[i]) if i < end else np.int64(-2)
            if i < end and inside >= upto[i]:
                continue
            # `before` ascends, so pieces that may hold the same cut come one after the other.
            if inside != cut:
                for k in range(since, i):
                    if asked[k]:
                        low[k], high[k] = lowest, highest
                if i == end:
                    break
                cut, lowest, highest, since = inside, t1[i], t2[i], i
                undecided = min(undecided, cut)
            lowest, highest = min(lowest, t1[i]), max(highest, t2[i])
            asked[i], cuts[i] = counts[i] > 1 and cut <= sure, cut
        due = next_position_cut(windows, sure)
        if due <= begun:
            # A cut may lie before the frontier, depending on what lies there of pieces that reach beyond it.
            for i in range(begin, end):
                if counts[i] > 1 and t1[i] < frontier and t2[i] >= frontier and not asked[i]:
                    asked[i], cuts[i], low[i], high[i] = True, due, frontier, t2[i]
        place = base[q]
        for i in range(begin, end):
            if upto[i] > undecided or (t2[i] >= frontier and frontier < FAR):
                break
            settled[i] = True
            position[i] = place
            place += counts[i]
        begin = end
