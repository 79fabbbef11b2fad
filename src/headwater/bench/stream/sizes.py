"""How much a run of the stream benchmark measures: the full one, the smoke run, and what tests use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.bench.spark.ways import LENGTHS


@dataclass(frozen=True, slots=True)
class Sizes:
    """Events, batches and seconds of a full run; what they are for is in `figures.py`."""

    #: Where runs are short, the best of this many counts.
    repeats: int = 2
    #: Of the backlog that headwater drains, as files and as a log.
    events: int = 80_000_000
    #: Of it, those that one Spark query drains, and a hundred do.
    native_events: int = 16_000_000
    hundred_events: int = 4_000_000
    #: The lengths in seconds of the "hundred" queries.
    lengths: Sequence[int] = tuple(LENGTHS)
    #: Batches of which the median is taken.
    batches: int = 60
    warm_up_batches: int = 15
    batch_events: int = 10_000
    latency_rate: int = 1_000_000
    latency_seconds: float = 40.0
    latency_warm_up: float = 15.0
    keys: int = 1_000_000
    key_batches: int = 50
    key_batch_events: int = 200_000
    kills: int = 3
    #: Small batches over which nothing may grow.
    growth_batches: int = 20_000


FULL = Sizes()
QUICK = Sizes(
    repeats=1,
    events=16_000_000,
    native_events=4_000_000,
    hundred_events=400_000,
    # Spark takes minutes for all of them.
    lengths=tuple(LENGTHS[::10]),
    batches=15,
    warm_up_batches=8,
    latency_seconds=15.0,
    latency_warm_up=7.0,
    keys=100_000,
    key_batches=10,
    key_batch_events=50_000,
    kills=1,
    growth_batches=1_000,
)
