"""Stages: what is done with the rows of steps, by a function of these rows alone, so that any node does the same.

Stage 0 of a partition are its events. A later stage takes the executed steps of the level below, one after the other, and gives
rows to the output, and what is inserted into the level of its own. Where it stands is the prefix of a chain, as with events: its
index is the number of steps that it has taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headwater.base.packing import Reader, Writer
from headwater.language.times import FOREVER
from headwater.node.holon.executed_steps import StepRows
from headwater.node.holon.kept_steps import KeptSteps
from headwater.protocols.steps import START, StepGrid
from headwater.protocols.windowed_crdt import Prefix, PrefixDelta, Reach

#: The unit that is of no partition: what is computed once for all.
ONCE = "*"


@dataclass(frozen=True, slots=True)
class Output:
    """Rows for a chain of output, the first of them with this index in it; and what may be told of the chain of the stage that
    gave them, but only once they are there: a position stands for all rows before it."""

    delta: PrefixDelta
    chain: str = ""
    index: int = 0
    rows: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class Took:
    """What a stage makes of a step: rows, parts for its level, and what it has to know to go on. ``index``: of the first row."""

    index: int
    rows: pa.Table | None
    parts: tuple[bytes, ...]
    private: bytes


class StepStage(Protocol):
    """A stage of one unit, made from what it has to know."""

    def take(self, step: StepRows) -> Took | None:
        """The next step; None if the stage has to wait for something that is not final yet: it is asked again."""
        ...


#: Makes the stage of a unit that goes on where a prefix ends; by level, the steps that it can read.
StageMaker = Callable[[str, Prefix, Sequence[KeptSteps]], StepStage]


def stage_chain(unit: str, stage: int) -> str:
    """The name of the chain of a unit's stage, and of the rows that it gives.

    >>> stage_chain("p", 1), stage_chain(ONCE, 1)
    ('p/1', '*/1')
    """
    return f"{unit}/{stage}"


class QueryStage:
    """The rows of queries as they are: what a program without functions does.

    >>> from headwater.engine.results.side_output import SCHEMA
    >>> from headwater.protocols.windowed_crdt import Version
    >>> stage = QueryStage("*", Prefix(Version(1, 0, 0)), [])
    >>> rows = pa.table({"n": [1, 2]})
    >>> stage.take(StepRows(1, 10, {0: rows}, SCHEMA.empty_table())).index, stage.take(StepRows(2, 20, {}, rows)).index
    (0, 2)
    """

    def __init__(self, _: str, prefix: Prefix, __: Sequence[KeptSteps]) -> None:
        private = prefix.reach.private
        self._index = Reader(private).number() if private else 0

    def take(self, step: StepRows) -> Took:
        rows, index = step.rows.get(0), self._index
        self._index += 0 if rows is None else len(rows)
        return Took(index, rows, (), Writer().number(self._index).finish())


class StageRunner:
    """Runs a stage of a unit from where the prefix of its chain ends."""

    def __init__(self, chain: str, stage: StepStage, grid: StepGrid, prefix: Prefix) -> None:
        self.chain = chain
        self._stage = stage
        self._grid = grid
        self._step = prefix.step
        self._generation, self.decisions, self.taken = prefix.version

    def take(self, step: StepRows) -> Output | None:
        """The step behind the last one that was taken; None if the stage waits, and has taken nothing."""
        assert step.number == self.taken + 1, f"step {step.number} does not follow {self.taken}"
        took = self._stage.take(step)
        if took is None:
            return None
        watermark = stage_watermark(step.time)
        high = self._grid.step_of(watermark)
        steps = (self._step + 1, high) if high > self._step else None
        self._step, self.taken = max(self._step, high), step.number
        rows = took.index + (0 if took.rows is None else len(took.rows))
        reach = Reach(watermark, watermark, took.private, rows)
        delta = PrefixDelta(
            self.chain, self._generation, self.decisions, step.number - 1, step.number, reach, took.parts, steps
        )
        return Output(delta, self.chain, took.index, took.rows)


def stage_watermark(time: int) -> int:
    """No stage inserts anything before this when steps up to a time were taken: a session that ends then is final one step
    later, and what is inserted for it still has a place.

    >>> stage_watermark(20), stage_watermark(FOREVER) == FOREVER
    (19, True)
    """
    return time if time in (START, FOREVER) else time - 1
