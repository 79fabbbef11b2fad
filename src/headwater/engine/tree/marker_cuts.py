"""Windows that markers cut, over many nodes: the root says where, and each leaf cuts its own events there.

A leaf sends at once which of its events are markers, and keeps all events. When the watermark of all has passed them, the root
walks over the markers of all leaves in their order and announces the cuts; then leaves send what lies below, cut so.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.base.arrays import Int32Array, Int64Array
from headwater.base.jit import njit
from headwater.base.source_numbers import Resolve
from headwater.engine.halves import GroupPart, LeafGroup, SlicedRootGroup, Types, numbers_of
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import Events
from headwater.engine.intake.reorder import OrderedEvents, concat_stretches
from headwater.engine.operators.partials import lift
from headwater.engine.slices.order_slicer import KeyCuts, cut_in_order
from headwater.engine.slices.store import RowBlock
from headwater.engine.windows.assembler import Closed
from headwater.engine.wire.parts import KeyedTimes, MarkersPart, Part, RowsPart, key_count, listed_keys
from headwater.errors import FormatError
from headwater.language.expressions import Expr
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Punctuated


class CutLeafGroup(LeafGroup):
    """Keeps events at a leaf, and tells the root their markers; while they are read again, the root has these already."""

    holds_events = True

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int = NEVER) -> None:
        super().__init__(keys, where, begin)
        self.held_count = 0
        self._markers: list[OrderedEvents] = []
        self._earliest: Int64Array = np.empty(0, np.int64)  # the first time of each key, as far as the root was told

    def wait(self, stretch: OrderedEvents) -> None:
        super().wait(stretch)
        self.held_count += len(stretch)
        if not self.known_already:
            decisive = self._decisive(stretch)
            if len(decisive):
                chosen = stretch.take(decisive)
                self._markers.append(OrderedEvents(chosen.chunk.select(()), chosen.keys, chosen.markers))

    def _decisive(self, stretch: OrderedEvents) -> Int64Array:
        """Markers, and for windows that open with the first event of a key that event."""
        marked = np.logical_or.reduce([np.zeros(len(stretch), np.bool_), *stretch.markers])
        if any(isinstance(walk.window, Punctuated) for walk in self.windows.walks):
            marked[self._first_ones(stretch)] = True
        return np.flatnonzero(marked)

    def _first_ones(self, stretch: OrderedEvents) -> Int64Array:
        """The earliest event of each key, where it is earlier than any that the root was told of."""
        missing = len(self.keys) - len(self._earliest)
        self._earliest = np.concatenate((self._earliest, np.full(missing, FOREVER)))
        order = np.lexsort((stretch.chunk.times, stretch.keys))
        keys = stretch.keys[order]
        heads = order[np.flatnonzero(np.diff(keys, prepend=np.int32(-1)))]
        new = heads[stretch.chunk.times[heads] < self._earliest[stretch.keys[heads]]]
        self._earliest[stretch.keys[new]] = stretch.chunk.times[new]
        return new

    def take(self, number: int, chain: str) -> list[Part]:
        """What came since the last time: first of all what can open or end windows."""
        if not self._markers:
            return super().take(number, chain)
        stretch, self._markers = concat_stretches(self._markers), []
        columns, key = listed_keys(self.keys.columns(), stretch.keys)
        chunk = stretch.chunk
        sources = chunk.source_ids.astype(np.int64)
        part = MarkersPart(number, chain, columns, key, chunk.times, chunk.offsets, sources, stretch.markers)
        return [part, *super().take(number, chain)]

    def reread(self, events: Events, cut_time: int) -> None:
        super().reread(events, cut_time)
        self.buffer.release(cut_time)  # what lies before was cut and sent already
        self.held_count = len(self.buffer)

    def cut(self, number: int, since: int, until: int, cuts: KeyedTimes, idle: Mapping[int, int]) -> list[Part]:
        """The events from ``since`` to ``until``, cut; of idle sources (by number) only those before the offset."""
        if len(cuts.key_columns) != len(self.key_names):
            raise FormatError(f"cuts came for {len(cuts.key_columns)} key columns instead of {len(self.key_names)}")
        released = self.buffer.release(until)
        self.held_count = len(self.buffer)
        if not released:
            return []
        stretch = concat_stretches(released).in_order()
        for source, offset in idle.items():
            stretch = stretch.take(
                np.flatnonzero((stretch.chunk.source_ids != source) | (stretch.chunk.offsets < offset))
            )
        if len(stretch) == 0:
            return []
        numbers = self.keys.encode(cuts.key_columns, key_count(cuts.key_columns))
        own = KeyCuts.of(numbers[cuts.key].astype(np.int64), cuts.times, len(self.keys))
        chunk, nowhere = stretch.chunk, np.empty(0, np.int64)
        rows = cut_in_order(chunk.times, stretch.keys, len(self.keys), nowhere, own, None, None)
        partials = lift(self.ops, chunk, rows.of_event, len(rows))
        # Named by the cut they begin at, so that rows of several leaves can be merged.
        begins = np.empty(len(rows), np.int64)
        _last_cuts(rows.key, rows.first, own.starts, own.times, since, begins)
        columns, key = listed_keys(self.keys.columns(), rows.key)
        return [RowsPart(number, columns, key, begins, partials, cut=True)]


@njit
def _last_cuts(
    keys: Int32Array, times: Int64Array, starts: Int64Array, cuts: Int64Array, otherwise: int, out: Int64Array
) -> None:
    """For each (key, time) the last cut of the key at or before that time."""
    for i in range(len(keys)):
        low, high = starts[keys[i]], starts[keys[i] + 1]
        place = low + np.searchsorted(cuts[low:high], times[i], side="right")
        out[i] = cuts[place - 1] if place > low else otherwise


class CutRootGroup(SlicedRootGroup):
    """Walks at the root over the markers of all leaves, which come without values, and says where events are cut."""

    waits_with_values = False

    is_cut = True

    def is_due(self, until: int) -> bool:
        return False  # windows wait until everything has come that was cut where the root said

    def absorb(self, part: GroupPart, types: Types, resolve: Resolve) -> None:
        """Markers of a leaf wait until their order is final."""
        if not isinstance(part, MarkersPart):
            super().absorb(part, types, resolve)
            return
        numbers = self.keys.encode(part.key_columns, key_count(part.key_columns))
        self.in_order = True
        chunk = Chunk(part.times, part.offsets, numbers_of(part, resolve), self.names)
        self.buffer.add(OrderedEvents(chunk, numbers[part.key], part.conditions))

    def add_block(self, block: RowBlock) -> None:
        """Rows of leaves, whose keys need not have had a marker."""
        for walk in self.windows.walks:
            walk.cutter.grow(len(self.keys))
        super().add_block(block)

    def announce(self, until: int) -> KeyedTimes:
        """Walk over the markers below ``until`` and say where keys are cut."""
        released = self.buffer.release(until)
        stretch = concat_stretches(released).in_order() if released else self._nothing()
        # An empty walk too: what lies outside of windows is asked of the last one.
        cuts = [walk.on(stretch, len(self.keys)) for walk in self.windows.walks]
        joined = np.concatenate([np.empty((0, 2), np.int64), *cuts])
        columns, key = listed_keys(self.keys.columns(), joined[:, 0].astype(np.int32))
        return KeyedTimes(columns, key, joined[:, 1])

    def _nothing(self) -> OrderedEvents:
        markers = [np.empty(0, np.bool_) for _ in self.windows.conditions]
        return OrderedEvents(Chunk(np.empty(0, np.int64), 0, 0, []), np.empty(0, np.int32), markers)

    def close(self, until: int, is_paced: bool = False) -> list[Closed]:
        """Everything below ``until`` has come: the windows that are over."""
        after, self.watermark = self.watermark, until
        return self.close_up(after, until)
