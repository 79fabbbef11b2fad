"""What the root has of leaves' pieces: a table of those that no window has yet, and how far each chain is covered by pieces."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.source_numbers import Cached, Resolve
from headwater.engine.counting.piece_table import (
    AT,
    BLOCK,
    CHAIN,
    COUNT,
    IS_RAW,
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
from headwater.engine.halves import GroupPart, SlicedRootGroup, Types
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.reorder import OrderedEvents
from headwater.engine.wire.looks import Look
from headwater.engine.wire.parts import (
    HEAD_ANSWERS,
    HEAD_CHAIN,
    HEAD_IS_ALL,
    HEAD_LATEST,
    HEAD_UNTIL,
    PiecesPart,
    RawRuns,
    key_count,
    values_of,
)
from headwater.language.expressions import Expr
from headwater.language.times import FOREVER, NEVER


class PieceIntake(SlicedRootGroup):
    """Takes pieces in, and answers in the place of pieces that were looked into."""

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int = NEVER) -> None:
        super().__init__(keys, where, begin)
        self.table = PieceTable()
        self.chains: dict[str, int] = {}
        self.told = np.empty(0, np.int64)  # chains of which the delta that comes in has said how far they are
        self._numbered: Cached[Int64Array] = Cached(self._numbers)
        self.raw_count = 0
        self._covered = np.empty(0, np.int64)
        self._latest = np.empty(0, np.int64)
        self._has_news = False
        self._short_of = (NEVER, 0)  # before this time there were fewer events than these, which a cut needs
        self._is_told = np.empty(0, np.int64)  # events of each chain since the last cut
        self._looks: dict[int, str] = {}  # the chains of pieces that leaves look into
        self._asked: dict[str, dict[int, Look]] = {}  # and what the owner of each is asked

    @property
    def counts_by_key(self) -> bool:
        return any(walk.by_key for walk in self.count_walks)

    def absorb(self, part: GroupPart, types: Types, resolve: Resolve) -> None:
        """The pieces of a part; ``resolve``: the numbers of all sources of chains."""
        if not isinstance(part, PiecesPart):
            super().absorb(part, types, resolve)
            return
        of_head = part.heads[HEAD_CHAIN]
        chains = self._numbered.of(part.chains)[of_head]
        wanted = self._take_heads(part, chains)
        if not wanted.any():
            return
        self._has_news = True
        sources = resolve(part.chains)
        keys = self.keys.encode(part.key_columns, key_count(part.key_columns))
        if len(part.sizes):
            rows = self._whole_rows(part, keys)
            rows[S1], rows[S2] = (sources.at(of_head[part.head], keyed[1]) for keyed in (part.first, part.last))
            rows[CHAIN] = chains[part.head]
            self.table.add(rows[:, wanted[part.head]])
        if part.raw is not None:
            of_event = of_head[np.repeat(part.raw.head, part.raw.sizes)]
            numbers = sources.at(of_event, part.raw.places[1]).astype(np.int32)
            rows = self._raw_rows(part.raw, keys, numbers, types)
            rows[CHAIN] = chains[part.raw.head]
            self.raw_count += int(rows[COUNT].sum())
            self.table.add(rows[:, wanted[part.raw.head]])

    def _take_heads(self, part: PiecesPart, chains: Int64Array) -> BoolArray:
        """What heads say of their chains; returns of which of them the pieces are wanted."""
        heads, counts = part.heads, part.event_counts
        is_news: BoolArray = heads[HEAD_ANSWERS] < 0
        covered = np.where(heads[HEAD_IS_ALL] == 1, FOREVER, heads[HEAD_UNTIL])
        told = chains[is_news]
        # Relays put parts together that are alike, so those of one delta come in any order.
        fresh = told[~np.isin(told, self.told)]
        self._covered[fresh] = self._latest[fresh] = NEVER
        np.maximum.at(self._covered, told, covered[is_news])
        np.maximum.at(self._latest, told, heads[HEAD_LATEST, is_news])
        self.told = np.concatenate((self.told, fresh))
        wanted: BoolArray = is_news & (counts > 0)
        if not is_news.all():
            wanted[~is_news] = self._replace(heads[HEAD_ANSWERS, ~is_news], counts[~is_news])
        return wanted

    def _whole_rows(self, part: PiecesPart, keys: Int32Array) -> Int64Array:
        starts = np.searchsorted(part.piece, np.arange(len(part.sizes) + 1))
        row_keys = keys[part.key]
        block = self.table.add_partials(PartialBlock(row_keys, starts, dict(part.partials)))
        rows = np.empty((WIDTH, len(part.sizes)), np.int64)
        rows[SEQUENCE] = row_keys[starts[:-1]] if self.counts_by_key else 0
        rows[T1 : O1 + 1], rows[T2 : O2 + 1] = part.first, part.last
        rows[COUNT], rows[BLOCK], rows[AT], rows[IS_RAW] = part.sizes, block, np.arange(len(part.sizes)), 0
        return rows

    def _raw_rows(
        self, raw: RawRuns, keys: Int32Array, sources: Int32Array, types: Mapping[str, pa.DataType]
    ) -> Int64Array:
        columns = {name: values_of(array, types[name]) for name, array in raw.columns.items()}
        chunk = Chunk(raw.places[0], raw.places[2], sources, self.names, columns)
        stretch = OrderedEvents(chunk, keys[raw.key], [])
        starts = np.cumsum(raw.sizes) - raw.sizes
        rows = np.empty((WIDTH, len(starts)), np.int64)
        rows[SEQUENCE] = stretch.keys[starts] if self.counts_by_key else 0
        rows[T1 : O1 + 1], rows[T2 : O2 + 1] = chunk.places(starts), chunk.places(starts + raw.sizes - 1)
        rows[COUNT], rows[BLOCK], rows[AT], rows[IS_RAW] = raw.sizes, self.table.add_events(stretch), starts, 1
        return rows

    def _numbers(self, chains: tuple[str, ...]) -> Int64Array:
        return np.array([self._number(chain) for chain in chains], np.int64)

    def _number(self, name: str) -> int:
        if name not in self.chains:
            self.chains[name] = len(self.chains)
            self._covered = np.append(self._covered, NEVER)
            self._latest = np.append(self._latest, NEVER)
            self._is_told = np.append(self._is_told, 0)
        return self.chains[name]

    def _replace(self, numbers: Int64Array, counts: Int64Array) -> BoolArray:
        """Let go of pieces that smaller ones come for; returns which: not those that are gone, or of which not all came."""
        fits = np.zeros(len(numbers), np.bool_)
        for place, (number, count) in enumerate(zip(numbers.tolist(), counts.tolist())):
            look = self._asked.get(self._looks.get(number, ""), {}).get(number)
            fits[place] = self._is_whole(number, count) if look is None else look.count == count
            if fits[place]:
                self._forget_look(number)
                self.table.drop(number, count)
        if fits.any():
            self._has_news, self._short_of = True, (NEVER, 0)
        return fits

    def _is_whole(self, number: int, count: int) -> bool:
        """Whether a piece that nobody asks for any more is there with so many events: whoever was asked will not answer again."""
        place, rows = int(self.table.places(np.array([number]))[0]), self.table.rows
        return place >= 0 and bool(rows[COUNT, place] == count and rows[IS_RAW, place] == 0)

    def _forget_look(self, number: int) -> None:
        chain = self._looks.pop(number, None)
        if chain is not None:
            del self._asked[chain][number]

    def covered(self, chain: str) -> int:
        """Before this time all events of a chain are in pieces."""
        return int(self._covered[self.chains[chain]]) if chain in self.chains else NEVER

    def reach(self, watermark: int) -> int:
        """Before this time no event of any chain is missing; ``watermark``: of all."""
        behind = self._covered[self._latest >= self._covered]
        return min(watermark, int(behind.min())) if len(behind) else watermark
