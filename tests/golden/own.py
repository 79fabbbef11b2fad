"""Users' own code that golden files name by import path: it stays where it is, under these names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import headwater as hw


def squared(values: Any) -> int:
    return sum(int(value) ** 2 for value in values)


def added(left: Any, right: Any) -> Any:
    return left + right


def total_length(words: Any) -> int:
    return sum(map(len, words))


def mean(total: int, number: int) -> float | None:
    return total / number if number else None


SQUARED = hw.Operator("squared", squared, added, 0, path="golden.own:SQUARED")
SQUARES = hw.Aggregate("squares", (SQUARED,), float, path="golden.own:SQUARES")
LENGTHS = hw.Operator("lengths", total_length, added, 0)
NUMBER = hw.Operator("number", len, added, 0, path="golden.own:NUMBER")
MEAN_LENGTH = hw.Aggregate("mean_length", (LENGTHS, NUMBER), mean)
TRAIL = hw.aggregate_of(
    "trail", "".join, added, str, "", commutative=False, result_type=pa.string(), path="golden.own:TRAIL"
)


def cut_at_stops(events: dict[str, Any], state: int | None) -> tuple[list[int], int | None]:
    """Custom windows: every "stop" cuts, once per time."""
    cuts = []
    for time, mark in zip(events["time"], events["mark"]):
        if mark == "stop" and (state is None or time > state):
            state = int(time)
            cuts.append(state)
    return cuts, state


@dataclass(frozen=True)
class Readings:
    """A generator: events in order, of which each number says all. ``first``: which number comes first."""

    first: int = 0
    count: int = 60

    def batches(self, batch_events: int) -> Iterator[pa.RecordBatch]:
        from golden.material import events

        for begin in range(self.first, self.first + self.count, 20):
            yield events(begin, 20, disorder=0)
