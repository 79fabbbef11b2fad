"""How time passes for a stream: in steps from look to look of its planner, so that no jump of a clock makes hours of a moment."""

from __future__ import annotations

from dataclasses import dataclass

#: A step counts at most as much, where ``idle`` does not say.
STEP_NS_MAX = 60 * 10**9


def longest_step(idle_ns: int | None) -> int:
    """A source is silent for ``idle_ns`` only if it is so for several looks: one jump, or one long pause, makes nobody idle."""
    return STEP_NS_MAX if idle_ns is None else idle_ns // 2


@dataclass(slots=True)
class Elapsed:
    """Counts how long ago a batch was planned. No step is below 0 or above ``step_ns_max``.

    While a planner lives, steps are taken from a steady clock, which nobody sets. Between two lives only the wall clock went on.

    >>> elapsed = Elapsed(step_ns_max=50)
    >>> elapsed.since(7, planned_ns=1_000, wall_ns=1_010, steady_ns=3)  # the batch before this life
    10
    >>> elapsed.since(7, planned_ns=1_000, wall_ns=10**18, steady_ns=24)  # somebody has set the clock
    31
    >>> elapsed.since(8, planned_ns=10**18, wall_ns=1_020, steady_ns=30)  # planned at the look before
    6
    """

    step_ns_max: int
    _batch: int = -1
    _passed: int = 0
    _steady: int | None = None

    def since(self, batch: int, planned_ns: int, wall_ns: int, steady_ns: int) -> int:
        """The nanoseconds since ``batch`` was planned, when the wall clock said ``planned_ns``; -1: there was none before."""
        step = steady_ns - self._steady if self._steady is not None else wall_ns - planned_ns if batch >= 0 else 0
        if batch != self._batch:
            self._passed = 0
        self._passed += min(max(step, 0), self.step_ns_max)
        self._batch, self._steady = batch, steady_ns
        return self._passed
