"""Folders and logs that several drivers write, who all believe the stream to be theirs: each row is there once, whoever sleeps.

Beside the moments of a batch a driver sleeps at file operations of its sinks, and while it is stopped. How long rows are gathered
is drawn for each life. Whoever is replaced stops as its program would make it: what it has gathered is asked for.
"""

import threading
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.logs import Log, files
from headwater.simulator.stream import (
    IDLE,
    MOMENTS,
    CrashError,
    Driver,
    Drivers,
    DriverThread,
    LogTakenError,
    Loop,
)
from headwater.simulator.stream.loop import watched_sinks
from headwater.spark.streaming.errors import ReplacedError
from headwater.spark.streaming.seals import sealed
from headwater.spark.streaming.sinks import FolderSink, LogSink
from headwater.spark.streaming.sinks.gathered import GatheredRows, Gathering
from spark.streaming.plain_stream import SETTINGS, one_source, until
from spark.streaming.shared_run import SharedRun

pytestmark = pytest.mark.usefixtures("no_sync")

EVERY = [None, "2 s", "20 s", "1 h"]
#: What sinks do to files that others see.
OPERATIONS = ("create", "create_unseen", "rename", "remove", "link")


#: Of each thread: the driver that lives in it.
here = threading.local()


class Stopping(Driver):
    """A driver that may sleep while it starts, and whose program stops it: between two batches, and once it was replaced."""

    def __init__(self, loop, reached) -> None:
        self.loop, self.reached = loop, reached
        here.driver = self
        super().__init__(loop, reached)

    def step(self) -> bool:
        try:
            if self.loop.stops and self.loop.dice.random() < 0.05:
                self.runner.close_sinks()
                raise CrashError("stopped")
            return super().step()
        except ReplacedError:
            self.runner.close_sinks()
            raise


class SinkLoop(Loop):
    """A stream with sinks on disk, of one kind in all its lives; that of all loops, beside them, compares batch by batch."""

    kind, stops = "folder", True

    def __init__(self, *facts, **more) -> None:
        super().__init__(*facts, **more)
        self.new_sinks = self.drawn_sinks

    def drawn_sinks(self, driver):
        driver.reached("opening")
        place, every = self.checkpoint.path.parent / "rows", self.drawn_every()
        sink = self.watched(driver, FolderSink(place, every=every) if self.kind == "folder" else LogSink(place))
        return sink, watched_sinks(driver)[1]

    def drawn_every(self):
        return self.dice.choice(EVERY)

    def watched(self, driver, sink):
        """The sink, which tells what it was given; its driver may sleep before it and behind it."""
        name = "write_after" if self.kind == "folder" else "write"
        inner = getattr(sink, name)

        def write(*given):
            batch, rows = given[-3:-1] if self.kind == "folder" else given
            self.sink.write(batch, rows)
            driver.reached("writing")
            found = inner(*given)
            driver.reached("rows")
            return found

        setattr(sink, name, write)
        return sink

    def stored(self) -> list[str]:
        """All rows of the sink, as they lie there."""
        place = self.checkpoint.path.parent / "rows"
        if self.kind == "folder":
            tables = [pq.ParquetFile(path).read() for path in sorted(place.glob("*.parquet"))]
        else:
            tables = [
                pa.Table.from_batches([stored.batch.drop_columns(["batch"])])
                for stored in Log.open(place).reader(0).read()
            ]
        return [repr(row) for table in tables for row in table.to_pylist()]

    def given_rows(self) -> list[str]:
        return [repr(row) for _, table in sorted(self.sink.batches.items()) for row in table.to_pylist()]


class SinkRun(SharedRun):
    loop_class, driver_class = SinkLoop, Stopping

    def play(self) -> None:
        super().play()
        assert self.loop.stored() == self.loop.given_rows()

    def _sleepers_wake(self) -> None:
        super()._sleepers_wake()
        self.drivers.newest.driver.runner.close_sinks()
        assert self.loop.stored() == self.loop.given_rows()


