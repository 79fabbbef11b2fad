"""Pieces that the root has and no window has yet: a table of numbers, and the partials or raw events behind them.

Once pieces are settled they become rows of partials: of whole pieces those that came, of raw events those that are made then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.counting.pieces import Ranges, rows_of
from headwater.engine.counting.search import Keys
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.reorder import OrderedEvents, concat_stretches
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import PartialColumn, partials_from_bytes, partials_to_bytes
from headwater.engine.operators.ragged import spread
from headwater.engine.slices.store import RowBlock, concat_blocks, concat_columns, map_columns
from headwater.engine.wire.looks import Look
from headwater.engine.wire.parts import PiecesPart

#: The partials of rows: event i adds to row ``of_event[i]``, of so many.
Lift = Callable[[Chunk, Int32Array, int], dict[Op, PartialColumn]]
#: The rows of a table, a column for each piece. Sources by number; BLOCK and AT: where its partials or events are; NUMBER: its
#: own, for good.
SEQUENCE, T1, S1, O1, T2, S2, O2, COUNT, BLOCK, AT, IS_RAW, CHAIN, NUMBER = range(13)
WIDTH = 13
#: The first and the last key of each piece.
FIRST, LAST = slice(T1, O1 + 1), slice(T2, O2 + 1)


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
        rows[FIRST], rows[LAST] = part.first, part.last
        rows[COUNT], rows[BLOCK], rows[AT], rows[IS_RAW] = part.sizes, block, np.arange(len(part.sizes)), 0
        return rows

    def raw_rows(self, stretch: OrderedEvents, sizes: Int64Array, is_by_key: bool) -> Int64Array:
        """Runs of raw events, of these sizes, yet without their chains."""
        starts = np.cumsum(sizes) - sizes
        block = self._next_block()
        self.events[block] = stretch
        rows = np.empty((WIDTH, len(starts)), np.int64)
        rows[SEQUENCE] = stretch.keys[starts] if is_by_key else 0
        rows[FIRST], rows[LAST] = stretch.chunk.places(starts), stretch.chunk.places(starts + sizes - 1)
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

    def keys(self, ranks: Int64Array) -> tuple[Keys, Keys]:
        """The first and the last keys of all pieces. ``ranks``: of sources by number."""
        rows = self.joined()
        return (rows[T1], ranks[rows[S1]], rows[O1]), (rows[T2], ranks[rows[S2]], rows[O2])

    def look(self, place: int, low: int, high: int, key_columns: list[pa.Array]) -> Look:
        """A look into the piece in this place, for a cut between two times."""
        row = self.joined()[:, place]
        return Look(int(row[NUMBER]), int(row[COUNT]), row[FIRST], row[LAST], low, high, key_columns)

    def keep(self, is_kept: BoolArray) -> None:
        """Let go of all other pieces of `joined`, and of what is behind them."""
        self.rows = self.joined()[:, is_kept]
        self.event_count = int(self.rows[COUNT].sum())
        first = int(self.rows[BLOCK].min(initial=0))
        used = set((first + np.flatnonzero(np.bincount(self.rows[BLOCK] - first))).tolist())
        self.partials = {block: kept for block, kept in self.partials.items() if block in used}
        self.events = {block: kept for block, kept in self.events.items() if block in used}

    def settled(
        self, rows: Int64Array, position: Int64Array, ops: Sequence[Op], lift: Lift, key_count: int
    ) -> RowBlock:
        """Settled pieces as rows of partials, in the order of their positions."""
        blocks = [*partial_rows(self, rows, position, ops), *event_rows(self, rows, position, lift, key_count)]
        together = concat_blocks(blocks)
        assert together.position is not None
        # Not by time: rows that begin at the same time stay on their side of a cut.
        return together.take(np.argsort(together.position, kind="stable"))

    def state(self) -> dict[str, Any]:
        partials = [[n, b.key, b.starts, partials_to_bytes(b.partials)] for n, b in self.partials.items()]
        events = [[n, s.chunk, s.keys] for n, s in self.events.items()]
        return {"rows": self.joined(), "partials": partials, "events": events, "counts": [self.numbers, self.blocks]}

    def restore(self, state: dict[str, Any], ops: Sequence[Op]) -> None:
        """Take over a state; ``ops`` are those that the queries have, users' own among them."""
        self.rows, (self.numbers, self.blocks) = state["rows"], state["counts"]
        self.partials = {
            number: PartialBlock(key, starts, partials_from_bytes(data, ops))
            for number, key, starts, data in state["partials"]
        }
        self.events = {number: OrderedEvents(chunk, keys, []) for number, chunk, keys in state["events"]}
        self.event_count = int(self.rows[COUNT].sum())


