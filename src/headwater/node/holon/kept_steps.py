"""The steps whose rows somebody has still to read, and the windows that became final in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headwater.language.times import FOREVER
from headwater.node.holon.executed_steps import StepRows

#: Of which query, from when, until when.
WindowKey = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class FinalWindow:
    """The rows of one window that came out at a step, one for each key; of those that changed, if it is no first time."""

    number: int
    key: WindowKey
    rows: pa.Table


class KeptSteps:
    """Steps in their order; ``retention``: so long, in event time, a window can be read after it became final."""

    def __init__(self, retention: int = 0) -> None:
        self._retention = retention
        self._steps: deque[StepRows] = deque()
        self._windows: dict[WindowKey, list[FinalWindow]] = {}

    def __iter__(self) -> Iterator[StepRows]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)

    def behind(self, number: int) -> Iterator[StepRows]:
        """The steps behind one, in their order, as far as they follow without a gap."""
        for step in list(self._steps):
            if step.number == number + 1:
                number = step.number
                yield step

    def add(self, step: StepRows) -> None:
        """The next step."""
        self._steps.append(step)
        for window in windows_of(step):
            self._windows.setdefault(window.key, []).append(window)

    def replace(self, steps: Iterable[StepRows]) -> None:
        """All of them anew."""
        self._steps, self._windows = deque(), {}
        for step in steps:
            self.add(step)

    def window(self, key: WindowKey) -> list[FinalWindow]:
        """What came out of a window, in the order of steps."""
        return self._windows.get(key, [])

    def forget(self, number: int) -> None:
        """Steps up to this one were taken by all: those of them that nobody can read any more are forgotten."""
        passed = max((step.time for step in self._steps if step.number <= number), default=None)
        if passed is None:
            return
        while self._steps and self._steps[0].number <= number:
            if passed < FOREVER and self._steps[0].time > passed - self._retention and self._retention:
                return
            for window in windows_of(self._steps.popleft()):
                known = self._windows[window.key]
                known.pop(0)
                if not known:
                    del self._windows[window.key]


def windows_of(step: StepRows) -> Iterator[FinalWindow]:
    """The windows of a step, in the order of its rows.

    >>> from headwater.engine.results.side_output import SCHEMA
    >>> bounds = {"window_start": [0, 0, 5], "window_end": [10, 10, 10]}
    >>> rows = pa.table({"query": pa.array(["q", "q", "q"]).dictionary_encode(), **bounds, "n": [1, 2, 3]})
    >>> [(window.key, window.rows.num_rows) for window in windows_of(StepRows(1, 10, {0: rows}, SCHEMA.empty_table()))]
    [(('q', 0, 10), 2), (('q', 5, 10), 1)]
    """
    for rows in step.rows.values():
        names = rows.column("query").combine_chunks()
        names = names.chunk(0) if isinstance(names, pa.ChunkedArray) else names
        codes = names.indices.to_numpy()
        starts, ends = (rows.column(name).to_numpy() for name in ("window_start", "window_end"))
        same = (np.diff(codes) == 0) & (np.diff(starts) == 0) & (np.diff(ends) == 0)
        edges = [0, *(np.flatnonzero(~same) + 1).tolist(), len(codes)]
        for begin, end in pairwise(edges):
            key = names.dictionary[int(codes[begin])].as_py(), int(starts[begin]), int(ends[begin])
            yield FinalWindow(step.number, key, rows.slice(begin, end - begin))
