"""Count windows that are believed instead of proven: every window takes as many events of each chain as the first one did.

The baseline of the paper that is fast and wrong: the k-th share of every chain makes the k-th window, whatever their times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.base.arrays import BoolArray, Int64Array
from headwater.engine.counting.piece_table import BLOCK, CHAIN, COUNT, IS_RAW, PieceTable, split_run
from headwater.engine.intake.reorder import OrderedEvents
from headwater.engine.slices.store import RowBlock
from headwater.language.times import NEVER


def split_evenly(counts: Int64Array, total: int) -> Int64Array:
    """``total`` in whole numbers, in the ratio of ``counts``: what is left over goes to the largest remainders.

    >>> split_evenly(np.array([1_200_000, 800_000]), 1_000_000)
    array([600000, 400000])
    >>> split_evenly(np.array([1, 1, 1]), 10)
    array([4, 3, 3])
    """
    exact = counts * (total / max(int(counts.sum()), 1))
    sizes: Int64Array = np.floor(exact).astype(np.int64)
    most = np.argsort(sizes - exact, kind="stable")
    sizes[most[: total - int(sizes.sum())]] += 1
    return sizes


@dataclass(slots=True)
class LeafShares:
    """From position ``origin`` on, each ``unit`` of positions has ``sizes[c]`` events of chain c, from its event ``begins[c]``.

    ``taken``: so many events of each chain are in windows. ``floor``: no row of these begins later, as no row may begin before
    those of earlier positions.
    """

    origin: int
    unit: int
    sizes: Int64Array
    begins: Int64Array
    taken: Int64Array
    floor: int = NEVER

    @classmethod
    def of_cuts(
        cls, cuts: Sequence[Mapping[str, int]], chains: Iterable[str], unit: int, position: int, since: Int64Array
    ) -> LeafShares:
        """What the first cuts say, the events of each chain in each; ``since``: those that were settled behind the last cut."""
        names = list(chains)
        passed = np.array([[cut.get(name, 0) for name in names] for cut in cuts], np.int64)
        # What was settled since the last cut is no longer where it was counted.
        taken = passed.sum(axis=0) + since
        return cls(position - int(since.sum()), unit, split_evenly(passed[0], unit), passed.sum(axis=0), taken)

    def believe(
        self, table: PieceTable, ranks: Int64Array, chain_count: int
    ) -> tuple[BoolArray, Int64Array, int] | None:
        """Give pieces to windows by how many their chain had before.

        Returns which pieces of the table are in complete windows, the positions of all, and the position up to which windows
        are complete; None if nothing is. The table is sorted, and cut where shares end.
        """
        rows = table.joined()
        if rows.shape[1] == 0:
            return None
        self._grow(chain_count)
        rows = rows[:, np.lexsort((*table.keys(ranks)[0][::-1], rows[CHAIN]))]
        table.rows = rows = self._split(rows, table.events)
        window, position = self._places(rows)
        complete = self._complete(rows)
        settled = window < complete
        if not settled.any():
            return None
        self.taken += np.bincount(rows[CHAIN, settled], rows[COUNT, settled], len(self.taken)).astype(np.int64)
        return settled, position, self.origin + complete * self.unit

    def in_order(self, block: RowBlock) -> RowBlock:
        """Rows whose times follow their positions, which those of believed windows do not by themselves."""
        block.first = np.maximum(np.maximum.accumulate(block.first), self.floor)
        self.floor = int(block.first[-1])
        return block

    def _grow(self, chains: int) -> None:
        """Chains that come later have no share."""
        for name in ("sizes", "begins", "taken"):
            known = getattr(self, name)
            setattr(self, name, np.concatenate((known, np.zeros(chains - len(known), np.int64))))

    def _indices(self, rows: Int64Array) -> Int64Array:
        """Of each piece, sorted by chain and order, how many events of its chain are before it."""
        before = np.cumsum(rows[COUNT]) - rows[COUNT]
        heads = np.searchsorted(rows[CHAIN], rows[CHAIN])
        return np.asarray(before - before[heads] + self.taken[rows[CHAIN]])

    def _split(self, rows: Int64Array, events: Mapping[int, OrderedEvents]) -> Int64Array:
        """Runs of raw events cut where a share ends."""
        index = self._indices(rows)
        size = np.maximum(self.sizes[rows[CHAIN]], 1)
        phase = (index - self.begins[rows[CHAIN]]) % size
        is_cut = (rows[IS_RAW] == 1) & (self.sizes[rows[CHAIN]] > 0) & (phase + rows[COUNT] > size)
        if not is_cut.any():
            return rows
        made, places = [rows[:, ~is_cut]], [np.flatnonzero(~is_cut)]
        for place in np.flatnonzero(is_cut).tolist():
            row = rows[:, place : place + 1]
            inner = np.arange(int(size[place] - phase[place]), int(row[COUNT, 0]), int(size[place]))
            edges = np.concatenate(([0], inner, row[COUNT]))
            made.append(split_run(row, edges, events[int(row[BLOCK, 0])].chunk))
            places.append(np.full(len(edges) - 1, place))
        order = np.argsort(np.concatenate(places), kind="stable")
        return np.concatenate(made, axis=1)[:, order]

    def _places(self, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The number of the share that each piece begins in, and its position."""
        chain = rows[CHAIN]
        size, offset = self.sizes[chain], np.cumsum(self.sizes) - self.sizes
        index = self._indices(rows) - self.begins[chain]
        share = np.where(size > 0, index // np.maximum(size, 1), 0)
        inside = np.where(size > 0, index % np.maximum(size, 1), 0)
        # Chains without a share are in no window.
        position = self.origin + share * self.unit + offset[chain] + inside
        return np.where(size > 0, share, np.int64(2**62)), position

    def _complete(self, rows: Int64Array) -> int:
        """So many shares are complete in all chains."""
        there = self.taken + np.bincount(rows[CHAIN], rows[COUNT], len(self.taken)).astype(np.int64) - self.begins
        counting = self.sizes > 0
        return int((there[counting] // self.sizes[counting]).min()) if counting.any() else 0

    def of(self, chain: int) -> tuple[int, int, int]:
        """The begin and the size of a chain's share, and by how much it may differ, for its leaf."""
        return (int(self.begins[chain]), int(self.sizes[chain]), 0) if chain < len(self.sizes) else (0, 0, 0)

    def state(self) -> list[Any]:
        return [self.origin, self.unit, self.sizes, self.begins, self.taken]
