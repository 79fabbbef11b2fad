"""What windows are assembled from at one step: the sorted rows of a group and its stragglers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.jit import njit
from headwater.engine.intake.chunk import Chunk
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import PartialColumn, lift
from headwater.engine.slices.store import RowBlock, concat_blocks
from headwater.engine.windows.late import Stragglers


@njit
def ranges_by_key(
    first: Int64Array, key_starts: Int64Array, keys: Int64Array, starts: Int64Array, ends: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """The rows of each (key, [start, end)) among rows sorted by key and place."""
    lo, hi = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        low, high = key_starts[keys[i]], key_starts[keys[i] + 1]
        lo[i] = low + np.searchsorted(first[low:high], starts[i])
        hi[i] = low + np.searchsorted(first[low:high], ends[i])
    return lo, hi


@dataclass(slots=True)
class View:
    """Rows sorted by (key, first), where each key begins, the keys as results list them, and the stragglers.

    Invariant: a window of a key is the range of its rows whose ``first`` lies in [start, end).
    """

    block: RowBlock | None
    key_starts: Int64Array
    keys_in_order: Int64Array
    stragglers: Stragglers
    ops: Sequence[Op]
    #: Columns without rows, for windows that hold nothing.
    template: Mapping[Op, PartialColumn]
    _late: Chunk | None = field(init=False)
    _straggler_partials: dict[Op, PartialColumn] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        # Held here: what closes is combined after the group has let go of stragglers that no window needs any more.
        self._late = self.stragglers.chunk if len(self.stragglers) else None

    @property
    def partials(self) -> Mapping[Op, PartialColumn]:
        return self.template if self.block is None else self.block.partials

    def straggler_times(self) -> Int64Array:
        return np.empty(0, np.int64) if self._late is None else self._late.times

    def ranges(self, keys: Int64Array, starts: Int64Array, ends: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The rows of each (key, [start, end))."""
        if self.block is None:
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        return ranges_by_key(self.block.first, self.key_starts, keys, starts, ends)

    def straggler_partials(self) -> dict[Op, PartialColumn]:
        """Each straggler as a row of its own, behind the rows of the block."""
        if self._straggler_partials is None:
            assert self._late is not None
            count = len(self._late)
            self._straggler_partials = lift(self.ops, self._late, np.arange(count, dtype=np.int32), count)
        return self._straggler_partials

    def extended_at(self, index: Int64Array) -> Mapping[Op, PartialColumn]:
        """The partials of rows and, numbered behind them, of stragglers, in the order of ``index``; made when asked for."""
        return _Extended(self, index)

    def with_stragglers(self, chosen: Int64Array) -> tuple[RowBlock, Int64Array, Int64Array]:
        """Rows and the chosen stragglers sorted together: block, where keys begin, and where each row came from."""
        times = self.straggler_times()[chosen]
        partials = {op: column.take(chosen) for op, column in self.straggler_partials().items()}
        extra = RowBlock(self.stragglers.keys[chosen], times, times, None, None, partials)
        rows = [] if self.block is None else [replace(self.block, position=None, key_position=None)]
        joined = concat_blocks([*rows, extra])
        order = np.lexsort((joined.first, joined.key)).astype(np.int64)
        block = joined.take(order)
        starts = np.searchsorted(block.key, np.arange(len(self.keys_in_order) + 1)).astype(np.int64)
        return block, starts, order


class _Extended(Mapping[Op, PartialColumn]):
    def __init__(self, view: View, index: Int64Array) -> None:
        self._view = view
        self._index = index

    def __getitem__(self, op: Op) -> PartialColumn:
        extra = self._view.straggler_partials()[op]
        block = self._view.block
        whole = extra if block is None else type(extra).concat([block.partials[op], extra])
        return whole.take(self._index)

    def __iter__(self) -> Iterator[Op]:
        return iter(self._view.straggler_partials())

    def __len__(self) -> int:
        return len(self._view.straggler_partials())
