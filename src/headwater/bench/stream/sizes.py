"""How much a run of the stream benchmark measures: the full one, the smoke run, and what tests use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Events, batches and seconds; what they are for is in `stream.py`."""

    #: The best of so many runs counts, where they are short.
    repeats: int
    #: Of the backlog that headwater drains, as files and as a log.
    events: int
    #: Of it, those that one Spark query drains, and a hundred do.
    native_events: int
    hundred_events: int
    #: Every n-th of the hundred lengths: Spark takes minutes for all of them.
    lengths_step: int
    #: Batches of which the median is taken.
    batches: int
    warm_up_batches: int
    batch_events: int
    latency_rate: int
    latency_seconds: float
    latency_warm_up: float
    keys: int
    key_batches: int
    key_batch_events: int
    kills: int


FULL = Sizes(
    repeats=2,
    events=80_000_000,
    native_events=16_000_000,
    hundred_events=4_000_000,
    lengths_step=1,
    batches=60,
    warm_up_batches=15,
    batch_events=10_000,
    latency_rate=1_000_000,
    latency_seconds=40.0,
    latency_warm_up=15.0,
    keys=1_000_000,
    key_batches=50,
    key_batch_events=200_000,
    kills=3,
)
QUICK = Sizes(
    repeats=1,
    events=16_000_000,
    native_events=4_000_000,
    hundred_events=400_000,
    lengths_step=10,
    batches=15,
    warm_up_batches=8,
    batch_events=10_000,
    latency_rate=1_000_000,
    latency_seconds=15.0,
    latency_warm_up=7.0,
    keys=100_000,
    key_batches=10,
    key_batch_events=50_000,
    kills=1,
)
