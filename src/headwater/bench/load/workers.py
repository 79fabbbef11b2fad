"""The two processes of a load: one makes events when they are due, the other hands them to the target.

They share the queue and nothing else, so neither can slow the other's clock. Both die with the process that started them.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from headwater.bench.load.queue import Queue, QueueEnd
from headwater.bench.load.schedule import EVENT_BYTES, Load
from headwater.bench.load.targets import Target
from headwater.errors import HeadwaterError

#: How long a process sleeps that has nothing to do.
NAP_SECONDS = 0.001
#: A sender that is behind takes more at once, up to so many events.
SEND_EVENTS_MAX = 1 << 17
QUEUE_BYTES_MAX = 256 << 20


class LoadError(HeadwaterError, RuntimeError):
    """A load could not be sent; the message has the target's own error."""


def now_us() -> int:
    """The wall clock: the schedule, samples and the moments at which rows are seen are all read from it."""
    return time.time_ns() // 1000


class Workers:
    """Both processes, from their start to their reports."""

    NAMES = ("generator", "sender")

    def __init__(self, load: Load, target: Target) -> None:
        context = multiprocessing.get_context("spawn")  # not fork: a Spark driver has threads
        # Room for all events, if that is not too much: a generator that need not wait costs less.
        capacity = min(load.scheduled().events, QUEUE_BYTES_MAX // EVENT_BYTES)
        self._target = target
        self._queue, self._memory = Queue.create(context, capacity)
        self._begin = context.Value("q", 0)
        self._processes: list[SpawnProcess] = []
        self._connections: list[Connection] = []
        self._cpu_seconds: dict[int, float] = {}
        self._is_closed = False
        works: tuple[tuple[Callable[..., None], tuple[Any, ...]], ...] = (
            (generate, (load,)),
            (send, (target, load.scheduled().events)),
        )
        for work, arguments in works:
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_run, args=(theirs, work, self._queue, self._begin, *arguments), daemon=True
            )
            process.start()
            theirs.close()
            self._processes.append(process)
            self._connections.append(ours)

    def wait_ready(self) -> None:
        """Both have loaded what they need, and the target is open."""
        for number in range(len(self.NAMES)):
            self._receive(number)

    def begin(self, begin_us: int) -> None:
        """Now it is known when the schedule begins."""
        with self._begin.get_lock():
            self._begin.value = begin_us

    @property
    def sent(self) -> int:
        with self._queue.sent.get_lock():
            return int(self._queue.sent.value)

    def wait_finished(self) -> tuple[float, float]:
        """Everything is sent and the target is closed; the processor time of either process."""
        while len(self._cpu_seconds) < len(self.NAMES):
            open_ones = {self._connections[i]: i for i in range(len(self.NAMES)) if i not in self._cpu_seconds}
            for connection in wait(list(open_ones)):
                number = open_ones[connection]  # type: ignore[index]
                self._cpu_seconds[number] = self._receive(number)
        return self._cpu_seconds[0], self._cpu_seconds[1]

    def _receive(self, number: int) -> float:
        """What a process reports; its error is ours."""
        try:
            kind, value = self._connections[number].recv()
        except EOFError:
            kind, value = "error", "its process died"
        if kind == "error":
            raise LoadError(f"the {self.NAMES[number]} of a load to {self._target!r} failed: {value}")
        return float(value)

    def close(self) -> None:
        """End what still runs and let the memory go; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        for number, process in enumerate(self._processes):
            if number not in self._cpu_seconds:
                process.terminate()
            process.join()
            process.close()
        for connection in self._connections:
            connection.close()
        self._memory.close()
        self._memory.unlink()


def _run(connection: Connection, work: Callable[..., None], queue: Queue, begin: Any, *arguments: Any) -> None:
    """The whole life of one of the processes."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    used = 0.0

    def wait_begin() -> int:
        nonlocal used
        used = time.process_time()  # imports are not the load's
        connection.send(("ready", 0.0))
        while not begin.value:
            time.sleep(NAP_SECONDS)
        return int(begin.value)

    end = queue.attach()
    try:
        work(end, wait_begin, *arguments)
    except BaseException as error:
        connection.send(("error", traceback.format_exception_only(error)[-1].strip()))
        traceback.clear_frames(error.__traceback__)  # they hold batches, and those the memory
    else:
        connection.send(("finished", time.process_time() - used))
    finally:
        end.close()


def _die_with_parent() -> None:
    """A process that lost its parent has nobody to report to: it ends, whatever it waits for."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def generate(end: QueueEnd, wait_begin: Callable[[], int], load: Load) -> None:
    """Put every event into the queue when it is due, no matter how fast they are taken out."""
    content = load.content
    content.keys(0, 1), content.values(0, 1)  # made before the clock runs
    schedule = load.scheduled(wait_begin())
    for at_us, stop in schedule.slots(load.slot_us):
        if (early_us := at_us - now_us()) > 0:
            time.sleep(early_us / 1e6)
        # A full queue holds up the making, never the schedule: what is late keeps the time at which it was due.
        while not end.put(schedule, content, stop):
            time.sleep(NAP_SECONDS)


def send(end: QueueEnd, wait_begin: Callable[[], int], target: Target, events: int) -> None:
    """Hand everything in the queue to the target, as fast as the target takes it."""
    with target.opened() as hand_over:
        wait_begin()
        sent = 0
        while sent < events:
            batch = end.take(SEND_EVENTS_MAX)
            if batch is None:
                time.sleep(NAP_SECONDS)
                continue
            hand_over(batch)
            sent += batch.num_rows
            end.done(batch.num_rows)
