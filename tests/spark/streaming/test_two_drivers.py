"""One driver runs a stream: whoever was paused, wherever that was, changes nothing that anybody reads once it wakes."""

from collections import Counter
from contextlib import contextmanager
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.logs import files
from headwater.simulator.stream import (
    IDLE,
    MOMENTS,
    Drivers,
    LogTakenError,
    Loop,
)
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.errors import ReplacedError
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.seals import sealed
from spark.streaming.plain_stream import QUERY, SETTINGS, one_source, until
from spark.streaming.shared_run import SharedRun

pytestmark = pytest.mark.usefixtures("no_sync")

TIMES = list(range(0, 120, 2))


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_drivers_that_run_side_by_side_say_what_the_reference_says(tmp_path_factory, seed):
    SharedRun(tmp_path_factory.mktemp("stream"), seed, crashes=False, is_shared=True).play()


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_drivers_whose_roots_are_in_tasks_say_what_the_reference_says(tmp_path_factory, seed):
    SharedRun(tmp_path_factory.mktemp("stream"), seed, crashes=False, roots=2, is_shared=True).play()


# --- one that sleeps ---


@contextmanager
def shared(place, roots=1):
    drivers = Drivers(Loop(place, one_source(TIMES), [QUERY], SETTINGS, 1, roots, seed=0, starts=False))
    try:
        yield drivers
    finally:
        drivers.close()


def sleep_and_wake(drivers: Drivers, moment: str, before: str, batches: int) -> BaseException | None:
    """A driver sleeps at a moment of the second batch; its successor sees more events, and comes to a moment of a batch."""
    loop, (first,) = drivers.loop, drivers.all
    loop.opened.ends["a"] = 10
    until(first, IDLE)
    loop.opened.ends["a"] = 22
    until(first, moment)
    loop.opened.ends["a"] = 34
    loop.now_ns += 1
    drivers.add()
    second = drivers.newest
    for _ in range(batches):
        until(second, before)
        loop.opened.ends["a"] += 2
    known = directives(loop)
    until(first, IDLE)
    assert directives(loop).items() >= known.items(), "what the root has said was changed"
    while second.is_alive and loop.opened.ends["a"] < len(TIMES):
        loop.opened.ends["a"] = min(len(TIMES), loop.opened.ends["a"] + 9)
        until(second, IDLE)
    for driver, may_end in ((first, ReplacedError | LogTakenError), (second, LogTakenError)):
        if driver.error is not None and not isinstance(driver.error, may_end):
            raise driver.error
    if second.error is not None:
        # Spark lets one of two that plan at the same moment go on, and the other has to be started again.
        loop.opened.ends["a"] = len(TIMES)
        drivers.add()
        until(drivers.newest, IDLE)
    return first.error


def directives(loop: Loop) -> dict[str, bytes]:
    return {place.name: place.read_bytes() for place in (loop.checkpoint.path / "directives").glob("*.json")}


def counted(loop: Loop) -> dict[tuple[int, int], int]:
    rows = [row for table in loop.sink.batches.values() for row in table.to_pylist()]
    assert len({(row["window_start"], row["k"]) for row in rows}) == len(rows)
    return {(row["window_start"], row["k"]): row["n"] for row in rows}


#: All windows but the last, which nothing closes.
EXPECTED = dict(Counter((t // 10 * 10, t % 3) for t in TIMES if t < 110))


@pytest.mark.parametrize("roots", [1, 2])
@given(
    moment=st.sampled_from(MOMENTS),
    before=st.sampled_from([*MOMENTS, IDLE]),
    batches=st.integers(0, 2),
)
@settings(max_examples=30, deadline=None)
def test_a_driver_that_wakes_after_another_took_over_changes_nothing_and_says_why_it_stops(
    tmp_path_factory, roots, moment, before, batches
):
    with shared(tmp_path_factory.mktemp("stream"), roots) as drivers:
        error = sleep_and_wake(drivers, moment, before, batches)
        assert isinstance(error, ReplacedError | LogTakenError), error
        assert counted(drivers.loop) == EXPECTED
        if isinstance(error, ReplacedError):
            assert "was replaced and stops: the stream is run by a driver of the loop" in str(error)


# --- planted mistakes ---


def replaced_directive(checkpoint: StreamCheckpoint, directive) -> bool:
    files.replace(checkpoint._directive(directive.batch, directive.owner), sealed(directive.to_data()))
    return True


def ownerless(owner: Ownership) -> None:
    """Everybody believes to be the only one."""


MISTAKES = {
    "directive replaced": (StreamCheckpoint, "commit", replaced_directive),
    "owner not checked": (Ownership, "check", ownerless),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_found(mistake, tmp_path, monkeypatch):
    """By rows that are missing, doubled or others when they come again, or by somebody who finds what cannot be."""
    owner, name, planted = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, planted)
    # The second batch of the successor builds on the first, which the sleeper does again.
    drawn = product((2, 1), ("logged", "rows", "directive", IDLE), reversed(MOMENTS))
    for number, (batches, before, moment) in enumerate(drawn):
        with shared(tmp_path / str(number)) as drivers:
            try:
                sleep_and_wake(drivers, moment, before, batches)
                assert counted(drivers.loop) == EXPECTED
            except (AssertionError, hw.HeadwaterError):
                return
    raise AssertionError("nobody has noticed")
