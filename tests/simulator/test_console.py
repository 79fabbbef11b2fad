"""The two commands, as a user types them."""

import pytest
from typer.testing import CliRunner

from headwater.cli import app


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_simulate_shows_counts_and_a_verdict():
    result = invoke("simulate", "tree", "--leaves", 3, "--height", 2, "--seeds", "0..3", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "3 runs" in result.output and "0 failed" in result.output and "path: root accepted" in result.output


def test_a_failing_run_prints_the_command_that_replays_it():
    result = invoke(
        "simulate",
        "tree",
        "--leaves",
        3,
        "--height",
        1,
        "--seeds",
        "0..3",
        "--plant",
        "watermark-off-by-one",
        "--jobs",
        1,
    )
    assert result.exit_code == 1
    lines = [line for line in result.output.splitlines() if line.startswith("replay it: headwater ")]
    assert lines
    replayed = invoke(*lines[0].split()[3:])
    assert replayed.exit_code == 1 and "FAILED" in replayed.output


def test_replay_shows_steps_of_one_node_or_the_last():
    everything = invoke("replay", "tree", "--seed", 1, "--leaves", 2, "--height", 1)
    assert everything.exit_code == 0, everything.output
    root = invoke("replay", "tree", "--seed", 1, "--leaves", 2, "--height", 1, "--node", "root")
    last = invoke("replay", "tree", "--seed", 1, "--leaves", 2, "--height", 1, "--last", 5)
    assert len(last.output.splitlines()) == 6 < len(root.output.splitlines()) < len(everything.output.splitlines())
    assert all(" root " in line for line in root.output.splitlines()[:-1])


def test_count_windows_have_commands_of_their_own():
    result = invoke("simulate", "count-windows", "--leaves", 3, "--seeds", "2..4", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "2 runs" in result.output and "count: windows" in result.output and "drawn: scheme" in result.output
    replayed = invoke("replay", "count-windows", "--seed", 2, "--leaves", 3, "--last", 5)
    assert replayed.exit_code == 0 and "count: up_flows" in replayed.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--faults", "los"), "there is no fault 'los'"),
        (("--plant", "weed"), "there is no plant 'weed'"),
        (("--seeds", "one"), "write a range such as 0..500"),
    ],
)
def test_what_was_mistyped_is_named(arguments, message):
    result = invoke("simulate", "tree", *arguments)
    assert result.exit_code == 2 and message in " ".join(result.output.replace("│", " ").split())
