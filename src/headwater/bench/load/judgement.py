"""What a load's measurements mean: is the rate sustainable, how long did results take, how fast was a log drained. No clock.

**Sustainable** is a rate at which the queue does not keep growing. The queue is what is due by the schedule and not yet done
(sent, or processed, where that is known), so events that a blocked driver has not even made are in it.
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
from numpy.typing import NDArray

from headwater.bench.common.workload import SECOND
from headwater.bench.load.schedule import Schedule
from headwater.errors import DataError

TOLERANCE = 0.02
BOUND_SECONDS = 10.0
#: Spans of which the shortest queue counts.
SPANS = 10
PERCENTILES = (50.0, 90.0, 99.0, 99.9)


class LoadSample(NamedTuple):
    """How far a load was at one moment: events due by the schedule, and those done."""

    at_us: int
    due: int
    done: int

    @property
    def queued(self) -> int:
        """Events that wait.

        >>> LoadSample(5_000_000, due=100, done=70).queued
        30
        """
        return self.due - self.done


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a rate is sustainable, with what speaks for it; slope and queue also in seconds of events."""

    is_sustainable: bool
    rate: int
    #: Events per second by which the troughs of the queue grow; below 0 if it shrinks.
    slope: float
    queue_max: int
    reason: str

    @property
    def queue_max_s(self) -> float:
        return self.queue_max / self.rate


def judge(
    samples: Sequence[LoadSample],
    schedule: Schedule,
    *,
    warm_up_s: float = 0.0,
    tolerance: float = TOLERANCE,
    bound_s: float = BOUND_SECONDS,
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
    is_level, is_short = growth <= tolerance, longest <= bound_s * schedule.rate
    reason = f"the queue grows by {growth * 100:.1f} % of the rate and holds {longest / schedule.rate:.1f} s of events at most"
    if not (is_level and is_short):
        reason += f": {tolerance * 100:g} % and {bound_s:g} s are allowed"
    return Verdict(is_level and is_short, schedule.rate, round(slope, 6), longest, reason)


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


def troughs(at_s: NDArray[np.float64], queue: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


def slope_of(at: NDArray[np.float64], height: NDArray[np.float64]) -> float:
    """The slope of the least-squares line; 0 for a single moment."""
    centred = at - at.mean()
    spread = float(centred @ centred)
    return float(centred @ (height - height.mean())) / spread if spread else 0.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Event-time latency in seconds, over rows; windows that never came are in ``count`` and are endless."""

    count: int
    missing: int
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    p999_s: float
    max_s: float


def latency(
    seen: Iterable[tuple[int, int]],
    *,
    begin_us: int,
    warm_up_s: float = 0.0,
    end_us: int | None = None,
    expected: Iterable[int] | None = None,
) -> Latency:
    """Percentiles of ``(window_end, seen_at)`` pairs, both in microseconds of the wall clock.

    Windows that end before ``begin_us`` plus the warm-up, or after ``end_us``, are left out. ``expected``: the ends of the
    windows that must come (`Schedule.window_ends`); each that is missing counts once.

    >>> rows = [(1_000_000, 9_000_000), (2_000_000, 2_250_000), (3_000_000, 3_500_000)]
    >>> one = latency(rows, begin_us=0, warm_up_s=1.5)  # the first window is warm-up
    >>> one.count, one.p50_s, one.p99_s, one.mean_s
    (2, 0.25, 0.5, 0.375)
    >>> latency(rows, begin_us=0, warm_up_s=1.5, expected=[2_000_000, 3_000_000, 4_000_000]).max_s
    inf
    """
    lowest = begin_us + round(warm_up_s * SECOND)

    def counts(end: int) -> bool:
        return lowest <= end and (end_us is None or end <= end_us)

    pairs = [(int(end), int(at)) for end, at in seen if counts(end)]
    came = {end for end, _ in pairs}
    missing = len({int(end) for end in expected or () if counts(end)} - came)
    waits = sorted((at - end) / SECOND for end, at in pairs) + [float("inf")] * missing
    if not waits:
        raise DataError("no window ended after the warm-up: let the load run longer, or cut off less")
    p50, p90, p99, p999 = (percentile(waits, share) for share in PERCENTILES)
    return Latency(len(waits), missing, sum(waits) / len(waits), p50, p90, p99, p999, waits[-1])


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` percent are not above: one that was measured, never between two.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 75.1), percentile([7.0], 99.9)
    (2.0, 4.0, 7.0)
    """
    # Rounded before it is rounded up: 99.9 percent of 1000 is 999, and no float error makes it 1000.
    rank = int(np.ceil(round(share * len(ordered) / 100, 9)))
    return ordered[max(rank, 1) - 1]


def drain_rate(progress: Iterable[tuple[int, int]], *, warm_up_events: int = 0) -> float:
    """Events per second at which a log that was written before is drained, from ``(at_us, events done so far)``.

    Timed from the first moment at which ``warm_up_events`` or more were done (the start of a job, compiling and the first batch
    are before it) to the first moment at which all were: what a finished job waits is not its speed.

    >>> drain_rate([(0, 0), (4_000_000, 100), (5_000_000, 300), (6_000_000, 500), (60_000_000, 500)], warm_up_events=1)
    200.0
    """
    moments = sorted(progress)
    total = max((done for _, done in moments), default=0)
    began = next(((at, done) for at, done in moments if done >= warm_up_events), None)
    ended = next((at for at, done in moments if done == total), None)
    if began is None or ended is None or ended <= began[0]:
        raise DataError(
            f"{len(moments)} moments with {total} events in all show no progress after {warm_up_events}: drain a longer log"
        )
    return (total - began[1]) * SECOND / (ended - began[0])
