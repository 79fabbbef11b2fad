"""The drivers of a simulated stream: one runs, others sleep in the midst of something, and each may be struck at every step.

A step is a moment of a driver, or one of its file operations. Only one thread runs at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from headwater.simulator.checks.counts import Counts
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.stream.driver import MOMENTS, Driver, LogTakenError
from headwater.simulator.stream.loop import Loop
from headwater.simulator.stream.turns import BATCH, DEAD, IDLE, STARTED, DriverThread
from headwater.simulator.world.file_faults import AFTER, BEFORE, ERROR, FULL, TORN, CrashError, is_injected
from headwater.simulator.world.folder_disk import WRITES, close_below
from headwater.spark.streaming.checkpoint import refuse_ended
from headwater.spark.streaming.errors import EndedError, OtherOffsetError, ReplacedError

#: What takes room on a disk.
TAKES_ROOM = (*WRITES, "make", "make_one_folder", "give_name", "link")
#: No fault: a driver that waits in the midst of a batch, so that another who sleeps may wake there.
WAIT = "wait"
#: Steps of a batch: its moments and file operations are about as many.
STEPS_PER_BATCH = 45
Tell = Callable[[str, str], None]


@dataclass
class StepStrike:
    """What will happen to a driver after some steps, at the next that fits. ``fate``: how it dies, or where it stops."""

    fault: str
    steps: int
    fate: str = ""

    def fits(self, is_operation: bool, operation: str) -> bool:
        if self.fault == "torn":
            return operation in WRITES
        if self.fault == "full":
            return operation in TAKES_ROOM
        if self.fate in MOMENTS:
            return operation == self.fate
        return self.fault != "error" or is_operation


class Crew:
    """Who runs a stream by now, and who believes to."""

    def __init__(self, loop: Loop, dice: Random, counts: Counts, tell: Tell) -> None:
        self.loop, self._dice, self._counts, self._tell = loop, dice, counts, tell
        self.awake: DriverThread | None = None
        self.asleep: list[DriverThread] = []
        self.strike: StepStrike | None = None
        self.is_full = False
        #: Whether the machine of all drivers has lost its power just now.
        self.power_lost = False
        self.is_ended = False
        #: What errors of a driver are expected to say, while something is known to be wrong.
        self.expected: tuple[type[Exception], ...] = ()
        self.refusal: BaseException | None = None
        self.steps = 0
        self._here = threading.local()
        self.started = 0
        #: Faults that have struck, and of which nobody has read yet what they changed.
        self.unread: list[str] = []
        #: How many batches were committed when a driver fell asleep.
        self._slept: dict[str, int] = {}

    # --- in the thread of a driver ---

    def meddle(self, operation: str, arguments: tuple[Any, ...]) -> str:
        """What becomes of a file operation of whoever runs."""
        thread: DriverThread | None = getattr(self._here, "thread", None)
        if thread is None:
            return ""
        self.steps += 1
        if thread.is_killed or thread.error is not None:
            return BEFORE  # the dead do nothing
        if self.is_full and operation in TAKES_ROOM:
            return FULL
        return self._step(thread, operation, is_operation=True, can_wait=_can_wait(arguments))

    def _moment(self, thread: DriverThread, moment: str) -> None:
        self.steps += 1
        if self._step(thread, moment, is_operation=False, can_wait=True) in (BEFORE, AFTER):
            raise CrashError(moment)

    def _step(self, thread: DriverThread, what: str, is_operation: bool, can_wait: bool) -> str:
        strike = self.strike
        if strike is None or thread is not self.awake:
            return ""
        strike.steps -= 1
        if strike.steps > 0 or not strike.fits(is_operation, what):
            return ""
        if strike.fault == WAIT:
            if can_wait:
                self.strike = None
                thread.reached(f"{WAIT} at {what}")
            return ""
        if strike.fault == "pause":
            # Of two who begin a stream at once neither may go on.
            if can_wait and (self.loop.checkpoint.path / "about.json").exists():
                self.strike = None
                self._slept[thread.name] = self.loop.committed
                self._tell(thread.name, f"falls asleep at {what}")
                thread.reached(f"asleep at {what}")
            return ""
        self.strike = None
        self._tell(thread.name, f"{strike.fault} at {what}{f' ({strike.fate})' if strike.fate else ''}")
        if strike.fault == "full":
            self.is_full = True
            self._counts["fault: full"] += 1
            return FULL
        if strike.fault == "error":
            self._counts["fault: error"] += 1
            return ERROR
        thread.is_killed = True
        if strike.fault == "power":
            self.power_lost = True
        else:
            self.unread.append(strike.fault)
        return TORN if strike.fault == "torn" else strike.fate

    def _live(self, thread: DriverThread) -> Driver:
        self._here.thread = thread
        if self.loop.checkpoint.about() is not None:
            refuse_ended(self.loop.checkpoint)
        driver = Driver(self.loop, lambda moment: self._moment(thread, moment))
        refuse_ended(self.loop.checkpoint)  # one whose rows had waited for their sinks
        return driver

    # --- outside ---

    @property
    def is_waiting(self) -> bool:
        """Whether whoever runs has stopped for a moment, in which others may wake."""
        return self.awake is not None and self.awake.moment.startswith(WAIT)

    @property
    def was_refused(self) -> bool:
        """Whether a driver has said what was expected."""
        return self.refusal is not None

    def turn(self) -> str:
        """Whoever runs goes on, to the end of a batch, or until something happens to it; a new driver if there is none."""
        if self.awake is None:
            self.started += 1
            self.awake = DriverThread(self._live, f"driver {self.started}")
            self._tell(self.awake.name, "starts")
        thread = self.awake
        moment = thread.turn()
        if moment == DEAD:
            self._bury(thread)
        elif moment not in (STARTED, BATCH, IDLE) and not self.is_waiting:
            self.asleep.append(thread)
            self.awake = None
        elif moment == BATCH:
            for fault in self.unread:
                self._counts[f"fault: {fault}"] += 1
            self.unread.clear()
        return moment

    def wake(self, thread: DriverThread) -> None:
        """One that slept goes on. It may end the batch that it was at, and then finds that it was replaced, if it was."""
        self._tell(thread.name, "wakes")
        batches = 0
        while thread.turn() != DEAD:
            if thread.moment in (STARTED, BATCH, IDLE) and self._is_newest(thread):
                # Nobody has taken over, or it has just taken its turn: it is the one from now on.
                self.asleep.remove(thread)
                if self.awake is not None:
                    self.asleep.append(self.awake)
                self.awake = thread
                return
            batches += thread.moment == BATCH
            if thread.moment == IDLE or batches > 1:
                raise ViolationError(f"{thread.name} was replaced, and goes on as if nobody had taken over")
        if self.loop.committed > self._slept.pop(thread.name, 1 << 60):
            self._counts["fault: pause"] += 1
        self._bury(thread)

    def _is_newest(self, thread: DriverThread) -> bool:
        if self.awake is None or self.awake.driver is None:
            return True
        assert thread.driver is not None
        return thread.driver.owner.number > self.awake.driver.owner.number

    def stop(self) -> bool:
        """Whoever runs is stopped as users do it; whether somebody was."""
        thread = self.awake
        if thread is None or thread.moment not in (BATCH, IDLE):
            return False
        self._tell(thread.name, "is stopped")
        if self.strike is not None and self.strike.fault == "pause":
            self.strike = None
        thread.stop()
        self._bury(thread)
        return True

    def kill(self) -> None:
        """All die where they are."""
        for thread in [*self.asleep, *([] if self.awake is None else [self.awake])]:
            thread.kill()
            self._tell(thread.name, "is killed")
            self._bury(thread)

    def _bury(self, thread: DriverThread) -> None:
        if thread is self.awake:
            self.awake = None
        elif thread in self.asleep:
            self.asleep.remove(thread)
        self._slept.pop(thread.name, None)
        if self.strike is not None and self.awake is None:
            self.strike = None
        error = thread.error
        self._tell(thread.name, "ends" if error is None else f"ends: {type(error).__name__}: {error}")
        for sink in _sinks(thread):
            if sink.abandon():
                close_below(sink.path)
        # The last two say that a driver which slept has written into Spark's log: started again, the stream goes on.
        may_be = CrashError | ReplacedError | LogTakenError | OtherOffsetError
        if error is None or isinstance(error, may_be) or is_injected(error):
            return
        if isinstance(error, EndedError):
            # Nobody will ever tell Spark of its last batch.
            self.is_ended = True
            self.loop.committed = self.loop.checkpoint.last_done() + 1
        elif self.expected and isinstance(error, self.expected):
            self.refusal = error
        else:
            raise ViolationError(f"{thread.name} was stopped by {type(error).__name__}: {error}") from error


def _sinks(thread: DriverThread) -> list[Any]:
    return [] if thread.driver is None else [thread.driver.runner.sink, thread.driver.runner.aside]


def _can_wait(arguments: tuple[Any, ...]) -> bool:
    """Not while a log is being written: its next writer in this process would wait for this one to let go."""
    return not any("log" in str(each).split("/") for each in arguments) and not isinstance(arguments[0], int)
