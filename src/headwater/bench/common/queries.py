"""The queries that the benchmarks measure with: the one-query case, and "query i of many".

A ``WindowSpec`` is a query as plain numbers, so that DuckDB and Polars are asked exactly what headwater is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import headwater as hw
from headwater.bench.common.workload import SECOND, SEED
from headwater.language.windows import Window

FUNCTIONS = ("count", "sum", "avg", "min", "max")
#: Functions and columns of "query i of many": what tells two queries over the same windows apart. There is one column of
#: values in the workload, so only counting varies between columns.
COMBINATIONS = (
    ("count", None),
    ("count", "time"),
    ("count", "key"),
    *((function, "value") for function in (*FUNCTIONS, "range")),
)
LENGTH_MAX = 600


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """One aggregate by key over sliding windows, tumbling if ``slide == size``; times in microseconds.

    >>> WindowSpec(60, 60, 5, "avg", "value").alias
    'result'
    """

    size: int
    slide: int
    offset: int
    function: str
    column: str | None

    @property
    def alias(self) -> str:
        """The name of the result: counts and other results have a column each, since a column has one type."""
        return "events" if self.function == "count" else "result"

    @property
    def partial(self) -> str:
        """The name of what the peers keep of a slice when they slice by hand."""
        return f"{self.function}_{self.column}"

    @property
    def is_tumbling(self) -> bool:
        """Whether each event is in exactly one window."""
        return self.size == self.slide

    def query(self, name: str) -> hw.Query:
        """This description as a headwater query."""
        window = hw.sliding(self.size, self.slide, offset=self.offset)
        aggregate = getattr(hw, "value_range" if self.function == "range" else self.function)(self.column)
        return hw.query(name, window, keys=["key"], **{self.alias: aggregate})


def many(count: int, slide_min: int = 1, resolution: int = SECOND) -> list[WindowSpec]:
    """Queries of which no two are equal: the first half tumbling, the rest sliding.

    Query i of the first half has length (i mod 600) + 1 s, and its offset, function and column vary with i. The others
    have a size uniform in 2..600 s and a slide uniform in 1..size (``slide_min`` raises both). Every edge is a multiple
    of ``resolution``: whole seconds for the queries that run; a finer one where a million have to differ.

    >>> specs = many(1000)
    >>> len(set(specs)), specs[0].size // SECOND, specs[499].size // SECOND, sum(spec.is_tumbling for spec in specs[:500])
    (1000, 1, 500, 500)
    """
    half = count // 2
    specs = [_tumbling(i, resolution) for i in range(half)]
    return specs + list(_sliding(count - half, slide_min, resolution, set(specs)))


def named(specs: Sequence[WindowSpec]) -> list[hw.Query]:
    """The specs as headwater queries q0, q1, ..."""
    return [spec.query(f"q{i}") for i, spec in enumerate(specs)]


def _tumbling(i: int, resolution: int) -> WindowSpec:
    length, turn = i % LENGTH_MAX + 1, i // LENGTH_MAX
    # Each turn over the lengths takes the next combination; after all of them a small shift tells queries apart.
    shift, turn = divmod(turn, len(COMBINATIONS))
    function, column = COMBINATIONS[(length + turn) % len(COMBINATIONS)]
    offset = length * (turn + 1) // (len(COMBINATIONS) + 1) * SECOND + shift * resolution
    return WindowSpec(length * SECOND, length * SECOND, offset, function, column)


def _sliding(count: int, slide_min: int, resolution: int, taken: set[WindowSpec]) -> Iterator[WindowSpec]:
    rng = np.random.default_rng([SEED, count])
    sizes = np.maximum(rng.integers(2, LENGTH_MAX, count, endpoint=True), slide_min)
    slides = rng.integers(slide_min, sizes, endpoint=True)
    drawn: Counter[tuple[int, int]] = Counter()
    for size, slide in zip(sizes.tolist(), slides.tolist()):
        while True:
            shift, turn = divmod(drawn[size, slide], len(COMBINATIONS))
            drawn[size, slide] += 1
            function, column = COMBINATIONS[(size + slide + turn) % len(COMBINATIONS)]
            spec = WindowSpec(size * SECOND, slide * SECOND, shift * resolution, function, column)
            # A slide drawn as large as its size is a tumbling window, which the first half may already have.
            if spec not in taken:
                break
        taken.add(spec)
        yield spec


def scan_query(column: str, window: Window | None = None, name: str = "scan") -> hw.Query:
    """Count, exact sum, min and max by key: what the scan ratios measure; over 1 s unless told otherwise."""
    aggregates: dict[str, Any] = {
        "count": hw.count(),
        "sum": hw.sum(column),
        "min": hw.min(column),
        "max": hw.max(column),
    }
    return hw.query(name, window or hw.tumbling("1 s"), keys=["key"], **aggregates)


def one_query(window: Window | None = None, name: str = "one") -> hw.Query:
    """The one-query case: count, exact sum, avg, min and max by key; tumbling 1 s unless told otherwise."""
    aggregates = {function: getattr(hw, function)("value") for function in FUNCTIONS[1:]}
    return hw.query(name, window or hw.tumbling("1 s"), keys=["key"], count=hw.count(), **aggregates)


def primes(first: int, count: int) -> list[int]:
    """The ``count`` primes from ``first`` on.

    >>> primes(1009, 4)
    [1009, 1013, 1019, 1021]
    """
    found: list[int] = []
    candidate = first
    while len(found) < count:
        if all(candidate % divisor for divisor in range(2, int(candidate**0.5) + 1)):
            found.append(candidate)
        candidate += 1
    return found
