"""The examples run and print what a newcomer should see; those on Spark are run in `tests/spark`."""

import ast
import os
import subprocess
import sys

import pytest

from example_programs import FOLDER, LINES_MAX, PROGRAMS, ROOT, text

#: What a user may import.
PUBLIC = {"headwater", "headwater.simulator", "headwater.spark"}


def printed(name: str, warned: str = "") -> list[str]:
    """What a program prints, run as its reader would; ``warned``: what it says on standard error."""
    ran = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == warned
    return ran.stdout.splitlines()


def test_the_engine_alone_revises_a_window_and_sets_aside_what_has_no_place():
    lines = printed("engine_alone", "1 malformed event was set aside; source '', offset 9: time is null\n")
    assert "  load   ash  0 s to 10 s: total 0.6" in lines
    assert "  load   elm  0 s to 10 s: total 6.5   (revision 1)" in lines
    assert 'in no result of any query: {"time": null, "house": "elm", "load": 9.9}, because time is null' in lines
    assert lines[-1] == "active: in 11, member 9, dropped 1, malformed 1"


def test_an_own_aggregate_is_named_by_its_path_and_obeys_its_laws():
    lines = printed("own_aggregate")
    assert "ash   20 s to 40 s: mean 4.50, peak factor 1.78" in lines
    assert "      aggregate: own_aggregate:peak_factor" in lines
    assert lines[-1] == "Its laws hold."


def test_count_windows_over_nodes_are_those_of_one_machine():
    lines = printed("count_windows_over_nodes")
    assert "        0 ..   100,000 10,004,696.8    694.1" in lines
    assert "30 windows over 3,000,000 events, the same as on one machine: yes" in lines


def test_a_seed_is_replayed_to_the_last_step():
    lines = printed("replay_a_seed")
    assert [line for line in lines if line.startswith("seed") and "every row was right" in line] == lines[0:6:2]
    assert any(line.startswith("replay it: headwater replay tree --seed ") for line in lines)
    assert any("the same each time: True" in line for line in lines)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_is_short_says_what_it_shows_and_uses_public_names(path):
    source = text(path.stem)
    tree = ast.parse(source)
    assert len(source.splitlines()) <= LINES_MAX
    assert ast.get_docstring(tree)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert {name for name in imported if name.partition(".")[0] == "headwater"} <= PUBLIC


def test_there_are_six():
    assert len(PROGRAMS) == 6
