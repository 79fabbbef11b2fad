"""Is every window right? Sixty points that cover all pairs of rate change, window size and number of leaves.

Every scheme reads the same events of a point; `Truth` says which of them are in which window. All pairs: whatever two settings
only fail together is tried, at a third of the cost of trying all three at once.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import combinations, product
from multiprocessing import get_context

import numpy as np

from headwater.bench.common.report import Report, at_least
from headwater.bench.common.workload import SEED
from headwater.bench.deco.run import run_together
from headwater.bench.deco.schemes import APPROX, EXACT, SCHEMES, members_query
from headwater.bench.deco.truth import right_windows, true_windows
from headwater.bench.deco.workload import DecoWorkload

CHANGES = (0.001, 0.01, 0.05, 0.1, 0.5, 1.0)
WINDOWS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
LEAVES = (1, 2, 8, 16, 32, 64)
POINTS = 60
WINDOW_COUNT = 20
WINDOW_COUNT_LARGEST = 5
#: A quick run has all points, but smaller windows and fewer of them.
QUICK_WINDOW_MAX = 10_000
QUICK_WINDOW_COUNT = 3


@dataclass(frozen=True, order=True)
class CountPoint:
    """One place of the grid."""

    change: float
    window: int
    leaves: int

    def workload(self, seed: int, is_quick: bool = False) -> DecoWorkload:
        """Its events."""
        if is_quick:
            window = min(self.window, QUICK_WINDOW_MAX)
            return DecoWorkload(self.leaves, window, QUICK_WINDOW_COUNT, self.change, seed)
        count = WINDOW_COUNT_LARGEST if self.window == max(WINDOWS) else WINDOW_COUNT
        return DecoWorkload(self.leaves, self.window, count, self.change, seed)

    def __str__(self) -> str:
        return f"{self.change:.1%}, {self.window:,} events, {self.leaves} leaves"


def pairs_of(point: CountPoint) -> set[tuple[int, int, float, float]]:
    """Every two of its settings, with which they are."""
    settings = (point.change, point.window, point.leaves)
    return {(i, j, settings[i], settings[j]) for i, j in combinations(range(3), 2)}


def covering_points(count: int = POINTS, seed: int = SEED) -> list[CountPoint]:
    """``count`` different points that together have every pair of settings: always one that has most pairs that are missing.

    Among equals one whose settings were used least, and then chance decides.

    >>> points = covering_points()
    >>> len(points), len(set(points))
    (60, 60)
    >>> len(set().union(*map(pairs_of, points))) == 6 * 5 + 6 * 6 + 5 * 6
    True
    """
    grid = [CountPoint(*settings) for settings in product(CHANGES, WINDOWS, LEAVES)]
    order = np.random.default_rng([seed, count]).permutation(len(grid)).tolist()
    left = [grid[place] for place in order]
    missing = set().union(*map(pairs_of, grid))
    used: Counter[float] = Counter()
    chosen: list[CountPoint] = []
    for _ in range(count):
        best = max(left, key=lambda point: (len(pairs_of(point) & missing), -_uses(used, point)))
        left.remove(best)
        chosen.append(best)
        missing -= pairs_of(best)
        used.update((best.change, best.window, best.leaves))
    if missing:
        raise ValueError(f"{count} points cannot have all pairs: {len(missing)} are missing")
    return chosen


def _uses(used: Counter[float], point: CountPoint) -> int:
    return used[point.change] + used[point.window] + used[point.leaves]


@dataclass(frozen=True)
class Checked:
    """How many windows of a point a scheme had right."""

    point: CountPoint
    scheme: str
    right: int
    windows: int


def check_point(point: CountPoint, seed: int, is_quick: bool = False) -> list[Checked]:
    """Run all schemes over the events of a point; of the largest windows only the exact ones, for they take longest."""
    workload = point.workload(seed, is_quick)
    chosen = [scheme for scheme in SCHEMES if scheme in EXACT or workload.window < max(WINDOWS)]
    runs = run_together(workload, members_query(workload.window), chosen, ("time", "member"))
    found, truth = [], true_windows(workload)
    for scheme, run in runs.items():
        right = right_windows(run.rows, truth)
        found.append(Checked(point, scheme, int(right.sum()), len(right)))
    return found


def correctness(
    report: Report, points: Sequence[CountPoint] | None = None, processes: int | None = None
) -> list[Checked]:
    """The share of right windows of every exact scheme, of all together, and of approx."""
    chosen = covering_points() if points is None else points
    found: list[Checked] = []
    for mine in _check_all(chosen, report.quick, processes or os.cpu_count() or 1):
        found += mine
        report.say(f"  {mine[0].point}: " + ", ".join(f"{each.scheme} {each.right}/{each.windows}" for each in mine))
    for scheme in SCHEMES:
        share, windows = share_of(each for each in found if each.scheme == scheme)
        report.add(f"correct_share_{scheme}", share, "ratio", None, f"{windows:,} windows")
    share, windows = share_of(each for each in found if each.scheme in EXACT)
    smaller = f"; quick: windows of {QUICK_WINDOW_MAX:,} events at most" if report.quick else ""
    approx, _ = share_of(each for each in found if each.scheme == APPROX)
    note = f"{windows:,} windows of {len(EXACT)} exact schemes at {len(chosen)} points, members checked"
    report.add("correct_share", share, "ratio", at_least(1.0), f"{note}; approx {approx:.3f}{smaller}")
    return found


def _check_all(points: Sequence[CountPoint], is_quick: bool, processes: int) -> Iterator[list[Checked]]:
    """Every point, in processes side by side, as they are done; the largest first, so that none is waited for at the end."""
    seeds = {point: SEED + number for number, point in enumerate(points)}
    order = sorted(points, key=lambda point: (-point.window, -point.leaves))
    if processes == 1:
        for point in order:
            yield check_point(point, seeds[point], is_quick)
        return
    # Not forked: a process with threads of Arrow and numba cannot safely be.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        tasks = [pool.submit(check_point, point, seeds[point], is_quick) for point in order]
        for task in as_completed(tasks):
            yield task.result()


def share_of(some: Iterator[Checked]) -> tuple[float, int]:
    """The share of right windows, and how many windows there were."""
    chosen = list(some)
    windows = sum(each.windows for each in chosen)
    return sum(each.right for each in chosen) / max(1, windows), windows
