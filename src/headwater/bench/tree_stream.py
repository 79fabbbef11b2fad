"""The events of the tree benchmarks: sensors at a steady rate, delayed on their way to their leaf; and what central would send.

A source ticks with its own phase; an event arrives a little after its time, so a second of arrivals is slightly out of order and
a source gives now one event more, now one less. *Central* is the system without a tree of nodes that compute: every leaf
sends all its events on as Arrow record batches, one frame a second, over every link up to the root.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from headwater.bench.workload import SECOND, SEED
from headwater.protocols.frames import frame

RATE = 100_000
DELAY_MEAN, DELAY_MAX = 10_000, 99_000
#: How far a source may be out of order, in microseconds: no event is late.
DISORDER = 100_000
SCHEMA = pa.schema({"time": pa.int64(), "key": pa.int64(), "value": pa.float64()})
#: No message of the protocol has this kind: central frames are only counted.
CENTRAL_KIND = 255


@dataclass(frozen=True)
class Stream:
    """What the leaves of a run read; ``rate``: events per second and leaf.

    >>> stream = Stream(leaves=2, sources=10, keys=3, seconds=2, rate=1000)
    >>> sum(len(batch) for second in stream.seconds_of(0) for _, batch in second)
    2000
    """

    leaves: int = 2
    sources: int = 1
    keys: int = 10
    seconds: int = 10
    rate: int = RATE

    @property
    def events(self) -> int:
        """How many events all leaves read together."""
        return self.leaves * self.seconds * self.rate

    def seconds_of(self, leaf: int) -> list[list[tuple[int, pa.RecordBatch]]]:
        """For each second of arrivals the batches of a leaf's sources, by the number of the source."""
        return self._leaves[leaf][0]

    @property
    def central_bytes(self) -> int:
        """The bytes of all central frames on one level of links."""
        return sum(size for _, sizes in self._leaves for size in sizes)

    @cached_property
    def _leaves(self) -> list[tuple[list[list[tuple[int, pa.RecordBatch]]], list[int]]]:
        return [self._leaf(leaf) for leaf in range(self.leaves)]

    def _leaf(self, leaf: int) -> tuple[list[list[tuple[int, pa.RecordBatch]]], list[int]]:
        rng = np.random.default_rng([SEED, leaf, self.sources, self.keys])
        count = self.seconds * self.rate
        ticks, source = np.divmod(np.arange(count), self.sources)
        period = SECOND * self.sources / self.rate
        times = (ticks + rng.random(self.sources)[source]) * period
        arrivals = times + np.minimum(rng.exponential(DELAY_MEAN, count), DELAY_MAX)
        order = np.argsort(arrivals, kind="stable")
        table = pa.table(
            {
                "time": times[order].astype(np.int64),
                "key": rng.integers(0, self.keys, count),
                "value": rng.standard_normal(count),
            }
        )
        # What arrives after the last second counts to it.
        edges = np.searchsorted(arrivals[order], np.arange(1, self.seconds) * SECOND)
        bounds = [0, *edges.tolist(), count]
        seconds, sizes = [], []
        offsets = np.zeros(self.sources, np.int64)
        for start, end in zip(bounds, bounds[1:]):
            part = table.slice(start, end - start).combine_chunks()
            numbers = source[order[start:end]]
            sizes.append(len(central_frame(part, numbers, offsets)))
            offsets += np.bincount(numbers, minlength=self.sources)
            seconds.append(list(_split(part, numbers)))
        return seconds, sizes


@lru_cache(maxsize=1)
def stream(leaves: int, sources: int, keys: int, seconds: int, rate: int = RATE) -> Stream:
    """The stream of this process; one at a time, since several runs in a row mostly read the same one."""
    return Stream(leaves, sources, keys, seconds, rate)


def central_frame(events: pa.Table, sources: np.ndarray, offsets: np.ndarray) -> bytes:
    """The events of a second as themselves: time, key and value, and with several sources whose they are.

    ``offsets``: of the first event of each source in it.
    """
    if len(offsets) > 1:
        order = np.argsort(sources, kind="stable")
        counts = np.bincount(sources, minlength=len(offsets))
        firsts = np.cumsum(counts) - counts
        places = np.empty(len(sources), np.int64)
        places[order] = np.arange(len(sources)) - np.repeat(firsts, counts) + np.repeat(offsets, counts)
        events = events.append_column("source", pa.array(sources.astype(np.int32)))
        events = events.append_column("offset", pa.array(places))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.schema) as writer:
        writer.write_table(events)
    return frame(CENTRAL_KIND, sink.getvalue().to_pybytes())


def _split(events: pa.Table, sources: np.ndarray) -> Iterator[tuple[int, pa.RecordBatch]]:
    """A batch for each source, its events in the order of their arrival."""
    order = np.argsort(sources, kind="stable")
    batch = events.take(pa.array(order)).combine_chunks().to_batches()[0]
    numbers, firsts, counts = np.unique(sources[order], return_index=True, return_counts=True)
    for number, first, count in zip(numbers.tolist(), firsts.tolist(), counts.tolist()):
        yield number, batch.slice(first, count)
