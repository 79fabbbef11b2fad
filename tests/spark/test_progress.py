"""The live line: shown in a terminal while a job takes long, and nowhere else."""

import io
import sys
from pathlib import Path

import pytest
from pyspark.sql.connect.shell.progress import StageInfo

import headwater as hw
from headwater.spark import progress, read
from headwater.spark.live_line import ERASE, LiveLine
from headwater.spark.progress import Stage, Watch, watch
from spark.cluster_job import EVENTS, SOURCES, paced
from waiting import wait_until

MEAN = hw.query("mean", hw.tumbling(100), mean=hw.avg("value"), n=hw.count())


class Terminal(io.StringIO):
    """Opens a gate as soon as a line with progress is written to it."""

    def __init__(self, gate: Path) -> None:
        super().__init__()
        self._gate = gate

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "partitions" in text:
            self._gate.touch()
        return super().write(text)


@pytest.fixture
def enter(tmp_path, monkeypatch):
    """Makes stderr a terminal: called by the test itself, for pytest puts its own in place before each."""

    def replace(*names: str) -> Terminal:
        terminal = Terminal(tmp_path / "gate")
        for name in ("stderr", *names):
            monkeypatch.setattr(sys, name, terminal)
        return terminal

    return replace


@pytest.mark.spark
def test_a_job_that_takes_long_shows_its_progress(session, enter, tmp_path):
    # Jobs of the test before, which a thread may still follow, are no part of this run and open no gate.
    wait_until(lambda: not any(known.is_busy for known in progress._WATCHES.values()), "nothing runs")
    terminal = enter()
    rows = read(session, paced(str(tmp_path / "gate")), MEAN, tasks=SOURCES)
    watch(session, SOURCES * EVENTS, SOURCES)
    # Sources wait behind the gate, which only the line of progress opens.
    assert sum(row.n for row in rows.collect()) == SOURCES * EVENTS
    assert f"/{SOURCES} partitions" in terminal.getvalue()
    assert "M events/s" in terminal.getvalue()


@pytest.mark.spark
def test_it_can_be_switched_off_and_is_off_without_a_terminal(spark, enter, monkeypatch):
    enter()
    monkeypatch.setattr(progress, "_WATCHES", {})
    spark.conf.set(progress.SETTING, "off")
    watch(spark, 10, 1)
    spark.conf.unset(progress.SETTING)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    watch(spark, 10, 1)
    assert progress._WATCHES == {}


def test_short_jobs_show_nothing(enter):
    terminal = enter()
    known = Watch(expected={4: 1000})
    known.see({0: Stage(4, 1)}, now=10.0)
    known.see({0: Stage(4, 3)}, now=11.9)
    known.see({}, now=11.95)
    known.see({}, now=13.0)
    assert not known.is_busy
    assert terminal.getvalue() == ""


def test_stages_of_one_run_add_up(enter):
    terminal = enter()
    known = Watch()
    known.expect(4, 8_000_000)
    known.expect(1, None)
    known.see({0: Stage(4, 1)}, now=10.0)
    known.see({0: Stage(4, 2)}, now=12.0)
    known.see({}, now=12.1)
    known.see({1: Stage(1, 0, 17)}, now=14.0)
    known.see({}, now=20.0)
    shown = [line for line in terminal.getvalue().replace(ERASE, "").split("\r") if line]
    assert shown == [
        "[######------] 2/4 partitions, 4.0 of 8.0 M events, 2.0 M events/s, 2 s",
        "[############] 4/4 partitions, 8.0 of 8.0 M events, 3.8 M events/s, 2 s",
        "[#########---] 4/5 partitions, 8.0 of 8.0 M events, 2.0 M events/s, 4 s",
    ]
    assert not known.is_busy


def test_what_spark_has_counted_itself_is_shown(enter):
    terminal = enter()
    known = Watch()
    known.see({0: Stage(4, 1, 1_000_000)}, now=0.0)
    known.see({0: Stage(4, 2, 2_000_000)}, now=4.0)
    assert "2/4 partitions, 2.0 M events, 0.5 M events/s, 4 s" in terminal.getvalue()


def test_an_operation_that_failed_is_not_part_of_the_next(enter):
    terminal = enter()
    known = Watch(expected={8: None})
    known.on_report([StageInfo(1, 27, 20, 0, False)], 2, "failed", done=False)
    known.on_report([StageInfo(0, 15, 15, 0, True), StageInfo(4, 8, 3, 0, False)], 2, "next", done=False)
    assert "3/8 partitions" in terminal.getvalue()
    known.on_report([], 0, "next", done=True)
    assert not known.is_busy


def test_the_line_makes_way_for_what_is_printed(enter):
    terminal = enter("stdout")
    line = LiveLine()
    line.show("half of it")
    assert sys.stdout is not terminal
    print("a result")
    assert sys.stdout is terminal and sys.stderr is terminal
    line.show("more of it")
    line.clear()
    line.clear()
    assert terminal.getvalue() == f"\rhalf of it{ERASE}\r{ERASE}a result\n\rmore of it{ERASE}\r{ERASE}"
    assert sys.stdout is terminal and sys.stderr is terminal
