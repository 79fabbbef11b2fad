"""Clocks that are set while a stream runs: they make no source idle, and nothing stands still because of them."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.simulator.stream import TABLES, ListedInput, Loop, StoryRun
from headwater.spark.streaming.elapsed import Elapsed
from headwater.spark.streaming.planning import Offset

pytestmark = pytest.mark.usefixtures("no_sync")

SECOND = 10**9
YEAR = 365 * 86_400 * SECOND
SCHEMA = pa.schema([("time", pa.int64())])
JUMPS = [0, 0, SECOND, -SECOND, YEAR, -YEAR]


class JumpRun(StoryRun):
    """A workload during which somebody sets the wall clock, again and again."""

    def __init__(self, place: Path, seed: int, jumps: list[int]) -> None:
        self._jumps, self._clock_dice = jumps, random.Random(seed)
        super().__init__(place, seed, crashes=False)

    def _something_happens(self) -> None:
        super()._something_happens()
        self.loop.ahead_ns += self._clock_dice.choice(self._jumps)

    def batches(self) -> list[dict]:
        """All that was planned, without what the clock said."""
        self.play()
        said = ("clock_ns", "directive")  # a directive names the offset that it answers, by its hash
        return [{name: value for name, value in planned.items() if name not in said} for planned in self.loop.planned]


def compare(tmp_path_factory, seed: int) -> None:
    calm, set_often = (JumpRun(tmp_path_factory.mktemp("stream"), seed, jumps).batches() for jumps in ([0], JUMPS))
    assert calm == set_often


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_stream_decides_the_same_however_often_the_clock_is_set(tmp_path_factory, seed):
    compare(tmp_path_factory, seed)


def test_a_planner_that_counts_time_by_the_wall_clock_is_found(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(Elapsed, "since", lambda _, batch, planned, wall, steady: max(0, wall - planned) * (batch >= 0))
    with pytest.raises(AssertionError):
        any(compare(tmp_path_factory, seed) for seed in range(20))


def started(place: Path, time: object = "time", idle_ns: int | None = 10 * SECOND) -> tuple[Loop, ListedInput]:
    for name in "ab":
        TABLES[name] = pa.RecordBatch.from_pylist([{"time": n} for n in range(100)], SCHEMA)
    opened = ListedInput(SCHEMA, {"a": 0, "b": 0})
    engine = {"time": time, "unit": "us", "disorder": 0, "strict": False, "idle_ns": idle_ns}
    return Loop(place, opened, [hw.query("n", hw.tumbling("10 us"), n=hw.count())], engine, 1, 1, 0), opened


def go_on(loop: Loop, seconds: int = 0) -> None:
    loop.now_ns += seconds * SECOND
    while loop.step():
        pass


def idle(loop: Loop) -> int:
    return loop.directive()["status"]["sources_idle"]


def test_a_clock_that_was_ahead_once_neither_idles_sources_nor_keeps_them_from_falling_idle(tmp_path):
    loop, opened = started(tmp_path)
    opened.ends.update(a=5, b=5)
    go_on(loop)
    loop.ahead_ns = YEAR
    opened.ends.update(a=9)
    go_on(loop, 1)
    assert idle(loop) == 0
    loop.ahead_ns = 0
    for _ in range(12):
        opened.ends["a"] += 1
        go_on(loop, 1)
    assert loop.directive()["status"]["watermark"] > 4
    assert idle(loop) == 1


def test_a_clock_that_was_set_while_nothing_ran_idles_no_source(tmp_path):
    loop, opened = started(tmp_path)
    opened.ends.update(a=5, b=5)
    go_on(loop)
    loop.ahead_ns = YEAR
    loop.restart()
    opened.ends.update(a=9)
    go_on(loop, 1)
    assert idle(loop) == 0


def test_a_stream_that_lives_for_moments_still_finds_its_sources_silent(tmp_path):
    loop, opened = started(tmp_path)
    opened.ends.update(a=5, b=5)
    for _ in range(4):
        loop.restart()
        go_on(loop, 60)
        opened.ends["a"] += 1
    assert idle(loop) == 1


def test_a_source_that_has_nothing_when_a_stream_begins_is_not_idle_at_once(tmp_path):
    loop, opened = started(tmp_path)
    opened.ends.update(a=5)
    go_on(loop)
    assert idle(loop) == 0


def test_times_of_arrival_go_on_when_the_clock_is_set_back(tmp_path):
    loop, opened = started(tmp_path, hw.arrival(), None)
    moments = []
    for end, ahead_ns in enumerate([YEAR, 0, 0, -YEAR, 0], start=1):
        opened.ends.update(a=end, b=end)
        loop.ahead_ns = ahead_ns
        go_on(loop, 1)
        moments.append(loop.planned[-1]["clock_ns"])
    assert moments == [moments[0] + number * SECOND for number in range(5)]


def test_offsets_of_earlier_releases_say_the_clock_as_the_time():
    old = {name: value for name, value in Offset(3, 17, {"a": 1}).to_data().items() if name != "clock_ns"}
    assert Offset.from_data(old).clock_ns == 17
