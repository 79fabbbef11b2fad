"""What nodes do with steps, seen from outside: a step has the same rows wherever it is executed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any
from unittest import mock

from headwater.node.holon.executed_steps import ExecutedSteps, StepRows
from headwater.simulator.checks.truth import ViolationError


class StepWitness:
    """Every step that was executed in a run: by its queries and number, when it was and what came out."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], list[str]] = {}

    def saw(self, queries: str, step: StepRows) -> None:
        """Somebody executed a step of the level with these queries."""
        rows = [f"table {table}: {row!r}" for table, some in sorted(step.rows.items()) for row in some.to_pylist()]
        # Which events were set aside is decided; in which order is not.
        told = [f"the time {step.time}", *rows, *sorted(f"aside: {row!r}" for row in step.aside.to_pylist())]
        known = self._seen.setdefault((queries, step.number), told)
        if known != told:
            one, other = next((one, other) for one, other in zip_longest(known, told) if one != other)
            raise ViolationError(
                f"step {step.number} is not the same on all nodes: {one} on one of them, {other} on another"
            )

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While this lasts, whatever executes steps in this process is watched."""
        right = ExecutedSteps.execute

        def watched(steps: ExecutedSteps, *arguments: Any) -> StepRows:
            rows = right(steps, *arguments)
            self.saw(" ".join(sorted(steps.counters())), rows)
            return rows

        with mock.patch.object(ExecutedSteps, "execute", watched):
            yield
