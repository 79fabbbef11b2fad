"""A line in a terminal while Spark works longer than two seconds: partitions done, events, events per second.

Rows are asked for long after `read` and `aggregate` have returned, by Spark's own actions. So the line follows what Spark says of
itself: in classic Spark a daemon thread asks for running jobs, through Spark Connect the client hands on what the server reports.
`JobProgress` decides what the line says and when there is one, from numbers and the time alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from headwater.spark.terminal import TERMINAL, Terminal, is_terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A setting of the session: "on", "off", or "auto", which is on if stderr is a terminal.
SETTING = "headwater.spark.progress"
#: A job that takes no longer shows nothing.
SILENT_SECONDS = 2.0
#: How often Spark is asked while something runs, and while nothing does: a question takes about a millisecond.
BUSY_SECONDS, IDLE_SECONDS = 0.15, 1.0
#: How long Spark may plan between two jobs of one run.
BREAK_SECONDS = 0.8
#: Characters of the bar: the line fits eighty.
BAR = 12

_WATCHED: WeakKeyDictionary[Any, JobProgress] = WeakKeyDictionary()


@dataclass(slots=True)
class Stage:
    """Tasks of one stage, and the events that Spark itself has counted in it."""

    tasks: int
    done: int
    records: int = 0


@dataclass(slots=True, eq=False)
class JobProgress:
    """What a session's jobs have done so far. Told the time, it never asks for it.

    A run is the time in which something is busy, with short breaks: Spark plans between the stages of a job.
    """

    #: For stages of this many tasks how many events they read, None if that is not known; Spark itself counts frames there.
    expected: dict[int, int | None] = field(default_factory=dict)
    #: The stages of the run, empty if nothing runs.
    stages: dict[int, Stage] = field(default_factory=dict)
    began: float = 0.0
    seen: float = 0.0
    #: What a client of Spark Connect runs, and the stages of earlier operations that the server still speaks of.
    operation: str | None = None
    others: set[int] = field(default_factory=set)

    def see(self, active: dict[int, Stage], now: float) -> None:
        """These stages run at this moment."""
        if active and not self.stages:
            self.began = now
        for number, stage in self.stages.items():
            if number not in active:
                stage.done = stage.tasks
        # Never changed in place: rich's thread may be reading it.
        self.stages = self.stages | active
        if active:
            self.seen = now
        elif now - self.seen > BREAK_SECONDS:
            self.stages = {}

    def report(self, stages: Iterable[Any], operation: str | None, done: bool, now: float) -> None:
        """What the server tells a client of Spark Connect that waits for rows."""
        if done:
            self.stages = {}
            return
        if operation != self.operation:
            # One that failed has never said that it is done, and the server reports stages of earlier ones too.
            self.operation, self.stages = operation, {}
            self.others = {stage.stage_id for stage in stages if stage.num_completed_tasks == stage.num_tasks}
        if not self.stages:
            self.began = now - SILENT_SECONDS  # the server is silent for as long before its first report
        own = (stage for stage in stages if stage.stage_id not in self.others)
        self.stages = self.stages | {s.stage_id: Stage(s.num_tasks, s.num_completed_tasks) for s in own}

    def is_shown(self, now: float) -> bool:
        return bool(self.stages) and now - self.began >= SILENT_SECONDS

    def line(self, now: float) -> str:
        """All stages of a run together.

        >>> progress = JobProgress(stages={0: Stage(8, 6), 1: Stage(2, 0)}, expected={8: 4_000_000}, began=10.0)
        >>> progress.line(now=13.0)
        '[#######-----] 6/10 partitions, 3.0 of 4.0 M events, 1.0 M events/s, 3 s'
        """
        seconds = now - self.began
        done = sum(stage.done for stage in self.stages.values())
        tasks = sum(stage.tasks for stage in self.stages.values())
        filled = BAR * done // max(tasks, 1)
        parts = [f"[{'#' * filled}{'-' * (BAR - filled)}] {done}/{tasks} partitions"]
        events, total = self.events()
        if events or total:
            of_total = f" of {total / 1e6:.1f}" if total else ""
            parts.append(f"{events / 1e6:.1f}{of_total} M events")
        if events:
            parts.append(f"{events / seconds / 1e6:.1f} M events/s")
        return ", ".join([*parts, f"{seconds:.0f} s"])

    def events(self) -> tuple[int, int]:
        """Events read so far, and of how many; 0 if that is not known."""
        read = total = 0
        for stage in self.stages.values():
            if stage.tasks not in self.expected:
                read += stage.records
            elif (events := self.expected[stage.tasks]) is not None:
                read += events * stage.done // max(stage.tasks, 1)
                total += events
        return read, total


def is_wanted(spark: SparkSession) -> bool:
    wanted = str(spark.conf.get(SETTING, "auto"))
    return wanted == "on" or wanted == "auto" and is_terminal()


def watch(spark: SparkSession, events: int | None, tasks: int | None, terminal: Terminal = TERMINAL) -> None:
    """Show a line while jobs of this session run.

    A stage of ``tasks`` tasks reads ``events`` events, None if that is unknown; of others Spark says how much they have read.
    """
    if not is_wanted(spark):
        return
    # All sessions of one context see the same jobs.
    context = _context(spark)
    whose = spark if context is None else context
    progress = _WATCHED.get(whose)
    if progress is None:
        progress = _WATCHED[whose] = JobProgress()
        if context is None:
            _hear(spark, progress, terminal)
        else:
            _stop_other_bar(context)
            follow = threading.Thread(target=_follow, args=(context, progress, terminal), name="headwater progress")
            follow.daemon = True
            follow.start()
    if tasks is not None:
        progress.expected[tasks] = events


def _context(spark: SparkSession) -> Any:
    """None for a client of Spark Connect."""
    try:
        return spark.sparkContext
    except Exception:
        return None


def _stop_other_bar(context: Any) -> None:
    """Spark's own bar writes to the same line; ours shows all that it shows."""
    with suppress(Exception):
        bar = context._jsc.sc().progressBar()
        if bar.isDefined():
            bar.get().stop()


