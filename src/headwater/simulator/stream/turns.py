"""Several drivers of one stream: each stops wherever it is told to, and goes on when another has long taken over.

Each is a thread, of which one runs at a time: whose turn it is, how long one sleeps and who dies, others decide.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from headwater.simulator.stream.driver import Driver, LogTakenError
from headwater.simulator.stream.loop import Loop
from headwater.simulator.world.file_faults import CrashError
from headwater.spark.streaming.errors import ReplacedError

#: Seconds after which a turn is taken for hanging.
TURN_SECONDS_MAX = 300.0
DRIVERS_MAX = 3
#: The moments before a driver has taken its turn, when it has, behind a batch, when it has nothing to do, when it is no more.
NEW, STARTED, BATCH, IDLE, DEAD = "new", "started", "batch", "idle", "dead"


class DriverThread:
    """A driver that stops at every moment until it is its turn. ``make`` gives it its life, which is told where to stop."""

    def __init__(self, make: Callable[[DriverThread], Driver], name: str = "") -> None:
        self.name = name
        self.moment = NEW
        self.is_killed = False
        self.is_over = False
        self.error: BaseException | None = None
        self.driver: Driver | None = None
        self._make, self._is_to_stop = make, False
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    def turn(self) -> str:
        """Let it go on to the next moment; which that is."""
        self._go.release()
        assert self._stopped.acquire(timeout=TURN_SECONDS_MAX), f"a driver hangs behind {self.moment!r}"
        return self.moment

    def kill(self) -> None:
        """It dies where it is."""
        self.is_killed = True
        self.turn()

    def stop(self) -> None:
        """It stops behind a batch, and closes its sinks, as `Stream.stop` does."""
        self._is_to_stop = True
        self.turn()

    @property
    def is_alive(self) -> bool:
        return self.error is None and not self.is_over

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
            self.driver = self._make(self)
            self.reached(STARTED)
            while not self._is_to_stop:
                self.reached(BATCH if self.driver.step() else IDLE)
            self.driver.runner.close()
        except BaseException as error:
            self.error = error
        self.is_over = True
        self.moment = DEAD
        self._stopped.release()


class Drivers:
    """A stream that several drivers believe to be theirs."""

    def __init__(self, loop: Loop, driver_class: type[Driver] = Driver) -> None:
        self.loop = loop
        self._driver_class = driver_class
        self.all: list[DriverThread] = []
        self.add()

    def add(self) -> None:
        """One more, which takes its turn at once: from now on the stream is its."""
        self.newest = DriverThread(lambda thread: self._driver_class(self.loop, thread.reached))
        self.all.append(self.newest)
        self.wake(self.newest)

    def something(self) -> bool:
        """Something happens; False if the newest driver has nothing to do."""
        dice = self.loop.dice
        draw = dice.random()
        if not self.newest.is_alive or (draw < 0.03 and len(self.all) < DRIVERS_MAX):
            self.add()
        elif draw < 0.05:
            self._kill(dice.choice(self.all))
        elif draw < 0.20:
            self.wake(dice.choice(self.all))
        else:
            was_idle = self.newest.moment == IDLE
            self.wake(self.newest)
            return not was_idle or self.newest.moment != IDLE
        return True

    def wake(self, driver: DriverThread) -> None:
        """Let a driver go on; it may find that it is none any more, but nothing else may be wrong."""
        driver.turn()
        if driver.error is not None:
            self._bury(driver)

    def _kill(self, driver: DriverThread) -> None:
        driver.kill()
        self._bury(driver)

    def _bury(self, driver: DriverThread) -> None:
        self.all.remove(driver)
        is_replaced = isinstance(driver.error, ReplacedError) and driver is not self.newest
        if not is_replaced and not isinstance(driver.error, CrashError | LogTakenError):
            assert driver.error is not None
            raise driver.error

    def end(self) -> None:
        """Wake everybody who still sleeps: nobody may find anything to do."""
        while self.all[0] is not self.newest:
            self.wake(self.all[0])

    def close(self) -> None:
        """All die."""
        for driver in self.all:
            if driver.is_alive:
                driver.kill()
