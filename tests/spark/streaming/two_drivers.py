"""Two drivers of one stream, and more: each stops wherever it is told to, and goes on when another has long taken over.

Each is a thread, of which one runs at a time: whose turn it is, how long one sleeps and who dies is drawn from a seed.
"""

from __future__ import annotations

import threading
from typing import Any

from headwater.spark.streaming.errors import ReplacedError
from spark.streaming.local_loop import CrashError, Driver, LogTakenError, Loop
from spark.streaming.loop_run import Run

#: Seconds after which a turn is taken for hanging.
TURN_SECONDS_MAX = 300.0
DRIVERS_MAX = 3
IDLE = "idle"


class Thread(Driver):
    """A driver that stops at every moment until it is its turn."""

    def __init__(self, loop: Any, owner: Any = None) -> None:
        super().__init__(loop, owner)
        self.moment = ""
        self.is_killed = False
        self.error: BaseException | None = None
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def turn(self) -> str:
        """Let it go on to the next moment; which that is."""
        self._go.release()
        assert self._stopped.acquire(timeout=TURN_SECONDS_MAX), f"a driver hangs behind {self.moment!r}"
        return self.moment

    def kill(self) -> None:
        self.is_killed = True
        self.turn()

    @property
    def is_alive(self) -> bool:
        return self.error is None

    def reached(self, moment: str) -> None:
        self.moment = moment
        self._stopped.release()
        self._wait()

    def _wait(self) -> None:
        self._go.acquire()
        if self.is_killed:
            raise CrashError(self.moment)

    def _live(self) -> None:
        try:
            self._wait()
            while True:
                if not self.step():
                    self.reached(IDLE)
        except BaseException as error:
            self.error = error
            self.moment = "dead"
            self._stopped.release()


class SharedLoop(Loop):
    """A stream that several drivers believe to be theirs."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.drivers: list[Thread] = []
        self.restart()

    def restart(self) -> None:
        self.newest = Thread(self)
        self.drivers.append(self.newest)

    def safely(self) -> bool:
        """Something happens; False if the newest driver has nothing to do."""
        draw = self.dice.random()
        if not self.newest.is_alive or (draw < 0.03 and len(self.drivers) < DRIVERS_MAX):
            self.restart()
        elif draw < 0.05:
            self._kill(self.dice.choice(self.drivers))
        elif draw < 0.20:
            self.wake(self.dice.choice(self.drivers))
        else:
            was_idle = self.newest.moment == IDLE
            self.wake(self.newest)
            return not was_idle or self.newest.moment != IDLE
        return True

    def wake(self, driver: Thread) -> None:
        """Let a driver go on; it may find that it is none any more, but nothing else may be wrong."""
        driver.turn()
        if driver.error is not None:
            self._bury(driver)

    def _kill(self, driver: Thread) -> None:
        driver.kill()
        self._bury(driver)

    def _bury(self, driver: Thread) -> None:
        self.drivers.remove(driver)
        is_replaced = isinstance(driver.error, ReplacedError) and driver is not self.newest
        if not is_replaced and not isinstance(driver.error, CrashError | LogTakenError):
            assert driver.error is not None
            raise driver.error

    def end(self) -> None:
        """Wake everybody who still sleeps: nobody may find anything to do."""
        while self.drivers[0] is not self.newest:
            self.wake(self.drivers[0])

    def close(self) -> None:
        for driver in self.drivers:
            if driver.is_alive:
                driver.kill()


class SharedRun(Run):
    """A workload of the simulator over a stream that several drivers believe to be theirs."""

    loop_class = SharedLoop

    def play(self) -> None:
        try:
            super().play()
            self._sleepers_wake()
        finally:
            self.loop.close()

    def _sleepers_wake(self) -> None:
        before = self._seen()
        self.loop.end()
        assert self._seen() == before, "a driver that was replaced has changed what others read"

    def _seen(self) -> Any:
        """All that counts: what the directives say, whose states they name, and the rows."""
        checkpoint = self.loop.checkpoint
        last = checkpoint.last_batch()
        directive = checkpoint.said(last)
        saved = [checkpoint.states(n, self.roots).saved(state) for n, state in enumerate(directive.states)]
        rows = {batch: rows.to_pylist() for batch, rows in self.loop.sink.batches.items()}
        return last, directive.hash, saved, repr(rows)
