"""A family: queries that are computed together by one group, and what it adds to the group for them.

Which queries belong together, and what kind of group computes them, is said by a `GroupMaker`: `modes` has those of an engine in
one process, `tree.roles` those of the halves of an engine over a tree.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from headwater.base.snapshots import pairs, snapshot
from headwater.engine.groups.baselines.work import WorkCount
from headwater.engine.intake.columns import Events, scan_times
from headwater.engine.intake.keys import KeyTable
from headwater.engine.intake.widening import Widening
from headwater.engine.results.output import Layout, OutputPlan, ResultColumns, piece_columns
from headwater.engine.windows.assembler import Closed
from headwater.engine.windows.late import Dropped
from headwater.engine.windows.registered import Registered, one_of_each

#: Queries whose families have equal names are computed together.
FamilyName = tuple[Any, ...]


class Group(Protocol):
    """What every engine asks of a group, whichever way it computes."""

    keys: KeyTable
    watermark: int

    @property
    def work(self) -> WorkCount: ...

    def queries(self) -> list[Registered]: ...
    def register(self, entries: Sequence[Registered]) -> None: ...
    def unregister(self, *numbers: int) -> None: ...
    def changed(self) -> None: ...
    def prepare(self, types: Mapping[str, pa.DataType]) -> None: ...
    def retype(self, changes: Mapping[str, Widening], types: Mapping[str, pa.DataType]) -> None: ...
    def accept(self, events: Events) -> list[Dropped]: ...
    def expected_rows(self, until: int) -> int: ...
    def is_due(self, until: int) -> bool: ...
    def reach(self, until: int) -> int: ...
    def owes(self, until: int) -> bool: ...
    def close(self, until: int, is_paced: bool = False) -> list[Closed]: ...
    def counters(self, number: int) -> dict[str, int]: ...
    def count(self, seen: int, filtered: int, early: int) -> None: ...
    def row_count(self) -> int: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None: ...


AnyGroup = TypeVar("AnyGroup", bound=Group)


@dataclass(frozen=True, slots=True)
class GroupMaker(Generic[AnyGroup]):
    """How an engine shares work. ``name``: as snapshots say it; ``family_of`` is None for a query that is not computed here."""

    name: str
    family_of: Callable[[Registered], FamilyName | None]
    make_group: Callable[[Registered], AnyGroup]


class Family(Generic[AnyGroup]):
    """A group with the plan of its output and the number of events that were malformed for it."""

    def __init__(self, group: AnyGroup) -> None:
        self.group = group
        self.columns: frozenset[str] = frozenset()
        self._read_by_all: frozenset[str] = frozenset()
        self.malformed = 0
        self._malformed_before: dict[int, int] = {}
        self._plan: OutputPlan | None = None

    def register(self, entries: Sequence[Registered]) -> None:
        self.group.register(entries)
        self._malformed_before |= dict.fromkeys((entry.number for entry in entries), self.malformed)
        self._changed()

    def unregister(self, *numbers: int) -> None:
        self.group.unregister(*numbers)
        for number in numbers:
            del self._malformed_before[number]
        self._changed()

    def _changed(self) -> None:
        self._plan = None
        read = [entry.query.columns() for entry in one_of_each(self.group.queries())]
        self.columns = frozenset().union(*read)
        self._read_by_all = self.columns.intersection(*read)

    def retype(self, changes: Mapping[str, Widening], types: Mapping[str, pa.DataType]) -> None:
        """Columns have grown to these types."""
        self.group.retype(changes, types)
        self._plan = None

    def is_divided_by(self, misfits: Iterable[str]) -> bool:
        """Whether of these columns some queries read one that others do not: then not all go without the same events."""
        return any(name in self.columns and name not in self._read_by_all for name in misfits)

    def divided(self) -> list[Self]:
        """A family for each set of columns that queries read, all as if they had been apart from the start."""
        entries = self.group.queries()
        classes: dict[frozenset[str], set[int]] = {}
        reads = {entry.shape: entry.query.columns() for entry in one_of_each(entries)}
        for entry in entries:
            classes.setdefault(reads[entry.shape], set()).add(entry.number)
        parts: list[Self] = []
        for numbers in classes.values():
            # Queries belong to the registry: they are not copied.
            part = copy.deepcopy(self, {id(entry): entry for entry in entries})
            part.unregister(*(entry.number for entry in entries if entry.number not in numbers))
            if parts:
                part.group.work.forget()  # it was done once
            parts.append(part)
        return parts

    def accept(self, events: Events, misfits: Mapping[str, Iterable[int]]) -> list[Dropped]:
        """Take in events. ``misfits``: per column those with a value of a wrong type; who reads it goes without them."""
        fitting = self.fitting(events, misfits)
        self.malformed += len(events) - len(fitting)
        return self.group.accept(fitting) if len(fitting) else []

    def fitting(self, events: Events, misfits: Mapping[str, Iterable[int]]) -> Events:
        """The events that have no misfit in a column that is read here."""
        wrong = {row for name, rows in misfits.items() if name in self.columns for row in rows}
        if not wrong:
            return events
        fits = np.ones(len(events), np.bool_)
        fits[list(wrong)] = False
        kept = events.take(np.flatnonzero(fits), events.arrays)
        return replace(kept, scan=scan_times(kept.chunk.times)) if len(kept) else kept

    def pieces(self, closed: list[Closed], layout: Layout, types: Mapping[str, pa.DataType]) -> list[ResultColumns]:
        """Closed windows as columns."""
        if not closed:
            return []
        if self._plan is None:
            self._plan = OutputPlan(self.group.queries(), types)
        plan, keys = self._plan, self.group.keys
        made = []
        for piece in closed:
            columns, overflow_count = piece_columns(piece, plan, keys, layout)
            made.append(ResultColumns(columns, piece.key, keys.ranks(), piece.is_sorted, overflow_count))
        return made

    def count(self, seen: int, filtered: int, early: int, malformed: int) -> None:
        """Events that another half of the engine has seen."""
        self.group.count(seen, filtered, early)
        self.malformed += malformed

    def counters(self, number: int) -> dict[str, int]:
        malformed = self.malformed - self._malformed_before[number]
        counts = self.group.counters(number)
        return counts | {"in": counts["in"] + malformed, "malformed": malformed}

    state, restore = snapshot(
        {"group": "group", "malformed": "malformed", "malformed_before": pairs("_malformed_before")}
    )
