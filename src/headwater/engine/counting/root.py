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

from headwater.base.arrays import Int64Array
from headwater.base.source_numbers import Resolve
from headwater.engine.counting.approx import LeafShares, split_evenly
from headwater.engine.counting.piece_rows import PieceRows
from headwater.engine.counting.piece_table import (
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
from headwater.engine.counting.raw_cuts import clusters, cut_cluster, split_some
from headwater.engine.counting.search import KnownPieces, key_order, search
from headwater.engine.halves import GroupPart, Types
from headwater.engine.intake.chunk import source_ranks
from headwater.engine.slices.order_slicer import next_position_cut
from headwater.engine.windows.assembler import Closed
from headwater.engine.wire.looks import Look
from headwater.engine.wire.parts import HEAD_CHAIN, PiecesPart
from headwater.language.expressions import Expr
from headwater.language.times import FOREVER, NEVER


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
        self._last_asked = NEVER  # the last cut that leaves look for
        self._asked_cuts: set[tuple[int, int]] = set()
        self._known_ranks = np.empty(0, np.int64)
        self._guesses: dict[int, int] = {}  # for each cut that is looked for, about when it is
        #: What is believed instead of proven (``approx``).
        self.shares: LeafShares | None = None

    def problem(self, part: GroupPart, types: Types, resolve: Resolve) -> str | None:
        if not isinstance(part, PiecesPart):
            return super().problem(part, types, resolve)
        if not len(part.sizes) and part.raw is None:
            return None  # whoever has seen no key does not know of which types they are
        problem = self.keys_problem(part, types)
        if len(part.sizes):
            problem = problem or self.partials_problem(part)
        if part.raw is not None:
            problem = problem or self.columns_problem(part.raw.columns, types, "raw")
        return problem or _places_problem(part, resolve)

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
                self._cut_here(np.flatnonzero(local), found)
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
        if self.counts_by_key or self.frontier == FOREVER:
            return True
        # Until they are there, what is new can only tell of the next cut.
        known = max(self.position, self._last_asked) if self._looks else self.position
        need = int(next_position_cut(self._over_all, known)) - self.position
        # Chains add nothing before the frontier: what comes lies behind what they have covered.
        if self.table.event_count < need or self._short_of == (self.frontier, need):
            return False
        rows = self.table.joined()
        is_enough = bool(rows[COUNT][rows[T1] < self.frontier].sum() >= need)
        self._short_of = (NEVER, 0) if is_enough else (self.frontier, need)
        return is_enough

    def _sort(self) -> None:
        rows, ranks = self.table.joined(), self._ranks
        keys = rows[T1], ranks[rows[S1]], rows[O1]
        order = np.lexsort((*keys[::-1], rows[SEQUENCE])) if self.counts_by_key else key_order(*keys)
        self.table.rows = rows[:, order]

    def _search(self) -> KnownPieces:
        rows, ranks = self.table.rows, self._ranks
        base, windows = self._counts
        first, last = (rows[T1], ranks[rows[S1]], rows[O1]), (rows[T2], ranks[rows[S2]], rows[O2])
        return search(rows[SEQUENCE], first, last, rows[COUNT], base, windows, self.frontier)

    @property
    def _ranks(self) -> Int64Array:
        """Of all sources; names only ever come."""
        if len(self._known_ranks) != len(self.names):
            self._known_ranks = source_ranks(self.names)
        return self._known_ranks

    @property
    def _counts(self) -> tuple[Int64Array, Int64Array]:
        """How many events each sequence has had, and the windows over them."""
        if not self.counts_by_key:
            return np.array([self.position]), self._over_all
        self.by_key.grow(len(self.keys))
        return self.by_key.base, self.by_key.counts

    def _cut_here(self, places: Int64Array, found: KnownPieces) -> None:
        """Cut raw events that may hold a cut: where it is, or into smaller runs if that depends on others."""
        rows, events = self.table.rows, self.table.events
        whole = clusters(rows, found, *self._counts)
        if not whole:
            self.table.rows = split_some(rows, places, found, events)
            return
        is_kept = np.ones(rows.shape[1], np.bool_)
        is_kept[np.concatenate([cluster.places for cluster in whole])] = False
        made = [cut_cluster(rows, cluster, events, self._ranks) for cluster in whole]
        self.table.rows = np.concatenate([rows[:, is_kept], *made], axis=1)

    def _ask(self, found: KnownPieces) -> None:
        """What is asked now, and nothing else: before all was here, a cut may have been looked for elsewhere."""
        places, before = np.flatnonzero(found.asked), self._looks
        low, high = found.low[places], found.high[places]
        self._ask_for(places, low, high)
        cuts = found.cut[places]
        self._last_asked = int(cuts.max(initial=NEVER))
        self._guesses = dict(zip(cuts.tolist(), ((low + high) // 2).tolist()))
        rows = self.table.rows[:, places]
        for number, cut in zip(rows[NUMBER].tolist(), zip(rows[SEQUENCE].tolist(), cuts.tolist())):
            if number not in before and cut not in self._asked_cuts:
                self._asked_cuts.add(cut)
                self.corrections += 1

    def _ask_for(self, places: Int64Array, low: Int64Array, high: Int64Array) -> None:
        """Leaves are to look into the pieces in these places, for a cut between two times."""
        self._looks, self._asked = {}, {}
        names = list(self.chains)
        for row, begin, end in zip(self.table.joined()[:, places].T, low.tolist(), high.tolist()):
            keys = pa.array(row[SEQUENCE : SEQUENCE + 1])
            columns = [column.take(keys) for column in self.keys.columns()] if self.counts_by_key else []
            number, chain = int(row[NUMBER]), names[row[CHAIN]]
            look = Look(number, int(row[COUNT]), row[T1 : O1 + 1], row[T2 : O2 + 1], begin, end, columns)
            self._looks[number] = chain
            self._asked.setdefault(chain, {})[number] = look

    def guesses(self) -> list[tuple[int, int]]:
        """Cuts over all events that leaves look for: behind how many events, and about when."""
        return sorted(self._guesses.items()) if self._looks and not self.counts_by_key else []

    def looks(self, chain: str) -> list[Look]:
        """What the owner of a chain has to look into; sources by their number over all."""
        return list(self._asked.get(chain, {}).values())

    def looked_into(self) -> Mapping[int, str]:
        """The pieces that leaves look into, each with its chain."""
        return self._looks

    # --- settled pieces become rows ---

    def _settle(self, found: KnownPieces) -> None:
        chosen = np.flatnonzero(found.settled)
        rows, position = self.table.rows[:, chosen], found.position[chosen]
        self._store(rows, position)
        if self.counts_by_key:
            np.add.at(self.by_key.base, rows[SEQUENCE], rows[COUNT])
        else:
            self._note_cuts(rows, position)
        self.position += int(rows[COUNT].sum())
        self.table.keep(~found.settled)
        for number in self._looks.keys() & set(rows[NUMBER].tolist()) if self._looks else ():
            self._forget_look(number)
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
        self.shares = LeafShares(self.position - int(self._is_told.sum()), unit, split_evenly(counts, unit), passed)
        # What was settled since the last cut is no longer where it was counted.
        self.shares.taken = passed + self._is_told

    def _believe(self, shares: LeafShares) -> None:
        """Give pieces to windows by how many their chain had before."""
        rows = self.table.joined()
        if rows.shape[1] == 0:
            return
        shares.grow(len(self.chains))
        ranks = self._ranks
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

    def is_due(self, until: int) -> bool:
        return True  # answers come without a rise of the watermark

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
            "looks": [[n, look.low, look.high] for asked in self._asked.values() for n, look in asked.items()],
            "asked": [list(cut) for cut in sorted(self._asked_cuts)],
            "numbers": [self.corrections, self.raw_count],
            "approx": [self._floor, self.cut_count, self._last_asked],
            "shares": None if self.shares is None else self.shares.state(),
            "proven": [[cut.position, cut.time, dict(cut.counts)] for cut in self.proven],
        }

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        super().restore(state, types)
        self.table = PieceTable.restored(state["table"], self.ops)
        self.chains = {name: number for number, name in enumerate(state["chains"])}
        self._numbered.forget()
        self._covered, self._latest, self._is_told = state["arrays"]
        self.frontier, self.settled_time, self._searched, self._has_news = state["times"]
        numbers, *between = np.array(state["looks"], np.int64).reshape(-1, 3).T
        self._ask_for(self.table.places(numbers), *between)
        self._asked_cuts = {(sequence, cut) for sequence, cut in state["asked"]}
        self.corrections, self.raw_count = state["numbers"]
        self._floor, self.cut_count, self._last_asked = state["approx"]
        self.shares = None if state["shares"] is None else LeafShares(*state["shares"])
        self.proven = [ProvenCut(*cut) for cut in state["proven"]]


def _places_problem(part: PiecesPart, resolve: Resolve) -> str | None:
    crowd, chains, raw = resolve(part.chains), part.heads[HEAD_CHAIN], part.raw
    if not all(crowd.has(chains[part.head], keyed[1]) for keyed in (part.first, part.last)):
        return "pieces are of sources that are not there"
    if raw is not None and not crowd.has(chains[np.repeat(raw.head, raw.sizes)], raw.places[1]):
        return "events are of sources that are not there"
    return None
