"""What nodes do with steps, seen from outside: a step has the same rows wherever it is executed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from headwater.node.holon.executed_steps import ExecutedSteps, StepRows
from headwater.simulator.checks.truth import ViolationError


class StepWitness:
    """Every step that was executed in a run: by its tables and number, when it was and what came out."""

    def __init__(self) -> None:
        self.step_count = 0
        self._seen: dict[tuple[str, int], tuple[int, str]] = {}

    def saw(self, kind: str, step: StepRows) -> None:
        """Somebody executed a step. ``kind``: of which level of the program."""
        self.step_count += 1
        rows = "; ".join(f"{table}: {rows.to_pylist()!r}" for table, rows in sorted(step.rows.items()))
        told = step.time, f"{rows}; aside {step.aside.to_pylist()!r}"
        known = self._seen.setdefault((kind, step.number), told)
        if known != told:
            raise ViolationError(
                f"step {step.number} is not the same on all nodes: one is up to {known[0]} with {known[1]},"
                f" another up to {told[0]} with {told[1]}"
            )

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While this lasts, whatever executes steps in this process is watched."""
        right = ExecutedSteps.execute

        def watched(steps: ExecutedSteps, *arguments: Any) -> StepRows:
            rows = right(steps, *arguments)
            self.saw(" ".join(map(str, sorted(steps.counters()))), rows)
            return rows

        with mock.patch.object(ExecutedSteps, "execute", watched):
            yield
