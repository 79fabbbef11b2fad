"""Pieces that the root has and no window has yet: a table of numbers, and the partials or raw events behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.intake.reorder import OrderedEvents
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import PartialColumn, partials_from_bytes, partials_to_bytes
from headwater.engine.wire.parts import PiecesPart

#: The rows of a table, a column for each piece. Sources by number; BLOCK and AT: where its partials or events are; NUMBER: its
#: own, for good.
SEQUENCE, T1, S1, O1, T2, S2, O2, COUNT, BLOCK, AT, IS_RAW, CHAIN, NUMBER = range(13)
WIDTH = 13


@dataclass(slots=True)
class PartialBlock:
    """The partials of a part: the rows of piece i are ``starts[i]:starts[i + 1]``."""

    key: Int32Array
    starts: Int64Array
    partials: dict[Op, PartialColumn]


@dataclass(slots=True)
class PieceTable:
    """Pieces in no order; ``numbers``: how many there have been."""

    rows: Int64Array = field(default_factory=lambda: np.empty((WIDTH, 0), np.int64))
    #: What has come since the pieces were last put together, and the numbers of those that are to go.
    fresh: list[Int64Array] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    partials: dict[int, PartialBlock] = field(default_factory=dict)
    events: dict[int, OrderedEvents] = field(default_factory=dict)
    numbers: int = 0
    blocks: int = 0
    event_count: int = 0

    def add(self, rows: Int64Array) -> None:
        """New pieces; they get their numbers."""
        count = rows.shape[1]
        rows[NUMBER] = np.arange(self.numbers, self.numbers + count)
        self.numbers += count
        self.event_count += int(rows[COUNT].sum())
        self.fresh.append(rows)

    def whole_rows(self, part: PiecesPart, row_keys: Int32Array, is_by_key: bool) -> Int64Array:
        """The whole pieces of a part, yet without their chains and sources. ``row_keys``: the key of each row of partials."""
        starts = np.searchsorted(part.piece, np.arange(len(part.sizes) + 1))
        block = self._next_block()
        self.partials[block] = PartialBlock(row_keys, starts, dict(part.partials))
        rows = np.empty((WIDTH, len(part.sizes)), np.int64)
        rows[SEQUENCE] = row_keys[starts[:-1]] if is_by_key else 0
        rows[T1 : O1 + 1], rows[T2 : O2 + 1] = part.first, part.last
        rows[COUNT], rows[BLOCK], rows[AT], rows[IS_RAW] = part.sizes, block, np.arange(len(part.sizes)), 0
        return rows

    def raw_rows(self, stretch: OrderedEvents, sizes: Int64Array, is_by_key: bool) -> Int64Array:
        """Runs of raw events, of these sizes, yet without their chains."""
        starts = np.cumsum(sizes) - sizes
        block = self._next_block()
        self.events[block] = stretch
        rows = np.empty((WIDTH, len(starts)), np.int64)
        rows[SEQUENCE] = stretch.keys[starts] if is_by_key else 0
        rows[T1 : O1 + 1], rows[T2 : O2 + 1] = stretch.chunk.places(starts), stretch.chunk.places(starts + sizes - 1)
        rows[COUNT], rows[BLOCK], rows[AT], rows[IS_RAW] = sizes, block, starts, 1
        return rows

    def _next_block(self) -> int:
        self.blocks += 1
        return self.blocks

    def drop(self, number: int, event_count: int) -> None:
        """Let go of a piece with so many events; what is behind it goes with the next that `keep` lets go of."""
        self.dropped.append(number)
        self.event_count -= event_count

    def joined(self) -> Int64Array:
        """All pieces."""
        if self.fresh:
            self.rows = np.concatenate([self.rows, *self.fresh], axis=1)
            self.fresh = []
        if self.dropped:
            self.rows = self.rows[:, ~np.isin(self.rows[NUMBER], self.dropped)]
            self.dropped = []
        return self.rows

    def places(self, numbers: Int64Array) -> Int64Array:
        """Where pieces are, each asked for once; -1 for those that are not there any more."""
        held = self.joined()[NUMBER]
        if not len(held):
            return np.full(len(numbers), -1)
        order = np.argsort(held)
        found = np.minimum(np.searchsorted(held, numbers, sorter=order), len(held) - 1)
        return np.where(held[order[found]] == numbers, order[found], -1)

    def keep(self, is_kept: BoolArray) -> None:
        """Let go of all other pieces of `joined`, and of what is behind them."""
        self.rows = self.joined()[:, is_kept]
        self.event_count = int(self.rows[COUNT].sum())
        first = int(self.rows[BLOCK].min(initial=0))
        used = set((first + np.flatnonzero(np.bincount(self.rows[BLOCK] - first))).tolist())
        self.partials = {block: kept for block, kept in self.partials.items() if block in used}
        self.events = {block: kept for block, kept in self.events.items() if block in used}

    def state(self) -> dict[str, Any]:
        partials = [[n, b.key, b.starts, partials_to_bytes(b.partials)] for n, b in self.partials.items()]
        events = [[n, s.chunk, s.keys] for n, s in self.events.items()]
        return {"rows": self.joined(), "partials": partials, "events": events, "counts": [self.numbers, self.blocks]}

    @classmethod
    def restored(cls, state: dict[str, Any], ops: Sequence[Op]) -> PieceTable:
        table = cls(state["rows"])
        table.partials = {
            number: PartialBlock(key, starts, partials_from_bytes(data, ops))
            for number, key, starts, data in state["partials"]
        }
        table.events = {number: OrderedEvents(chunk, keys, []) for number, chunk, keys in state["events"]}
        table.numbers, table.blocks = state["counts"]
        table.event_count = int(table.rows[COUNT].sum())
        return table
