"""Whoever waits for kernels is told so, once; and nobody is told of anything while all of them come from disk."""

import io
import logging
import sys

import pytest
from numba.core.event import Event, EventStatus, broadcast, install_listener, register, unregister

from headwater.kernels import notice
from headwater.kernels.cache import KERNELS

NAME = "headwater.engine.slices.edges._edge_count"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def compiles():
    """A process that has compiled nothing, and a function that compiles something in it."""
    import headwater  # noqa: F401  its kernels are known then

    fresh = notice.CompileNotice()

    def compile_one():
        for status in (EventStatus.START, EventStatus.END):
            broadcast(Event("numba:compile", status, data={"dispatcher": KERNELS[NAME], "args": ()}))

    unregister("numba:compile", notice.NOTICE)
    with install_listener("numba:compile", fresh):
        yield compile_one
    register("numba:compile", notice.NOTICE)


def lines_of(caplog) -> list[tuple[int, str]]:
    return [(r.levelno, r.getMessage()) for r in caplog.records if r.name == "headwater"]


def test_the_first_compilation_of_a_process_says_so_once(compiles, caplog):
    with caplog.at_level(logging.INFO, "headwater"):
        compiles()
        compiles()
    ((level, text),) = lines_of(caplog)
    assert level == logging.INFO
    assert text.startswith("compiling kernels, once")


def test_in_a_terminal_one_line_stays_and_the_progress_is_taken_away(compiles, monkeypatch, caplog):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(sys, "__stderr__", shown)
    compiles()
    compiles()
    first, *rest = shown.getvalue().split("\n")
    assert first.startswith("headwater: compiling kernels, once")
    (progress,) = rest
    assert "compiling kernels: 2, " in progress
    assert progress.endswith(notice._ERASE)
    assert lines_of(caplog) == []


def test_whoever_draws_lines_of_its_own_gets_no_progress(compiles, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    compiles()
    assert shown.getvalue().count("compiling") == 1
    assert "\r" not in shown.getvalue()


def test_a_worker_of_spark_writes_to_its_log_and_not_into_the_driver_s_terminal(compiles, monkeypatch, caplog):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", type("Spec", (), {"name": "pyspark.daemon"}))
    with caplog.at_level(logging.INFO, "headwater"):
        compiles()
        compiles()
    assert shown.getvalue() == ""
    assert len(lines_of(caplog)) == 1


def test_what_others_compile_is_not_spoken_of(compiles, caplog):
    import numba

    with caplog.at_level(logging.INFO, "headwater"):
        assert numba.njit(lambda x: x + 1)(1) == 2
    assert lines_of(caplog) == []
