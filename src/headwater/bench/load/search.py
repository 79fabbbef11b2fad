"""The highest rate that is sustainable: trial runs, each twice the last until one fails, then halving the gap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from headwater.errors import DataError, shown


@dataclass(frozen=True, slots=True)
class Trial:
    """One rate that was tried."""

    rate: int
    is_sustainable: bool


@dataclass(frozen=True, slots=True)
class Found:
    """The highest rate that held, and everything that was tried; ``is_limit`` unless no rate that was allowed failed."""

    rate: int
    trials: tuple[Trial, ...]
    is_limit: bool


def sustainable_rate(
    holds: Callable[[int], bool], *, first: int, rate_max: int, resolution: float = 0.05, rate_min: int = 1
) -> Found:
    """Search for the highest rate between ``rate_min`` and ``rate_max`` at which ``holds(rate)`` is true.

    ``holds`` runs a load, for instance ``lambda rate: run_load(Load(rate, 30), target).verdict(warm_up_s=10).is_sustainable``.
    From ``first`` on the rate is doubled (or halved) until the answer changes; then the gap is halved in the logarithm until its
    ends are within ``resolution`` of each other: an error of so many parts is the same for slow and for fast systems. The found
    rate was itself tried and held. A rate of 0: not even the smallest did.

    >>> found = sustainable_rate(lambda rate: rate <= 700_000, first=100_000, rate_max=100_000_000)
    >>> found.rate, found.is_limit, [trial.rate for trial in found.trials]
    (672717, True, [100000, 200000, 400000, 800000, 565685, 672717, 733603, 702501])
    """
    if not 0 < rate_min <= first <= rate_max or resolution <= 0:
        raise DataError(
            f"first is {shown(first)}: give a rate from {rate_min} to {rate_max}, and a resolution above 0, not {resolution}"
        )
    trials: list[Trial] = []

    def tried(rate: int) -> bool:
        trials.append(Trial(rate, holds(rate)))
        return trials[-1].is_sustainable

    low, high = _bracket(tried, first, rate_min, rate_max)
    while low and high is not None and high > max(low * (1 + resolution), low + 1):
        middle = min(max(round(math.sqrt(low * high)), low + 1), high - 1)
        if tried(middle):
            low = middle
        else:
            high = middle
    return Found(low, tuple(trials), is_limit=high is not None)


def _bracket(tried: Callable[[int], bool], first: int, rate_min: int, rate_max: int) -> tuple[int, int | None]:
    """A rate that held (0: none did) and a higher one that did not (None: all did)."""
    rate = first
    if tried(rate):
        while rate < rate_max:
            following = min(2 * rate, rate_max)
            if not tried(following):
                return rate, following
            rate = following
        return rate, None
    while rate > rate_min:
        following = max(rate // 2, rate_min)
        if tried(following):
            return following, rate
        rate = following
    return 0, rate
