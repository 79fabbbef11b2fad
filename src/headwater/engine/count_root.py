"""Count windows over many nodes, the half that has the pieces: it proves where windows end, and asks where it cannot.

Nothing is emitted that does not follow from keys (`cut_search`). What is undecided is looked into: raw events here, pieces by the
leaf that has their events, which answers with smaller ones instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.arrays import Int64Array, frozen
from headwater.engine.assembler import Closed
from headwater.engine.chunk import source_ranks
from headwater.engine.count_shares import Shares, split_evenly
from headwater.engine.cut_search import Found, search
from headwater.engine.looks import Look
from headwater.engine.order_slicer import next_position_cut
from headwater.engine.piece_rows import PieceRows
from headwater.engine.piece_table import (
    AT,
    BLOCK,
    CHAIN,
    COUNT,
    IS_RAW,
    NUMBER,
    O1,
    O2,
    S1,
    S2,
    SEQUENCE,
    T1,
    T2,
    PieceTable,
)
from headwater.expressions import Expr
from headwater.jit import njit
from headwater.times import FOREVER, NEVER

#: Raw events that may hold a cut are cut into so many parts at once.
LOCAL_PARTS = 16


@dataclass(frozen=True, slots=True)
class ProvenCut:
    """Behind so many events of all, at this time, windows begin or end; ``counts``: events of each chain since the cut before."""

    position: int
    time: int
    counts: Mapping[str, int]


class CountRootGroup(PieceRows):
    """Pieces in, windows out."""

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int = NEVER) -> None:
        super().__init__(keys, where, begin)
        self.frontier = NEVER
        self.settled_time = NEVER  # all events before it are in windows, or in none
        self.proven: list[ProvenCut] = []
        self.cut_count = 0
        self.corrections = 0
        self._searched = NEVER
        self._asked_cuts: set[tuple[int, int]] = set()
        self._guesses: dict[int, int] = {}  # for each cut that is looked for, about when it is
        #: What is believed instead of proven (``approx``).
        self.shares: Shares | None = None

    # --- proof ---

    def advance(self, watermark: int) -> None:
        """Find the cuts that are provable now, as far as no leaf has to be asked; rows of settled pieces go to the windows."""
        self.frontier = self.reach(watermark)
        if self.shares is not None:
            if self._has_news:
                self._has_news = False
                self._believe(self.shares)
            return
        if not self._is_due():
            return
        self._searched, self._has_news = self.frontier, False
        while True:
            self._sort()
            found = self._search()
            rows = self.table.rows
            local = found.asked & (rows[IS_RAW] == 1)
            if local.any():
                self._split(np.flatnonzero(local), found)
                continue
            self._ask(found)
            if not found.settled.any():
                return
            self._settle(found)
            return

    def _is_due(self) -> bool:
        if not self.table.event_count or not (self._has_news or self.frontier > self._searched):
            return False
        if self._looks and self.frontier <= self._searched:
            return False  # answers come one by one, and all are needed
        if self.counts_by_key:
            return True
        need = int(next_position_cut(self._over_all, self.position)) - self.position
        if self.frontier == FOREVER:
            return True
        if self.table.event_count < need:
            return False
        rows = self.table.joined()
        return bool(rows[COUNT][rows[T1] < self.frontier].sum() >= need)

    def _sort(self) -> None:
        rows, ranks = self.table.joined(), source_ranks(self.names)
        order = np.lexsort((rows[O1], ranks[rows[S1]], rows[T1], rows[SEQUENCE]))
        self.table.rows = rows[:, order]

    def _search(self) -> Found:
        rows, ranks = self.table.rows, source_ranks(self.names)
        base = np.array([self.position])
        windows = self._over_all
        if self.counts_by_key:
            self.by_key.grow(len(self.keys))
            base, windows = self.by_key.base, self.by_key.counts
        first, last = (rows[T1], ranks[rows[S1]], rows[O1]), (rows[T2], ranks[rows[S2]], rows[O2])
        return search(rows[SEQUENCE], first, last, rows[COUNT], base, windows, self.frontier)

    def _split(self, places: Int64Array, found: Found) -> None:
        """Cut raw events that may hold a cut into smaller runs."""
        rows = self.table.rows
        is_kept = np.ones(rows.shape[1], np.bool_)
        is_kept[places] = False
        made = []
        for place in places.tolist():
            start, count, block = int(rows[AT, place]), int(rows[COUNT, place]), int(rows[BLOCK, place])
            chunk = self.table.events[block].chunk
            times = chunk.times[start : start + count]
            edges = _split_edges(frozen(times, np.int64), found.low[place], found.high[place], LOCAL_PARTS)
            at, last = start + edges[:-1], start + edges[1:] - 1
            split = np.repeat(rows[:, place : place + 1], len(at), axis=1)
            split[T1], split[S1], split[O1] = chunk.times[at], chunk.source_ids[at], chunk.offsets[at]
            split[T2], split[S2], split[O2] = chunk.times[last], chunk.source_ids[last], chunk.offsets[last]
            split[COUNT], split[AT] = last - at + 1, at
            made.append(split)
        self.table.rows = np.concatenate([rows[:, is_kept], *made], axis=1)

    def _ask(self, found: Found) -> None:
        """What is asked now, and nothing else: before all was here, a cut may have been looked for elsewhere."""
        rows, before = self.table.rows, self._looks
        self._looks, self._guesses = {}, {}
        for place in np.flatnonzero(found.asked).tolist():
            number = int(rows[NUMBER, place])
            self._looks[number] = int(found.low[place]), int(found.high[place])
            cut = int(rows[SEQUENCE, place]), int(found.cut[place])
            self._guesses[cut[1]] = (int(found.low[place]) + int(found.high[place])) // 2
            if number not in before and cut not in self._asked_cuts:
                self._asked_cuts.add(cut)
                self.corrections += 1

    def guesses(self) -> list[tuple[int, int]]:
        """Cuts over all events that leaves look for: behind how many events, and about when."""
        return sorted(self._guesses.items()) if self._looks and not self.counts_by_key else []

    def looks(self, chain: str) -> list[Look]:
        """What the owner of a chain has to look into; sources by their number over all."""
        if not self._looks:
            return []
        rows = self.table.joined()
        mine = np.isin(rows[NUMBER], list(self._looks)) & (rows[CHAIN] == self.chains.get(chain, -1))
        asked = []
        for row in rows[:, mine].T:
            keys = pa.array(row[SEQUENCE : SEQUENCE + 1])
            columns = [column.take(keys) for column in self.keys.columns()] if self.counts_by_key else []
            low, high = self._looks[int(row[NUMBER])]
            asked.append(
                Look(int(row[NUMBER]), int(row[COUNT]), row[T1 : O1 + 1], row[T2 : O2 + 1], low, high, columns)
            )
        return asked

    def looked_into(self) -> dict[int, str]:
        """The pieces that leaves look into, each with its chain."""
        if not self._looks:
            return {}
        rows, names = self.table.joined(), list(self.chains)
        mine = np.isin(rows[NUMBER], list(self._looks))
        return {number: names[chain] for number, chain in rows[[NUMBER, CHAIN]][:, mine].T.tolist()}

    # --- settled pieces become rows ---

    def _settle(self, found: Found) -> None:
        chosen = np.flatnonzero(found.settled)
        rows, position = self.table.rows[:, chosen], found.position[chosen]
        self._store(rows, position)
        if self.counts_by_key:
            np.add.at(self.by_key.base, rows[SEQUENCE], rows[COUNT])
        else:
            self._note_cuts(rows, position)
        self.position += int(rows[COUNT].sum())
        self.table.keep(~found.settled)
        for number in self._looks.keys() & set(rows[NUMBER].tolist()):
            del self._looks[number]
        left = self.table.rows
        open_from = int(left[T1].min()) if left.shape[1] else FOREVER
        self.settled_time = max(self.settled_time, min(open_from, self.frontier))
        self._asked_cuts = {(q, cut) for q, cut in self._asked_cuts if cut > self._counted(q)}

    def _counted(self, sequence: int) -> int:
        return int(self.by_key.base[sequence]) if self.counts_by_key else self.position

    def _note_cuts(self, rows: Int64Array, position: Int64Array) -> None:
        """Remember the cuts that were passed, for whoever predicts the next."""
        latest = np.maximum.accumulate(rows[T2])
        ends = position + rows[COUNT]
        begin, stop = self.position, int(ends[-1])
        done, names = 0, list(self.chains)
        cut = int(next_position_cut(self._over_all, begin))
        while cut <= stop:
            place = int(np.searchsorted(ends, cut))
            since = self._is_told + np.bincount(
                rows[CHAIN, done : place + 1], rows[COUNT, done : place + 1], len(self._is_told)
            ).astype(np.int64)
            counts = {name: int(count) for name, count in zip(names, since)}
            self.proven.append(ProvenCut(cut, int(latest[place]), counts))
            self.cut_count += 1
            self._is_told[:] = 0
            done, cut = place + 1, int(next_position_cut(self._over_all, cut))
        self._is_told += np.bincount(rows[CHAIN, done:], rows[COUNT, done:], len(self._is_told)).astype(np.int64)

    # --- without proof ---

    def fix_shares(self, cuts: Sequence[ProvenCut]) -> None:
        """From these first cuts on, believe that every window takes as many events of each chain as the first one did."""
        unit = int(np.gcd.reduce(self._over_all[:, :2].ravel()))
        first = cuts[0]
        counts = np.array([first.counts.get(name, 0) for name in self.chains])
        passed = np.sum([[cut.counts.get(name, 0) for name in self.chains] for cut in cuts], axis=0)
        self.shares = Shares(self.position - int(self._is_told.sum()), unit, split_evenly(counts, unit), passed)
        # What was settled since the last cut is no longer where it was counted.
        self.shares.taken = passed + self._is_told

    def _believe(self, shares: Shares) -> None:
        """Give pieces to windows by how many their chain had before."""
        rows = self.table.joined()
        if rows.shape[1] == 0:
            return
        shares.grow(len(self.chains))
        ranks = source_ranks(self.names)
        rows = rows[:, np.lexsort((rows[O1], ranks[rows[S1]], rows[T1], rows[CHAIN]))]
        rows = shares.split(rows, self.table.events)
        window, position = shares.places(rows)
        complete = shares.complete(rows)
        self.table.rows = rows
        settled = window < complete
        if not settled.any():
            return
        chosen = np.flatnonzero(settled)
        shares.settle(rows[:, chosen])
        self._store(rows[:, chosen], position[chosen], keep_order=True)
        before, self.position = self.position, max(self.position, shares.origin + complete * shares.unit)
        self.cut_count += (self.position - before) // shares.unit
        self.table.keep(~settled)
        self.settled_time = max(self.settled_time, int(rows[T1].min()))

    # --- windows ---

    def close(self, until: int) -> list[Closed]:
        """Windows of which all events are settled; ``until``: the watermark of all."""
        self.watermark = max(self.watermark, until)
        before = self.position
        self.advance(until)
        if self.position == before:
            return []
        view = self._view()
        pieces = []
        for counted in self.count_walks:
            totals = self.by_key.base if counted.by_key else np.array([self.position])
            pieces.extend(counted.close(view, totals))
        self.stragglers.seen()
        self._evict(view, until)
        return [piece for piece in pieces if len(piece)]

    @property
    def is_done(self) -> bool:
        """Whether nothing will come out any more though all events are here."""
        return self.frontier == FOREVER and not self._looks

    def row_count(self) -> int:
        return len(self.store) + int(self.table.joined().shape[1])

    # --- snapshots ---

    def state(self) -> dict[str, Any]:
        return super().state() | {
            "table": self.table.state(),
            "chains": list(self.chains),
            "arrays": [self._covered, self._latest, self._is_told],
            "times": [self.frontier, self.settled_time, self._searched, self._has_news],
            "looks": [[number, *between] for number, between in self._looks.items()],
            "asked": [list(cut) for cut in sorted(self._asked_cuts)],
            "numbers": [self.corrections, self.raw_count],
            "approx": [self._floor, self.cut_count],
            "shares": None if self.shares is None else self.shares.state(),
            "proven": [[cut.position, cut.time, dict(cut.counts)] for cut in self.proven],
        }

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        super().restore(state, types)
        self.table = PieceTable.restored(state["table"], self.ops)
        self.chains = {name: number for number, name in enumerate(state["chains"])}
        self._covered, self._latest, self._is_told = state["arrays"]
        self.frontier, self.settled_time, self._searched, self._has_news = state["times"]
        self._looks = {number: (low, high) for number, low, high in state["looks"]}
        self._asked_cuts = {(sequence, cut) for sequence, cut in state["asked"]}
        self.corrections, self.raw_count = state["numbers"]
        self._floor, self.cut_count = state["approx"]
        self.shares = None if state["shares"] is None else Shares(*state["shares"])
        self.proven = [ProvenCut(*cut) for cut in state["proven"]]


@njit
def _split_edges(times: Int64Array, low: int, high: int, parts_max: int) -> Int64Array:
    """Where to cut events that may hold a cut between two times: in small parts there, and around them as few as can be."""
    count = len(times)
    begin: Any = np.searchsorted(times, low)
    end: Any = np.searchsorted(times, high, side="right")
    parts = min(end - begin, parts_max)
    edges = np.empty(parts + 3, np.int64)
    edges[0] = 0
    n = 1
    for k in range(parts + 1):
        edge = begin + k * (end - begin) // max(parts, 1)
        if edge > edges[n - 1]:
            edges[n] = edge
            n += 1
    if n == 1 or (n == 2 and edges[1] == count):
        return np.array([0, count // 2, count]) if count > 1 else np.array([0, count])
    if edges[n - 1] < count:
        edges[n] = count
        n += 1
    return edges[:n]
