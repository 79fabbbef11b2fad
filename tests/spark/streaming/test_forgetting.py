"""What a stream keeps is bounded by what is open: sources that are done are forgotten, and so are commands and queries."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.language.files.queries import to_json
from headwater.protocols import membership
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.stream import TABLES, ListedInput, Loop, StoryRun
from headwater.spark.streaming import host, planning, runner
from headwater.spark.streaming.checkpoint import KEPT
from headwater.spark.streaming.inputs import seen_files
from headwater.spark.streaming.inputs.folder import FolderInput
from headwater.spark.streaming.inputs.folder_listing import gone_names

pytestmark = pytest.mark.usefixtures("no_sync")

SCHEMA = pa.schema([("time", pa.int64())])
ENGINE = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None}
QUERY = hw.query("n", hw.tumbling("10 us"), n=hw.count())


def forgets_soon(patch: pytest.MonkeyPatch) -> None:
    """Sources are forgotten with every second batch."""
    patch.setattr(host, "FORGET_MIN", 1)
    patch.setattr(host, "SNAPSHOT_EVERY", 2)


@pytest.fixture
def soon(monkeypatch):
    forgets_soon(monkeypatch)


class ForgetRun(StoryRun):
    """Most sources say that they are done once all of them is there."""

    def _something_happens(self) -> None:
        super()._something_happens()
        for name, log in self.logs.items():
            if self.opened.ends.get(name) == len(log) and self.dice.random() < 0.7:
                self.opened.done.add(name)


@settings(max_examples=10, deadline=None)
@example(seed=0, crashes=True)
@given(seed=st.integers(0, 2**32), crashes=st.booleans())
def test_a_stream_that_forgets_its_sources_says_what_the_reference_says(tmp_path_factory, seed, crashes):
    with pytest.MonkeyPatch.context() as patch:
        forgets_soon(patch)
        ForgetRun(tmp_path_factory.mktemp("stream"), seed, crashes).play()


def test_an_input_that_tells_again_of_what_was_forgotten_is_found(soon, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(ListedInput, "forget", lambda *_: None)
    runs = (ForgetRun(tmp_path_factory.mktemp("stream"), seed, crashes=False) for seed in range(20))
    with pytest.raises((ViolationError, AssertionError)):
        any(run.play() for run in runs)


def write_file(folder: Path, name: str, times: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"time": times}, SCHEMA), folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


def go_on(loop: Loop) -> None:
    while loop.step():
        pass


def rows(loop: Loop) -> list[tuple[int, int]]:
    found = [row for table in loop.sink.batches.values() for row in table.to_pylist()]
    return sorted((row["window_start"], row["n"]) for row in found)


def opened_loop(tmp_path: Path) -> Loop:
    opened = FolderInput(tmp_path / "in", tmp_path / "seen", sources="file", schema=SCHEMA)
    return Loop(tmp_path / "c", opened, [QUERY], ENGINE, 2, 1, 0)


def test_files_that_are_read_are_known_by_their_names_alone_and_never_read_again(soon, tmp_path):
    (tmp_path / "in").mkdir()
    loop = opened_loop(tmp_path)
    for number in range(30):
        write_file(tmp_path / "in", f"{number:03d}.parquet", [number, number + 1])
        go_on(loop)
        # Every life begins with what the log of seen files says.
        loop.opened = FolderInput.from_data(loop.opened.to_data())
        loop.restart()
    go_on(loop)
    assert len(loop.planned[-1]["ends"]) <= 3
    assert len(loop.directive()["status"]["link_bytes"]) <= 2
    assert loop.directive()["status"]["events"] == 60
    assert loop.directive()["status"]["sources"] <= 3
    assert loop.opened._seen.paths == {f"{number:03d}.parquet" for number in range(30)}
    loop.checkpoint.ask({"what": "flush"})
    go_on(loop)
    assert sum(n for _, n in rows(loop)) == 60


def test_names_of_files_that_are_gone_are_forgotten_and_may_come_again(soon, tmp_path, monkeypatch):
    monkeypatch.setattr(seen_files, "TOGETHER_MIN", 2)
    (tmp_path / "in").mkdir()
    loop = opened_loop(tmp_path)
    for number in range(40):
        write_file(tmp_path / "in", f"{number:03d}.parquet", [number, number])
        go_on(loop)
        if number > 2:
            (tmp_path / "in" / f"{number - 3:03d}.parquet").unlink()
    assert len(loop.opened._seen.paths) <= 12
    write_file(tmp_path / "in", "000.parquet", [40])
    go_on(loop)
    loop.checkpoint.ask({"what": "flush"})
    go_on(loop)
    assert rows(loop) == [(0, 20), (10, 20), (20, 20), (30, 20), (40, 1)]


def test_an_empty_folder_may_be_a_disk_that_is_not_there_and_forgets_no_name(tmp_path):
    names = [f"{folder}/{number}.csv" for folder in ("a", "b") for number in range(3)]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert gone_names(tmp_path, names) == set()
    (tmp_path / "a" / "1.csv").unlink()
    assert gone_names(tmp_path, names) == {"a/1.csv"}
    for number in (0, 2):
        (tmp_path / f"a/{number}.csv").unlink()
    assert gone_names(tmp_path, names) == set()
    (tmp_path / "a").rmdir()
    assert gone_names(tmp_path, names) == {name for name in names if name.startswith("a/")}
    shutil.rmtree(tmp_path / "b")
    assert gone_names(tmp_path, names) == set()
    assert gone_names(tmp_path / "nowhere", names) == set()


def test_more_sources_than_a_message_holds_join_bit_by_bit(soon, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "JOINING_MAX", 2)
    for number in range(9):
        write_file(tmp_path / "in", f"{number}.parquet", [number])
    loop = opened_loop(tmp_path)
    loop.checkpoint.ask({"what": "flush"})
    go_on(loop)
    assert rows(loop) == [(0, 9)]
    assert all(sum(map(len, planned["joining"].values())) <= 2 for planned in loop.planned)


def test_a_source_that_comes_and_goes_leaves_nothing_at_the_root(tmp_path):
    TABLES.update({name: pa.table({"time": range(10_000)}, SCHEMA).to_batches()[0] for name in "ab"})
    opened = ListedInput(SCHEMA, {"a": 0, "b": 0})
    loop = Loop(tmp_path, opened, [QUERY], {**ENGINE, "idle_ns": 10**9}, 1, 1, 0)
    for number in range(30):
        opened.ends["a"] += 1
        opened.ends["b"] += number % 5 == 0
        loop.now_ns += 10**9
        go_on(loop)
    what = [note.detail["what"] for each in loop.computed.values() for note in each.notes if note.what == "decided"]
    assert {"idle", "returned"} <= {*what}
    assert loop.runner._host._root.members.decisions == []


def test_commands_and_queries_that_are_over_are_forgotten_with_what_a_crash_left(tmp_path):
    TABLES["a"] = pa.table({"time": range(10_000)}, SCHEMA).to_batches()[0]
    opened = ListedInput(SCHEMA, {"a": 0})
    loop = Loop(tmp_path, opened, [QUERY], ENGINE, 1, 1, 0)
    for number in range(4 * KEPT):
        opened.ends["a"] += 1
        extra = hw.query(f"q{number}", hw.tumbling("5 us"), n=hw.count())
        loop.checkpoint.ask({"what": "add", "queries": to_json([extra])})
        loop.checkpoint.ask({"what": "remove", "name": extra.name, "drain": False})
        (tmp_path / "states" / f"{number}.full.0123").write_bytes(b"litter")
        go_on(loop)
    assert loop.checkpoint.command_count() == 8 * KEPT
    assert len([*(tmp_path / "commands").iterdir()]) <= 4 * KEPT + 2
    assert len([*(tmp_path / "queries").iterdir()]) <= 4 * KEPT
    assert len([*(tmp_path / "states").glob("*.0123")]) <= 4 * KEPT
    loop.restart()
    opened.ends["a"] += 1
    go_on(loop)
    assert loop.directive()["commands"] == 8 * KEPT


# --- sources that cannot be forgotten ---


def crowded(place: Path, first: int) -> Loop:
    TABLES.update({f"source-{n:03d}": pa.RecordBatch.from_pydict({"time": [n]}, SCHEMA) for n in range(100)})
    opened = ListedInput(SCHEMA, {f"source-{n:03d}": 1 for n in range(first)})
    return Loop(place, opened, [QUERY], ENGINE, 1, 1, seed=0)


def run_out(loop: Loop) -> None:
    while loop.step():
        pass


def test_a_stream_whose_sources_become_too_many_stops_with_a_sentence_instead_of_asking_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(membership, "TEXT_BYTES_MAX", 4_000)
    loop = crowded(tmp_path, first=5)
    run_out(loop)
    loop.opened.ends |= {f"source-{n:03d}": 1 for n in range(100)}
    with pytest.raises(
        hw.DataError, match=r"would have 100 sources: .*; begin a stream of fewer sources .* or of more tasks"
    ):
        run_out(loop)


def test_a_stream_that_has_too_many_sources_is_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(membership, "TEXT_BYTES_MAX", 4_000)
    with pytest.raises(hw.DataError, match="would have 100 sources"):
        crowded(tmp_path, first=100)
    assert not (tmp_path / "about.json").exists()


def test_that_sources_are_many_is_said_once_before_they_are_too_many(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(runner, "MANY_SOURCES", 20)
    run_out(crowded(tmp_path, first=30))
    (said,) = [record.getMessage() for record in caplog.records if "sources" in record.getMessage()]
    assert said.startswith("the stream has 30 sources, 30 for each of its 1 tasks; with twice as many it stops")
