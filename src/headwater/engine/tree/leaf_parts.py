"""What a group of a leaf has gathered, taken out as parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.engine.groups.shared import QueryGroup
from headwater.engine.intake.chunk import Values
from headwater.engine.intake.columns import read_values
from headwater.engine.windows.late import Stragglers
from headwater.engine.wire.parts import LatePart, RowsPart, listed_keys


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


def arrow_values(values: Values) -> pa.Array:
    """A column of a chunk as Arrow: numbers as they are kept, everything else in its own type."""
    mask = None if values.valid is None else ~values.valid
    if values.data.dtype == object:
        return pa.array(values.data.tolist(), values.type, mask=mask)
    return pa.array(values.data, mask=mask)


def values_of(array: pa.Array, type_: pa.DataType) -> Values:
    """The column that `arrow_values` wrote; ``type_``: that of the column in events."""
    values = read_values(array)
    is_number = pa.types.is_int64(array.type) or pa.types.is_float64(array.type)
    return Values(values.data, values.valid, type_) if is_number else values
