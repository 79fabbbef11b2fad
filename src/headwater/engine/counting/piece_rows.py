"""Settled pieces as rows of partials: of whole pieces those that came, of raw events those that are made now."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from headwater.base.arrays import Int32Array, Int64Array
from headwater.engine.counting.piece_table import AT, BLOCK, COUNT, IS_RAW, T1, T2, PieceTable
from headwater.engine.counting.pieces import Ranges, rows_of
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.reorder import concat_stretches
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import PartialColumn
from headwater.engine.operators.ragged import spread
from headwater.engine.slices.store import RowBlock, concat_blocks, concat_columns, map_columns

#: The partials of rows: event i adds to row ``of_event[i]``, of so many.
Lift = Callable[[Chunk, Int32Array, int], dict[Op, PartialColumn]]


def settled_block(
    table: PieceTable, rows: Int64Array, position: Int64Array, ops: Sequence[Op], lift: Lift, key_count: int
) -> RowBlock:
    """The rows of these pieces of the table, in the order of their positions."""
    blocks = [*partial_rows(table, rows, position, ops), *event_rows(table, rows, position, lift, key_count)]
    together = concat_blocks(blocks)
    assert together.position is not None
    # Not by time: rows that begin at the same time stay on their side of a cut.
    return together.take(np.argsort(together.position, kind="stable"))


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
