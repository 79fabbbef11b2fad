"""The load driver: events made on schedule by one process, sent by another through a queue, measured without mercy.

The method of the papers (Karimov et al., "Benchmarking Distributed Stream Data Processing Systems"): the generator
never waits for the system under test, so a slow system meets a growing queue and not a slower load; the time of an event is when
it was due, so latency counts the wait in the queue (no coordinated omission). What is pure is elsewhere: `schedule.py` says
when events are due, `judgement.py` what measurements mean. Here are the clock and the processes.

```python
with start_load(Load(rate=1_000_000, seconds=30), LogTarget(folder, partition_count=2), done=events_processed) as running:
    ...  # the system under test runs; note (window_end, now_us()) of every row
    run = running.wait()
run.verdict(warm_up_s=10), run.latency(seen, window_us=1_000_000, warm_up_s=10)
```

Processes are spawned: a script that starts a load keeps its own work below ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from headwater.bench.common.workload import SECOND
from headwater.bench.load.judgement import (
    BOUND_SECONDS,
    TOLERANCE,
    Latency,
    LoadSample,
    Verdict,
    judge,
    latency,
)
from headwater.bench.load.schedule import Load, Schedule
from headwater.bench.load.targets import Target
from headwater.bench.load.workers import LoadError, Workers, now_us

__all__ = ["Load", "LoadError", "LoadRun", "RunningLoad", "now_us", "start_load"]

SAMPLE_SECONDS = 0.05
#: From the moment both processes are ready to the first event.
LEAD_US = 50_000


@dataclass(frozen=True, slots=True)
class LoadRun:
    """What came of a load; ``samples`` are of the whole run, the warm-up included."""

    schedule: Schedule
    samples: tuple[LoadSample, ...]
    #: Processor time of the generator and of the sender, for all events: the driver's own cost.
    cpu_seconds: tuple[float, float]

    def latency(
        self, seen: Iterable[tuple[int, int]], *, window_us: int, warm_up_s: float = 0.0, tail_s: float = 0.1
    ) -> Latency:
        """Of the rows of aligned windows of this size, by ``(window_end, seen_at)``; windows that never came are endless.

        A window closes only with a later event of every partition, so windows that end within ``tail_s`` of the end of the
        schedule are left out, whether they came or not. With a disorder bound, give at least that.
        """
        last_us = self.schedule.end_us - round(tail_s * SECOND)
        ends = [int(end) for end in self.schedule.window_ends(window_us, warm_up_s=warm_up_s) if end <= last_us]
        return latency(seen, begin_us=ends[0] if ends else self.schedule.end_us, end_us=last_us, expected=ends)

    def verdict(
        self, *, warm_up_s: float = 0.0, tolerance: float = TOLERANCE, bound_s: float = BOUND_SECONDS
    ) -> Verdict:
        """Whether the rate is sustainable; see `judgement.judge`."""
        return judge(self.samples, self.schedule, warm_up_s=warm_up_s, tolerance=tolerance, bound_s=bound_s)


def start_load(load: Load, target: Target, done: Callable[[], int] | None = None) -> RunningLoad:
    """Begin a load and return; both processes are ready and the first event is due in a moment.

    The queue is what is due and not sent. Where sending cannot fail to keep up (a log takes everything), ``done`` says how many
    events the system under test has processed so far, and the queue is what is due and not processed. It is called from a
    thread, some twenty times a second.
    """
    return RunningLoad(load, target, done)


class RunningLoad:
    """A load on its way; ``schedule`` says when it began. Use it in a `with`, or call `stop`."""

    def __init__(self, load: Load, target: Target, done: Callable[[], int] | None = None) -> None:
        self.load = load
        self.target = target
        self.samples: list[LoadSample] = []
        self._done = done
        self._workers = Workers(load, target)
        try:
            self._workers.wait_ready()
        except BaseException:
            self._workers.close()
            raise
        #: Fixed only now: no process begins late.
        self.schedule = load.scheduled(now_us() + LEAD_US)
        self._workers.begin(self.schedule.begin_us)
        self._is_over = threading.Event()
        self._error: BaseException | None = None
        self._sampler = threading.Thread(target=self._sample, name="headwater load", daemon=True)
        self._sampler.start()

    def _sample(self) -> None:
        try:
            while not self._is_over.wait(SAMPLE_SECONDS):
                self.samples.append(self.look())
        except Exception as error:
            self._error = error

    def look(self) -> LoadSample:
        """How far the load is now."""
        # What is done comes first: a queue that looks a little too long is honest, one that looks too short is not.
        done = self.sent if self._done is None else self._done()
        at_us = now_us()
        return LoadSample(at_us, self.schedule.due(at_us), done)

    @property
    def sent(self) -> int:
        """Events that the target has taken."""
        return self._workers.sent

    def wait(self) -> LoadRun:
        """What came of it, when everything is sent; LoadError if that failed."""
        cpu_seconds = self._workers.wait_finished()
        self.stop()
        if self._error is not None:
            raise LoadError("how much is done could not be asked") from self._error
        self.samples.append(self.look())
        return LoadRun(self.schedule, tuple(self.samples), cpu_seconds)

    def stop(self) -> None:
        """End both processes, whatever is still to be sent; a second call does nothing."""
        self._is_over.set()
        self._sampler.join()
        self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
