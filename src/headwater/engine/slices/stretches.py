"""Parts of a batch that leave one after the other, though all of it is cut and lifted at once.

Where a leaf has to say after some events what they add, cutting each part by itself would cost a pass of everything per part.
Events in order of time lie in stretches anyway, one per slice: a part only ends one of them early.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.jit import njit
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import PartialColumn
from headwater.engine.slices.slicer import SlicedRows
from headwater.engine.slices.store import map_columns

Lifted = tuple[SlicedRows, dict[Op, PartialColumn]]


class Stretches(NamedTuple):
    """Events ``bounds[i]`` to ``bounds[i + 1]`` lie in the slice that begins at ``starts[i]``; some may be empty.

    ``firsts``: the first stretch of each part but the first one.
    """

    starts: Int64Array
    bounds: Int64Array
    firsts: Int64Array

    @classmethod
    def of(cls, starts: Int64Array, bounds: Int64Array, ends: Sequence[int]) -> Stretches:
        """Slices that events in order of time lie in, cut behind ``ends[k]`` events each, too.

        >>> Stretches.of(np.array([0, 10]), np.array([0, 4, 9]), [5])
        Stretches(starts=array([ 0, 10, 10]), bounds=array([0, 4, 5, 9]), firsts=array([2]))
        """
        return cls(*_cut_once_more(starts, bounds, np.array(ends, np.int64)))

    @property
    def numbers(self) -> Int64Array:
        """The stretches by number, to be cut at in the place of slices."""
        return np.arange(len(self.starts))

    def divided(self, lifted: Lifted) -> list[Lifted]:
        """What was lifted, stretch by stretch, with their ``numbers`` in the place of starts: by part, with the starts."""
        rows, partials = lifted
        edges = [0, *np.searchsorted(rows.first, self.firsts).tolist(), len(rows)]
        parts = []
        for begin, end in pairwise(edges):
            chosen = np.arange(begin, end)
            own = SlicedRows(rows.of_event[:0], rows.key[begin:end], self.starts[rows.first[begin:end]])
            parts.append((own, map_columns(partials, lambda column, chosen=chosen: column.take(chosen))))  # type: ignore[misc]
        return parts


@njit
def _cut_once_more(
    starts: Int64Array, bounds: Int64Array, ends: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Starts and bounds with those of ``ends`` between them, and the places of these."""
    count = len(starts) + len(ends)
    all_starts, all_bounds = np.empty(count, np.int64), np.empty(count + 1, np.int64)
    places = np.empty(len(ends), np.int64)
    done = 0
    for i in range(len(bounds)):
        # No end lies before the first event, so there is a slice before it.
        while done < len(ends) and ends[done] <= bounds[i]:
            places[done] = i + done
            all_bounds[i + done], all_starts[i + done] = ends[done], starts[i - 1]
            done += 1
        all_bounds[i + done] = bounds[i]
        if i < len(starts):
            all_starts[i + done] = starts[i]
    return all_starts, all_bounds, places
