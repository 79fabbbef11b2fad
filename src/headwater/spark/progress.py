"""A live line in a terminal while Spark works longer than two seconds: partitions done, events, events per second.

Rows are asked for long after `read` and `aggregate` have returned, by Spark's own actions. So the line follows what Spark says of
itself: in classic Spark a daemon thread asks for running jobs, through Spark Connect the client hands on what the server reports.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from headwater.spark.live_line import LINE, LiveLine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A setting of the session: "on", "off", or "auto", which is on if stderr is a terminal.
SETTING = "headwater.spark.progress"
#: A job that takes no longer shows nothing.
SILENT_SECONDS = 2.0
#: How often Spark is asked while something runs, and while nothing does: a question takes about a millisecond.
BUSY_SECONDS, IDLE_SECONDS = 0.15, 1.0
#: So long Spark may plan between two jobs of one run.
BREAK_SECONDS = 0.8
#: Characters of the bar: the line fits eighty.
BAR = 12

_WATCHES: WeakKeyDictionary[Any, Watch] = WeakKeyDictionary()


@dataclass(slots=True)
class Stage:
    """Tasks of one stage, and the events that Spark itself has counted in it."""

    tasks: int
    done: int
    records: int = 0


def watch(spark: SparkSession, events: int | None, tasks: int | None) -> None:
    """Show a line while jobs of this session run.

    A stage of so many ``tasks`` reads so many ``events``, None if nobody knows; of others Spark says how much they have read.
    """
    if not is_wanted(spark):
        return
    # All sessions of one context see the same jobs.
    context = _context(spark)
    whose = spark if context is None else context
    known = _WATCHES.get(whose)
    if known is None:
        known = _WATCHES[whose] = Watch()
        if context is None:
            spark.registerProgressHandler(known.on_report)  # type: ignore[arg-type]
        else:
            _stop_other_bar(context)
            threading.Thread(target=_follow, args=(context, known), name="headwater progress", daemon=True).start()
    known.expect(tasks, events)


def _context(spark: SparkSession) -> Any:
    """None for a client of Spark Connect."""
    try:
        return spark.sparkContext
    except Exception:
        return None


def is_wanted(spark: SparkSession) -> bool:
    wanted = str(spark.conf.get(SETTING, "auto"))
    return wanted == "on" or wanted == "auto" and bool(sys.stderr) and sys.stderr.isatty()


def _stop_other_bar(context: Any) -> None:
    """Spark's own bar writes to the same line; ours shows all that it shows."""
    with suppress(Exception):
        bar = context._jsc.sc().progressBar()
        if bar.isDefined():
            bar.get().stop()


def _follow(context: Any, known: Watch) -> None:
    """Ask what runs, as long as there is a Spark to ask."""
    # Whatever goes wrong in here, the job is not to suffer from it.
    with suppress(Exception):
        while context._jsc is not None:
            stages = _stages(context)
            known.see(stages, time.monotonic())
            time.sleep(BUSY_SECONDS if stages or known.is_busy else IDLE_SECONDS)
    known.line.clear()


def _stages(context: Any) -> dict[int, Stage]:
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


@dataclass(slots=True)
class Watch:
    """What is known of a session's jobs, and the line that shows it.

    A run is the time in which something is busy, with short breaks: Spark plans between the stages of a job.
    """

    line: LiveLine = field(default=LINE)
    #: How many events a stage of so many tasks reads; what Spark counts there are frames.
    expected: dict[int, int | None] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)
    began: float = 0.0
    seen: float = 0.0
    #: What a client of Spark Connect runs, and the stages of others that the server still speaks of.
    operation: str | None = None
    others: set[int] = field(default_factory=set)

    @property
    def is_busy(self) -> bool:
        return bool(self.stages)

    def expect(self, tasks: int | None, events: int | None) -> None:
        """The next jobs may have a stage like this."""
        if tasks is not None:
            self.expected[tasks] = events

    def see(self, active: dict[int, Stage], now: float) -> None:
        """These stages run at this moment."""
        if not active and not self.stages:
            return
        if not self.stages:
            self.began = now
        for number, stage in self.stages.items():
            if number not in active:
                stage.done = stage.tasks
        self.stages |= active
        if active:
            self.seen = now
        if not active and now - self.seen > BREAK_SECONDS:
            self.stages = {}
            self.line.clear()
        elif now - self.began >= SILENT_SECONDS:
            self.line.show(self.text(now - self.began))

    def on_report(
        self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        """What a client of Spark Connect is told, in the thread that waits for the rows."""
        now = time.monotonic()
        if done:
            self.stages = {}
            self.line.clear()
            return
        if operation_id != self.operation:
            # One that failed has never said that it is done, and the server reports stages of earlier ones too.
            self.operation, self.stages = operation_id, {}
            self.others = {s.stage_id for s in stages or () if s.num_completed_tasks == s.num_tasks}
        if not self.stages:
            self.began = now - SILENT_SECONDS  # the first report comes after so long
        for stage in stages or ():
            if stage.stage_id not in self.others:
                self.stages[stage.stage_id] = Stage(stage.num_tasks, stage.num_completed_tasks)
        # Not to be shown is no reason for a job to fail.
        with suppress(Exception):
            self.line.show(self.text(now - self.began))

    def text(self, seconds: float) -> str:
        """All stages of a run together.

        >>> watch = Watch(stages={0: Stage(8, 6), 1: Stage(2, 0)}, expected={8: 4_000_000})
        >>> watch.text(3.0)
        '[#######-----] 6/10 partitions, 3.0 of 4.0 M events, 1.0 M events/s, 3 s'
        """
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
