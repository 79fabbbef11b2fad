"""The output as the reference says it: every row of every step, in the order in which they have to stand in each chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headwater.node.holon.stages import ONCE, stage_chain
from headwater.protocols.peers.decisions import LogEntry, PartitionEnded, PartitionReturned, StepClosed
from headwater.protocols.steps import START, StepGrid
from headwater.reference.canonical_steps import (
    ClosedWithout,
    EndsAt,
    GoesOn,
    Step,
    SteppingDecision,
    rows_of_decided_steps,
    rows_of_steps,
)
from headwater.reference.rows import ResultRow, identity
from headwater.simulator.checks.checkers import result_row
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.holon.shared_output import SharedOutput
from headwater.simulator.holon.tally import COUNTED, expected_tallies
from headwater.simulator.holon.workload import HolonWorkload

#: Where the rows of the queries go, and those of the windows over counts.
ROWS, WINDOWS = stage_chain(ONCE, 1), stage_chain(ONCE, 2)
#: By chain its rows, in order.
Chains = Mapping[str, Sequence[Any]]


def expected_rows(workload: HolonWorkload, decisions: Sequence[LogEntry]) -> Chains:
    """All rows of the steps that can be executed once all events are there, given what was decided."""
    steps = list(_steps(workload, decisions))
    chains: dict[str, Sequence[Any]] = {ROWS: [row for _, rows in steps for row in rows]}
    if workload.is_tallied:
        told, windows = expected_tallies(list(workload.logs), steps, workload.every)
        chains |= {stage_chain(unit, 1): rows for unit, rows in told.items()} | {WINDOWS: windows}
    return chains


def _steps(workload: HolonWorkload, decisions: Sequence[LogEntry]) -> Iterator[Step]:
    told = workload.settings, workload.arrived(), workload.every
    effective = list(_effective(decisions, StepGrid(workload.every), workload.idle_ns is not None))
    return rows_of_decided_steps(*told, effective) if effective else rows_of_steps(*told, ends=False)


def _effective(decisions: Sequence[LogEntry], grid: StepGrid, by_entries: bool) -> Iterator[SteppingDecision]:
    """The entries that change something, as the reference takes them: one may say what was decided before, or come too late."""
    last, out = START, dict[str, int]()
    for entry in decisions:
        match entry:
            case StepClosed(step, left_out) if step > last and by_entries:
                last, out = step, dict(left_out)
                yield ClosedWithout(grid.time_of(step), left_out)
            case PartitionReturned(partition, index) if out.get(partition) == index:
                del out[partition]
                yield GoesOn(partition)
            case PartitionEnded(ends):
                yield EndsAt(ends)
                return


def check_output(output: SharedOutput, workload: HolonWorkload, expected: Chains, is_complete: bool) -> int:
    """Compare the output with what it has to be, row by row; ``is_complete``: whether nothing may be missing. Returns how many
    rows there are."""
    queries = {query.name: query for query in (*workload.queries, COUNTED)}
    for name, chain in output.chains.items():
        wanted = expected.get(name, ())
        for index, said in enumerate(chain.said):
            row = result_row(said, queries[said["query"]]) if "query" in said else said
            if index >= len(wanted) or _content(row) != _content(wanted[index]):
                right = wanted[index] if index < len(wanted) else "nothing"
                raise ViolationError(f"row {index} of {name} is {row}; the reference says {right}")
    ends = output.ends()
    for name, wanted in expected.items():
        if is_complete and ends.get(name, 0) < len(wanted):
            at = ends.get(name, 0)
            raise ViolationError(f"{name} has {at} rows and should have {len(wanted)}: {wanted[at]} is missing")
    return sum(ends.values())


def _content(row: Any) -> Any:
    if not isinstance(row, ResultRow):
        return row
    place = row.query, row.start, row.end, identity(row.key), row.node
    return place, identity(row.values), row.event_count, row.revision, row.replaces
