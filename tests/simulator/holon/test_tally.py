"""The program with stages of partitions, run in one process: its chains are those of the reference."""

from dataclasses import replace
from random import Random

import pytest

from headwater.node.holon.shared_program import ProgramPlan, SharedProgram
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import StepGrid
from headwater.simulator.holon.expected import check_output, expected_rows
from headwater.simulator.holon.shared_output import SharedOutput
from headwater.simulator.holon.tally import STAGES
from headwater.simulator.holon.workload import draw_holon_workload
from headwater.simulator.workloads.queries import SCHEMA


@pytest.mark.parametrize("seed", range(4))
def test_stages_of_partitions_say_what_the_reference_says(seed):
    workload = replace(draw_holon_workload(Random(seed), 4), is_tallied=True, idle_ns=None)
    table = SharedTable(0, workload.queries, SCHEMA, disorder=workload.disorder)
    program = SharedProgram(ProgramPlan(tuple(workload.logs), StepGrid(workload.every), (table,), STAGES))
    output = SharedOutput()

    def take(outputs):
        for one in outputs:
            if one.rows is not None:
                output.append(("one", 1), one.chain, one.index, one.rows)
            assert program.confirm(one) is None

    for unit in program.plan.units:
        program.begin(unit)
    for partition, log in workload.logs.items():
        take(program.take_in(partition, 0, log.events))
        rest = program.take_open(partition)
        take([] if rest is None else [rest])
    for _ in range(40):
        take(program.advance())
    assert check_output(output, workload, expected_rows(workload, []), is_complete=False) > 0
