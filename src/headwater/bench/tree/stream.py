"""The events of the tree benchmarks: sensors at a steady rate, delayed on their way to their leaf; and what central would send.

A source has its own beat and is never quite on it; an event arrives a little after its time. So a second of arrivals is slightly
out of order, and a source gives now one event more, now one less. *Central* is the system without a tree of nodes that compute:
every leaf sends all its events on as Arrow record batches, one frame a second, over every link up to the root.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Float64Array, Int64Array
from headwater.base.arrow import table_to_bytes
from headwater.bench.common.workload import SECOND, SEED
from headwater.protocols.frames import frame

RATE = 100_000
#: Microseconds: by how much a sensor is off its beat, and how long an event takes to its leaf.
CLOCK_JITTER = 1_000
DELAY_MEAN, DELAY_MAX = 10_000, 80_000
#: How far a source may be out of order, in microseconds: no event is late.
DISORDER = 100_000
SCHEMA = pa.schema({"time": pa.int64(), "key": pa.int64(), "value": pa.float64()})
#: No message of the protocol has this kind: central frames are only counted.
CENTRAL_KIND = 255


@dataclass(frozen=True, slots=True)
class Second:
    """What arrives at a leaf in a second: event i is of source ``sources[i]``, at ``offsets[i]``."""

    batch: pa.RecordBatch
    sources: Int64Array
    offsets: Int64Array
    central_bytes: int


@dataclass(frozen=True)
class LeafStream:
    """What the leaves of a run read; ``rate``: events per second and leaf.

    >>> stream = LeafStream(leaves=2, sources=10, keys=3, seconds=2, rate=1000)
    >>> sum(len(second.batch) for second in stream.seconds_of(0)), int(stream.seconds_of(0)[-1].offsets.max())
    (2000, 199)
    """

    leaves: int = 2
    sources: int = 1
    keys: int = 10
    seconds: int = 10
    rate: int = RATE
    #: Sensors with a beat; otherwise every event is of a random source at a random time.
    is_steady: bool = True

    @property
    def events(self) -> int:
        """How many events all leaves read together."""
        return self.leaves * self.seconds * self.rate

    def seconds_of(self, leaf: int) -> list[Second]:
        """What arrives at a leaf, a second after the other."""
        return self._leaves[leaf]

    @property
    def central_bytes(self) -> int:
        """The bytes of all central frames on one level of links."""
        return sum(second.central_bytes for seconds in self._leaves for second in seconds)

    @cached_property
    def _leaves(self) -> list[list[Second]]:
        return [self._leaf(leaf) for leaf in range(self.leaves)]

    def _leaf(self, leaf: int) -> list[Second]:
        rng = np.random.default_rng([SEED, leaf, self.sources, self.keys])
        count = self.seconds * self.rate
        times, source = self._births(rng, count)
        arrivals = times + np.minimum(rng.exponential(DELAY_MEAN, count), DELAY_MAX)
        order = np.argsort(arrivals, kind="stable")
        source = source[order]
        offsets = _offsets(source, self.sources)
        born = times[order].astype(np.int64)
        keys, values = rng.integers(0, self.keys, count), rng.standard_normal(count)
        # What arrives after the last second counts to it.
        edges = np.searchsorted(arrivals[order], np.arange(1, self.seconds) * SECOND).tolist()
        seconds = []
        for start, end in pairwise([0, *edges, count]):
            rows = slice(start, end)
            batch = pa.record_batch([born[rows], keys[rows], values[rows]], schema=SCHEMA)
            whose = (source[rows], offsets[rows])
            central = central_frame(batch, *(whose if self.sources > 1 else ()))
            seconds.append(Second(batch, *whose, len(central)))
        return seconds

    def _births(self, rng: np.random.Generator, count: int) -> tuple[Float64Array, Int64Array]:
        """When events happen, and to which source."""
        if not self.is_steady:
            return np.sort(rng.uniform(0, self.seconds * SECOND, count)), rng.integers(0, self.sources, count)
        ticks, source = np.divmod(np.arange(count), self.sources)
        period = SECOND * self.sources / self.rate
        phases = rng.random(self.sources)
        return np.abs((ticks + phases[source]) * period + rng.normal(0, CLOCK_JITTER, count)), source


@lru_cache(maxsize=1)
def stream(leaves: int, sources: int, keys: int, seconds: int, rate: int = RATE, is_steady: bool = True) -> LeafStream:
    """The stream of this process; one at a time, since several runs in a row mostly read the same one."""
    return LeafStream(leaves, sources, keys, seconds, rate, is_steady)


def central_frame(events: pa.RecordBatch, *whose: Int64Array) -> bytes:
    """The events of a second as themselves: time, key and value, and with several sources whose they are, and which."""
    columns = {name: events.column(name) for name in events.schema.names}
    if whose:
        source, offset = whose
        columns |= {"source": pa.array(source.astype(np.int32)), "offset": pa.array(offset)}
    batch = pa.record_batch(columns)
    return frame(CENTRAL_KIND, table_to_bytes(batch))


def _offsets(source: Int64Array, count: int) -> Int64Array:
    """For each event, how many of its source came before it.

    >>> _offsets(np.array([1, 0, 1, 1]), 2)
    array([0, 0, 1, 2])
    """
    order = np.argsort(source, kind="stable")
    counts = np.bincount(source, minlength=count)
    offsets = np.empty(len(source), np.int64)
    offsets[order] = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    return offsets
