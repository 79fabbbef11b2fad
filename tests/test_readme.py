"""The README is the first thing that anyone runs: its examples must work and print what it says."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def test_the_examples_run_and_print_what_the_readme_shows(capsys):
    programs = [text for language, text in BLOCKS if language == "python"]
    printed = next(text for language, text in BLOCKS if not language and "make demo" not in text)
    names: dict[str, object] = {}
    exec(programs[0], names)
    assert capsys.readouterr().out == printed
    exec(programs[1], names)
    assert "more at the end" in capsys.readouterr().out


def test_the_two_commands_exist():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert commands == ["demo", "test"]
    assert all(re.search(rf"^{command}:", makefile, re.MULTILINE) for command in commands)