def _hear(spark: SparkSession, progress: JobProgress, terminal: Terminal) -> None:
    """Be told by Spark Connect, in the thread that waits for the rows."""

    def on_report(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        # Not to be shown is no reason for a job to fail.
        with suppress(Exception):
            progress.report(stages or (), operation_id, done, time.monotonic())
            _draw(progress, terminal)

    spark.registerProgressHandler(on_report)  # type: ignore[arg-type]


def _follow(context: Any, progress: JobProgress, terminal: Terminal) -> None:
    """Ask what runs, as long as there is a Spark to ask."""
    # Whatever goes wrong in here, the job is not to suffer from it.
    with suppress(Exception):
        while context._jsc is not None:
            progress.see(_active_stages(context), time.monotonic())
            _draw(progress, terminal)
            time.sleep(BUSY_SECONDS if progress.stages else IDLE_SECONDS)
    terminal.clear(progress)


def _draw(progress: JobProgress, terminal: Terminal) -> None:
    if progress.is_shown(time.monotonic()):
        terminal.show(progress, lambda: progress.line(time.monotonic()))
    else:
        terminal.clear(progress)


def _active_stages(context: Any) -> dict[int, Stage]:
    tracker = context.statusTracker()
    found = {}
    for number in tracker.getActiveStageIds():
        info = tracker.getStageInfo(number)
        if info is not None:
            found[number] = Stage(info.numTasks, info.numCompletedTasks, _records(context, number))
    return found


def _records(context: Any, stage: int) -> int:
    """What tasks of a stage have read, where Spark reads itself; it knows nothing of what a Python worker reads."""
    try:
        return int(context._jsc.sc().statusStore().lastStageAttempt(stage).inputRecords())
    except Exception:
        return 0
