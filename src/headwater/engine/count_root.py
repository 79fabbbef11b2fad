"""Count windows over many nodes, the half that has the pieces: it proves where windows end, and asks where it cannot.

Nothing is emitted that does not follow from keys (`cut_search`). What is undecided is looked into: raw events here, pieces by the
leaf that has their events, which answers with smaller ones instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.arrays import BoolArray, Int32Array, Int64Array, frozen
from headwater.engine.assembler import Closed
from headwater.engine.chunk import Chunk, source_ranks
from headwater.engine.count_shares import Shares, split_evenly
from headwater.engine.cut_search import Found, search
from headwater.engine.group import QueryGroup
from headwater.engine.leaf_parts import values_of
from headwater.engine.looks import Look
from headwater.engine.op import Op
from headwater.engine.order_slicer import next_position_cut
from headwater.engine.parts import (
    HEAD_ANSWERS,
    HEAD_CHAIN,
    HEAD_IS_ALL,
    HEAD_LATEST,
    HEAD_UNTIL,
    PiecesPart,
    RawRuns,
    key_count,
)
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
    WIDTH,
    PartialBlock,
    PieceTable,
)
from headwater.engine.pieces import Ranges, rows_of, spread
from headwater.engine.reorder import Stretch, concat_stretches
from headwater.engine.store import RowBlock, concat_blocks, map_columns
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


@dataclass(frozen=True, slots=True)
class Sources:
    """The numbers of sources over all, those of each head from ``starts`` on."""

    numbers: Int64Array
    starts: Int64Array

    def of(self, head: Int64Array, place: Int64Array) -> Int64Array:
        return np.asarray(self.numbers[self.starts[head] + place])


class CountRootGroup(QueryGroup):
    """Pieces in, windows out."""

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int = NEVER) -> None:
        super().__init__(keys, where, begin)
        self.table = PieceTable()
        self.names: list[str] = []  # of sources, by number; the list of whoever accepts deltas
        self.chains: dict[str, int] = {}
        self.frontier = NEVER
        self.settled_time = NEVER  # all events before it are in windows, or in none
        self.proven: list[ProvenCut] = []
        self.corrections = 0
        self.raw_count = 0
        self._covered = np.empty(0, np.int64)
        self._latest = np.empty(0, np.int64)
        self._searched = NEVER
        self._has_news = False
        self.told: set[int] = set()  # chains of which the delta that comes in has said how far they are
        self._is_told = np.empty(0, np.int64)  # events of each chain since the last cut
        self._looks: dict[int, tuple[int, int]] = {}  # pieces that leaves look into: between which times
        self._asked_cuts: set[tuple[int, int]] = set()
        #: What is believed instead of proven (``approx``).
        self.shares: Shares | None = None
        self._floor = NEVER
        self.cut_count = 0

    @property
    def counts_by_key(self) -> bool:
        return any(walk.by_key for walk in self.count_walks)

    # --- what comes in ---

    def absorb(self, part: PiecesPart, resolve: Callable[[str], Int64Array], types: Mapping[str, pa.DataType]) -> None:
        """The pieces of a part; ``resolve``: the numbers of all sources of a chain."""
        chains = np.array([self._chain(name) for name in part.chains])[part.heads[HEAD_CHAIN]]
        wanted = self._take_heads(part, chains)
        if not wanted.any():
            return
        self._has_news = True
        numbers = [resolve(name) for name in part.chains]
        starts = np.cumsum([0, *map(len, numbers)])[part.heads[HEAD_CHAIN]]
        sources = Sources(np.concatenate(numbers), starts)
        keys = self.keys.encode(part.key_columns, key_count(part.key_columns))
        if len(part.sizes):
            rows = self._whole_rows(part, keys, sources)
            rows[CHAIN] = chains[part.head]
            self.table.add(rows[:, wanted[part.head]])
        if part.raw is not None:
            rows = self._raw_rows(part.raw, keys, sources, types)
            rows[CHAIN] = chains[part.raw.head]
            self.raw_count += int(rows[COUNT].sum())
            self.table.add(rows[:, wanted[part.raw.head]])

    def _take_heads(self, part: PiecesPart, chains: Int64Array) -> BoolArray:
        """What heads say of their chains; returns of which of them the pieces are wanted."""
        heads, counts = part.heads, part.event_counts
        is_news: BoolArray = heads[HEAD_ANSWERS] < 0
        news = np.flatnonzero(is_news)
        covered = np.where(heads[HEAD_IS_ALL] == 1, FOREVER, heads[HEAD_UNTIL])
        for head, chain in zip(news.tolist(), chains[news].tolist()):
            # Relays put parts together that are alike, so those of one delta come in any order.
            floor = (self._covered[chain], self._latest[chain]) if chain in self.told else (NEVER, NEVER)
            self._covered[chain] = max(floor[0], covered[head])
            self._latest[chain] = max(floor[1], heads[HEAD_LATEST, head])
            self.told.add(chain)
        wanted: BoolArray = is_news & (counts > 0)
        for head in np.flatnonzero(~is_news).tolist():
            # Not if it was answered before, or nobody asks any more.
            wanted[head] = self._replace(int(heads[HEAD_ANSWERS, head]), int(counts[head]))
        return wanted

    def _whole_rows(self, part: PiecesPart, keys: Int32Array, sources: Sources) -> Int64Array:
        starts = np.searchsorted(part.piece, np.arange(len(part.sizes) + 1))
        row_keys = keys[part.key]
        block = self.table.add_partials(PartialBlock(row_keys, starts, dict(part.partials)))
        rows = np.empty((WIDTH, len(part.sizes)), np.int64)
        rows[SEQUENCE] = row_keys[starts[:-1]] if self.counts_by_key else 0
        rows[T1 : O1 + 1], rows[T2 : O2 + 1] = part.first, part.last
        rows[S1], rows[S2] = (sources.of(part.head, keyed[1]) for keyed in (part.first, part.last))
        rows[COUNT], rows[BLOCK], rows[AT], rows[IS_RAW] = part.sizes, block, np.arange(len(part.sizes)), 0
        return rows

    def _raw_rows(
        self, raw: RawRuns, keys: Int32Array, sources: Sources, types: Mapping[str, pa.DataType]
    ) -> Int64Array:
        columns = {name: values_of(array, types[name]) for name, array in raw.columns.items()}
        numbers = sources.of(np.repeat(raw.head, raw.sizes), raw.places[1]).astype(np.int32)
        chunk = Chunk(raw.places[0], raw.places[2], numbers, self.names, columns)
        stretch = Stretch(chunk, keys[raw.key], [])
        starts = np.cumsum(raw.sizes) - raw.sizes
        rows = np.empty((WIDTH, len(starts)), np.int64)
        rows[SEQUENCE] = stretch.keys[starts] if self.counts_by_key else 0
        rows[T1 : O1 + 1], rows[T2 : O2 + 1] = chunk.places(starts), chunk.places(starts + raw.sizes - 1)
        rows[COUNT], rows[BLOCK], rows[AT], rows[IS_RAW] = raw.sizes, self.table.add_events(stretch), starts, 1
        return rows

    def _chain(self, name: str) -> int:
        if name not in self.chains:
            self.chains[name] = len(self.chains)
            self._covered = np.append(self._covered, NEVER)
            self._latest = np.append(self._latest, NEVER)
            self._is_told = np.append(self._is_told, 0)
        return self.chains[name]

    def _replace(self, number: int, count: int) -> bool:
        """Let go of a piece that smaller ones come for; False if it is not there, or they are not all of it."""
        # Also if nobody asks any more: whoever was asked will not answer again.
        place = self.table.find(number)
        if place is None or tuple(self.table.joined()[[COUNT, IS_RAW], place]) != (count, 0):
            return False
        self._looks.pop(number, None)
        is_kept = np.ones(self.table.rows.shape[1], np.bool_)
        is_kept[place] = False
        self.table.keep(is_kept)
        self._has_news = True
        return True

    # --- proof ---

    def covered(self, chain: str) -> int:
        """Before this time all events of a chain are in pieces."""
        return int(self._covered[self.chains[chain]]) if chain in self.chains else NEVER

    def reach(self, watermark: int) -> int:
        """Before this time no event of any chain is missing; ``watermark``: of all."""
        behind = self._covered[self._latest >= self._covered]
        return min(watermark, int(behind.min())) if len(behind) else watermark

    def advance(self, watermark: int) -> None:
        """Find the cuts that are provable now, as far as no leaf has to be asked; rows of settled pieces go to the windows."""
        self.frontier = self.reach(watermark)
        if self.shares is not None:
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
        self._looks = {}
        for place in np.flatnonzero(found.asked).tolist():
            number = int(rows[NUMBER, place])
            self._looks[number] = int(found.low[place]), int(found.high[place])
            cut = int(rows[SEQUENCE, place]), int(found.cut[place])
            if number not in before and cut not in self._asked_cuts:
                self._asked_cuts.add(cut)
                self.corrections += 1

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

    def _store(self, rows: Int64Array, position: Int64Array, keep_order: bool = False) -> None:
        """Rows of settled pieces, for windows."""
        together = concat_blocks([*self._partial_rows(rows, position), *self._event_rows(rows, position)])
        assert together.position is not None
        # In the order of positions: rows that begin at the same time stay on their side of a cut.
        block = together.take(np.argsort(together.position, kind="stable"))
        if keep_order:
            block.first = np.maximum(np.maximum.accumulate(block.first), self._floor)
            self._floor = int(block.first[-1])
        self.store.append(block)

    def _partial_rows(self, rows: Int64Array, position: Int64Array) -> list[RowBlock]:
        made = []
        for number in np.unique(rows[BLOCK][rows[IS_RAW] == 0]).tolist():
            block = self.table.partials[number]
            pieces = np.flatnonzero(rows[BLOCK] == number)
            starts = block.starts[rows[AT, pieces]]
            sizes = block.starts[rows[AT, pieces] + 1] - starts
            chosen, piece = spread(starts, sizes), np.repeat(pieces, sizes)
            partials = map_columns({op: block.partials[op] for op in self.ops}, lambda column: column.take(chosen))  # noqa: B023
            made.append(self._block(block.key[chosen], rows, piece, position, partials))
        return made

    def _event_rows(self, rows: Int64Array, position: Int64Array) -> list[RowBlock]:
        raw = np.flatnonzero(rows[IS_RAW] == 1)
        if len(raw) == 0:
            return []
        order = raw[np.argsort(rows[BLOCK, raw], kind="stable")]
        stretches = []
        for number in np.unique(rows[BLOCK, order]).tolist():
            pieces = order[rows[BLOCK, order] == number]
            stretches.append(self.table.events[number].take(spread(rows[AT, pieces], rows[COUNT, pieces])))
        stretch, sizes = concat_stretches(stretches), rows[COUNT, order]
        ranges = Ranges(np.cumsum(sizes) - sizes, sizes, np.zeros(len(sizes), np.bool_))
        made = rows_of(stretch.keys, len(self.keys), ranges)
        partials = self._lifted(stretch.chunk, made.of_event, len(made.key))
        return [self._block(made.key, rows, order[made.piece], position, partials)]

    def _block(
        self, key: Any, rows: Int64Array, piece: Int64Array, position: Int64Array, partials: dict[Op, Any]
    ) -> RowBlock:
        place = position[piece]
        # The times of the whole piece: rows of a key stay in the order of their positions.
        return RowBlock(key.astype(np.int32), rows[T1, piece], rows[T2, piece], place, place, partials)

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
        rows = np.concatenate([self.table.joined(), np.empty((WIDTH, 0), np.int64)], axis=1)
        if rows.shape[1] == 0:
            return
        shares.grow(len(self.chains))
        ranks = source_ranks(self.names)
        rows = rows[:, np.lexsort((rows[O1], ranks[rows[S1]], rows[T1], rows[CHAIN]))]
        rows = shares.split(rows, self.table.events)
        window, position = shares.places(rows)
        complete = shares.complete(rows)
        self.table.rows = rows
        found = Found(window < complete, position, *(np.zeros(0, np.int64) for _ in range(4)))  # type: ignore[arg-type]
        if not found.settled.any():
            return
        chosen = np.flatnonzero(found.settled)
        shares.settle(rows[:, chosen])
        self._store(rows[:, chosen], position[chosen], keep_order=True)
        self.position = max(self.position, shares.origin + complete * shares.unit)
        self.cut_count += 1
        self.table.keep(~found.settled)
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
    begin, end = np.searchsorted(times, low), np.searchsorted(times, high, side="right")
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
