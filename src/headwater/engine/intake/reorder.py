"""A reorder buffer: events wait here until the group's watermark has passed them, and their order is final."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.snapshots import rows, snapshot
from headwater.engine.intake.chunk import Chunk, concat_chunks
from headwater.language.times import FOREVER


@dataclass(slots=True)
class OrderedEvents:
    """Events of a group with their keys and, for each condition of its windows, which of them match."""

    chunk: Chunk
    keys: Int32Array
    markers: list[BoolArray]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, indices: Int64Array | slice) -> OrderedEvents:
        return OrderedEvents(self.chunk.take(indices), self.keys[indices], [marker[indices] for marker in self.markers])

    def in_order(self) -> OrderedEvents:
        order = self.chunk.in_order()
        return self if order is None else self.take(order)


def concat_stretches(parts: list[OrderedEvents]) -> OrderedEvents:
    if len(parts) == 1:
        return parts[0]
    markers = [np.concatenate(columns) for columns in zip(*(part.markers for part in parts), strict=True)]
    chunk = concat_chunks([part.chunk for part in parts])
    return OrderedEvents(chunk, np.concatenate([part.keys for part in parts]), markers)


class ReorderBuffer:
    """Holds stretches, each in order, and releases what lies below a watermark.

    Stretches that follow one another are released one by one, without a copy; only those that interleave are merged.
    """

    def __init__(self) -> None:
        self.parts: list[OrderedEvents] = []

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def add(self, stretch: OrderedEvents) -> None:
        if len(stretch):
            self.parts.append(stretch.in_order())

    def release(self, watermark: int) -> list[OrderedEvents]:
        """Take out the events with time < watermark (all of them at the end of the stream), in order."""
        ready = self.split_off(watermark)
        ready.sort(key=lambda part: int(part.chunk.times[0]))
        for earlier, later in pairwise(ready):
            if earlier.chunk.times[-1] >= later.chunk.times[0]:
                return [concat_stretches(sorted(ready, key=lambda part: part.chunk.birth())).in_order()]
        return ready

    def split_off(self, watermark: int) -> list[OrderedEvents]:
        """Take out the events with time < watermark, as one part of each stretch: in order within it, not among them."""
        ready, waiting = [], []
        for part in self.parts:
            split = len(part) if watermark == FOREVER else int(np.searchsorted(part.chunk.times, watermark))
            if split:
                ready.append(part.take(slice(0, split)))
            if split < len(part):
                rest = part.take(slice(split, None))
                # A short rest of a long stretch must not keep the whole of it in memory.
                waiting.append(rest if 2 * len(rest) > len(part) else rest.take(np.arange(len(rest))))
        self.parts = waiting
        return ready

    def keys_marked_at(self, time: int, marker: int) -> Int64Array:
        """The keys of waiting events exactly at ``time`` that match condition ``marker``."""
        found = [np.empty(0, np.int64)]
        for part in self.parts:
            low, high = np.searchsorted(part.chunk.times, (time, time + 1)) if time != FOREVER else (0, 0)
            found.append(part.keys[low:high][part.markers[marker][low:high]].astype(np.int64))
        return np.unique(np.concatenate(found))

    def renumber(self, numbers: Int32Array) -> None:
        """Keys have new numbers: key k is now ``numbers[k]``."""
        for part in self.parts:
            part.keys = numbers[part.keys]

    state, restore = snapshot(rows("parts", OrderedEvents))
