"""Hypothesis generators for partitions whose windows close at canonical steps, and for how nodes share what they know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from headwater.language.query import Query
from headwater.reference.history import Arrived, StreamSettings
from strategies import _renamed, queries, rows

NAMES = ("a", "b", "é")


@dataclass(frozen=True)
class Partitions:
    """What comes in where there is no root: queries, events by partition in the order of their indexes, the grid of steps."""

    settings: StreamSettings
    events: dict[str, list[Arrived]]
    every: int


@st.composite
def partitions(
    draw: st.DrawFn,
    query_strategy: st.SearchStrategy[Query] | None = None,
    wrong_types: bool = True,
    count_max: int = 14,
) -> Partitions:
    """Some partitions with events at times that rise now and then, some queries, a disorder bound, a grid."""
    drawn = query_strategy if query_strategy is not None else queries()
    asked = draw(st.lists(drawn, min_size=1, max_size=2))
    named = tuple(_renamed(each, f"q{number}") for number, each in enumerate(asked))
    events: dict[str, list[Arrived]] = {}
    for name in NAMES[: draw(st.integers(1, 3))]:
        base, found = draw(st.integers(-10, 30)), []
        for index in range(draw(st.integers(0, count_max))):
            base += draw(st.sampled_from([0, 0, 0, 3, 10, 40]))
            found.append(Arrived(name, index, draw(rows(base, wrong_types=wrong_types)), name))
        events[name] = found
    settings = StreamSettings(named, disorder=draw(st.sampled_from([0, 5, 20])))
    return Partitions(settings, events, draw(st.sampled_from([1, 5, 7, 10, 100])))


def cuts(size: int) -> st.SearchStrategy[Sequence[int]]:
    """Where so many events are cut into batches."""
    return st.sets(st.integers(1, max(size - 1, 1)), max_size=4).map(lambda found: [*sorted(found), size])
