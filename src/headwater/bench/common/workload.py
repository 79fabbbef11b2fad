"""The events that the benchmarks measure with: a pure function of the seed, kept in memory only.

40 million events over 4,000 s of event time, sorted, ten keys, standard normal values. A quick run takes a tenth of
the events *and* of the event time, so that the events in a slice, and with them the rates, stay comparable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrays import Float64Array, Int64Array

SEED = 7
SECOND = 1_000_000
EVENTS_FULL = 40_000_000
EVENTS_PER_SECOND = 10_000
KEY_COUNT = 10
# One event in a thousand opens something, one in a thousand closes something: about one marker a second and key.
MARKER_SHARE = 0.001
PLAIN, START, END = 0, 1, 2


@dataclass(frozen=True)
class EventColumns:
    """Columns of sorted events; each is generated when first asked for and then kept.

    >>> w = EventColumns(20_000)
    >>> w.seconds, bool(np.all(np.diff(w.times) >= 0)), sorted(set(w.keys.tolist()))
    (2, True, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    events: int = EVENTS_FULL

    @property
    def seconds(self) -> int:
        """The event time that the events cover."""
        return self.events // EVENTS_PER_SECOND

    @cached_property
    def times(self) -> Int64Array:
        """Microseconds, sorted. Running sums of exponential gaps are distributed like sorted uniform times, without a sort."""
        ends = self._rng("times").standard_exponential(self.events + 1).cumsum()
        return np.asarray(ends[:-1] * (self.seconds * SECOND / ends[-1]), np.int64)

    @cached_property
    def keys(self) -> Int64Array:
        """One of ten keys per event."""
        return self._rng("keys").integers(0, KEY_COUNT, self.events, dtype=np.int64)

    @cached_property
    def values(self) -> Float64Array:
        """Standard normal."""
        return self._rng("values").standard_normal(self.events)

    @cached_property
    def readings(self) -> Int64Array:
        """The integer value: uniform over twenty bits, either sign."""
        return self._rng("readings").integers(-(2**19), 2**19, self.events, dtype=np.int64)

    @cached_property
    def markers(self) -> Int64Array:
        """START, END or PLAIN per event."""
        draws = self._rng("markers").random(self.events, dtype=np.float32)
        return np.where(draws < MARKER_SHARE, START, np.where(draws < 2 * MARKER_SHARE, END, PLAIN)).astype(np.int64)

    def million_keys(self) -> Int64Array:
        """Keys drawn uniformly from a million; generated anew each time because only one figure needs them."""
        return self._rng("million_keys").integers(0, 1_000_000, self.events, dtype=np.int64)

    def disordered(self, share: float, delay: int = SECOND) -> NDArray[np.intp]:
        """The order of arrival in which ``share`` of the events come late by up to ``delay``.

        >>> w = EventColumns(20_000)
        >>> order = w.disordered(0.01)
        >>> late = np.maximum.accumulate(w.times[order]) - w.times[order]
        >>> bool(0 < late.max() < SECOND), bool(0.005 < np.mean(late > 0) < 0.015)
        (True, True)
        """
        rng = self._rng("disorder")
        arrivals = self.times.copy()
        late = rng.random(self.events, dtype=np.float32) < share
        arrivals[late] += rng.integers(0, delay, int(late.sum()))
        return np.argsort(arrivals, kind="stable")

    def table(self, *columns: str) -> pa.Table:
        """An Arrow table of the named columns (time, key, value, reading, marker) over the same memory."""
        source = {"time": "times", "key": "keys", "value": "values", "reading": "readings", "marker": "markers"}
        return pa.table({name: pa.array(getattr(self, source[name])) for name in columns})

    def _rng(self, purpose: str) -> np.random.Generator:
        """A stream of random numbers per column: asking for one column never changes another."""
        return np.random.default_rng([SEED, *purpose.encode()])


@lru_cache(maxsize=1)
def workload(events: int = EVENTS_FULL) -> EventColumns:
    """The workload of this process; one at a time, since the full one holds more than a gigabyte."""
    return EventColumns(events)


def endless(events: int, batch_events: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """A stream as long as one likes: one block of events over and over, each time later; with the events so far.

    >>> [(seen, batch["time"][0].as_py() // SECOND) for seen, batch in endless(30_000, 10_000)]
    [(10000, 0), (20000, 1), (30000, 2)]
    """
    block = EventColumns(batch_events)
    table = block.table("time", "key", "value", "reading", "marker")
    for turn in range(events // batch_events):
        times = pa.array(block.times + turn * block.seconds * SECOND)
        yield (turn + 1) * batch_events, table.set_column(0, "time", times).combine_chunks().to_batches()[0]
