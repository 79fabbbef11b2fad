"""The loop of `hw.stream` under every fault: some seeds pass, a seed is a function, and known mistakes are found."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli import app
from headwater.simulator.plants.count_windows import COUNT_PLANTS
from headwater.simulator.plants.tree import PLANTS
from headwater.simulator.runner import Options, simulate
from headwater.simulator.transcript import Transcript

pytest.importorskip("pyspark")

from headwater.simulator.plants.stream import STREAM_PLANTS

#: Each planted mistake with the first seed that finds it.
FOUND = {
    "directive-replaced": 32,
    "owner-unchecked": 2,
    "sink-without-owner": 9,
    "log-that-went-back": 5,
    "fsync-left-out": 1,
    "memory-grows": 4,
    "end-too-early": 13,
    "rows-after-the-directive": 0,
}


def options(seed: int, plant: str | None = None, faults: str = "all") -> Options:
    return Options(seed, faults=faults, plant=plant, scenario="stream")


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_says_what_the_reference_says_whatever_goes_wrong(seed):
    verdict = simulate(options(seed))
    assert verdict.failure is None, verdict.text()
    assert verdict.steps > 0


def test_nothing_goes_wrong_where_no_fault_is_asked_for():
    verdict = simulate(options(1, faults="none"))
    assert verdict.failure is None, verdict.text()
    assert not [name for name in verdict.counts if name.startswith("fault:")]


def test_a_run_is_a_function_of_its_seed():
    def told() -> list[str]:
        lines: list[str] = []
        simulate(options(3), [Transcript(lines.append)])
        # Folders have other names each time.
        return [line.partition("/headwater-")[0] for line in lines]

    first = told()
    assert first == told()
    assert any("starts" in line for line in first)
    assert any("is done by owner" in line for line in first)


@pytest.mark.parametrize("plant", FOUND)
def test_planted_mistakes_are_found(plant):
    verdict = simulate(options(FOUND[plant], plant))
    assert verdict.failure is not None
    assert f"--plant {plant}" in verdict.text()


@pytest.mark.slow
@pytest.mark.parametrize("plant", FOUND)
def test_planted_mistakes_are_found_within_200_seeds(plant):
    assert any(simulate(options(seed, plant)).failure is not None for seed in range(200))


def test_every_planted_mistake_is_tried_and_the_page_of_promises_knows_how_many_there_are():
    page = (Path(__file__).parents[3] / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert set(FOUND) == set(STREAM_PLANTS)
    assert f"{len(STREAM_PLANTS)} planted mistakes, each within 200 seeds" in page
    assert f"{len(PLANTS) + len(COUNT_PLANTS)} planted ones, each within 200 seeds" in page


def test_the_two_commands_run_and_replay_a_stream():
    result = CliRunner().invoke(app, ["simulate", "stream", "--seeds", "0..2", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    assert "2 runs" in result.output
    assert "0 failed" in result.output
    replayed = CliRunner().invoke(app, ["replay", "stream", "--seed", "1", "--last", "3"])
    assert replayed.exit_code == 0, replayed.output
    assert "passed" in replayed.output
    wrong = CliRunner().invoke(app, ["simulate", "stream", "--faults", "loss"])
    assert wrong.exit_code == 2
    assert "there is no fault" in wrong.output


def test_without_pyspark_the_command_says_what_it_needs(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["simulate", "stream"])
    assert result.exit_code == 2
    assert "needs pyspark" in result.output


def test_trees_are_simulated_without_pyspark():
    code = (
        "import sys; from headwater.simulator.runner import Options, simulate; "
        "assert simulate(Options(0, 2, 1)).failure is None; assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
