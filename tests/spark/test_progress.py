"""The line of progress: shown while a job takes long, and nowhere else. Time is passed in; one test asks Spark itself."""

from types import SimpleNamespace

import pytest
from pyspark.sql.connect.shell.progress import StageInfo

import headwater as hw
from headwater.spark import progress, read
from headwater.spark.progress import JobProgress, Stage, watch
from spark.cluster_job import EVENTS, SOURCES, paced

MEAN = hw.query("mean", hw.tumbling(100), mean=hw.avg("value"), n=hw.count())


class Recorder:
    """In the place of a terminal: keeps what is shown, and opens a gate as soon as that says how fast events are read."""

    def __init__(self, gate) -> None:
        self.lines = []
        self._gate = gate

    def show(self, owner, line) -> None:
        self.lines.append(line())
        if "M events/s" in self.lines[-1]:
            self._gate.touch()

    def clear(self, owner) -> None:
        pass


@pytest.mark.spark
def test_a_job_that_takes_long_shows_its_progress(session, tmp_path):
    terminal = Recorder(tmp_path / "gate")
    rows = read(session, paced(str(tmp_path / "gate")), MEAN, tasks=SOURCES)
    session.conf.set(progress.SETTING, "on")
    try:
        watch(session, SOURCES * EVENTS, SOURCES, terminal)
    finally:
        session.conf.unset(progress.SETTING)
    # Sources wait behind the gate, which only the line of progress opens.
    assert sum(row.n for row in rows.collect()) == SOURCES * EVENTS
    assert any(f"/{SOURCES} partitions" in line and "M events/s" in line for line in terminal.lines)


@pytest.mark.parametrize(("setting", "is_terminal", "is_on"), [
    ("auto", True, True), ("auto", False, False), ("on", False, True), ("off", True, False),
])  # fmt: skip
def test_it_can_be_switched_off_and_is_off_without_a_terminal(monkeypatch, setting, is_terminal, is_on):
    monkeypatch.setattr(progress, "is_terminal", lambda: is_terminal)
    assert progress.is_wanted(SimpleNamespace(conf={progress.SETTING: setting})) == is_on


def test_short_jobs_show_nothing():
    known = JobProgress(expected={4: 1000})
    known.see({0: Stage(4, 1)}, now=10.0)
    assert not known.is_shown(10.0)
    known.see({0: Stage(4, 3)}, now=11.9)
    assert not known.is_shown(11.9)
    known.see({}, now=11.95)
    known.see({}, now=13.0)
    assert not known.stages and not known.is_shown(13.0)


def test_stages_of_one_run_add_up():
    known = JobProgress(expected={4: 8_000_000, 1: None})
    shown = []
    for active, now in [
        ({0: Stage(4, 1)}, 10.0),
        ({0: Stage(4, 2)}, 12.0),
        ({}, 12.1),
        ({1: Stage(1, 0, 17)}, 12.8),
        ({1: Stage(1, 0, 17)}, 14.0),
        ({}, 20.0),
    ]:
        known.see(active, now)
        shown += [known.line(now)] if known.is_shown(now) else []
    assert shown == [
        "[######------] 2/4 partitions, 4.0 of 8.0 M events, 2.0 M events/s, 2 s",
        "[############] 4/4 partitions, 8.0 of 8.0 M events, 3.8 M events/s, 2 s",
        "[#########---] 4/5 partitions, 8.0 of 8.0 M events, 2.9 M events/s, 3 s",
        "[#########---] 4/5 partitions, 8.0 of 8.0 M events, 2.0 M events/s, 4 s",
    ]
    assert not known.stages


def test_what_spark_has_counted_itself_is_shown():
    known = JobProgress()
    known.see({0: Stage(4, 1, 1_000_000)}, now=0.0)
    known.see({0: Stage(4, 2, 2_000_000)}, now=4.0)
    assert known.line(4.0) == "[######------] 2/4 partitions, 2.0 M events, 0.5 M events/s, 4 s"


def test_an_operation_that_failed_is_not_part_of_the_next():
    known = JobProgress(expected={8: None})
    known.report([StageInfo(1, 27, 20, 0, False)], "failed", done=False, now=1.0)
    known.report([StageInfo(0, 15, 15, 0, True), StageInfo(4, 8, 3, 0, False)], "next", done=False, now=2.0)
    assert known.is_shown(2.0) and "3/8 partitions" in known.line(2.0)
    known.report([], "next", done=True, now=3.0)
    assert not known.stages and not known.is_shown(3.0)
