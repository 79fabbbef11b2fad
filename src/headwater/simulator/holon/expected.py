"""The output as the reference says it: every row of every step, in the order in which they have to stand in the chain."""

from __future__ import annotations

from typing import Any

from headwater.node.holon.stages import ONCE, stage_chain
from headwater.protocols.decisions import LogEntry
from headwater.reference.canonical_steps import rows_of_steps
from headwater.reference.rows import ResultRow, identity
from headwater.simulator.checks.checkers import result_row
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.holon.shared_output import SharedOutput
from headwater.simulator.holon.workload import HolonWorkload

#: Where the rows of queries go.
ROWS = stage_chain(ONCE, 1)


def expected_rows(workload: HolonWorkload, decisions: list[LogEntry]) -> list[ResultRow]:
    """All rows of the steps that can be executed once all events are there, given what was decided."""
    steps = rows_of_steps(workload.settings, workload.arrived(), workload.every, decisions)
    return [row for _, rows in steps for row in rows]


def check_output(output: SharedOutput, workload: HolonWorkload, expected: list[ResultRow], is_complete: bool) -> int:
    """Compare the output with what it has to be, row by row; ``is_complete``: whether nothing may be missing. Returns how many
    rows there are."""
    queries = {query.name: query for query in workload.queries}
    chain = output.chains.get(ROWS)
    rows = [] if chain is None else [result_row(row, queries[row["query"]]) for row in chain.said]
    for index, row in enumerate(rows):
        if index >= len(expected) or _content(row) != _content(expected[index]):
            wanted = expected[index] if index < len(expected) else "nothing"
            raise ViolationError(f"row {index} of {ROWS} is {row}; the reference says {wanted}")
    there = 0 if chain is None else chain.end
    if is_complete and there < len(expected):
        raise ViolationError(f"{ROWS} has {there} rows and should have {len(expected)}: {expected[there]} is missing")
    return len(rows)


def _content(row: ResultRow) -> Any:
    place = row.query, row.start, row.end, identity(row.key), row.node
    return place, identity(row.values), row.event_count, row.revision, row.replaces
