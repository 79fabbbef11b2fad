"""Closed windows as ranges of rows, in bulk: which rows of the sorted store make up each (window, key).

With the store sorted by key and time, a window is one range of rows per key. All windows of all queries that close together are
laid out in one pass, already in the order in which results leave: window end, window start, order of registration, key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, RowArrays
from headwater.base.jit import njit
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import PartialColumn
from headwater.engine.windows.registered import Registered
from headwater.language.times import FOREVER, TIME_MAX


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


# A map from (key, slice) to rows is used while it has at most this many cells per row.
CELLS_PER_ROW = 4
CELLS_FREE = 1 << 20


@dataclass(slots=True)
class Closed(RowArrays):
    """Rows to emit: (query, start, end, key), each the combination of rows ``lo`` to ``hi`` of ``partials``.

    ``query`` is the number of registration. ``revision`` None means 0 everywhere. ``replaces`` maps a row to what it replaces;
    from row ``gone`` on, if set, the rows say that a window no longer holds.
    """

    query: Int32Array
    start: Int64Array
    end: Int64Array
    key: Int32Array
    lo: Int64Array
    hi: Int64Array
    partials: Mapping[Op, PartialColumn]
    revision: Int64Array | None = None
    replaces: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    first_time: Int64Array | None = None
    last_time: Int64Array | None = None
    gone: int | None = None
    is_sorted: bool = False  # by (end, start, query, key)
    twins: Twins | None = None  # if many rows are made of the same partials

    def take(self, indices: Int64Array) -> Closed:
        """The rows at ``indices``; only for rows that replace nothing yet."""
        assert not self.replaces and self.gone is None
        return replace(RowArrays.take(self, indices), replaces={}, twins=None)


@njit
def _mark(values: Int64Array, low: int, step: int, cells: BoolArray) -> bool:
    """Mark the cell of each value; False if one is not on the grid."""
    for value in values:
        cell = (value - low) // step
        if low + cell * step != value:
            return False
        cells[cell] = True
    return True


def distinct_sorted(values: Int64Array, step: int) -> Int64Array:
    """The distinct values, sorted; ``step`` is a guess at what they are multiples of, apart from an offset.

    >>> distinct_sorted(np.array([5, 3, 5]), 2), distinct_sorted(np.array([5, 4]), 2)
    (array([3, 5]), array([4, 5]))
    """
    low, high = int(values.min()), int(values.max())
    cell_count = (high - low) // step + 1
    # From one end of time to the other is farther than int64 reaches.
    if cell_count <= CELLS_PER_ROW * len(values) + CELLS_FREE and high - low < TIME_MAX:
        cells = np.zeros(cell_count, np.bool_)
        if _mark(values, low, step, cells):
            return np.flatnonzero(cells) * step + low
    return np.unique(values)


@njit
def _row_positions(first: Int64Array, key_starts: Int64Array, occupied: Int64Array, out: Int64Array) -> None:
    """out[k, s]: the first row of key k at or after occupied time s; one more column for the end of the key."""
    for k in range(len(key_starts) - 1):
        row = key_starts[k]
        for s in range(len(occupied)):
            while row < key_starts[k + 1] and first[row] < occupied[s]:
                row += 1
            out[k, s] = row
        out[k, len(occupied)] = key_starts[k + 1]


@njit
def _dense_ranges(
    windows: Int64Array,
    order: Int64Array,
    numbers: Int32Array,
    positions: Int64Array,
    keys: Int64Array,
    out_query: Int32Array,
    out_start: Int64Array,
    out_end: Int64Array,
    out_key: Int32Array,
    out_lo: Int64Array,
    out_hi: Int64Array,
) -> int:
    count = 0
    for w in order:
        query, start, end = numbers[windows[w, 0]], windows[w, 1], windows[w, 2]
        first, behind = windows[w, 3], windows[w, 4]
        for k in keys:
            lo, hi = positions[k, first], positions[k, behind]
            if lo < hi:
                out_query[count] = query
                out_start[count] = start
                out_end[count] = end
                out_key[count] = k
                out_lo[count] = lo
                out_hi[count] = hi
                count += 1
    return count


@njit
def _bisect(values: Int64Array, value: int, low: int, high: int) -> int:
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit
def _sparse_ranges(
    windows: Int64Array,
    bounds: Int64Array,
    rank: Int64Array,
    first: Int64Array,
    key_starts: Int64Array,
    keys: Int64Array,
    cursor: Int64Array,
    fill: bool,
    out_window: Int64Array,
    out_key: Int32Array,
    out_lo: Int64Array,
    out_hi: Int64Array,
) -> None:
    """Few rows per key: for each query and key visit only the windows that hold rows. First counts, then fills.

    ``bounds`` delimit each query's windows, sorted by time; ``rank`` is a window's place among the results.
    """
    ends = windows[:, 2]
    for q in range(len(bounds) - 1):
        for k in keys:
            low, high = key_starts[k], key_starts[k + 1]
            if low == high:
                continue
            w = _bisect(ends, first[low] + 1, bounds[q], bounds[q + 1])
            while w < bounds[q + 1]:
                lo = _bisect(first, windows[w, 1], low, high)
                if lo == high:
                    break
                hi = _bisect(first, windows[w, 2], lo, high)
                if lo == hi:
                    w = _bisect(ends, first[lo] + 1, w + 1, bounds[q + 1])
                    continue
                if fill:
                    at = cursor[rank[w]]
                    out_window[at] = rank[w]
                    out_key[at] = k
                    out_lo[at] = lo
                    out_hi[at] = hi
                cursor[rank[w]] += 1
                w += 1


@njit
def _by_end(
    windows: Int64Array, bounds: Int64Array, visit: Int64Array, low: int, step: int, places: Int64Array
) -> Int64Array:
    """Counting sort by end. Of windows with one end the larger starts first: visiting queries by size sorts the rest."""
    order = np.empty(len(windows), np.int64)
    for w in range(len(windows)):
        places[(windows[w, 2] - low) // step + 1] += 1
    for cell in range(1, len(places)):
        places[cell] += places[cell - 1]
    for q in visit:
        for w in range(bounds[q], bounds[q + 1]):
            cell = (windows[w, 2] - low) // step
            order[places[cell]] = w
            places[cell] += 1
    return order


def result_order(windows: Int64Array, query: Int32Array, visit: Int64Array | None, step: int) -> Int64Array:
    """The order of results: by end, start and registration.

    >>> windows = np.array([[0, 5, 10, 0, 1], [1, 0, 10, 0, 1]])
    >>> result_order(windows, np.array([0, 1], np.int32), np.array([1, 0]), 5)
    array([1, 0])
    """
    if visit is None or len(windows) == 0:
        return np.lexsort((query, windows[:, 1], windows[:, 2])).astype(np.int64)
    low, high = int(windows[:, 2].min()), int(windows[:, 2].max())
    cell_count = (high - low) // step + 1
    if cell_count > CELLS_PER_ROW * len(windows) + CELLS_FREE:
        return np.lexsort((query, windows[:, 1], windows[:, 2])).astype(np.int64)
    bounds = np.searchsorted(windows[:, 0], np.arange(len(visit) + 1))
    return _by_end(windows, bounds, visit, low, step, np.zeros(cell_count + 1, np.int64))


def window_ranges(
    windows: Int64Array,
    numbers: Int32Array,
    first: Int64Array,
    key_starts: Int64Array,
    keys: Int64Array,
    occupied: Int64Array,
    partials: Mapping[Op, PartialColumn],
    visit: Int64Array | None = None,
    step: int = 1,
) -> Closed:
    """Rows of ``windows`` (as ``closing_windows`` lists them) by key. ``numbers[i]`` is the registration of query i.

    ``visit``: the queries by size, largest first, then registration; ``step``: what all edges are multiples of.
    """
    query = numbers[windows[:, 0]]
    order = result_order(windows, query, visit, step)
    if len(keys) * (len(occupied) + 1) <= CELLS_PER_ROW * len(first) + CELLS_FREE:
        positions = np.empty((len(keys), len(occupied) + 1), np.int64)
        _row_positions(first, key_starts, occupied, positions)
        size = len(windows) * len(keys)
        made, key = np.empty(size, np.int32), np.empty(size, np.int32)
        start, end, lo, hi = (np.empty(size, np.int64) for _ in range(4))
        n = _dense_ranges(windows, order, numbers, positions, keys, made, start, end, key, lo, hi)
        closed = Closed(made[:n], start[:n], end[:n], key[:n], lo[:n], hi[:n], partials)
    else:
        window, key, lo, hi = _sparse(windows, order, first, key_starts, keys)
        arranged = windows[order]
        closed = Closed(query[order][window], arranged[window, 1], arranged[window, 2], key, lo, hi, partials)
    closed.is_sorted = True
    if len(numbers) > 1 and 2 * _distinct_count(windows[order, 1:3]) <= len(windows):
        closed.twins = find_twins(closed.query, closed.start, closed.end)
    return closed


def _distinct_count(bounds: Int64Array) -> int:
    """How many different rows there are; equal ones are neighbours."""
    return 1 + int((bounds[1:] != bounds[:-1]).any(axis=1).sum()) if len(bounds) else 0


def for_each_query(piece: Closed, entries: Sequence[Registered], began: Int64Array) -> list[Closed]:
    """The same windows as results of each of the queries; one that is running out has only those that began before its end."""
    lasting = np.array([entry.number for entry in entries if entry.stop == FOREVER], np.int32)
    pieces = []
    if len(lasting) and len(piece):
        rows = np.tile(np.arange(len(piece)), len(lasting))
        pieces.append(piece.take(rows))
        pieces[0].query[:] = np.repeat(lasting, len(piece))
        if len(lasting) > 1:
            pieces[0].twins = Twins(np.arange(len(piece)), rows)
    for entry in entries:
        if entry.stop != FOREVER:
            pieces.append(piece.take(np.flatnonzero(began < entry.stop)))
            pieces[-1].query[:] = entry.number
    return pieces


def _sparse(
    windows: Int64Array, order: Int64Array, first: Int64Array, key_starts: Int64Array, keys: Int64Array
) -> tuple[Int64Array, Int32Array, Int64Array, Int64Array]:
    rank = np.empty(len(windows), np.int64)
    rank[order] = np.arange(len(windows))
    bounds = np.flatnonzero(np.diff(windows[:, 0], prepend=-1, append=-1))
    counts = np.zeros(len(windows), np.int64)
    nothing, no_keys = np.empty(0, np.int64), np.empty(0, np.int32)
    _sparse_ranges(windows, bounds, rank, first, key_starts, keys, counts, False, nothing, no_keys, nothing, nothing)
    cursor = np.concatenate(([0], np.cumsum(counts)))
    size = int(cursor[-1])
    window, key = np.empty(size, np.int64), np.empty(size, np.int32)
    lo, hi = np.empty(size, np.int64), np.empty(size, np.int64)
    _sparse_ranges(windows, bounds, rank, first, key_starts, keys, cursor, True, window, key, lo, hi)
    return window, key, lo, hi
