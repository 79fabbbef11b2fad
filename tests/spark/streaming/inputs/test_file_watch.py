"""Files that are seen while they are written: tried again until they are whole, and told when they grow afterwards."""

import logging
import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.spark.formats import Wanted
from headwater.spark.streaming.inputs.file_watch import PATIENCE_NS, FileWatch
from headwater.spark.streaming.inputs.folder import FolderInput
from headwater.spark.streaming.watch.observer import StreamObserver

pytestmark = pytest.mark.usefixtures("no_sync")

SCHEMA = pa.schema([("time", pa.int64())])


class Clock:
    """Whatever the test says, for all inputs."""

    now_ns = 0

    def opened(self, folder: Path) -> FolderInput:
        made = FolderInput(folder / "in", folder / "seen", schema=SCHEMA)
        made._watch.clock = lambda: self.now_ns
        return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def parquet(rows: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"time": range(rows)}, SCHEMA), sink)
    return sink.getvalue().to_pybytes()


def csv(rows: int) -> bytes:
    return b"time\n" + b"".join(b"%d\n" % row for row in range(rows))


def ends(opened: FolderInput) -> dict[str, int]:
    return {name: extent.end for name, extent in opened.extents().items()}


@pytest.mark.parametrize(("name", "data"), [("a.parquet", parquet(7)), ("a.csv", csv(7))])
def test_a_file_that_is_being_copied_is_read_once_it_is_whole(folder, name, data):
    clock = Clock()
    opened = clock.opened(folder)
    # Of the text so little that there is no row yet.
    for end in (0, 3, len(data) // 2 if name == "a.parquet" else 5):
        (folder / "in" / name).write_bytes(data[:end])
        assert ends(opened) == {}
        clock.now_ns += PATIENCE_NS - 1
    (folder / "in" / name).write_bytes(data)
    assert ends(opened) == {".": 7}
    assert opened.problems() == []


def test_a_file_that_stays_unreadable_is_passed_over_after_some_minutes_and_tried_no_more(folder):
    clock = Clock()
    opened, driver = clock.opened(folder), clock.opened(folder)
    (folder / "in" / "a.parquet").write_bytes(parquet(7)[:-20])
    assert ends(opened) == {}
    # Told at once, to other processes as well, though nothing is decided.
    assert [path for _, path, _ in driver.problems()] == ["a.parquet"]
    assert not opened._seen.paths
    clock.now_ns += PATIENCE_NS
    assert ends(opened) == {}
    assert opened._seen.paths == {"a.parquet"}
    assert [path for _, path, _ in driver.problems()] == ["a.parquet"]
    (folder / "in" / "a.parquet").write_bytes(parquet(7))
    assert ends(opened) == {}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_file_that_grows_after_it_was_taken_in_is_named(folder, is_restarted):
    clock = Clock()
    opened = clock.opened(folder)
    (folder / "in" / "a.csv").write_bytes(csv(2))
    assert ends(opened) == {".": 2}
    (folder / "in" / "a.csv").write_bytes(csv(3))
    if is_restarted:
        opened = clock.opened(folder)
    for _ in range(2):
        assert ends(opened) == {".": 2}
        ((source, path, reason),) = clock.opened(folder).problems()
        assert (source, path) == (".", "a.csv")
        assert reason.startswith("it has changed since it was taken in, from 9 bytes to 11: its 2 rows of then count")


def test_a_file_that_was_taken_in_is_not_watched_for_ever(folder):
    clock = Clock()
    opened = clock.opened(folder)
    (folder / "in" / "a.csv").write_bytes(csv(2))
    ends(opened)
    clock.now_ns += PATIENCE_NS
    ends(opened)
    assert opened._watch._fresh == {}


def test_problems_of_files_are_counted_and_each_is_logged_once(caplog):
    found = [(".", "a.csv", "it has changed")]
    observer = StreamObserver("load", "us", frozenset(), metrics_port=None, progress=False, problems=lambda: found)
    with caplog.at_level(logging.WARNING, "headwater.stream"):
        observer.look()
        observer.look()
    assert [record.getMessage() for record in caplog.records] == [
        "load batch -1: not all of a file is read source=. path=a.csv reason=it has changed"
    ]
    assert observer.status().files_with_problems == 1
    found.clear()
    observer.look()
    assert observer.status().files_with_problems == 0


def values(opened: FolderInput) -> list[int | None]:
    """All that the input holds, read from the beginning."""
    wanted = Wanted(["time"], SCHEMA)
    found = (opened.read(stretch, wanted) for stretch in opened.stretches(".", 0, ends(opened).get(".", 0)))
    return [value for batches in found for batch in batches for value in batch.column("time").to_pylist()]


@pytest.mark.parametrize("begin", [2, 3])
def test_a_text_that_grows_is_read_again_as_it_was(folder, begin):
    """Between two looks, too: whatever else was written, its rows of then count, its torn last line among them."""
    data = csv(12)
    opened = Clock().opened(folder)
    (folder / "in" / "a.csv").write_bytes(data[: -2 * begin])
    before = values(opened)
    stretches = opened.stretches(".", 0, len(before))
    (folder / "in" / "a.csv").write_bytes(data)
    wanted = Wanted(["time"], SCHEMA)
    again = [v for stretch in stretches for batch in opened.read(stretch, wanted) for v in batch["time"].to_pylist()]
    assert again == before == values(opened)


def copies(seed: int) -> None:
    """Some files are copied bit by bit, seen and read in between: all of each is read, or it is named.

    And what was read once comes again whenever it is read.
    """
    dice, clock = random.Random(seed), Clock()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "in").mkdir()
        opened = clock.opened(folder)
        read_before: list[int | None] = []
        files = {f"{n}.{kind}": dice.randint(1, 5) for n in range(3) for kind in ("csv", "parquet")}
        for name, rows in files.items():
            data = csv(rows) if name.endswith("csv") else parquet(rows)
            for end in [*sorted(dice.sample(range(len(data)), dice.randint(0, 3))), len(data)]:
                (folder / "in" / name).write_bytes(data[:end])
                clock.now_ns += dice.choice([0, PATIENCE_NS // 2])
                if dice.random() < 0.2:
                    opened = clock.opened(folder)
                now = values(opened)
                assert now[: len(read_before)] == read_before
                read_before = now
        opened.extents()
        named = {path for _, path, _ in opened.problems()}
        read = {file.path: file.rows for file in opened._seen.files()}
        assert {name for name, rows in files.items() if read.get(name) != rows} <= named


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_of_a_file_that_is_copied_into_the_folder_all_is_read_or_it_is_named(seed):
    copies(seed)


def test_an_input_that_takes_what_it_sees_for_whole_is_found(monkeypatch):
    monkeypatch.setattr(FileWatch, "is_settled", lambda *_: True)
    monkeypatch.setattr(FileWatch, "compare", lambda _: None)
    with pytest.raises(AssertionError):
        any(copies(seed) for seed in range(20))
