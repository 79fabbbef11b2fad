"""A program in one process, all of its units, and what comes of it counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headwater.language.functions.program import program_of
from headwater.node.holon.functions.plans import PartitionsInput, plan_of
from headwater.node.holon.shared_program import ProgramPlan, SharedProgram
from headwater.node.holon.stages import Output


def planned(thing: Any, partitions: Sequence[str], schema: pa.Schema, every: int | None = None) -> ProgramPlan:
    """The plan of a program over partitions of these columns; times are microseconds, and in order."""
    return plan_of(program_of(thing), partitions, PartitionsInput(schema, every=every))


class CountedProgram:
    """Runs all units of a plan, and forgets what nobody has to read any more.

    >>> import headwater as hw
    >>> batch = pa.record_batch({"time": [1, 12, 23]})
    >>> program = CountedProgram(planned(hw.query("q", hw.tumbling(10), n=hw.count()), ["p"], batch.schema))
    >>> program.take_in("p", batch)
    >>> program.rows
    2
    """

    def __init__(self, plan: ProgramPlan) -> None:
        #: How many rows came out so far.
        self.rows = 0
        self._program = SharedProgram(plan)
        for unit in plan.units:
            self._program.begin(unit)

    def take_in(self, partition: str, batch: pa.RecordBatch) -> None:
        """The next events of a partition, and the steps that all partitions have reached by them."""
        program = self._program
        for output in program.take_in(partition, program.next_index(partition), batch):
            self._took(output)
        for output in program.advance():
            self._took(output)
        program.forget([level.steps.step for level in program.levels])

    def _took(self, output: Output) -> None:
        self.rows += 0 if output.rows is None else len(output.rows)
        self._program.confirm(output)
