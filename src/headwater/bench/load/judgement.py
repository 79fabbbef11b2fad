"""What a load's measurements mean: is the rate sustainable, and how long did results take. No clock.

**Sustainable** is a rate at which the queue does not keep growing. The queue is what is due by the schedule and not yet
processed, so events that a blocked driver has not even made are in it.
A stream of small batches takes its events in gulps: its queue is a sawtooth. So the line is fitted to the troughs, the shortest
queue in each of a few equal spans. A rate is sustainable if, after the warm-up,

- this line rises by at most ``tolerance`` of the rate (default 2 %: at least 98 % of the events keep up), and
- the queue never holds more than ``bound_s`` seconds of events (default 10): a growth that a short run cannot tell from noise
  has to stay small.

**Latency** of a window is the moment its row was seen minus its end: by the schedule its last event was due just then. Rows are
cut off by the windows' ends and not by when they were seen, and windows that never came count as endless: else a system that
stops answering would look fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headwater.base.arrays import Float64Array
from headwater.bench.common.workload import SECOND
from headwater.bench.load.schedule import Schedule
from headwater.errors import DataError

#: Spans of which the shortest queue counts.
SPANS = 10


class LoadSample(NamedTuple):
    """How far a load was at one moment: events due by the schedule, and those done.

    >>> LoadSample(5_000_000, due=100, done=70).queued
    30
    """

    at_us: int
    due: int
    done: int

    @property
    def queued(self) -> int:
        """The number of events that wait."""
        return self.due - self.done


class Verdict(NamedTuple):
    """Whether a rate is sustainable, and why."""

    is_sustainable: bool
    #: Events per second by which the troughs of the queue grow; below 0 if it shrinks.
    slope: float
    queue_max: int
    reason: str


def judge(
    samples: Sequence[LoadSample],
    schedule: Schedule,
    *,
    warm_up_s: float = 0.0,
    tolerance: float = 0.02,
    bound_s: float = 10.0,
) -> Verdict:
    """Whether the queue kept growing between the warm-up and the end of the schedule; see the top of this file.

    >>> schedule = Schedule(rate=100, seconds=20)
    >>> keeps_up = [LoadSample(t * SECOND, 100 * t, 100 * t - 30) for t in range(21)]
    >>> judge(keeps_up, schedule).reason
    'the queue grows by 0.0 % of the rate and holds 0.3 s of events at most'
    >>> falls_behind = [LoadSample(t * SECOND, 100 * t, 90 * t) for t in range(21)]
    >>> verdict = judge(falls_behind, schedule)
    >>> verdict.is_sustainable, verdict.slope
    (False, 10.0)
    """
    kept = measured(samples, schedule, warm_up_s)
    at = np.array([sample.at_us for sample in kept], np.float64) / SECOND
    queue = np.array([sample.queued for sample in kept], np.float64)
    slope = slope_of(*troughs(at - at[0], queue))
    growth, longest = slope / schedule.rate, int(queue.max())
    is_sustainable = growth <= tolerance and longest <= bound_s * schedule.rate
    reason = f"the queue grows by {growth * 100:.1f} % of the rate and holds {longest / schedule.rate:.1f} s of events at most"
    if not is_sustainable:
        reason += f": {tolerance * 100:g} % and {bound_s:g} s are allowed"
    return Verdict(is_sustainable, round(slope, 6), longest, reason)


def measured(samples: Sequence[LoadSample], schedule: Schedule, warm_up_s: float) -> list[LoadSample]:
    """Samples after the warm-up and while events were due; an error if they are too few to tell anything."""
    begin_us = schedule.begin_us + round(warm_up_s * SECOND)
    kept = [sample for sample in samples if begin_us <= sample.at_us <= schedule.end_us]
    if len(kept) < SPANS or kept[-1].at_us == kept[0].at_us:
        raise DataError(
            f"{len(kept)} samples of the queue after {warm_up_s:g} s of warm-up: "
            f"let the load run longer, {SPANS} samples are needed at least"
        )
    return kept


def troughs(at_s: Float64Array, queue: Float64Array) -> tuple[Float64Array, Float64Array]:
    """When the queue was shortest in each of equal spans of time, and how long it was then; ``at_s`` starts at 0, sorted.

    >>> at, low = troughs(np.arange(20.0), np.tile([5.0, 1.0], 10))
    >>> sorted(set(low.tolist())), len(at)
    ([1.0], 10)
    """
    span = np.minimum((at_s * SPANS / at_s[-1]).astype(np.int64), SPANS - 1)
    # By span, then by length: the first of each span is its trough.
    order = np.lexsort((queue, span))
    firsts = order[np.flatnonzero(np.diff(span[order], prepend=-1))]
    return at_s[firsts], queue[firsts]


def slope_of(at: Float64Array, height: Float64Array) -> float:
    """The slope of the least-squares line; 0 for a single moment."""
    centred = at - at.mean()
    spread = float(centred @ centred)
    return float(centred @ (height - height.mean())) / spread if spread else 0.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Event-time latency in seconds, over rows; windows that never came are in ``count`` and are endless."""

    count: int
    missing: int
    p50_s: float
    p99_s: float
    max_s: float


def latency(seen: Iterable[tuple[int, int]], expected: Iterable[int]) -> Latency:
    """Percentiles of ``(window_end, seen_at)`` pairs, both in microseconds of the wall clock.

    Only windows whose ends are ``expected`` count (`Schedule.window_ends`); each of these that is missing counts once.

    >>> rows = [(1_000_000, 9_000_000), (2_000_000, 2_250_000), (3_000_000, 3_500_000)]
    >>> latency(rows, expected=[2_000_000, 3_000_000])  # the first window is warm-up
    Latency(count=2, missing=0, p50_s=0.25, p99_s=0.5, max_s=0.5)
    >>> latency(rows, expected=[2_000_000, 3_000_000, 4_000_000]).max_s
    inf
    """
    ends = set(expected)
    pairs = [(int(end), int(at)) for end, at in seen if end in ends]
    missing = len(ends - {end for end, _ in pairs})
    waits = sorted((at - end) / SECOND for end, at in pairs) + [float("inf")] * missing
    if not waits:
        raise DataError("no window ended after the warm-up: let the load run longer, or cut off less")
    return Latency(len(waits), missing, percentile(waits, 50), percentile(waits, 99), waits[-1])


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` percent are not above: one that was measured, never between two.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 75.1), percentile([7.0], 99.9)
    (2.0, 4.0, 7.0)
    """
    # Rounded before it is rounded up: 99.9 percent of 1000 is 999, and no float error makes it 1000.
    rank = int(np.ceil(round(share * len(ordered) / 100, 9)))
    return ordered[max(rank, 1) - 1]
