"""The zoo: conflict-free replicated data types under the names that papers give them, and what each is here.

Any aggregate becomes such a type in a `WindowedCRDT`: what a partition adds is kept by partition and replaced, never added
twice, so nothing needs a merge of its own. These functions are names for aggregates; their column is ``"value"`` unless
another is given. A map of any of them is a state with ``keys=``.
"""

# ruff: noqa: N802 - the names are those of the papers
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from headwater.errors import DataError, shown
from headwater.language import aggregations as agg
from headwater.language.aggregations import Aggregation
from headwater.language.functions.states import VALUE
from headwater.language.user_code import Aggregate, Operator

__all__ = [
    "Average",
    "FWWRegister",
    "GCounter",
    "GSet",
    "LWWRegister",
    "MaxRegister",
    "MinRegister",
    "ORSet",
    "PNCounter",
    "TopK",
    "added",
    "removed",
]

_CHANGE: Final = re.compile(r"(-?\d{1,19})([+-])(.*)", re.ASCII | re.DOTALL)


def GCounter(column: str | None = VALUE) -> Aggregation:
    """A counter that grows: the exact sum; of no column, the number of events.

    >>> GCounter(), GCounter(None)
    (Aggregation(function='sum', column='value', parameter=None),
     Aggregation(function='count', column=None, parameter=None))
    """
    return agg.count() if column is None else agg.sum(column)


def PNCounter(column: str = VALUE) -> Aggregation:
    """A counter that grows and shrinks: the exact sum of positive and negative numbers."""
    return agg.sum(column)


def MaxRegister(column: str = VALUE) -> Aggregation:
    """The largest value."""
    return agg.max(column)


def MinRegister(column: str = VALUE) -> Aggregation:
    """The smallest value."""
    return agg.min(column)


def LWWRegister(column: str = VALUE) -> Aggregation:
    """The last write wins: the last value by (time, source, offset), so that no two writes are equally late."""
    return agg.last(column)


def FWWRegister(column: str = VALUE) -> Aggregation:
    """The first write wins: the first value by (time, source, offset)."""
    return agg.first(column)


def Average(column: str = VALUE) -> Aggregation:
    """The mean, rounded once from the exact sum."""
    return agg.avg(column)


def GSet(column: str = VALUE) -> Aggregation:
    """A set that grows: the different values, as a list in their order."""
    return agg.distinct(column)


def TopK(column: str = VALUE, k: int = 10, *, ties: bool = False, keep: Iterable[str] = ()) -> Aggregation:
    """The largest values with columns of their events, as `hw.top` has them."""
    return agg.top(column, k, ties=ties, keep=keep)


def ORSet(column: str = VALUE) -> Aggregation:
    """A set of texts that elements are added to and removed from: those whose last change added them.

    The column holds changes, written by `added` and `removed`. They count in the order of their times, however they arrive;
    of those at the same time, which no order tells apart, adding wins.

    >>> import headwater as hw, pyarrow as pa
    >>> changes = [added("tea", 1), added("milk", 2), removed("milk", 3), removed("tea", 4), added("tea", 4)]
    >>> events = pa.table({"time": [1, 2, 3, 4, 4], "value": changes})
    >>> hw.run(events, hw.query("basket", hw.tumbling(10), items=ORSet()), time="time")["basket"]["items"].to_pylist()
    [['tea']]
    """
    return agg.apply(OR_SET, column)


def added(element: str, time: int) -> str:
    """The change of an `ORSet` that adds an element at a time, which is that of its event.

    >>> added("tea", 12), removed("tea", 15)
    ('12+tea', '15-tea')
    """
    return f"{int(time)}+{element}"


def removed(element: str, time: int) -> str:
    """The change of an `ORSet` that removes an element at a time, which is that of its event."""
    return f"{int(time)}-{element}"


def last_changes(changes: Any) -> dict[str, list[int]]:
    """For each element the time of its last change, and 1 if that added it: the largest pair.

    >>> import numpy as np
    >>> last_changes(np.array(["4-tea", "4+tea", "3-milk"], dtype=object))
    {'tea': [4, 1], 'milk': [3, 0]}
    """
    found: dict[str, list[int]] = {}
    for change in changes:
        read = _CHANGE.fullmatch(change) if isinstance(change, str) else None
        if read is None:
            raise DataError(f"a change of an ORSet is {shown(change)}: write it with crdts.added or crdts.removed")
        change_of(found, read[3], [int(read[1]), int(read[2] == "+")])
    return found


def change_of(found: dict[str, list[int]], element: str, change: list[int]) -> None:
    """Take a change in, if it is later than the one that is known."""
    found[element] = max(change, found.get(element, change))


def later_changes(left: dict[str, list[int]], right: dict[str, list[int]]) -> dict[str, list[int]]:
    """The last changes of both: it does not matter in which order, or how often, they are joined.

    >>> later_changes({"tea": [4, 1]}, {"tea": [4, 0], "milk": [3, 0]})
    {'tea': [4, 1], 'milk': [3, 0]}
    """
    joined = dict(left)
    for element, change in right.items():
        change_of(joined, element, change)
    return joined


def elements(changes: dict[str, list[int]]) -> list[str]:
    """What is in the set, in the order of text."""
    return sorted(element for element, (_, is_added) in changes.items() if is_added)


# Not an operator that follows the order of events: it sees values, not times, and could not tell which changes are at the same
# time. With the time in the change the merge is a maximum, so partials travel instead of raw events.
_LAST_CHANGES: Final = Operator(
    "last_changes", last_changes, later_changes, dict, path="headwater.language.functions.crdts:_LAST_CHANGES"
)
OR_SET: Final = Aggregate(
    "or_set", (_LAST_CHANGES,), elements, pa.list_(pa.string()), path="headwater.language.functions.crdts:OR_SET"
)
