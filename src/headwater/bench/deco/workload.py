"""The events of the benchmark of count windows: leaves whose rates change, each independently, once per window time.

All leaves together give a million events a second of event time on average, so a window of n events lasts n microseconds on
average. In each such period a leaf's rate is drawn anew, uniformly within ``change`` of its mean. Event times are whole
microseconds: leaves often share one, so cuts often fall among equal times.

Time is divided into slices, the same for all leaves, and every slice of a leaf is a pure function of the seed: any part of a
stream can be made again at any time, and nothing has to be kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrays import Float64Array, Int64Array
from headwater.bench.common.workload import SEED

SCHEMA = pa.schema({"time": pa.int64(), "value": pa.float64(), "member": pa.int64()})
#: What a query without a check of members needs.
PLAIN = ("time", "value")
#: A member is a random number of this many bits: sums of ten million of them fit, and tell which events they are of.
MEMBER_BITS = 39
#: Values are members brought to [-4, 4): ordinary floats, whose true sum is that of the members, rounded once.
VALUE_SHIFT = 36
#: About how many events of all leaves a slice has at most, and those of one leaf.
SLICE_EVENTS = 1 << 18
LEAF_SLICE_EVENTS = 1 << 16
#: The events of a leaf, by its number, from one slice up to another.
Batches = Callable[[int, int, int], pa.RecordBatch]


@dataclass(frozen=True)
class DecoWorkload:
    """``windows`` windows of ``window`` events over some leaves; ``change``: by which part of its mean a rate differs.

    >>> some = DecoWorkload(leaves=2, window=1_000, windows=3, change=0.5)
    >>> some.events >= 3_000, some.batch(0, 0).schema.names, some.name(1)
    (True, ['time', 'value', 'member'], 'leaf-01')
    >>> int(some.offsets[-1].sum()) == some.events
    True
    """

    leaves: int = 8
    window: int = 1_000_000
    windows: int = 20
    change: float = 0.01
    seed: int = SEED

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The leaves; each has one source, of the same name."""
        width = max(2, len(str(self.leaves - 1)))
        return tuple(f"leaf-{number:0{width}d}" for number in range(self.leaves))

    def name(self, leaf: int) -> str:
        return self.names[leaf]

    @property
    def parts(self) -> int:
        """Into how many slices a period is divided."""
        most = min(SLICE_EVENTS, LEAF_SLICE_EVENTS * self.leaves)
        return max(1, math.ceil(self.window / most))

    @cached_property
    def rates(self) -> Float64Array:
        """Events per microsecond by period and leaf; as many periods as it takes to have all windows."""
        rng = np.random.default_rng([self.seed, self.leaves, self.window])
        rows, total = [], 0.0
        # One event more per leaf: parts of events at the end do not count.
        while total < self.windows * self.window + self.leaves:
            rows.append((1 + self.change * rng.uniform(-1, 1, self.leaves)) / self.leaves)
            total += rows[-1].sum() * self.window
        return np.array(rows)

    @cached_property
    def edges(self) -> Int64Array:
        """The times at which slices begin, and the end of the last."""
        periods = np.arange(len(self.rates), dtype=np.int64)[:, None] * self.window
        begins = (periods + np.arange(self.parts, dtype=np.int64) * self.window // self.parts).ravel()
        return np.append(begins, len(self.rates) * self.window)[: self._slices_wanted + 1]

    @cached_property
    def _places(self) -> Float64Array:
        """How many events, and parts of them, each leaf has had at the begin of every slice of all periods."""
        lengths = np.diff(np.append(np.arange(self.parts, dtype=np.int64) * self.window // self.parts, self.window))
        gains = (self.rates[:, None, :] * lengths[None, :, None]).reshape(-1, self.leaves)
        phases = np.random.default_rng([self.seed, self.leaves]).random(self.leaves)
        return np.vstack([phases, phases + np.cumsum(gains, axis=0)])

    @cached_property
    def _slices_wanted(self) -> int:
        """The stream ends with the slice in which the last window is full."""
        have = np.floor(self._places).sum(axis=1)
        return int(np.searchsorted(have, self.windows * self.window))

    @cached_property
    def offsets(self) -> Int64Array:
        """The offset at which each slice begins, by slice and leaf, and where the last one ends."""
        return np.floor(self._places[: self._slices_wanted + 1]).astype(np.int64)

    @property
    def slices(self) -> int:
        return len(self.offsets) - 1

    @property
    def events(self) -> int:
        """Of all leaves."""
        return int(self.offsets[-1].sum())

    def batch(self, leaf: int, number: int) -> pa.RecordBatch:
        """The events of a leaf in a slice, in order."""
        first, last = self.offsets[number : number + 2, leaf].tolist()
        seed = np.random.SeedSequence([self.seed, self.leaves, self.window, leaf, number])
        draws = np.random.Generator(np.random.SFC64(seed)).integers(0, 1 << 64, last - first, dtype=np.uint64)
        members = (draws & np.uint64((1 << MEMBER_BITS) - 1)).view(np.int64)
        values = (members - (1 << MEMBER_BITS - 1)).astype(np.float64)
        values *= 2.0**-VALUE_SHIFT
        return pa.record_batch([self._times(leaf, number, draws), values, members], schema=SCHEMA)

    def batches(self, leaf: int, first: int, stop: int) -> pa.RecordBatch:
        """The events of a leaf in slices ``[first, stop)`` as one.

        >>> some = DecoWorkload(leaves=2, window=1_000, windows=3)
        >>> some.batches(0, 0, 2).num_rows == int(some.offsets[2, 0])
        True
        """
        if stop == first + 1:
            return self.batch(leaf, first)
        return pa.concat_batches([self.batch(leaf, number) for number in range(first, stop)])

    def _times(self, leaf: int, number: int, draws: NDArray[np.uint64]) -> Int64Array:
        """Each event is somewhere in its own share of the time."""
        begin, end = self.edges[number : number + 2].tolist()
        # Bits that are not those of members: 24 of them are fine enough.
        places = (draws >> np.uint64(40)).view(np.int64).astype(np.float64)
        places *= 2.0**-24
        places += np.arange(len(draws))
        places += float(self.offsets[number, leaf]) - self._places[number, leaf]
        places *= 1 / max(self.rates[number // self.parts, leaf], 1e-12)
        # The share of the first event began in the slice before, that of the last may end in the next one.
        np.clip(places, 0, end - begin - 1, out=places)
        times = places.astype(np.int64)
        times += begin
        return times


def recent_batches(workload: DecoWorkload, slices_kept: int = 4) -> Batches:
    """`DecoWorkload.batches` for several readers that are about equally far: the last ones made are kept."""
    return lru_cache(maxsize=2 * slices_kept * workload.leaves)(workload.batches)


def true_sum(count: int, members: int) -> float:
    """The sum of ``value`` over events whose members add up to ``members``: exact, then rounded once.

    >>> true_sum(2, 1 << MEMBER_BITS)
    0.0
    """
    return math.ldexp(float(members - count * (1 << MEMBER_BITS - 1)), -VALUE_SHIFT)
