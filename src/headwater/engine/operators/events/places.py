"""Places of events in their order: what partials carry whose values must not lose it.

The order is (time, source, offset); sources compare as UTF-8 bytes of their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.engine.intake.chunk import Chunk, are_in_order, source_ranks
from headwater.engine.operators.ragged import row_of_item


@dataclass(slots=True, eq=False)
class EventPlaces:
    """Where events were born. ``sources`` index ``names``, which are sorted as bytes: comparing the numbers compares the names.

    >>> one, other = Chunk(np.array([3]), 0, 0, ["b"]), Chunk(np.array([1]), 0, 0, ["a"])
    >>> both = EventPlaces.concat([EventPlaces.of_chunk(one), EventPlaces.of_chunk(other)])
    >>> both.names, both.sources.tolist()
    (['a', 'b'], [1, 0])
    """

    times: Int64Array
    sources: Int64Array
    offsets: Int64Array
    names: Sequence[str]

    @classmethod
    def of_chunk(cls, chunk: Chunk, indices: Int64Array | slice = slice(None)) -> EventPlaces:
        """The places of some events of a chunk."""
        sources = source_ranks(chunk.source_names)[chunk.source_ids[indices]]
        names = sorted(chunk.source_names, key=str.encode)
        return cls(chunk.times[indices], sources, chunk.offsets[indices], names)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def nbytes(self) -> int:
        return 3 * self.times.nbytes

    def take(self, indices: Int64Array) -> EventPlaces:
        return EventPlaces(self.times[indices], self.sources[indices], self.offsets[indices], self.names)

    @classmethod
    def concat(cls, places: Sequence[EventPlaces]) -> EventPlaces:
        """All of them, one after the other, with one list of sources."""
        names: Sequence[str] = places[0].names
        sources = [each.sources for each in places]
        if any(each.names != names for each in places):
            names = sorted({name for each in places for name in each.names}, key=str.encode)
            ranks = {name: rank for rank, name in enumerate(names)}
            sources = [np.array([ranks[name] for name in each.names], np.int64)[each.sources] for each in places]
        times, offsets = ([getattr(each, name) for each in places] for name in ("times", "offsets"))
        return cls(np.concatenate(times), np.concatenate(sources), np.concatenate(offsets), names)

    def are_in_order(self, starts: Int64Array) -> bool:
        """Whether the events of each row, from ``starts[row]`` to ``starts[row + 1]``, are in order."""
        return bool(are_in_order(self.times, self.sources, self.offsets, starts))

    def order(self, starts: Int64Array, *first: Int64Array) -> Int64Array:
        """The permutation that puts the events of each row in order; by these numbers ``first``, the last one above all."""
        return np.lexsort((self.offsets, self.sources, self.times, *first, row_of_item(starts))).astype(np.int64)

    def packed(self) -> tuple[list[str], Int64Array]:
        """The names of the sources that occur, and each event's source among them: the form in which they travel."""
        used, sources = np.unique(self.sources, return_inverse=True)
        return [self.names[source] for source in used], sources.reshape(-1).astype(np.int64)

    @property
    def are_places(self) -> bool:
        """Whether these can be places, wherever they came from."""
        if not len(self.times) == len(self.sources) == len(self.offsets):
            return False
        return not len(self.sources) or 0 <= int(self.sources.min()) <= int(self.sources.max()) < len(self.names)
