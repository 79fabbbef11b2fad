"""How times are taken: the best of several runs, each with its result rows counted; and taking turns."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

REPEATS = 3
Found = TypeVar("Found")


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


def in_turns(works: Sequence[Callable[[], Found]], repeats: int) -> list[list[Found]]:
    """What each piece of work returned, run by run; they take turns, so that a slow minute of the machine hits all.

    >>> in_turns([lambda: 1, lambda: 2], repeats=3)
    [[1, 1, 1], [2, 2, 2]]
    """
    turns = [[work() for work in works] for _ in range(repeats)]
    return [list(found) for found in zip(*turns)]
