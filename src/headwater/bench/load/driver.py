"""The load driver: a process that appends events to a log on schedule, whatever the system under test does.

The method of the papers (Karimov et al., "Benchmarking Distributed Stream Data Processing Systems"): the generator
never waits for the system under test, so a slow system meets a growing queue and not a slower load; the time of an event is when
it was due, so latency counts the wait in the queue (no coordinated omission). What is pure is elsewhere: `schedule.py` says
when events are due, `judgement.py` what measurements mean. Here are the clock and the process.

```python
with start_load(Schedule(rate=1_000_000, seconds=30), folder) as running:
    ...  # the system under test runs; note (window_end, now_us()) of every row
    run = running.wait(events_processed)
judge(run.samples, run.schedule), latency(seen, run.schedule.window_ends(1_000_000))
```

The process is spawned: a script that starts a load keeps its own work below ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from headwater.bench.load.judgement import LoadSample
from headwater.bench.load.schedule import Content, Schedule, events_of
from headwater.errors import HeadwaterError
from headwater.logs import Log

#: Events are handed over this often: the latency of the driver itself against its cost.
SLOT_US = 20_000
SAMPLE_SECONDS = 0.05
#: From the moment the process is ready to the first event.
LEAD_US = 50_000


class LoadError(HeadwaterError, RuntimeError):
    """A load could not be sent, or what it measures went wrong."""


class LoadRun(NamedTuple):
    """What came of a load; ``samples`` are of the whole run, the warm-up included."""

    schedule: Schedule
    samples: list[LoadSample]
    #: Processor time of the process, for all events: the driver's own cost.
    cpu_seconds: float


def now_us() -> int:
    """The wall clock: the schedule, samples and the moments at which rows are seen are all read from it."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class RunningLoad:
    """A load on its way; ``schedule`` says when it began."""

    schedule: Schedule
    _control: Connection[Any, Any]

    def wait(self, done: Callable[[], int]) -> LoadRun:
        """What came of it, when everything is sent; LoadError if that failed.

        ``done`` says how many events the system under test has processed so far; it is asked some twenty times a second.
        """
        samples = [self.look(done)]
        while not self._control.poll(SAMPLE_SECONDS):
            samples.append(self.look(done))
        return LoadRun(self.schedule, [*samples, self.look(done)], _received(self._control))

    def look(self, done: Callable[[], int]) -> LoadSample:
        """How far the load is now."""
        # What is done comes first: a sample may show the queue a little too long, never too short.
        count = done()
        at_us = now_us()
        return LoadSample(at_us, self.schedule.due(at_us), count)


@contextmanager
def start_load(schedule: Schedule, log: Path) -> Iterator[RunningLoad]:
    """Append the events of a schedule to a log that is there; its process is ready, and ends with the `with`.

    ``schedule`` says how many events a second and for how long; it begins in a moment.
    """
    context = multiprocessing.get_context("spawn")  # not fork: a Spark driver has threads
    control, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, schedule, log), daemon=True)
    process.start()
    theirs.close()
    try:
        _received(control)
        # Fixed only now: the process does not begin late.
        schedule = replace(schedule, begin_us=now_us() + LEAD_US)
        control.send(schedule.begin_us)
        yield RunningLoad(schedule, control)
    finally:
        process.terminate()
        process.join()
        control.close()


def _received(control: Connection[Any, Any]) -> float:
    """What the process reports; its error is raised here."""
    try:
        report = control.recv()
    except EOFError:
        report = "its process died"
    if isinstance(report, str):
        raise LoadError(f"a load could not be sent: {report}")
    return float(report)


def _run(control: Connection[Any, Any], schedule: Schedule, path: Path) -> None:
    """The whole life of the process."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        control.send(_send(control, schedule, Log.open(path)))
    except BaseException as error:
        control.send(traceback.format_exception_only(error)[-1].strip())


def _send(control: Connection[Any, Any], schedule: Schedule, log: Log) -> float:
    """Append every event when it is due; returns the processor seconds that this took.

    Each batch is cut into as many runs as there are partitions: all partitions are as far as the schedule to within one slot,
    and each is sorted by time. Rows are synced only when a segment is full, since a load is not kept.
    """
    content = Content()
    content.columns(0, 1)  # made before the clock runs
    with ExitStack() as stack:
        writers = [stack.enter_context(log.writer(number, fsync="never")) for number in range(log.partition_count)]
        used = time.process_time()  # imports are not the load's
        control.send(0.0)
        schedule = replace(schedule, begin_us=control.recv())
        first = 0
        for at_us, stop in schedule.slots(SLOT_US):
            if (early_us := at_us - now_us()) > 0:
                time.sleep(early_us / 1e6)
            # A log that is slow holds up the sending, never the schedule: what is late keeps the time at which it was due.
            for number, writer in enumerate(writers, 1):
                end = first + (stop - first) // (len(writers) - number + 1)
                if end > first:
                    run = events_of(schedule, content, first, end)
                    writer.append(run, arrival_ns=run["time"][-1].as_py() * 1000)
                first = end
    return time.process_time() - used


def _die_with_parent() -> None:
    """End this process when it has lost its parent, whatever it waits for: there is nothing left to report to."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
