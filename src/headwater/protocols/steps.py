"""Canonical steps: the grid of event time on which windows close where there is no root.

A partition reaches a step at the first input index at which its own watermark has come so far. That index is a function of the
partition's sequence alone, so that what a step adds is the same wherever it is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.jit import njit
from headwater.language.times import FOREVER, NEVER

#: The step before all others, and the one behind them: reached when nothing more will come.
START, END = NEVER, FOREVER


@dataclass(frozen=True, slots=True)
class StepGrid:
    """Step k is the event time ``k * every``.

    >>> grid = StepGrid(10)
    >>> grid.step_of(29), grid.step_of(30), grid.step_of(-1), grid.time_of(3)
    (2, 3, -1, 30)
    >>> grid.step_of(FOREVER) == END, grid.time_of(END) == FOREVER, grid.step_of(NEVER) == START
    (True, True, True)
    """

    every: int

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"steps of {self.every}: give 1 or more ticks")

    def step_of(self, watermark: int) -> int:
        """The last step that a watermark has reached."""
        return watermark if watermark in (NEVER, FOREVER) else watermark // self.every

    def time_of(self, step: int) -> int:
        """The event time of a step."""
        return step if step in (START, END) else step * self.every

    def crossings(
        self, times: Int64Array, disorder: int, watermark: int, in_order: bool = False
    ) -> list[tuple[int, int]]:
        """Where events take a source with this watermark to further steps: how many events it takes, and the last step reached.

        ``times`` in the order of offsets; each raises the watermark to itself less ``disorder``. ``in_order``: they never step
        back, so that steps are found without looking at each.

        >>> StepGrid(10).crossings(np.array([3, 12, 5, 47, 44]), 2, NEVER)
        [(1, 0), (2, 1), (4, 4)]
        """
        bound = NEVER if (reached := self.step_of(watermark)) == START else self.time_of(reached + 1)
        find = _crossings_in_order if in_order else _crossings
        counts, steps = find(times, disorder, bound, self.every)
        return list(zip(counts.tolist(), steps.tolist()))


@njit
def _crossings(times: Int64Array, disorder: int, bound: int, every: int) -> tuple[Int64Array, Int64Array]:
    """The places behind which watermarks first are at least the next step's time, ``bound``, and the steps reached there."""
    size = 0
    lowest = bound
    # Nearly every batch of a fast stream lies within a step or a few: they are counted before anything is made.
    for i in range(len(times)):
        if times[i] - disorder >= lowest:
            lowest = ((times[i] - disorder) // every + 1) * every
            size += 1
    counts, steps = np.empty(size, np.int64), np.empty(size, np.int64)
    at = 0
    for i in range(len(times)):
        if at == size:
            break
        if times[i] - disorder >= bound:
            step = (times[i] - disorder) // every
            bound = (step + 1) * every
            counts[at], steps[at] = i + 1, step
            at += 1
    return counts, steps


@njit
def _crossings_in_order(times: Int64Array, disorder: int, bound: int, every: int) -> tuple[Int64Array, Int64Array]:
    """What `_crossings` finds, for times that never step back."""
    counts, steps = np.empty(16, np.int64), np.empty(16, np.int64)
    size, at = 0, 0
    while at < len(times):
        if times[at] - disorder < bound:
            at += int(np.searchsorted(times[at:], bound + disorder))
        if at == len(times):
            break
        if size == len(counts):
            counts, steps = np.append(counts, counts), np.append(steps, steps)
        step = (times[at] - disorder) // every
        bound = (step + 1) * every
        counts[size], steps[size] = at + 1, step
        size += 1
        at += 1
    return counts[:size], steps[:size]
