"""Predicate pushdown: skips row groups whose statistics prove that no query wants any of their events.

The statistics of a Parquet row group bound the values of a column. From these bounds two questions call each other, as in
`engine.predicates`: can the condition be true for some event, and can it be false? Where nothing is known the answer is yes.
Values are compared by the engine itself, so that both always mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headwater.engine.intake.columns import read_times
from headwater.engine.intake.predicates import mask
from headwater.engine.placement import placement
from headwater.language.comparisons import FLIPPED, NEGATED
from headwater.language.expressions import BooleanChain, Column, Compare, Expr, In, IsNull, Matches, Not, Range, boolean
from headwater.language.files.conditions import condition_from_data, condition_to_data
from headwater.language.query import Query
from headwater.language.renames import AS_STORED, Renaming
from headwater.language.time_columns import time_column
from headwater.language.times import in_ticks
from headwater.language.windows import Band


@dataclass(frozen=True, slots=True)
class Bounds:
    """Statistics of a column: its smallest and its largest value as an array of two, and the number of nulls; None: unknown.

    No statistics tell of NaN, which is larger than every number: a float may always be one.
    """

    ends: pa.Array | None
    null_count: int | None


class ReadUnit(Protocol):
    """Events that are read together or not at all."""

    @property
    def count(self) -> int: ...
    def bounds(self, column: str) -> Bounds | None:
        """Statistics of a column, None if there are none."""


@dataclass(frozen=True, slots=True)
class StoredUnit:
    """A unit whose columns are asked for by other names than they are stored under."""

    unit: ReadUnit
    renaming: Renaming

    @property
    def count(self) -> int:
        return self.unit.count

    def bounds(self, column: str) -> Bounds | None:
        return self.unit.bounds(self.renaming.stored(column))


def may_hold(expr: Expr, stretch: ReadUnit, truth: bool = True) -> bool:
    """Whether the condition may have this truth value for some event."""
    match expr:
        case Compare(op, left, right):
            return _may_compare(op if truth else NEGATED[op], left, right, stretch)
        case BooleanChain():
            parts = (may_hold(operand, stretch, truth) for operand in expr.operands())
            return any(parts) if truth is expr.decisive else all(parts)
        case Not(inner):
            return may_hold(inner, stretch, not truth)
        case In(column, values):
            parts = (_may_compare("==" if truth else "!=", column, value, stretch) for value in values)
            return any(parts) if truth else all(parts)
        case Range():
            return may_hold(expr.bounds(), stretch, truth)
        case IsNull(column):
            nulls = _null_count(column, stretch)
            return nulls is None or (nulls > 0 if truth else nulls < stretch.count)
        case Matches(column):
            return _null_count(column, stretch) != stretch.count
    return may_hold(boolean(expr), stretch, truth)


def _null_count(column: Column, stretch: ReadUnit) -> int | None:
    bounds = stretch.bounds(column.name)
    return None if bounds is None else bounds.null_count


def _may_compare(op: str, left: Any, right: Any, stretch: ReadUnit) -> bool:
    if not isinstance(left, Column):
        op, left, right = FLIPPED[op], right, left
    if not isinstance(left, Column):
        return True
    names = [side.name for side in (left, right) if isinstance(side, Column)]
    known = {name: stretch.bounds(name) for name in names}
    if any(bounds is not None and bounds.null_count == stretch.count for bounds in known.values()):
        return False
    if len(names) > 1 or known[left.name] is None:
        return True
    return _may_compare_to(op, known[left.name], right)


def _may_compare_to(op: str, bounds: Bounds | None, value: Any) -> bool:
    if bounds is None or bounds.ends is None:
        return True
    ends = bounds.ends
    may_be_nan = bool(pa.types.is_floating(ends.type))

    def at(place: int, op: str) -> bool:
        return bool(mask(Compare(op, Column("x"), value), {"x": ends.slice(place, 1)}, 1)[0])

    if op in ("<", "<="):
        # NaN is not smaller than anything, but not larger than itself.
        return at(0, op) or (may_be_nan and value != value)
    if op in (">", ">="):
        return may_be_nan or at(1, op)
    if op == "==":
        is_between = at(0, "<=") and at(1, ">=")
        return is_between or (may_be_nan and value != value)
    return may_be_nan or not (at(0, "==") and at(1, "=="))


@dataclass(frozen=True)
class Pruning:
    """The events that some query wants: one of the conditions is true for them, or their time is in one of the bands.

    With ``time`` the events go to queries: then nothing may be passed over that has no good time, or that could be malformed.
    """

    conditions: tuple[Expr, ...]
    bands: tuple[tuple[int, int], ...] = ()
    time: str | None = None
    unit: str = "us"
    #: Conditions and time have the new names of columns, statistics the old.
    renaming: Renaming = AS_STORED

    def wants(self, stretch: ReadUnit) -> bool:
        """Whether some event of the stretch may be wanted."""
        known = StoredUnit(stretch, self.renaming) if self.renaming else stretch
        return any(may_hold(condition, known) for condition in self.conditions) or self._in_band(stretch)

    def _in_band(self, stretch: ReadUnit) -> bool:
        if not self.bands:
            return False
        span = self.span(stretch)
        return span is None or any(span[0] < end and span[1] >= start for start, end in self.bands)

    def span(self, stretch: ReadUnit) -> tuple[int, int] | None:
        """The smallest and the largest time, if every event has a good one."""
        assert self.time is not None
        if not time_column(self.time).is_plain:
            return None  # the least text is not the least time, and NaN is in no statistics
        bounds = stretch.bounds(self.renaming.stored(self.time))
        if bounds is None or bounds.ends is None or bounds.null_count != 0:
            return None
        times, bad, _ = read_times(bounds.ends, self.unit)
        return None if bad else (int(times[0]), int(times[1]))

    def to_data(self) -> dict[str, Any]:
        conditions = [condition_to_data(condition) for condition in self.conditions]
        return {"conditions": conditions, "bands": self.bands, "time": self.time, "unit": self.unit}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Pruning:
        conditions = tuple(map(condition_from_data, data["conditions"]))
        return cls(conditions, tuple((start, end) for start, end in data["bands"]), data["time"], data["unit"])


def pruning_of(queries: Iterable[Query], time: str, unit: str, is_late_possible: bool) -> Pruning | None:
    """The pruning of several queries; None if some query may want any event.

    A query without a condition wants what is in its band. Events outside of it are accounted as such, which needs that they
    are not late, and that the query's events do not travel as they are: the root would count them.
    """
    conditions: dict[Any, Expr] = {}
    bands = []
    for query in queries:
        window = query.window
        if query.where is not None:
            conditions.setdefault(query.where.key(), query.where)
        elif isinstance(window, Band) and not is_late_possible and placement(query, round_trips=False).way != "raw":
            bands.append((window.start, window.start + in_ticks(window.size, unit)))
        else:
            return None
    # Very many conditions: asking them all costs more than reading.
    return Pruning(tuple(conditions.values()), tuple(bands), time, unit) if len(conditions) + len(bands) <= 64 else None
