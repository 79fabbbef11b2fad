"""The partials of all live slices, ready to be combined: rows sorted by key and time.

Each batch appends its rows as they come. Only when windows close are the new rows merged in: grouped by key with a counting
sort, each key's rows by time. Then every window of a key is a contiguous range of rows, whatever kind of window it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, RowArrays
from headwater.base.jit import njit
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import PartialColumn, partials_from_bytes, partials_to_bytes
from headwater.engine.operators.ragged import row_starts
from headwater.engine.slices.slicer import SlicedRows

#: Rows are merged with their neighbours once there are this many, and twice as many as after the last merge.
COMPACT_FROM = 1 << 14


@dataclass(slots=True)
class RowBlock(RowArrays):
    """Rows with their partials. ``last``, ``position`` and ``key_position`` are there only if some query needs them."""

    key: Int32Array
    first: Int64Array
    last: Int64Array | None
    position: Int64Array | None
    key_position: Int64Array | None
    partials: dict[Op, PartialColumn]

    def take(self, indices: Int64Array) -> RowBlock:
        """The rows at ``indices``, partials and all."""
        taken = RowArrays.take(self, indices)
        taken.partials = map_columns(self.partials, lambda column: column.take(indices))
        return taken


def map_columns(
    partials: Mapping[Op, PartialColumn], change: Callable[[PartialColumn], PartialColumn]
) -> dict[Op, PartialColumn]:
    """Each column changed; operators that share a column go on sharing it."""
    changed: dict[int, PartialColumn] = {}
    for column in partials.values():
        if id(column) not in changed:
            changed[id(column)] = change(column)
    return {op: changed[id(column)] for op, column in partials.items()}


def concat_columns(parts: Sequence[Mapping[Op, PartialColumn]]) -> dict[Op, PartialColumn]:
    """The rows of all parts, one after the other; operators that share a column go on sharing it."""
    known: dict[tuple[int, ...], PartialColumn] = {}
    joined = {}
    for op, column in parts[0].items():
        columns = [part[op] for part in parts]
        identity = tuple(map(id, columns))
        if identity not in known:
            known[identity] = type(column).concat(columns)
        joined[op] = known[identity]
    return joined


def block_of(rows: SlicedRows, partials: dict[Op, PartialColumn]) -> RowBlock:
    return RowBlock(rows.key, rows.first, rows.last, rows.position, rows.key_position, partials)


def concat_blocks(blocks: Sequence[RowBlock]) -> RowBlock:
    if len(blocks) == 1:
        return blocks[0]

    def joined(name: str) -> Any:
        arrays = [getattr(block, name) for block in blocks]
        if name == "last" and not all(array is None for array in arrays):
            # Rows from before the first session query: none of its sessions has them, so any time will do.
            arrays = [block.first if array is None else array for block, array in zip(blocks, arrays, strict=True)]
        return None if any(array is None for array in arrays) else np.concatenate(arrays)

    partials = concat_columns([block.partials for block in blocks])
    key, first, last = joined("key"), joined("first"), joined("last")
    return RowBlock(key, first, last, joined("position"), joined("key_position"), partials)


@njit
def _order_by_key(key: Int32Array, first: Int64Array, key_count: int) -> tuple[Int64Array, Int64Array, bool]:
    """The stable order by (key, first): counting sort by key, then insertion within a key, where rows mostly are in order."""
    starts = np.zeros(key_count + 1, np.int64)
    for i in range(len(key)):
        starts[key[i] + 1] += 1
    for k in range(key_count):
        starts[k + 1] += starts[k]
    place = starts[:-1].copy()
    order = np.empty(len(key), np.int64)
    for i in range(len(key)):
        order[place[key[i]]] = i
        place[key[i]] += 1
    steps = 0
    for k in range(key_count):
        for i in range(starts[k] + 1, starts[k + 1]):
            row = order[i]
            j = i
            while j > starts[k] and first[order[j - 1]] > first[row]:
                order[j] = order[j - 1]
                j -= 1
                steps += 1
            order[j] = row
            # Insertion is quadratic on rows that come in reverse: leave those to a sort.
            if steps > 16 * len(key):
                return starts, order, False
    return starts, order, True


class RowStore:
    """All live rows of a query group."""

    def __init__(self) -> None:
        self._pending: list[RowBlock] = []
        self._sorted: RowBlock | None = None
        self._key_starts: Int64Array = np.zeros(1, np.int64)
        self._compacted_rows = 0

    def append(self, block: RowBlock) -> None:
        if len(block):
            self._pending.append(block)

    def __len__(self) -> int:
        return (0 if self._sorted is None else len(self._sorted)) + sum(len(block) for block in self._pending)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        partials = sum(column.nbytes for block in self.blocks() for column in block.partials.values())
        return partials + sum(block.nbytes for block in self.blocks())

    def blocks(self) -> list[RowBlock]:
        return ([] if self._sorted is None else [self._sorted]) + self._pending

    def earliest(self) -> int | None:
        """The time of the earliest row, if there is any."""
        firsts = [int(block.first.min()) for block in self.blocks() if len(block)]
        return min(firsts) if firsts else None

    def sorted(self, key_count: int) -> tuple[RowBlock, Int64Array] | None:
        """All rows by (key, first), and where each key's rows begin; None when there are none."""
        blocks = [block for block in self.blocks() if len(block)]
        if not blocks:
            return None
        if self._pending or len(self._key_starts) != key_count + 1:
            everything = concat_blocks(blocks)
            starts, order, done = _order_by_key(everything.key, everything.first, key_count)
            if not done:
                order = np.lexsort((everything.first, everything.key))
            in_place = len(blocks) == 1 and bool((order[1:] > order[:-1]).all())
            self._sorted = everything if in_place else everything.take(order)
            self._key_starts = starts
            self._pending = []
        assert self._sorted is not None
        return self._sorted, self._key_starts

    def keep(self, mask: BoolArray, key_count: int) -> None:
        """Drop the rows of ``sorted()`` that are not in ``mask``. Rows appended since must not be there."""
        assert self._sorted is not None and not self._pending
        if mask.all():
            return
        self._sorted = self._sorted.take(np.flatnonzero(mask))
        self._key_starts = row_starts(self._sorted.key, key_count)

    def clear(self) -> None:
        """All rows have gone elsewhere."""
        self._pending, self._sorted, self._compacted_rows = [], None, 0

    def renumber(self, numbers: Int32Array) -> None:
        """Keys have new numbers."""
        self._pending = self.blocks()
        self._sorted = None
        for block in self._pending:
            block.key = numbers[block.key]

    def wants_compaction(self) -> bool:
        return len(self) > max(COMPACT_FROM, 2 * self._compacted_rows)

    def compact(self, separate: BoolArray, key_count: int) -> None:
        """Combine each run of rows of ``sorted()``; ``separate[i]``: row i must not join row i - 1."""
        assert self._sorted is not None and not self._pending
        block = self._sorted
        heads = np.flatnonzero(separate)
        tails = np.append(heads[1:], len(block))
        self._compacted_rows = len(heads)
        if len(heads) == len(block):
            return
        self._sorted = RowArrays.take(block, heads)
        self._sorted.partials = map_columns(block.partials, lambda column: column.combine_ranges(heads, tails))
        self._sorted.last = None if block.last is None else np.maximum.reduceat(block.last, heads)
        self._key_starts = row_starts(self._sorted.key, key_count)

    def state(self) -> dict[str, Any]:
        blocks = [
            [b.key, b.first, b.last, b.position, b.key_position, partials_to_bytes(b.partials)] for b in self.blocks()
        ]
        return {"blocks": blocks, "compacted": self._compacted_rows}

    def restore(self, state: Mapping[str, Any], ops: Sequence[Op]) -> None:
        """Take over a state; ``ops`` are those the queries have, users' own among them."""
        self._pending = [
            RowBlock(key, first, last, position, key_position, partials_from_bytes(data, ops))
            for key, first, last, position, key_position, data in state["blocks"]
        ]
        self._sorted = None
        self._compacted_rows = state["compacted"]
