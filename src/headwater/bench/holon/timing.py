"""How runs are compared: they take turns, and the median of the turns counts, for neighbours come and go."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from headwater.bench.common.report import Report
from headwater.bench.common.timing import in_turns

TURNS = 15
TURNS_QUICK = 3
MILLION = 1_000_000


def turns(report: Report) -> int:
    """How often each piece of work is run."""
    return TURNS_QUICK if report.quick else TURNS


def processor_seconds(work: Callable[[], object]) -> float:
    """What a piece of work takes of the processor, what came before cleaned up."""
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def medians(works: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The median processor time of each piece of work; all of them have been run once before, so that all is warm.

    >>> [seconds >= 0 for seconds in medians([lambda: 1, lambda: 2], repeats=3)]
    [True, True]
    """
    for work in works:
        work()
    return [median(times) for times in in_turns([partial(processor_seconds, work) for work in works], repeats)]
