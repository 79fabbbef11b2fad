"""Tumbling windows, sliding windows and bands of a group: what closes, what late events revise, what must be kept."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.snapshots import pairs, snapshot
from headwater.engine.slices.edges import (
    EARLIEST,
    SIZE,
    SLIDE,
    Edges,
    closing_windows,
    fixed_spec,
    next_end,
    spec_table,
    windows_of_times,
)
from headwater.engine.windows.assembler import Closed, distinct_sorted, window_ranges
from headwater.engine.windows.empty_windows import check_empty, paced, rows_of
from headwater.engine.windows.late import OUTSIDE, Stragglers, classify_fixed, count_outside, stand_fixed
from headwater.engine.windows.registered import Registered
from headwater.engine.windows.view import View
from headwater.language.times import FOREVER, NEVER, TIME_MAX
from headwater.language.windows import Sliding


class FixedWindows:
    """All fixed window queries of one group.

    Revisions: a window's bounds never change, so only windows that late events touched need a number; the rest are at 0.
    """

    def __init__(self) -> None:
        self.queries: list[Registered] = []
        self.revisions: dict[tuple[int, int, int], int] = {}  # (query, start, key) -> last revision
        self._first_starts: dict[tuple[int, int], int] = {}  # emit_empty only: (query, key) -> its first window
        self.counts: dict[int, Int64Array] = {}  # query -> (member, late, dropped, outside) besides the clean members
        self.refresh()

    def refresh(self) -> None:
        """Rebuild the tables after queries came or went."""
        specs = [fixed_spec(entry.query.window, entry.begin, entry.stop) for entry in self.queries]  # type: ignore[arg-type]
        self.specs = spec_table(specs)
        self.numbers = np.array([entry.number for entry in self.queries], np.int32)
        self.lateness = np.array([entry.query.lateness for entry in self.queries], np.int64)
        self.edges = Edges(specs)
        self._visit = np.lexsort((self.numbers, -self.specs[:, SIZE])).astype(np.int64)
        self._windows_per_tick = float((1.0 / self.specs[:, SLIDE]).sum())
        gappy = [i for i, entry in enumerate(self.queries) if _has_outside(entry)]
        self._gappy = np.array(gappy, np.int64)
        self._filled = [i for i, entry in enumerate(self.queries) if entry.query.emit_empty]

    def add(self, entry: Registered, waiting: int) -> None:
        """Add a query. It must not count the ``waiting`` events, which were seen before and are still to be accounted for."""
        self.queries.append(entry)
        if waiting:
            self.counts_of(entry.number)[OUTSIDE] -= waiting

    def find(self, number: int) -> Registered | None:
        """The query of this number. They stand in the order of their numbers."""
        place = bisect_left(self.queries, number, key=lambda entry: entry.number)
        is_there = place < len(self.queries) and self.queries[place].number == number
        return self.queries[place] if is_there else None

    def counts_of(self, number: int) -> Int64Array:
        return self.counts.setdefault(number, np.zeros(4, np.int64))

    def account(self, first: Int64Array, weights: Int64Array) -> None:
        """Count the events of new rows that lie in no window of a query."""
        if len(self._gappy):
            outside = count_outside(self.specs[self._gappy], first, weights)
            for i, count in zip(self._gappy.tolist(), outside.tolist(), strict=True):
                self.counts_of(int(self.numbers[i]))[OUTSIDE] += count

    def covers(self, times: Int64Array) -> BoolArray:
        """Which times lie in a window of the first query."""
        never = np.full(len(times), NEVER)
        inside: BoolArray = stand_fixed(self.specs[0], 0, times, never) != OUTSIDE
        return inside

    def account_stragglers(self, times: Int64Array, watermarks: Int64Array) -> Int64Array:
        """Count what each new straggler is to each query; returns pairs (query number, straggler) of the dropped."""
        if not self.queries:
            return np.empty((0, 2), np.int64)
        counts, dropped = classify_fixed(self.specs, self.lateness, times, watermarks)
        for i, row in enumerate(counts):
            if row.any():
                self.counts_of(int(self.numbers[i]))[:] += row
        if len(dropped):
            dropped[:, 0] = self.numbers[dropped[:, 0]]
        return dropped

    def expected_windows(self, after: int, until: int) -> int:
        """About how many windows end in (after, until]."""
        span = max(min(until, TIME_MAX) - max(after, -TIME_MAX), 0)
        return int(span * self._windows_per_tick)

    def nothing_closes(self, after: int, until: int) -> bool:
        """Whether no window of any query ends in (after, until]; cheap, because most steps close nothing."""
        return len(self.queries) == 0 or next_end(self.specs, after) > until

    def close(self, view: View, after: int, until: int, is_paced: bool = False) -> list[Closed]:
        """Windows that end in (after, until], and windows that ended before and were touched by new stragglers.

        Not ``is_paced``: more windows without events than a query allows are refused.
        """
        if not self.queries:
            return []
        pieces = []
        if view.block is not None:
            occupied = distinct_sorted(view.block.first, self.edges.step)
            # Windows begin before what is there and end after it: those of the span and one or two per query.
            expected = self.expected_windows(max(after, int(occupied[0])), min(until, int(occupied[-1]))) + 2 * len(
                self.specs
            )
            windows = closing_windows(self.specs, after, until, occupied, expected)
            if len(windows):
                pieces.append(
                    window_ranges(
                        windows,
                        self.numbers,
                        view.block.first,
                        view.key_starts,
                        view.keys_in_order,
                        occupied,
                        view.partials,
                        self._visit,
                        self.edges.step,
                    )
                )
        if len(view.stragglers):
            pieces = self._with_stragglers(view, after, until, pieces)
        if self._filled:
            pieces.extend(self._empty_windows(view, pieces, after, until, is_paced))
        return pieces

    def _with_stragglers(self, view: View, after: int, until: int, pieces: list[Closed]) -> list[Closed]:
        """Take the windows that have stragglers out of the bulk and combine each from its rows and its stragglers."""
        late = [self._touched(i, view.stragglers, after, until) for i in range(len(self.queries))]
        touched = np.concatenate([part[0] for part in late])
        if len(touched) == 0:
            return pieces
        members = np.concatenate([part[1] for part in late])
        counts = np.concatenate([part[2] for part in late])
        if pieces:
            bulk = pieces[0]
            names = np.stack((bulk.query.astype(np.int64), bulk.start, bulk.key.astype(np.int64)), axis=1)
            pieces = [bulk.take(np.flatnonzero(~_rows_in(names, touched[:, [0, 1, 3]])))]
        return [*pieces, self._combined(view, touched, members, counts, after)]

    def _touched(
        self, i: int, stragglers: Stragglers, after: int, until: int
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Rows (query, start, end, key) of query i's windows that stragglers change now; their stragglers; how many each."""
        size = int(self.specs[i, 0])
        times = stragglers.chunk.times
        pairs = windows_of_times(self.specs[i], int(self.lateness[i]), times, stragglers.watermarks, until)
        key = stragglers.keys[pairs[:, 0]].astype(np.int64)
        order = np.lexsort((pairs[:, 0], key, pairs[:, 1]))
        event, start, key = pairs[order, 0], pairs[order, 1], key[order]
        if len(event) == 0:
            return np.empty((0, 4), np.int64), event, np.empty(0, np.int64)
        heads = np.flatnonzero((np.diff(start, prepend=start[0] - 1) != 0) | (np.diff(key, prepend=-1) != 0))
        counts = np.diff(heads, append=len(event))
        changed = np.logical_or.reduceat(stragglers.new[event], heads) | (start[heads] + size > after)
        head_start, head_key = start[heads][changed], key[heads][changed]
        number = np.full(len(head_start), self.numbers[i], np.int64)
        rows = np.stack((number, head_start, head_start + size, head_key), axis=1)
        return rows, event[np.repeat(changed, counts)], counts[changed]

    def _combined(self, view: View, touched: Int64Array, members: Int64Array, counts: Int64Array, after: int) -> Closed:
        """The touched windows: their rows of the store followed by their stragglers."""
        lo, hi = view.ranges(touched[:, 3], touched[:, 1], touched[:, 2])
        number, start, end, key = touched.T
        bounds = np.concatenate(([0], np.cumsum(hi - lo + counts)))
        index = np.empty(int(bounds[-1]), np.int64)
        position = 0
        base = 0 if view.block is None else len(view.block)
        revision = np.zeros(len(touched), np.int64)
        for i in range(len(touched)):
            rows = hi[i] - lo[i]
            at = bounds[i]
            index[at : at + rows] = np.arange(lo[i], hi[i])
            mine = members[position : position + counts[i]]
            index[at + rows : bounds[i + 1]] = base + mine
            position += counts[i]
            if end[i] <= after:
                known = rows > 0 or not view.stragglers.new[mine].all() or self._was_empty(number[i], key[i], start[i])
                name = (int(number[i]), int(start[i]), int(key[i]))
                revision[i] = self.revisions.get(name, 0) + 1 if known else 0
                self.revisions[name] = int(revision[i])
        return Closed(
            number.astype(np.int32),
            start,
            end,
            key.astype(np.int32),
            bounds[:-1],
            bounds[1:],
            view.extended_at(index),
            revision,
        )

    def _was_empty(self, number: int, key: int, start: int) -> bool:
        """Whether an empty window was emitted here before (emit_empty)."""
        first = self._first_starts.get((int(number), int(key)))
        return first is not None and first <= start

    def _empty_windows(self, view: View, pieces: list[Closed], after: int, until: int, is_paced: bool) -> list[Closed]:
        """For queries that want them: windows without events, from each key's first window on."""
        if after == FOREVER:
            return []
        rows = np.concatenate([self._missing(i, pieces, after, until, is_paced) for i in self._filled])
        if len(rows) == 0:
            return []
        zeros = np.zeros(len(rows), np.int64)
        query, start, end, key = rows.T
        return [Closed(query.astype(np.int32), start, end, key.astype(np.int32), zeros, zeros, view.partials)]

    def _missing(self, i: int, pieces: list[Closed], after: int, until: int, is_paced: bool) -> Int64Array:
        """Rows (query, start, end, key) of query i's windows that are to be shown now and that no piece has."""
        size, slide, offset, _, stop = (int(value) for value in self.specs[i])
        number = int(self.numbers[i])
        held: dict[int, set[int]] = {}
        for piece in pieces:
            mine = piece.query == number
            for start, key in zip(piece.start[mine].tolist(), piece.key[mine].tolist(), strict=True):
                held.setdefault(key, set()).add(start)
        # At the end of the stream no watermark ends them: they go on to the last window that holds an event of any key.
        ended = max(after, EARLIEST) - size
        last = until - size if until != FOREVER else max(ended, *map(max, held.values())) if held else ended
        fresh = offset + ((ended - offset) // slide + 1) * slide
        firsts: dict[int, int] = {}
        shown: list[tuple[int, range]] = []
        for key in sorted(held.keys() | {key for query, key in self._first_starts if query == number}):
            known = self._first_starts.get((number, key))
            first = firsts[key] = min(held.get(key, ()) if known is None else {known, *held.get(key, ())})
            # Those that had ended before were shown then, from the first window known then on.
            shown.append((key, range(first, first if known is None else known, slide)))
            shown.append((key, range(first if known is None else max(known, fresh), min(last, stop - 1) + 1, slide)))
        if not is_paced:
            check_empty(self.queries[i].query, shown, sum(map(len, held.values())))
        self._first_starts |= {(number, key): first for key, first in firsts.items()}
        return rows_of(number, size, shown, held)

    def reach(self, after: int, until: int, key_count: int, times: Int64Array, is_new: BoolArray) -> int:
        """How far the watermark may rise at once so that not too many empty windows come.

        ``times``: of all that is held; ``is_new``: which of it may belong to windows that have ended.
        """
        known = {query for query, _ in self._first_starts}
        spans = [self._shows(i, int(self.numbers[i]) in known, after, until, times, is_new) for i in self._filled]
        shown = [span for span in spans if span is not None]
        if not shown or key_count == 0:
            return until
        slide = min(int(self.specs[i, SLIDE]) for i in self._filled)
        return paced(after, until, slide, key_count * len(shown), min(shown)[0], max(end for _, end in shown))

    def _shows(
        self, i: int, is_known: bool, after: int, until: int, times: Int64Array, is_new: BoolArray
    ) -> tuple[int, int] | None:
        """Between which watermarks query i shows windows without events; None: it shows none, whatever is held for others.

        ``is_known``: whether some key has had its first window.
        """
        size, slide, offset, begin, stop = (int(value) for value in self.specs[i])
        if is_known and until != FOREVER:
            return (after, min(until, stop - 1 + size)) if stop - 1 + size > after else None
        starts = offset - (offset - np.maximum(times - size + 1, begin)) // slide * slide
        mine = (starts <= times) & (starts < stop) & (is_new | (times + size > after))
        if not mine.any():
            return None  # and at the end of the stream no watermark ends any
        last = until - size if until != FOREVER else (int(times[mine].max()) - offset) // slide * slide + offset
        first, end = after if is_known else int(starts[mine].min()) + size, min(last, stop - 1) + size
        return (first, end) if end > after else None

    def needed(self, view: View, watermark: int) -> tuple[BoolArray, BoolArray]:
        """Which rows and which stragglers a window that is still open, late events included, needs."""
        bound = self.edges.oldest_start(watermark, self.lateness)
        rows = np.empty(0, np.bool_) if view.block is None else view.block.first >= bound
        return rows, view.straggler_times() >= bound

    def forget(self, watermark: int) -> None:
        if self.revisions:
            latest = {int(n): (int(self.specs[i, 0]), int(self.lateness[i])) for i, n in enumerate(self.numbers)}
            self.revisions = {
                name: number
                for name, number in self.revisions.items()
                if name[0] in latest and name[1] + sum(latest[name[0]]) > watermark
            }

    @property
    def remembers_keys(self) -> bool:
        """Whether some query must know every key that ever was: for its empty windows."""
        return bool(self._filled)

    def keys_in_use(self) -> list[int]:
        return [key for _, _, key in self.revisions]

    def renumber(self, numbers: Int32Array) -> None:
        """Keys have new numbers: key k is now ``numbers[k]``."""
        self.revisions = {(q, start, int(numbers[key])): number for (q, start, key), number in self.revisions.items()}

    state, restore = snapshot(
        {"revisions": pairs("revisions"), "first_starts": pairs("_first_starts"), "counts": pairs("counts")}
    )


def outside_of(entry: Registered, times: Int64Array) -> int:
    """How many of the times lie in no window of a query."""
    specs = spec_table([fixed_spec(entry.query.window, entry.begin, entry.stop)])  # type: ignore[arg-type]
    return int(count_outside(specs, times, np.ones(len(times), np.int64))[0])


def _has_outside(entry: Registered) -> bool:
    window = entry.query.window
    unbounded = entry.begin == NEVER and entry.stop == FOREVER
    return not (isinstance(window, Sliding) and window.slide <= window.size and unbounded)


def _rows_in(rows: Int64Array, others: Int64Array) -> BoolArray:
    """Which of ``rows`` stand in ``others`` as well; both are tables of integers."""
    codes = np.unique(np.concatenate((rows, others)), axis=0, return_inverse=True)[1].ravel()
    return np.isin(codes[: len(rows)], codes[len(rows) :])
