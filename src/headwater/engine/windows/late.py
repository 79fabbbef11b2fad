"""Stragglers: events that come after their source had passed them.

Such an event is late for short windows and still on time for longer ones, so it cannot go into a slice. Stragglers are few and
are kept as themselves, each with the watermark W of its source just before it. Each window takes those that are its members
by the rule of docs/semantics.md: membership depends on the event, its W and the query alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.jit import njit
from headwater.base.snapshots import snapshot
from headwater.engine.intake.chunk import Chunk, concat_chunks
from headwater.engine.slices.edges import BEGIN, EARLIEST, SIZE, fixed_spec, last_start, spec_table
from headwater.engine.windows.registered import Registered
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, CountWindow, Session, Sliding

MEMBER, LATE, DROPPED, OUTSIDE = range(4)


class Stragglers:
    """The stragglers of a group that some window can still take, and those that came since the last emission."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self.keys: Int32Array = np.empty(0, np.int32)
        self.watermarks: Int64Array = np.empty(0, np.int64)
        self.new: BoolArray = np.empty(0, np.bool_)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, chunk: Chunk, keys: Int32Array, watermarks: Int64Array) -> None:
        self._chunks.append(chunk)
        self.keys = np.concatenate((self.keys, keys))
        self.watermarks = np.concatenate((self.watermarks, watermarks))
        self.new = np.concatenate((self.new, np.ones(len(keys), np.bool_)))

    @property
    def chunk(self) -> Chunk:
        self._chunks = [concat_chunks(self._chunks)]
        return self._chunks[0]

    def chunks(self) -> list[Chunk]:
        return self._chunks

    def seen(self) -> None:
        """None is new any more: an emission has considered them all."""
        self.new = np.zeros(len(self), np.bool_)

    def keep(self, mask: BoolArray) -> None:
        if mask.all():
            return
        kept = self.chunk.take(np.flatnonzero(mask))
        self._chunks = [kept] if len(kept) else []
        self.keys, self.watermarks, self.new = self.keys[mask], self.watermarks[mask], self.new[mask]

    def renumber(self, numbers: Int32Array) -> None:
        """Keys have new numbers: key k is now ``numbers[k]``."""
        self.keys = numbers[self.keys]

    state, restore = snapshot("_chunks", "keys", "watermarks", "new")


@njit
def _stand(spec: Int64Array, lateness: int, time: int, watermark: int) -> int:
    """What an event is to a query, by its best case: the window that has it and ends last."""
    start = last_start(spec, time)
    end = start + spec[SIZE]
    if start < spec[BEGIN] or end <= time:
        return OUTSIDE
    if end > watermark:
        return MEMBER
    return LATE if end > max(watermark, EARLIEST) - lateness else DROPPED


@njit
def stand_fixed(spec: Int64Array, lateness: int, times: Int64Array, watermarks: Int64Array) -> Int64Array:
    """MEMBER, LATE, DROPPED or OUTSIDE for each event."""
    out = np.empty(len(times), np.int64)
    for i in range(len(times)):
        out[i] = _stand(spec, lateness, times[i], watermarks[i])
    return out


@njit
def classify_fixed(
    specs: Int64Array, lateness: Int64Array, times: Int64Array, watermarks: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Per query the number of (member, late, dropped, outside) stragglers, and pairs (query, straggler) of the dropped."""
    counts = np.zeros((len(specs), 4), np.int64)
    dropped = np.empty((len(specs) * len(times), 2), np.int64)
    dropped_count = 0
    for q in range(len(specs)):
        for i in range(len(times)):
            what = _stand(specs[q], lateness[q], times[i], watermarks[i])
            counts[q, what] += 1
            if what == DROPPED:
                dropped[dropped_count, 0] = q
                dropped[dropped_count, 1] = i
                dropped_count += 1
    return counts, dropped[:dropped_count]


@njit
def count_outside(specs: Int64Array, times: Int64Array, weights: Int64Array) -> Int64Array:
    """Per query how many events, ``weights[i]`` of them at a time like ``times[i]``, lie in none of its windows."""
    out = np.zeros(len(specs), np.int64)
    for q in range(len(specs)):
        for i in range(len(times)):
            if _stand(specs[q], 0, times[i], NEVER) == OUTSIDE:
                out[q] += weights[i]
    return out


def standing(entry: Registered, times: Int64Array, watermarks: Int64Array) -> Int64Array:
    """MEMBER, LATE, DROPPED or OUTSIDE for each event, by its best case.

    >>> from headwater.language.aggregations import count
    >>> from headwater.language.query import query
    >>> from headwater.language.windows import session
    >>> entry = Registered(query("s", session(10), n=count(), lateness=5), 0)
    >>> standing(entry, np.array([90, 88, 80]), np.array([100, 100, 100])).tolist() == [MEMBER, LATE, DROPPED]
    True
    """
    window, lateness = entry.query.window, entry.query.lateness
    if isinstance(window, Sliding | Band):
        return stand_fixed(spec_table([fixed_spec(window, entry.begin, entry.stop)])[0], lateness, times, watermarks)
    allowed = 0 if isinstance(window, CountWindow) else lateness
    reach = times + (window.gap if isinstance(window, Session) else 0)
    what = np.where(reach >= watermarks, MEMBER, np.where(reach + allowed >= watermarks, LATE, DROPPED))
    return np.where(times < entry.begin, OUTSIDE, what).astype(np.int64)


def surely_members(entry: Registered, low: int, watermarks: Int64Array | int) -> bool:
    """Whether events from ``low`` on are members without a check of each: none is late, and windows leave no time out."""
    window = entry.query.window
    gapless = not isinstance(window, Band) and not (isinstance(window, Sliding) and window.slide > window.size)
    return gapless and (entry.begin, entry.stop) == (NEVER, FOREVER) and bool(low >= np.max(watermarks))


@dataclass(frozen=True, slots=True)
class Dropped:
    """Events too late for a query: its number and the rows of the chunk that was accepted."""

    query: int
    chunk: Chunk
    watermarks: Int64Array
