"""Count windows over many nodes, the half that has the pieces: it proves where windows end, and asks where it cannot.

Nothing is emitted that does not follow from keys (`search`). What is undecided is looked into: raw events here, pieces by the
leaf that has their events, which answers with smaller ones instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int64Array
from headwater.base.count_limits import CountLimits
from headwater.base.snapshots import Spec, made_of, restore_into, rows, state_of, told
from headwater.base.source_numbers import Resolve
from headwater.engine.counting.approx import LeafShares
from headwater.engine.counting.chains import ChainCoverage, OpenLooks
from headwater.engine.counting.piece_table import CHAIN, COUNT, IS_RAW, NUMBER, S1, S2, SEQUENCE, T1, T2, PieceTable
from headwater.engine.counting.raw_cuts import clusters, cut_cluster, split_some
from headwater.engine.counting.search import KnownPieces, key_order, search
from headwater.engine.halves import GroupPart, SlicedRootGroup, Types
from headwater.engine.intake.chunk import Chunk, source_ranks
from headwater.engine.intake.reorder import OrderedEvents
from headwater.engine.slices.order_slicer import next_position_cut
from headwater.engine.windows.assembler import Closed
from headwater.engine.wire.looks import Look
from headwater.engine.wire.parts import HEAD_ANSWERS, HEAD_CHAIN, PiecesPart, key_count, values_of
from headwater.language.expressions import Expr
from headwater.language.times import FOREVER, NEVER


@dataclass(frozen=True, slots=True)
class ProvenCut:
    """Where windows begin or end: behind ``position`` events of all, at ``time``. ``counts``: by chain, since the last cut."""

    position: int
    time: int
    counts: Mapping[str, int]


class CountRootGroup(SlicedRootGroup):
    """Makes windows of pieces.

    A piece comes into the table, with a head that says how far its chain is covered. It is searched for cuts, perhaps looked
    into, and leaves the table for the rows of windows once it is settled.
    """

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int, limits: CountLimits) -> None:
        super().__init__(keys, where, begin)
        self.limits = limits
        self.table = PieceTable()
        self.coverage = ChainCoverage()
        self.open_looks = OpenLooks()
        self.frontier = NEVER  # before it no event is missing
        self.settled_time = NEVER  # all events before it are in windows, or in none
        self.proven: list[ProvenCut] = []
        self.cut_count = 0
        self.raw_count = 0
        #: What is believed instead of proven (``approx``).
        self.shares: LeafShares | None = None
        self._searched = NEVER
        self._has_news = False
        self._short_of = (NEVER, 0)  # before this time there were fewer events than these, which a cut needs
        self._known_ranks = np.empty(0, np.int64)

    @property
    def chains(self) -> Mapping[str, int]:
        """The numbers of all chains."""
        return self.coverage.numbers

    @property
    def corrections(self) -> int:
        """How many cuts leaves had to look for."""
        return self.open_looks.corrections

    @property
    def largest_window(self) -> int:
        """How many events the largest windows have."""
        return max(walk.window.size for walk in self.windows.count_walks)

    # --- pieces come ---

    def absorb(self, part: GroupPart, types: Types, resolve: Resolve) -> None:
        """The pieces of a part; ``resolve``: the numbers of all sources of chains."""
        if not isinstance(part, PiecesPart):
            super().absorb(part, types, resolve)
            return
        of_head = part.heads[HEAD_CHAIN]
        chains = self.coverage.numbers_of(part.chains)[of_head]
        wanted = self._take_heads(part, chains)
        if not wanted.any():
            return
        self._has_news = True
        sources = resolve(part.chains)
        keys = self.keys.encode(part.key_columns, key_count(part.key_columns))
        if len(part.sizes):
            rows = self.table.whole_rows(part, keys[part.key], self.counts_by_key)
            rows[S1], rows[S2] = (sources.at(of_head[part.head], keyed[1]) for keyed in (part.first, part.last))
            rows[CHAIN] = chains[part.head]
            self.table.add(rows[:, wanted[part.head]])
        if (raw := part.raw) is not None:
            numbers = sources.at(of_head[np.repeat(raw.head, raw.sizes)], raw.places[1]).astype(np.int32)
            columns = {name: values_of(array, types[name]) for name, array in raw.columns.items()}
            chunk = Chunk(raw.places[0], raw.places[2], numbers, self.names, columns)
            rows = self.table.raw_rows(OrderedEvents(chunk, keys[raw.key], []), raw.sizes, self.counts_by_key)
            rows[CHAIN] = chains[raw.head]
            self.raw_count += int(rows[COUNT].sum())
            self.table.add(rows[:, wanted[raw.head]])

    def _take_heads(self, part: PiecesPart, chains: Int64Array) -> BoolArray:
        """What heads say of their chains; returns of which of them the pieces are wanted."""
        counts = part.event_counts
        is_news: BoolArray = part.heads[HEAD_ANSWERS] < 0
        self.coverage.take_heads(chains[is_news], part.heads[:, is_news])
        wanted: BoolArray = is_news & (counts > 0)
        if not is_news.all():
            wanted[~is_news] = self._replace(part.heads[HEAD_ANSWERS, ~is_news], counts[~is_news])
        return wanted

    def _replace(self, numbers: Int64Array, counts: Int64Array) -> BoolArray:
        """Let go of pieces that smaller ones come for; returns which: not those that are gone, or of which not all came."""
        fits = np.zeros(len(numbers), np.bool_)
        for place, (number, count) in enumerate(zip(numbers.tolist(), counts.tolist())):
            look = self.open_looks.find(number)
            fits[place] = self._is_whole(number, count) if look is None else look.count == count
            if fits[place]:
                self.open_looks.forget(number)
                self.table.drop(number, count)
        if fits.any():
            self._has_news, self._short_of = True, (NEVER, 0)
        return fits

    def _is_whole(self, number: int, count: int) -> bool:
        """Whether a piece without a look is there with this many events: its answer counts, for there will be no second one."""
        place, rows = int(self.table.places(np.array([number]))[0]), self.table.rows
        return place >= 0 and bool(rows[COUNT, place] == count and rows[IS_RAW, place] == 0)

    def problem(self, part: GroupPart, types: Types, resolve: Resolve) -> str | None:
        if not isinstance(part, PiecesPart):
            return super().problem(part, types, resolve)
        if not len(part.sizes) and part.raw is None:
            return None  # a leaf that has seen no key does not know the types of keys
        problem = self.keys_problem(part, types)
        if len(part.sizes):
            problem = problem or self.partials_problem(part, types)
        if part.raw is not None:
            problem = problem or self.columns_problem(part.raw.columns, types, "raw")
        return problem or _places_problem(part, resolve)

    # --- proof ---

    def advance(self, watermark: int) -> None:
        """Find the cuts that are provable now, as far as no leaf has to be asked; rows of settled pieces go to the windows."""
        self.frontier = self.coverage.reach(watermark)
        if self.shares is not None:
            if self._has_news:
                self._has_news = False
                self._believe(self.shares)
            return
        if not self._is_due():
            return
        self._searched, self._has_news = self.frontier, False
        found = self._search()
        while (is_here := found.asked & (self.table.rows[IS_RAW] == 1)).any():
            self._cut_here(np.flatnonzero(is_here), found)
            found = self._search()
        places = np.flatnonzero(found.asked)
        looks = self._looks(places, found.low[places], found.high[places])
        self.open_looks.ask_for(looks, self.table.rows[SEQUENCE, places], found.cut[places])
        if found.settled.any():
            self._settle(found)

    def _is_due(self) -> bool:
        if not self.table.event_count or not (self._has_news or self.frontier > self._searched):
            return False
        if self.open_looks and self.frontier <= self._searched:
            return False  # answers come one by one, and all are needed
        if self.counts_by_key or self.frontier == FOREVER:
            return True
        # Until they are there, what is new can only tell of the next cut.
        known = max(self.position, self.open_looks.last_cut) if self.open_looks else self.position
        need = int(next_position_cut(self.windows.over_all, known)) - self.position
        # Chains add nothing before the frontier: what comes lies behind what they have covered.
        if self.table.event_count < need or self._short_of == (self.frontier, need):
            return False
        rows = self.table.joined()
        is_enough = bool(rows[COUNT][rows[T1] < self.frontier].sum() >= need)
        self._short_of = (NEVER, 0) if is_enough else (self.frontier, need)
        return is_enough

    def _search(self) -> KnownPieces:
        """Put the pieces in order and find out where cuts are, and where they may be."""
        rows, (first, _) = self.table.joined(), self.table.keys(self._ranks)
        order = np.lexsort((*first[::-1], rows[SEQUENCE])) if self.counts_by_key else key_order(*first)
        self.table.rows = rows = rows[:, order]
        return search(rows[SEQUENCE], *self.table.keys(self._ranks), rows[COUNT], *self._counts, self.frontier)

    @property
    def _ranks(self) -> Int64Array:
        """The ranks of all sources by name; worked out anew when there are more."""
        if len(self._known_ranks) != len(self.names):
            self._known_ranks = source_ranks(self.names)
        return self._known_ranks

    @property
    def _counts(self) -> tuple[Int64Array, Int64Array]:
        """How many events each sequence has had, and the windows over them."""
        if not self.counts_by_key:
            return np.array([self.position]), self.windows.over_all
        self.by_key.grow(len(self.keys))
        return self.by_key.base, self.by_key.counts

    def _cut_here(self, places: Int64Array, found: KnownPieces) -> None:
        """Cut raw events that may hold a cut: where it is, or into smaller runs if that depends on others."""
        rows, events = self.table.rows, self.table.events
        whole = clusters(rows, found, *self._counts)
        if not whole:
            self.table.rows = split_some(rows, places, found, events, self.limits.local_parts)
            return
        is_kept = np.ones(rows.shape[1], np.bool_)
        is_kept[np.concatenate([cluster.places for cluster in whole])] = False
        made = [cut_cluster(rows, cluster, events, self._ranks) for cluster in whole]
        self.table.rows = np.concatenate([rows[:, is_kept], *made], axis=1)

    def _looks(self, places: Int64Array, low: Int64Array, high: Int64Array) -> list[tuple[str, Look]]:
        """A look into each of the pieces in these places, for a cut between two times, with the chain that it is for."""
        looks, names, rows = [], list(self.chains), self.table.joined()
        for place, begin, end in zip(places.tolist(), low.tolist(), high.tolist()):
            keys = pa.array(rows[SEQUENCE, place : place + 1])
            columns = [column.take(keys) for column in self.keys.columns()] if self.counts_by_key else []
            looks.append((names[rows[CHAIN, place]], self.table.look(place, begin, end, columns)))
        return looks

    def guesses(self) -> list[tuple[int, int]]:
        """Cuts over all events that leaves look for: behind how many events, and about when."""
        return [] if self.counts_by_key else self.open_looks.guesses()

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
        for number in rows[NUMBER].tolist() if self.open_looks else ():
            self.open_looks.forget(number)
        left = self.table.rows
        open_from = int(left[T1].min()) if left.shape[1] else FOREVER
        self.settled_time = max(self.settled_time, min(open_from, self.frontier))
        self.open_looks.passed(self._counts[0])

    def _store(self, rows: Int64Array, position: Int64Array) -> None:
        """Rows of settled pieces, for windows."""
        block = self.table.settled(rows, position, self.ops, self.lifted, len(self.keys))
        self.store.append(block if self.shares is None else self.shares.in_order(block))

    def _note_cuts(self, rows: Int64Array, position: Int64Array) -> None:
        """Remember the cuts that were passed: forecasts are made of them."""
        latest = np.maximum.accumulate(rows[T2])
        ends = position + rows[COUNT]
        begin, stop = self.position, int(ends[-1])
        done, names, since = 0, list(self.chains), self.coverage.since_cut
        cut = int(next_position_cut(self.windows.over_all, begin))
        while cut <= stop:
            place = int(np.searchsorted(ends, cut))
            since += _chain_counts(rows[:, done : place + 1], len(since))
            counts = {name: int(count) for name, count in zip(names, since)}
            self.proven.append(ProvenCut(cut, int(latest[place]), counts))
            self.cut_count += 1
            since[:] = 0
            done, cut = place + 1, int(next_position_cut(self.windows.over_all, cut))
        since += _chain_counts(rows[:, done:], len(since))

    # --- without proof ---

    def fix_shares(self, cuts: Sequence[ProvenCut]) -> None:
        """From these first cuts on, believe that every window takes as many events of each chain as the first one did."""
        unit = int(np.gcd.reduce(self.windows.over_all[:, :2].ravel()))
        counts = [cut.counts for cut in cuts]
        self.shares = LeafShares.of_cuts(counts, self.chains, unit, self.position, self.coverage.since_cut)

    def _believe(self, shares: LeafShares) -> None:
        believed = shares.believe(self.table, self._ranks, len(self.chains))
        if believed is None:
            return
        settled, position, complete = believed
        rows, before = self.table.rows, self.position
        self._store(rows[:, settled], position[settled])
        self.position = max(before, complete)
        self.cut_count += (self.position - before) // shares.unit
        self.table.keep(~settled)
        self.settled_time = max(self.settled_time, int(rows[T1].min()))

    # --- windows ---

    def close(self, until: int, is_paced: bool = False) -> list[Closed]:
        """Windows of which all events are settled; ``until``: the watermark of all."""
        self.watermark = max(self.watermark, until)
        before = self.position
        self.advance(until)
        if self.position == before:
            return []
        return self.close_up(until, until)

    def is_due(self, until: int) -> bool:
        return True  # answers come without a rise of the watermark

    def row_count(self) -> int:
        return len(self.store) + int(self.table.joined().shape[1])

    # --- snapshots ---

    def state(self) -> Any:
        return super().state() | state_of(self, _STATE)

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        super().restore(state, types)
        restore_into(self, _STATE, state, self.ops)
        numbers, *between = np.array(state["looks"], np.int64).reshape(-1, 3).T
        self.open_looks.ask(self._looks(self.table.places(numbers), *between))
        if self.shares is not None:
            self.shares.floor = state["approx"][0]


_STATE: Spec = {
    "table": "table",
    "chains": made_of("coverage.numbers", list, lambda names: {name: number for number, name in enumerate(names)}),
    "arrays": ["coverage.covered", "coverage.latest", "coverage.since_cut"],
    "times": ["frontier", "settled_time", "_searched", "_has_news"],
    "looks": told("open_looks", OpenLooks.places),
    "asked": made_of("open_looks.cuts", lambda cuts: list(map(list, sorted(cuts))), lambda kept: set(map(tuple, kept))),
    "numbers": ["open_looks.corrections", "raw_count"],
    "approx": [
        told("shares", lambda shares: NEVER if shares is None else shares.floor),
        "cut_count",
        "open_looks.last_cut",
    ],
    "shares": made_of("shares", lambda one: one and one.state(), lambda kept: kept and LeafShares(*kept)),
    "proven": rows("proven", ProvenCut),
}


def _chain_counts(rows: Int64Array, chain_count: int) -> Int64Array:
    """How many events of each chain there are in pieces."""
    return np.bincount(rows[CHAIN], rows[COUNT], chain_count).astype(np.int64)


def _places_problem(part: PiecesPart, resolve: Resolve) -> str | None:
    crowd, chains, raw = resolve(part.chains), part.heads[HEAD_CHAIN], part.raw
    if not all(crowd.has(chains[part.head], keyed[1]) for keyed in (part.first, part.last)):
        return "pieces are of sources that are not there"
    if raw is not None and not crowd.has(chains[np.repeat(raw.head, raw.sizes)], raw.places[1]):
        return "events are of sources that are not there"
    return None
