"""A program with the columns of its input: what the stages of all its units are made from."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.language.functions.program import Handler, Program
from headwater.node.holon.functions.bound_states import LocalCell
from headwater.node.holon.functions.reading import ReadState
from headwater.node.holon.tables import SharedTable


@dataclass(frozen=True, slots=True)
class FunctionSetup:
    """``tables``: by the number that they have in the program; ``states``: how windowed states are read.

    ``retention``: so many ticks a window can be read after it became final.
    """

    program: Program
    tables: Mapping[int, SharedTable]
    states: Mapping[str, ReadState]
    time: str
    unit: str
    retention: int
    handlers: Mapping[int, tuple[Handler, ...]] = field(default_factory=dict)

    def inserted(self, level: int, inserters: frozenset[str] | None = None) -> dict[str, SharedTable]:
        """The tables that are inserted into at a level, by the name of their state."""
        return {
            table.states[0]: self.tables[table.number]
            for table in self.program.tables
            if table.inserted_by is not None
            and table.level == level
            and (inserters is None or table.inserted_by in inserters)
        }

    def cells(self, known: Mapping[str, Any]) -> dict[str, LocalCell]:
        """The local values of one stage: those that are known, else as they begin."""
        return {
            name: LocalCell(name, copy.deepcopy(known.get(name, initial)))
            for name, initial in self.program.locals.items()
        }

    def wrong_inserter(self, state: str, where: str) -> str:
        """Why nothing can be inserted into a state there."""
        table = self.program.table_of(state)
        if table.inserted_by is None:
            return f"state {state!r} takes every event of the input by itself: leave insert out, or say inserted_by={where!r}"
        return f"state {state!r} is inserted by {table.inserted_by!r} and not by {where!r}: say inserted_by={where!r}"
