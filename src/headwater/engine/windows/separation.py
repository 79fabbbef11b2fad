"""Which neighbouring rows must stay apart: those with a boundary of any window, present or to come, between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.jit import njit
from headwater.engine.slices.edges import Edges
from headwater.engine.slices.order_slicer import next_position_cut
from headwater.engine.slices.store import RowBlock
from headwater.engine.windows.markers import Walk
from headwater.engine.windows.sessions import join_rows
from headwater.language.times import NEVER


@njit
def _cut_between(counts: Int64Array, key: Int32Array, position: Int64Array, separate: BoolArray) -> None:
    """Set ``separate`` where a count window begins or ends between a row and the one before it."""
    for i in range(1, len(position)):
        if key[i] == key[i - 1] and next_position_cut(counts, position[i - 1]) <= position[i]:
            separate[i] = True


def separations(
    block: RowBlock,
    key_starts: Int64Array,
    edges: Edges,
    gap: int | None,
    walks: Sequence[Walk],
    over_all: Int64Array,
    by_key: Int64Array,
) -> BoolArray:
    """For rows sorted by (key, first): whether each must not be combined with the row before it.

    Rows in the past matter only to windows that are still open, so of all markers only those that opened a window count.
    """
    separate = np.zeros(len(block), np.bool_)
    separate[key_starts[:-1][key_starts[:-1] < len(block)]] = True
    starts, _ = edges.slices(block.first)
    slice_of = np.searchsorted(starts, block.first, side="right")
    separate[1:] |= np.diff(slice_of) != 0
    if gap is not None:
        assert block.last is not None
        separate[join_rows(block.first, block.last, key_starts, gap, NEVER).lo] = True
    for walk in walks:
        opened = walk.cutter.needed_from()[block.key[1:]]
        separate[1:] |= (block.first[:-1] < opened) & (opened <= block.first[1:])
    if len(over_all):
        assert block.position is not None
        _cut_between(over_all, block.key, block.position, separate)
    if len(by_key):
        assert block.key_position is not None
        _cut_between(by_key, block.key, block.key_position, separate)
    return separate
