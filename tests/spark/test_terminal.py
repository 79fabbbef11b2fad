"""Lines at the bottom of a terminal: each owner has one, and what is printed meanwhile stays above them."""

import io
import sys

from rich.console import Console

from headwater.spark.terminal import Terminal


def test_the_line_makes_way_for_what_is_printed():
    out, stderr = io.StringIO(), sys.stderr
    terminal = Terminal(Console(file=out, force_terminal=True, width=40))
    terminal.show("job", lambda: "half of it")
    assert "half of it" in out.getvalue()
    print("a result", file=sys.stderr)
    shown = out.getvalue()
    assert shown.index("a result") < shown.rindex("half of it")
    terminal.clear("job")
    terminal.clear("job")
    assert sys.stderr is stderr
    assert out.getvalue().endswith("\x1b[2K")  # the line is erased


def test_each_owner_has_a_line_of_its_own():
    terminal = Terminal(Console(file=io.StringIO(), force_terminal=True))
    terminal.show("job", lambda: "job: half of it")
    terminal.show("stream", lambda: "stream: batch 3")
    assert terminal.text().plain == "job: half of it\nstream: batch 3"
    terminal.show("job", lambda: "job: all of it")
    terminal.clear("stream")
    assert terminal.text().plain == "job: all of it"
    terminal.close()
    assert terminal.text().plain == ""


def test_a_line_that_cannot_be_said_is_left_out():
    terminal = Terminal(Console(file=io.StringIO(), force_terminal=True))
    terminal.show("broken", lambda: str(1 // 0))
    terminal.show("job", lambda: "half of it")
    assert terminal.text().plain == "half of it"
    terminal.close()
