"""Settled pieces as rows of partials: of whole pieces those that came, of raw events those that are made now."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.engine.counting.piece_intake import PieceIntake
from headwater.engine.counting.piece_table import AT, BLOCK, COUNT, IS_RAW, T1, T2
from headwater.engine.counting.pieces import Ranges, rows_of
from headwater.engine.intake.reorder import concat_stretches
from headwater.engine.operators.operator import Op
from headwater.engine.operators.ragged import spread
from headwater.engine.slices.store import RowBlock, concat_blocks, concat_columns, map_columns
from headwater.language.expressions import Expr
from headwater.language.times import NEVER


class PieceRows(PieceIntake):
    """Puts the rows of pieces into the store of the group, in the order of their positions."""

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int = NEVER) -> None:
        super().__init__(keys, where, begin)
        self._floor = NEVER  # no row begins before it, where positions do not follow times

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
        pieces = np.flatnonzero(rows[IS_RAW] == 0)
        if len(pieces) == 0:
            return []
        numbers, place = np.unique(rows[BLOCK, pieces], return_inverse=True)
        blocks = [self.table.partials[number] for number in numbers.tolist()]
        # As if all blocks were one: taking rows out of each of them costs as much as out of all.
        behind = np.cumsum([0, *(len(block.starts) for block in blocks)])[place] + rows[AT, pieces]
        before = np.repeat(np.cumsum([0, *(len(block.key) for block in blocks[:-1])]), [len(b.starts) for b in blocks])
        edges = np.concatenate([block.starts for block in blocks]) + before
        starts, sizes = edges[behind], edges[behind + 1] - edges[behind]
        chosen, piece = spread(starts, sizes), np.repeat(pieces, sizes)
        together = concat_columns([{op: block.partials[op] for op in self.ops} for block in blocks])
        partials = map_columns(together, lambda column: column.take(chosen))
        key = np.concatenate([block.key for block in blocks])
        return [self._block(key[chosen], rows, piece, position, partials)]

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
