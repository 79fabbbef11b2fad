"""Count windows over many nodes, the half that has the pieces: it proves where windows end, and asks where it cannot.

Nothing is emitted that does not follow from keys (`cut_search`). What is undecided is looked into: raw events here, pieces by the
leaf that has their events, which answers with smaller ones instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.arrays import Int64Array
from headwater.engine.assembler import Closed
from headwater.engine.chunk import Chunk, source_ranks
from headwater.engine.cut_search import Found, search
from headwater.engine.group import QueryGroup
from headwater.engine.leaf_parts import values_of
from headwater.engine.looks import Look
from headwater.engine.op import Op
from headwater.engine.order_slicer import next_position_cut
from headwater.engine.parts import PiecesPart, key_count
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
from headwater.times import FOREVER, NEVER

#: Raw events that may hold a cut are cut into so many parts at once.
LOCAL_PARTS = 16


@dataclass(frozen=True, slots=True)
class ProvenCut:
    """Behind so many events of all, at this time, windows begin or end; ``counts``: events of each chain since the cut before."""

    position: int
    time: int
    counts: Mapping[str, int]


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
        self._is_told = np.empty(0, np.int64)  # events of each chain since the last cut
        self._looks: dict[int, tuple[int, int]] = {}  # pieces that leaves look into: between which times
        self._asked_cuts: set[tuple[int, int]] = set()

    @property
    def counts_by_key(self) -> bool:
        return any(walk.by_key for walk in self.count_walks)

    # --- what comes in ---

    def absorb(self, part: PiecesPart, sources: Int64Array, types: Mapping[str, pa.DataType]) -> None:
        """The pieces of a part; ``sources``: the numbers of all sources of its chain."""
        chain = self._chain(part.chain)
        if part.answers >= 0:
            if not self._replace(part.answers, part.event_count):
                return  # answered before, or nobody asks any more
        else:
            self._covered[chain] = FOREVER if part.is_all else part.until
            self._latest[chain] = part.latest
        self._has_news |= part.event_count > 0
        keys = self.keys.encode(part.key_columns, key_count(part.key_columns))
        if len(part.sizes):
            starts = np.searchsorted(part.piece, np.arange(len(part.sizes) + 1))
            row_keys = keys[part.key]
            block = self.table.add_partials(PartialBlock(row_keys, starts, dict(part.partials)))
            sequence = row_keys[starts[:-1]] if self.counts_by_key else np.zeros(len(part.sizes), np.int64)
            at = np.arange(len(part.sizes))
            self._add_rows(sequence, part.first, part.last, part.sizes, block, at, False, chain, sources)
        if part.raw is not None:
            raw = part.raw
            self.raw_count += len(raw.key)
            columns = {name: values_of(array, types[name]) for name, array in raw.columns.items()}
            chunk = Chunk(raw.places[0], raw.places[2], sources[raw.places[1]].astype(np.int32), self.names, columns)
            stretch = Stretch(chunk, keys[raw.key], [])
            starts = np.cumsum(raw.sizes) - raw.sizes
            sequence = stretch.keys[starts] if self.counts_by_key else np.zeros(len(starts), np.int64)
            places = raw.places[:, starts], raw.places[:, starts + raw.sizes - 1]
            block = self.table.add_events(stretch)
            self._add_rows(sequence, *places, raw.sizes, block, starts, True, chain, sources)

    def _add_rows(
        self, sequence: Any, first: Int64Array, last: Int64Array, sizes: Int64Array, block: int, at: Int64Array,
        is_raw: bool, chain: int, sources: Int64Array,
    ) -> None:  # fmt: skip
        rows = np.empty((WIDTH, len(sizes)), np.int64)
        rows[SEQUENCE] = sequence
        rows[T1 : O1 + 1], rows[T2 : O2 + 1] = first, last
        rows[S1], rows[S2] = sources[first[1]], sources[last[1]]
        rows[COUNT], rows[BLOCK], rows[AT], rows[IS_RAW], rows[CHAIN] = sizes, block, at, is_raw, chain
        self.table.add(rows)

    def _chain(self, name: str) -> int:
        if name not in self.chains:
            self.chains[name] = len(self.chains)
            self._covered = np.append(self._covered, NEVER)
            self._latest = np.append(self._latest, NEVER)
            self._is_told = np.append(self._is_told, 0)
        return self.chains[name]

    def _replace(self, number: int, count: int) -> bool:
        """Let go of a piece that smaller ones come for; False if it is not there, or they are not all of it."""
        place = self.table.find(number) if number in self._looks else None
        if place is None or self.table.joined()[COUNT, place] != count:
            return False
        del self._looks[number]
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
        if self.counts_by_key:
            return True
        need = int(next_position_cut(self._over_all, self.position)) - self.position
        if self.frontier == FOREVER:
            return True
        if self.table.event_count < need:
            return False
        rows = self.table.joined()
        return bool(rows[COUNT][rows[T2] < self.frontier].sum() >= need)

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
            inner = np.searchsorted(times, (found.low[place], found.high[place] + 1))
            size = int(inner[1] - inner[0])
            parts = min(size, LOCAL_PARTS)
            edges = np.unique(np.concatenate(([0], inner[0] + np.arange(parts + 1) * size // max(parts, 1), [count])))
            if len(edges) == 2 and count > 1:
                edges = np.array([0, count // 2, count])
            at, sizes = start + edges[:-1], np.diff(edges)
            split = np.repeat(rows[:, place : place + 1], len(at), axis=1)
            split[T1 : O1 + 1], split[T2 : O2 + 1] = chunk.places(at), chunk.places(at + sizes - 1)
            split[COUNT], split[AT] = sizes, at
            made.append(split)
        self.table.rows = np.concatenate([rows[:, is_kept], *made], axis=1)

    def _ask(self, found: Found) -> None:
        rows = self.table.rows
        for place in np.flatnonzero(found.asked).tolist():
            number = int(rows[NUMBER, place])
            if number not in self._looks:
                self._looks[number] = int(found.low[place]), int(found.high[place])
                cut = int(rows[SEQUENCE, place]), int(found.cut[place])
                if cut not in self._asked_cuts:
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
        blocks = [*self._partial_rows(rows, position), *self._event_rows(rows, position)]
        together = concat_blocks(blocks)
        assert together.position is not None
        # In the order of positions: rows that begin at the same time stay on their side of a cut.
        self._put(together.take(np.argsort(together.position, kind="stable")))
        if self.counts_by_key:
            np.add.at(self.by_key.base, rows[SEQUENCE], rows[COUNT])
        else:
            self._note_cuts(rows, position)
        self.position += int(rows[COUNT].sum())
        self.table.keep(~found.settled)
        for number in [number for number in self._looks if number in set(rows[NUMBER].tolist())]:
            del self._looks[number]
        left = self.table.rows
        open_from = int(left[T1].min()) if left.shape[1] else FOREVER
        self.settled_time = max(self.settled_time, min(open_from, self.frontier))
        self._asked_cuts = {(q, cut) for q, cut in self._asked_cuts if cut > self._counted(q)}

    def _counted(self, sequence: int) -> int:
        return int(self.by_key.base[sequence]) if self.counts_by_key else self.position

    def _put(self, block: RowBlock) -> None:
        """Rows of settled pieces, for windows."""
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
            self._is_told[:] = 0
            done, cut = place + 1, int(next_position_cut(self._over_all, cut))
        self._is_told += np.bincount(rows[CHAIN, done:], rows[COUNT, done:], len(self._is_told)).astype(np.int64)

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
        self.proven = [ProvenCut(*cut) for cut in state["proven"]]
