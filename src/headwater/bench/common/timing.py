"""How times are taken: the best of several runs, each with its result rows counted, and a line of progress on stderr."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

REPEATS = 3


@dataclass(frozen=True, slots=True)
class Timed:
    """The best wall time of a piece of work, the result rows it produced, and the processor time of that best run."""

    seconds: float
    rows: int
    cpu_seconds: float = 0.0


def best_of(work: Callable[[], int], repeats: int = REPEATS) -> Timed:
    """Run ``work``, which returns its number of result rows, several times and keep the fastest.

    The fastest run is the one that other processes disturbed least. The rows must agree between runs.

    >>> best_of(lambda: 7).rows
    7
    """
    runs = []
    for _ in range(repeats):
        # What the previous run left is not this run's to clean up.
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        rows = work()
        runs.append(Timed(time.perf_counter() - wall, rows, time.process_time() - cpu))
    if len({run.rows for run in runs}) != 1:
        raise RuntimeError(f"the same work gave different numbers of result rows: {[run.rows for run in runs]}")
    return min(runs, key=lambda run: run.seconds)


class StepLog:
    """One line on stderr per step, with the time since the start, so that stdout holds nothing but figures."""

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled
        self._start = time.perf_counter()

    def say(self, text: str) -> None:
        """Show what is being measured now."""
        if self._enabled:
            print(f"[{time.perf_counter() - self._start:6.1f} s] {text}", file=sys.stderr, flush=True)
