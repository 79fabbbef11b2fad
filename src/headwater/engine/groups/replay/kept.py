"""Events that are kept as themselves, and the windows that they form: the words that all formers of windows share.

Events are sorted by key and, within a key, in their order, so that a window is a range of them. A former answers with all windows
that they form, open ones too, and says from which time on each key's events are still needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.intake.chunk import Chunk
from headwater.language.times import FOREVER

LONG_AGO = -(2**62)  # no event is earlier; lets durations be taken off without leaving int64


@dataclass(slots=True)
class KeptEvents:
    """Kept events sorted by key, in order within a key. ``starts[k]:starts[k + 1]`` are those of key k.

    ``marks`` is the watermark of each event's own source just before it, None if that had passed none of them; ``markers``: which
    events match the window's conditions.
    """

    chunk: Chunk
    keys: Int32Array
    starts: Int64Array
    markers: list[BoolArray]
    marks: Int64Array | None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def key_count(self) -> int:
        return len(self.starts) - 1

    def range_of(self, key: int, start: int, end: int) -> tuple[int, int]:
        """The events of a key with start <= time < end; FOREVER is no end."""
        low, high = int(self.starts[key]), int(self.starts[key + 1])
        times = self.chunk.times[low:high]
        behind = high if end == FOREVER else low + int(np.searchsorted(times, end))
        return low + int(np.searchsorted(times, start)), behind


@dataclass(slots=True)
class Formed:
    """Windows as rows (key, start, end, lo, hi), sorted by (key, start).

    ``reach[i]``: the last time at which window i is active; ``closed[i]``: no event on time can change it; ``final[i]``: nor a
    late one. Events of key k before ``needed[k]`` are in no window that can still change.
    """

    windows: Int64Array
    reach: Int64Array
    closed: BoolArray
    final: BoolArray
    needed: Int64Array

    def take(self, rows: BoolArray | Int64Array) -> Formed:
        return Formed(self.windows[rows], self.reach[rows], self.closed[rows], self.final[rows], self.needed)


class Former(Protocol):
    """Forms the windows of one query. Windows that were final at ``after`` are left out."""

    def form(self, kept: KeptEvents, after: int, until: int) -> Formed: ...
    def forget(self, kept: KeptEvents, needed: Int64Array) -> None: ...
    def state(self) -> Any: ...
    def restore(self, state: Any) -> None: ...
