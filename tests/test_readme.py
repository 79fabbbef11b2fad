"""The README is the first thing that anyone runs: its examples must work and print what it says."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
PROGRAMS = [text for language, text in BLOCKS if language == "python"]


def test_the_examples_run_and_print_what_the_readme_shows(capsys):
    printed = next(text for language, text in BLOCKS if language == "text")
    names: dict[str, object] = {}
    exec(PROGRAMS[0], names)
    assert capsys.readouterr().out == printed
    exec(PROGRAMS[1], names)
    assert "more at the end" in capsys.readouterr().out


def test_the_program_on_spark_is_the_example_that_is_run():
    # tests/spark/test_examples.py runs it.
    assert PROGRAMS[2:] == [(ROOT / "examples" / "batch_on_spark.py").read_text(encoding="utf-8")]


def test_the_two_commands_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ make (\w+)", README, re.MULTILINE)
    assert commands == ["demo", "test"]
    assert all(re.search(rf"^{command}:", makefile, re.MULTILINE) for command in commands)


def test_the_six_figures_are_among_the_benchmarks():
    rows = re.findall(r"^\| .* \| (.*) \| `(headwater bench \w+)` \|$", README, re.MULTILINE)
    assert len(rows) == 6
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    sections = {re.search(r"`(headwater bench \w+)", section)[1]: section for section in page.split("\n## ")[1:]}
    for figure, command in rows:
        numbers = [f"{number} times" for number in re.findall(r"([\d.]+) times", figure)]
        numbers += re.findall(r"0\.\d+", figure.partition(" of ")[0])
        assert numbers and all(number in sections[command] for number in numbers), figure
