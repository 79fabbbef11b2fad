"""What a group of a leaf has gathered, taken out as parts."""

from __future__ import annotations

import numpy as np

from headwater.engine.groups.shared import QueryGroup
from headwater.engine.windows.late import Stragglers
from headwater.engine.wire.parts import LatePart, RowsPart, arrow_values, listed_keys


def take_rows(number: int, group: QueryGroup) -> list[RowsPart]:
    """The slices of a group, one row for each slice and key (with sessions: each chain), and no longer in the group."""
    block = group.take_block()
    if block is None:
        return []
    starts, _ = group.edges.slices(block.first)
    slices = starts[np.searchsorted(starts, block.first, side="right") - 1]
    columns, key = listed_keys(group.keys.columns(), block.key)
    gap = group.gap
    first, last = (None, None) if gap is None else (block.first, block.last)
    part = RowsPart(number, columns, key, slices, block.partials, gap, first, last)
    group.forget_unused_keys()
    return [part]


def late_part(number: int, chain: str, group: QueryGroup) -> LatePart:
    """The stragglers of a group, and no longer in the group."""
    stragglers, group.stragglers = group.stragglers, Stragglers()
    chunk = stragglers.chunk
    columns, key = listed_keys(group.keys.columns(), stragglers.keys)
    values = {name: arrow_values(column) for name, column in chunk.columns.items()}
    sources = chunk.source_ids.astype(np.int64)
    return LatePart(number, chain, columns, key, chunk.times, chunk.offsets, sources, stragglers.watermarks, values)