def split_run(row: Int64Array, edges: Int64Array, chunk: Chunk) -> Int64Array:
    """A run of raw events, one column of a table, cut into several at these edges: its begin, those inside, and its end."""
    at, sizes = row[AT] + edges[:-1], np.diff(edges)
    split = np.repeat(row, len(at), axis=1)
    split[FIRST], split[LAST] = chunk.places(at), chunk.places(at + sizes - 1)
    split[COUNT], split[AT] = sizes, at
    return split


def partial_rows(table: PieceTable, rows: Int64Array, position: Int64Array, ops: Sequence[Op]) -> list[RowBlock]:
    """Those of whole pieces, in one block."""
    pieces = np.flatnonzero(rows[IS_RAW] == 0)
    if len(pieces) == 0:
        return []
    numbers, place = np.unique(rows[BLOCK, pieces], return_inverse=True)
    blocks = [table.partials[number] for number in numbers.tolist()]
    # As if all blocks were one: taking rows out of each of them costs as much as out of all.
    behind = np.cumsum([0, *(len(block.starts) for block in blocks)])[place] + rows[AT, pieces]
    before = np.repeat(np.cumsum([0, *(len(block.key) for block in blocks[:-1])]), [len(b.starts) for b in blocks])
    edges = np.concatenate([block.starts for block in blocks]) + before
    starts, sizes = edges[behind], edges[behind + 1] - edges[behind]
    chosen, piece = spread(starts, sizes), np.repeat(pieces, sizes)
    together = concat_columns([{op: block.partials[op] for op in ops} for block in blocks])
    partials = map_columns(together, lambda column: column.take(chosen))
    key = np.concatenate([block.key for block in blocks])
    return [_block(key[chosen], rows, piece, position, partials)]


def event_rows(table: PieceTable, rows: Int64Array, position: Int64Array, lift: Lift, key_count: int) -> list[RowBlock]:
    """Those of raw events, in one block."""
    raw = np.flatnonzero(rows[IS_RAW] == 1)
    if len(raw) == 0:
        return []
    order = raw[np.argsort(rows[BLOCK, raw], kind="stable")]
    stretches = []
    for number in np.unique(rows[BLOCK, order]).tolist():
        pieces = order[rows[BLOCK, order] == number]
        stretches.append(table.events[number].take(spread(rows[AT, pieces], rows[COUNT, pieces])))
    stretch, sizes = concat_stretches(stretches), rows[COUNT, order]
    ranges = Ranges(np.cumsum(sizes) - sizes, sizes, np.zeros(len(sizes), np.bool_))
    made = rows_of(stretch.keys, key_count, ranges)
    partials = lift(stretch.chunk, made.of_event, len(made.key))
    return [_block(made.key, rows, order[made.piece], position, partials)]


def _block(
    key: Int32Array, rows: Int64Array, piece: Int64Array, position: Int64Array, partials: dict[Op, PartialColumn]
) -> RowBlock:
    place = position[piece]
    # The times of the whole piece: rows of a key stay in the order of their positions.
    return RowBlock(key.astype(np.int32), rows[T1, piece], rows[T2, piece], place, place, partials)
