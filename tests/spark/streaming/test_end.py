"""The end of a stream: what was there when it was asked for is read first, in as many batches as that takes."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.simulator.stream import Loop, StoryRun
from headwater.spark.streaming import source
from headwater.spark.streaming.inputs import folder as folder_input
from headwater.spark.streaming.inputs.folder import FolderInput
from headwater.spark.streaming.planning import Offset, next_offset

pytestmark = pytest.mark.usefixtures("no_sync")

ENGINE = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None}
QUERY = hw.query("all", hw.tumbling("1 s"), n=hw.count())


class EndRun(StoryRun):
    """The end is asked for at any moment, and things go on happening until the stream is over."""

    def play(self) -> None:
        for _ in range(self.dice.randint(0, 12)):
            self._something_happens()
            self._batches(self.dice.randint(0, 2))
        self.story.commands = []
        asked = dict(self.opened.ends)
        self.loop.checkpoint.ask({"what": "flush"})
        self.truth.may_end = True
        for _ in range(1000):
            self._something_happens()
            self._batches(1)
            if self.loop.committed and self.loop.directive()["is_finished"]:
                break
        assert self.loop.directive()["is_finished"]
        missed = {name: end for name, end in asked.items() if self.truth.accepted[name] < end}
        assert not missed, f"not read before the end: {missed}, of {self.truth.accepted}"
        self.checker.check_end(self.loop.directive()["status"]["counters"])


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), crashes=st.booleans(), roots=st.sampled_from([1, 1, 1, 2]))
def test_a_flush_ends_a_stream_behind_everything_that_was_there_when_it_was_asked_for(
    tmp_path_factory, seed, crashes, roots
):
    EndRun(tmp_path_factory.mktemp("stream"), seed, crashes, roots).play()


def at_once(*facts) -> Offset:
    planned = next_offset(*facts)
    return planned if planned.until is None else replace(planned, until=None, flush=True)


def test_a_planner_that_ends_a_stream_in_the_batch_that_asks_is_found(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(source, "next_offset", at_once)
    runs = (EndRun(tmp_path_factory.mktemp("stream"), seed, crashes=False) for seed in range(20))
    with pytest.raises(AssertionError, match="not read before the end"):
        any(run.play() for run in runs)


def write_files(folder: Path, count: int, rows: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        times = pa.array(range(number * rows, (number + 1) * rows), pa.timestamp("us"))
        pq.write_table(pa.table({"time": times}), folder / f"{number:05d}.parquet")


def opened_loop(tmp_path: Path, **options) -> Loop:
    opened = FolderInput(tmp_path / "in", tmp_path / "seen", **options)
    return Loop(tmp_path / "c", opened, [QUERY], ENGINE, 2, 1, 0)


def counted(loop: Loop) -> int:
    return sum(n for rows in loop.sink.batches.values() if len(rows) for n in rows["n"].to_pylist())


def test_a_flush_reads_all_files_though_a_look_takes_in_some_and_a_batch_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_input, "LOOK_FILES", 10)
    write_files(tmp_path / "in" / "a", 45, rows=3)
    loop = opened_loop(tmp_path)
    loop.events_max = 20
    loop.checkpoint.ask({"what": "flush"})
    # Folders that appear right before the end are sources that have not joined.
    for number in range(20):
        write_files(tmp_path / "in" / f"late-{number}", 5)
    while loop.step():
        pass
    assert loop.directive()["is_finished"]
    assert counted(loop) == 45 * 3 + 20 * 5
    assert all(sum(b["ends"].values()) - sum(a["ends"].values()) <= 40 for a, b in pairwise(loop.planned))


@pytest.mark.parametrize("sources", ["folder", "file"])
def test_what_is_available_now_is_all_that_is_there(tmp_path, monkeypatch, sources):
    monkeypatch.setattr(folder_input, "LOOK_FILES", 10)
    write_files(tmp_path / "in" / "a", 45)
    loop = opened_loop(tmp_path, sources=sources)
    loop.reader.prepareForTriggerAvailableNow()
    write_files(tmp_path / "in" / "too-late", 5)
    while loop.step():
        pass
    assert sum(loop.planned[-1]["ends"].values()) == 45


def test_what_comes_after_the_end_was_asked_for_is_not_waited_for(tmp_path):
    write_files(tmp_path / "in" / "a", 9)
    loop = opened_loop(tmp_path)
    loop.events_max = 2
    loop.checkpoint.ask({"what": "flush"})
    assert loop.step()
    write_files(tmp_path / "in" / "b", 9)
    # Nor by another planner, which finds in the offset how far the first was going.
    loop.restart()
    while loop.step():
        pass
    assert loop.directive()["is_finished"]
    assert counted(loop) == 9


def test_offsets_say_how_far_a_stream_still_has_to_go_only_while_it_ends():
    assert "until" not in Offset(3, 5, {"a": 1}).to_data()
    ending = Offset(3, 5, {"a": 1}, until={"a": 7})
    assert Offset.from_data(ending.to_data()) == ending
