"""Nodes without a root under every fault: some seeds pass, a seed is a function, and known mistakes are found."""

import os
import subprocess
import sys
from random import Random

import pytest
from typer.testing import CliRunner

from headwater.cli import app
from headwater.protocols.peers.decisions import StepClosed
from headwater.simulator.checks.counts import HOLON_FAULTS
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.holon.faults import HOLON_STRIKES, draw_holon_plan
from headwater.simulator.holon.silence_rule import check_left_out
from headwater.simulator.holon.workload import draw_holon_workload
from headwater.simulator.plants.holon import HOLON_PLANTS
from headwater.simulator.runner import Options, simulate
from headwater.simulator.transcript import Transcript
from headwater.simulator.world.network import MS

#: Each planted mistake with a seed that finds it.
FOUND = {
    "progress-without-parts": 0,
    "delta-across-steps": 0,
    "position-before-rows": 0,
    "checkpoint-before-sync": 0,
    "shorter-prefix-taken": 1,
    "step-before-its-cuts": 0,
    "rows-forgotten": 0,
    "step-without-an-entry": 4,
    "state-keyed-by-node": 6,
    "decision-ignored": 3,
    "idle-by-lag": 3,
    "checkpoint-beyond-durable": 0,
    "memory-grows": 0,
}


def options(seed: int, plant: str | None = None, faults: str = "all") -> Options:
    return Options(seed, faults=faults, plant=plant, scenario="holon")


@pytest.mark.parametrize("seed", range(5))
def test_the_output_is_that_of_the_reference_whatever_goes_wrong(seed):
    verdict = simulate(options(seed))
    assert verdict.failure is None, verdict.text()
    assert verdict.steps > 0


def test_nothing_goes_wrong_where_no_fault_is_asked_for():
    verdict = simulate(options(3, faults="none"))
    assert verdict.failure is None, verdict.text()
    assert not [name for name in verdict.counts if name.startswith("fault:")]


def test_a_run_is_a_function_of_its_seed():
    code = (
        "from headwater.simulator.runner import Options, simulate\n"
        "from headwater.simulator.transcript import Transcript\n"
        "outcome = simulate(Options(1, scenario='holon'), [Transcript(lambda line: print(line))])\n"
        "print(outcome.failure, outcome.rows)\n"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert "Digest" in told[0] and told[0].splitlines()[-1].startswith("None ")


@pytest.mark.parametrize("plant", FOUND)
def test_planted_mistakes_are_found(plant):
    verdict = simulate(options(FOUND[plant], plant))
    assert verdict.failure is not None
    assert f"--plant {plant}" in verdict.text()


def test_every_plant_has_a_seed():
    assert FOUND.keys() == HOLON_PLANTS.keys()


@pytest.mark.slow  # runs until the mistake is found, for each of them
@pytest.mark.parametrize("plant", FOUND)
def test_planted_mistakes_are_found_within_200_seeds(plant):
    assert any(simulate(options(seed, plant)).failure is not None for seed in range(200))


@pytest.mark.parametrize("fault", HOLON_STRIKES)
def test_a_plan_has_only_what_was_asked_for(fault):
    plans = [draw_holon_plan(Random(seed), ["n0", "n1"], frozenset({fault}), 1000 * MS) for seed in range(20)]
    assert {strike.fault for plan in plans for strike in plan.strikes} == {fault}
    assert all(plan.quality.loss == plan.quality.jitter_ns == 0 for plan in plans)


def test_every_strike_is_a_fault_that_can_be_asked_for():
    assert HOLON_STRIKES.keys() <= set(HOLON_FAULTS)


def test_a_partition_that_only_lagged_must_not_be_left_out():
    workload = next(w for w in (draw_holon_workload(Random(seed), 4) for seed in range(50)) if w.idle_ns is not None)
    name, log = max(workload.logs.items(), key=lambda entry: len(entry[1]))
    check_left_out(workload, [StepClosed(3, {name: len(log)})])
    silences = log.available_ns[1:] - log.available_ns[:-1]
    with pytest.raises(ViolationError, match=f"{name} was left out behind .* silent for"):
        check_left_out(workload, [StepClosed(3, {name: 1 + int(silences.argmin())})])


def test_the_two_commands_run_and_replay_nodes_without_a_root():
    small = ["--nodes", "3", "--partitions", "4"]
    result = CliRunner().invoke(app, ["simulate", "holon", *small, "--seeds", "0..2", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    assert "2 runs" in result.output and "0 failed" in result.output
    replayed = CliRunner().invoke(app, ["replay", "holon", *small, "--seed", "1", "--last", "3"])
    assert replayed.exit_code == 0, replayed.output
    assert "passed" in replayed.output
    wrong = CliRunner().invoke(app, ["simulate", "holon", "--faults", "flip"])
    assert wrong.exit_code == 2
    assert "there is no fault" in wrong.output


def test_a_transcript_tells_what_nodes_say_to_each_other():
    lines: list[str] = []
    simulate(Options(0, nodes=2, partitions=2, scenario="holon"), [Transcript(lines.append)])
    text = "\n".join(lines)
    assert all(word in text for word in ("Digest", "Delta p0", "read p0 from 0", "append", "sees input", "can reach"))
