"""Known mistakes of count windows, planted like those of trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.engine.counting import piece_table
from headwater.engine.counting import root as count_root
from headwater.engine.counting.piece_table import IS_RAW, PieceTable
from headwater.engine.counting.search import FAR, KnownPieces
from headwater.engine.slices.store import RowBlock
from headwater.simulator.plants.planting import Plant, instead


def _unproven(right: Any, *arguments: Any) -> KnownPieces:
    """All pieces before the frontier are settled in the order of their first keys, whatever may lie inside of them."""
    found: KnownPieces = right(*arguments)
    sequence, last, counts, base, frontier = arguments[0], arguments[2], arguments[3], arguments[4], arguments[6]
    found.asked[:] = False
    found.settled[:] = (last[0] < frontier) | (frontier >= FAR)
    inside = np.where(found.settled, counts, 0)
    before = np.cumsum(inside) - inside
    found.position[:] = base[sequence] + before - before[np.searchsorted(sequence, sequence)]
    return found


def _without_raw(right: Any, table: PieceTable, rows: Int64Array, *others: Any) -> list[RowBlock]:
    """Of raw events only those count that are alone, or beside which there is no piece to take their place."""
    blocks: list[RowBlock] = right(table, rows, *others)
    is_ignored = (rows[IS_RAW] == 1).any() and (rows[IS_RAW] == 0).any()
    return [block.take(np.empty(0, np.int64)) for block in blocks] if is_ignored else blocks


def _kept_beside(_right: Any, _table: PieceTable, _number: int, _event_count: int) -> None:
    """Pieces that were looked into stay, beside the smaller ones that came instead of them."""


def _by_arrival(_right: Any, names: list[str]) -> Int64Array:
    """Sources in the order in which they came, not in that of their names."""
    return np.arange(len(names))


def _not_strict(right: Any, *arguments: Any) -> KnownPieces:
    """Events at the frontier itself are taken for complete."""
    *others, frontier = arguments
    found: KnownPieces = right(*others, frontier if frontier >= FAR else frontier + 1)
    return found


COUNT_PLANTS: dict[str, Plant] = {
    # Windows are emitted though their ends may lie inside of pieces.
    "unproven-window": instead(count_root, "search", _unproven),
    # Events that travelled raw, because a cut was expected near them, are forgotten when windows are put together.
    "buffer-ignored": instead(piece_table, "event_rows", _without_raw),
    # A piece counts beside what was found in it.
    "roll-back-forgotten": instead(PieceTable, "drop", _kept_beside),
    # Between events of one time, the source that joined first is first.
    "tie-by-arrival": instead(count_root, "source_ranks", _by_arrival),
    # An event at the frontier is settled although others of its time may come.
    "frontier-not-strict": instead(count_root, "search", _not_strict),
}
