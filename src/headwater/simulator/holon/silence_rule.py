"""Who may be left out of a step: only a partition of which nothing had come for long, whoever was late to read it."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.protocols.peers.decisions import LogEntry, StepClosed
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.holon.workload import HolonWorkload

#: How much of a silence a clock may be wrong about that runs too fast.
DRIFT = 5 / 6


def check_left_out(workload: HolonWorkload, decisions: Sequence[LogEntry]) -> None:
    """Check that each partition was silent behind the index at which it was left out. Clocks must not have leapt."""
    out: frozenset[str] = frozenset()
    for entry in decisions:
        if isinstance(entry, StepClosed):
            for partition in entry.out.keys() - out:
                _check_silent(workload, partition, entry.out[partition])
            out = frozenset(entry.out)


def _check_silent(workload: HolonWorkload, partition: str, index: int) -> None:
    log, idle_ns = workload.logs[partition], workload.idle_ns or 0
    if index >= len(log):
        return
    since_ns = int(log.available_ns[index - 1]) if index else 0
    silent_ns = int(log.available_ns[index]) - since_ns
    if silent_ns < idle_ns * DRIFT:
        raise ViolationError(
            f"{partition} was left out behind {index} events, where it was silent for {silent_ns / 1e6:g} ms only;"
            f" {idle_ns / 1e6:g} ms are needed"
        )
