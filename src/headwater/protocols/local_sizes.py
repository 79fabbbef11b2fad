"""The sizes of leaves' parts of a window, as the paper predicts them: its equations, under their numbers.

A leaf's part of the next window is about as large as that of the last one; how much parts have changed lately says how far off
that may be. headwater forecasts times by default (`count_windows.py`): the sizes of n leaves vary more than the time that all of
them together take.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


def predict(sizes: Sequence[int], changes: int) -> tuple[int, int]:
    """The size of a part, and how much it may differ: the last size, and the mean of the last changes (equations 1 and 2).

    >>> predict([600_000, 601_000], changes=4)
    (601000, 1000)
    """
    steps = [abs(later - earlier) for earlier, later in pairwise(sizes)][-changes:]
    return sizes[-1], round(sum(steps) / len(steps)) if steps else 0


def timeout(size: float, delta: float, rate: float) -> float:
    """How long a leaf waits for a plan before it goes on without one, in the unit of the rate (equation 16).

    >>> timeout(601_000, 1_000, rate=1_200_000)
    0.5025
    """
    return (size + 2 * delta) / rate


@dataclass(slots=True)
class LocalSizes:
    """The parts that each chain had in the last windows, and how many of its events are before the next."""

    changes: int
    last: dict[str, deque[int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)

    def told(self, counts: dict[str, int]) -> None:
        """The events of each chain in the window that was proven last."""
        for chain, count in counts.items():
            self.last.setdefault(chain, deque(maxlen=self.changes + 1)).append(count)
            self.totals[chain] = self.totals.get(chain, 0) + count

    def shares(self) -> dict[str, tuple[int, int, int]]:
        """By chain: from which of its events on it has how many in a window, and how many more or fewer."""
        return {c: (self.totals[c], *predict(list(sizes), self.changes)) for c, sizes in self.last.items()}

    def state(self) -> list[Any]:
        return [[chain, self.totals[chain], list(sizes)] for chain, sizes in self.last.items()]

    @classmethod
    def restored(cls, changes: int, state: Sequence[Any]) -> LocalSizes:
        sizes = cls(changes)
        for chain, total, last in state:
            sizes.totals[chain], sizes.last[chain] = total, deque(last, maxlen=changes + 1)
        return sizes
