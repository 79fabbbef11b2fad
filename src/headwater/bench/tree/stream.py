"""The trees of the benchmarks and their events: sensors at a steady rate, delayed on their way; and what central would send.

A source has its own beat and is never quite on it; an event arrives a little after its time. So a second of arrivals is slightly
out of order, and a source gives now one event more, now one less. *Central* is the system without a tree of nodes that compute:
every leaf sends all its events on as Arrow record batches, one frame a second, over every link up to the root.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Float64Array, Int64Array
from headwater.base.arrow import table_to_bytes
from headwater.bench.common.workload import SECOND, SEED
from headwater.protocols.frames import frame

ROOT = "root"
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
class Shape:
    """A tree and what its leaves read. ``relays``: their number on each level, from the leaves up; ``rate``: events per
    second and leaf.

    >>> Shape(leaves=2, relays=(1,)).parents()
    {'leaf-0': 'relay-1-0', 'leaf-1': 'relay-1-0', 'relay-1-0': 'root'}
    >>> seconds = Shape(leaves=2, sources=10, keys=3, seconds=2, rate=1000).arrivals()[0]
    >>> sum(len(second.batch) for second in seconds), int(seconds[-1].offsets.max())
    (2000, 199)
    """

    leaves: int = 2
    relays: tuple[int, ...] = (1,)
    sources: int = 1
    keys: int = 10
    seconds: int = 10
    rate: int = RATE
    #: Sensors with a beat; otherwise every event is of a random source at a random time.
    is_steady: bool = True

    @property
    def levels(self) -> int:
        """The number of links between a leaf and the root."""
        return 1 + len(self.relays)

    @property
    def events(self) -> int:
        """The number of events of all leaves together."""
        return self.leaves * self.seconds * self.rate

    def parents(self) -> dict[str, str]:
        """Each node's parent."""
        rows = [[f"leaf-{i}" for i in range(self.leaves)]]
        rows += [[f"relay-{level}-{i}" for i in range(count)] for level, count in enumerate(self.relays, 1)]
        rows.append([ROOT])
        return {name: above[i * len(above) // len(row)] for row, above in pairwise(rows) for i, name in enumerate(row)}

    def arrivals(self) -> list[list[Second]]:
        """What arrives at each leaf, a second after the other; kept for the next tree whose leaves read the same."""
        return _arrivals(replace(self, relays=()))


@lru_cache(maxsize=1)
def _arrivals(shape: Shape) -> list[list[Second]]:
    return [_leaf(shape, leaf) for leaf in range(shape.leaves)]


def _leaf(shape: Shape, leaf: int) -> list[Second]:
    rng = np.random.default_rng([SEED, leaf, shape.sources, shape.keys])
    count = shape.seconds * shape.rate
    times, source = _births(shape, rng, count)
    arrivals = times + np.minimum(rng.exponential(DELAY_MEAN, count), DELAY_MAX)
    order = np.argsort(arrivals, kind="stable")
    source = source[order]
    offsets = _offsets(source, shape.sources)
    born = times[order].astype(np.int64)
    keys, values = rng.integers(0, shape.keys, count), rng.standard_normal(count)
    # What arrives after the last second counts to it.
    edges = np.searchsorted(arrivals[order], np.arange(1, shape.seconds) * SECOND).tolist()
    seconds = []
    for start, end in pairwise([0, *edges, count]):
        rows = slice(start, end)
        batch = pa.record_batch([born[rows], keys[rows], values[rows]], schema=SCHEMA)
        whose = (source[rows], offsets[rows])
        central = central_frame(batch, *(whose if shape.sources > 1 else ()))
        seconds.append(Second(batch, *whose, len(central)))
    return seconds


def _births(shape: Shape, rng: np.random.Generator, count: int) -> tuple[Float64Array, Int64Array]:
    """When events happen, and to which source."""
    if not shape.is_steady:
        return np.sort(rng.uniform(0, shape.seconds * SECOND, count)), rng.integers(0, shape.sources, count)
    ticks, source = np.divmod(np.arange(count), shape.sources)
    period = SECOND * shape.sources / shape.rate
    phases = rng.random(shape.sources)
    return np.abs((ticks + phases[source]) * period + rng.normal(0, CLOCK_JITTER, count)), source


def central_frame(events: pa.RecordBatch, *whose: Int64Array) -> bytes:
    """The events of a second as themselves: time, key and value, and with several sources whose they are, and which."""
    columns = {name: events.column(name) for name in events.schema.names}
    if whose:
        source, offset = whose
        columns |= {"source": pa.array(source.astype(np.int32)), "offset": pa.array(offset)}
    return frame(CENTRAL_KIND, table_to_bytes(pa.record_batch(columns)))


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