@contextmanager
def sleeping_at_files(share: float = 0.2):
    """Drivers sleep before and behind what their sinks do to files."""

    def around(inner):
        def operation(*args):
            driver = getattr(here, "driver", None)
            places = [part for each in args if isinstance(each, Path) for part in each.parts]
            if driver is None or not {"gathered", "rows"} & {*places}:
                return inner(*args)
            if driver.loop.dice.random() < share:
                driver.reached("before a file")
            found = inner(*args)
            if driver.loop.dice.random() < share:
                driver.reached("behind a file")
            return found

        return operation

    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(files, name, around(getattr(files, name)))
        yield


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_folder_that_several_drivers_write_has_every_row_of_the_reference_once(tmp_path_factory, seed):
    with sleeping_at_files():
        SinkRun(tmp_path_factory.mktemp("stream") / "checkpoint", seed, crashes=False, is_shared=True).play()


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_log_that_several_drivers_write_has_every_row_of_the_reference_once(tmp_path_factory, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SinkLoop, "kind", "log")
        SinkRun(tmp_path_factory.mktemp("stream") / "checkpoint", seed, crashes=False, is_shared=True).play()


# --- one that sleeps ---

QUERY = hw.query("load", hw.tumbling(2), keys=["k"], n=hw.count())
TIMES = list(range(60))
#: All windows but the last, which nothing closes.
EXPECTED = Counter({(t // 2 * 2, k): 1 for t in TIMES if t < 58 for k in [t % 3]})
#: Where a driver sleeps: in a batch, at the files of its sink, or while it is stopped.
PLACES = [*MOMENTS, "writing", "keeping", "finding", "ending", "forgetting", "stopping", "stopped"]


class Sleeper(Stopping):
    """Stops at moments of its sink, too, and is stopped once it is told to."""

    is_stopping = False

    def step(self) -> bool:
        if self.is_stopping:
            self.reached("stopping")
            self.runner.close_sinks()
            self.reached("stopped")
            raise CrashError("stopped")
        return super().step()


class QuietLoop(SinkLoop):
    """``lives``: for how long each life gathers."""

    stops = False

    def __init__(self, *facts, lives, **more) -> None:
        self.lives = lives
        super().__init__(*facts, **more)

    def drawn_every(self):
        self.lives, every = self.lives[1:] or self.lives, self.lives[0]
        return every


@contextmanager
def sleeping_in_sinks():
    def before(owner, name, moment):
        inner = getattr(owner, name)

        def method(*args):
            driver = getattr(here, "driver", None)
            if driver is not None:
                driver.reached(moment)
            return inner(*args)

        return owner, name, method

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*before(GatheredRows, "keep", "keeping"))
        patch.setattr(*before(GatheredRows, "found", "finding"))
        patch.setattr(*before(GatheredRows, "end", "ending"))
        patch.setattr(*before(GatheredRows, "forget", "forgetting"))
        yield


@contextmanager
def quiet(place, *every):
    loop = QuietLoop(place, one_source(TIMES), [QUERY], SETTINGS, 1, 1, seed=0, starts=False, lives=every)
    drivers = Drivers(loop, Sleeper)
    try:
        yield drivers
    finally:
        drivers.close()


def more(drivers: Drivers, events: int, seconds: int) -> None:
    loop = drivers.loop
    loop.opened.ends["a"] = min(len(TIMES), loop.opened.ends["a"] + events)
    loop.now_ns += seconds * 10**9


def sleep_and_wake(drivers: Drivers, moment: str, before: str, batches: int, dies: bool) -> None:
    """A driver sleeps, another takes over and comes to some moment, perhaps its last; the first wakes, and is stopped."""
    first = drivers.newest
    for _ in range(3):
        more(drivers, 4, 1)
        until(first, IDLE)
    first.driver.is_stopping = moment in ("stopping", "stopped")
    more(drivers, 4, 1)
    until(first, moment, IDLE)
    more(drivers, 4, 1)
    drivers.add()
    second = drivers.newest
    for _ in range(batches):
        until(second, before, IDLE)
        more(drivers, 4, 1)
    if dies and second.is_alive:
        second.kill()
    finish(drivers, first)


def end_at_once(drivers: Drivers, batches: int) -> None:
    """Two make files of what waits, at the same moment: the second when it starts, the first behind a batch that it ends then."""
    first = drivers.newest
    for _ in range(batches):
        more(drivers, 4, 1)
        until(first, IDLE)
    more(drivers, 4, 1)
    until(first, "committing", IDLE)
    drivers.add()
    until(drivers.newest, "ending", IDLE)
    until(first, "forgetting", IDLE)
    until(drivers.newest, IDLE)
    finish(drivers, first)


def finish(drivers: Drivers, sleeper: DriverThread) -> None:
    """Whoever sleeps wakes and is stopped; the stream comes to its end, and the last life as well."""
    lived = [sleeper, drivers.newest]
    while sleeper.is_alive:
        sleeper.driver.is_stopping = True
        sleeper.turn()
    while drivers.loop.opened.ends["a"] < len(TIMES):
        if not drivers.newest.is_alive:
            drivers.add()
            lived.append(drivers.newest)
        more(drivers, 9, 1)
        until(drivers.newest, IDLE)
    drivers.add()
    until(drivers.newest, IDLE)
    drivers.newest.driver.is_stopping = True
    until(drivers.newest, "stopped", IDLE)
    for driver in [*lived, drivers.newest]:
        if driver.error is not None and not isinstance(driver.error, ReplacedError | LogTakenError | CrashError):
            raise driver.error


def counted(drivers: Drivers) -> Counter:
    place = drivers.loop.checkpoint.path.parent / "rows"
    found = [pq.ParquetFile(path).read() for path in sorted(place.glob("*.parquet"))]
    return Counter((row["window_start"], row["k"]) for table in found for row in table.to_pylist())


CASES = {
    "moment": st.sampled_from(PLACES),
    "before": st.sampled_from([*PLACES[:-2], IDLE]),
    "batches": st.integers(0, 3),
    "dies": st.booleans(),
    "every": st.tuples(*[st.sampled_from([None, "2 s", "3 s", "1 h"])] * 3),
}


@given(**CASES)
@example(
    "stopping", IDLE, 2, False, ("1 h", "1 h", None)
)  # a driver that was replaced is stopped while another gathers
@example("stopping", "committing", 2, True, ("1 h", "1 h", None))  # the other has kept a batch, commits it and dies
@example("committing", "logged", 1, False, ("1 h", "1 h", "1 h"))  # it commits what the other has found unfinished
@example("writing", IDLE, 2, False, (None, "1 h", "1 h"))  # it writes a batch that the other has gathered
@example("ending", IDLE, 3, True, ("2 s", "3 s", None))
@settings(max_examples=40, deadline=None)
def test_a_driver_that_wakes_neither_doubles_nor_loses_gathered_rows(
    tmp_path_factory, moment, before, batches, dies, every
):
    with sleeping_in_sinks(), quiet(tmp_path_factory.mktemp("stream") / "checkpoint", *every) as drivers:
        sleep_and_wake(drivers, moment, before, batches, dies)
        assert counted(drivers) == EXPECTED


@pytest.mark.parametrize("batches", range(1, 6))
def test_two_that_end_a_file_at_the_same_moment_agree_where(tmp_path, batches):
    with sleeping_in_sinks(), quiet(tmp_path / "checkpoint", "2 s", "3 s", None) as drivers:
        end_at_once(drivers, batches)
        assert counted(drivers) == EXPECTED


# --- planted mistakes ---


def end_at_will(rows: GatheredRows, waiting) -> None:
    """Everybody ends files where he likes."""
    files.replace(rows._ends(waiting[0].batch), sealed({"is_sealed": True, "last": waiting[-1].batch}))


PLAIN = FolderSink.write_after


def as_this_life_likes(sink: FolderSink, said, batch, rows, planned_ns):
    """Not as the directive has said."""
    goes_on = bool(sink.every_ns)
    said = Gathering(goes_on) if said is None else said._replace(goes_on=goes_on)
    return PLAIN(sink, said, batch, rows, planned_ns)


def stories():
    yield from [partial(end_at_once, batches=number) for number in range(1, 6)]
    yield from [
        partial(sleep_and_wake, moment=moment, before=IDLE, batches=2, dies=False) for moment in ("writing", "ending")
    ]


MISTAKES = {
    "ends not agreed": (("2 s", "3 s", None), GatheredRows, "end", end_at_will),
    "every not as it was said": ((None, "1 h", "1 h"), FolderSink, "write_after", as_this_life_likes),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_of_sinks_are_found(mistake, tmp_path, monkeypatch):
    every, *planted = MISTAKES[mistake]
    monkeypatch.setattr(*planted)
    for number, story in enumerate(stories()):
        with sleeping_in_sinks(), quiet(tmp_path / str(number) / "checkpoint", *every) as drivers:
            try:
                story(drivers)
                assert counted(drivers) == EXPECTED
            except (AssertionError, hw.HeadwaterError):
                return
    raise AssertionError("nobody has noticed")
