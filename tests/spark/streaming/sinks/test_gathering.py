"""Batches gathered into fewer files: whatever dies, and however long is gathered, each row of each batch is in one file."""

import json
import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import DataError, QueryError
from headwater.logs import files
from headwater.spark.streaming.directives import Directive
from headwater.spark.streaming.errors import CheckpointError
from headwater.spark.streaming.sinks import FolderSink, SinkError, folder
from headwater.spark.streaming.sinks.gathered import GatheredRows, Gathering
from spark.streaming.sinks.streams import History, table

SECOND = 10**9
STEPS = ("create_unseen", "create", "remove", "rename", "sync_directory", "make_folder")


class CrashError(Exception):
    """The driver dies here."""


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.glob("*.parquet"))


def values(place: Path) -> list[int]:
    return [n for name in names(place) for n in pq.ParquetFile(place / name).read().column(0).to_pylist()]


def started(place: Path, history: History, life: str, every: str | None) -> FolderSink:
    """A new life, in which what waited is put out. The first batch of all is gathered if the first life does so."""
    history.waiting = place / "gathered"
    sink = FolderSink(place / "out", every=every)
    sink.open(history.start(life))
    if history.done < 0:
        history.said.setdefault(-1, Gathering(True) if sink.starts_gathering else None)
    sink.put_out(history.said[history.done])
    return sink


def run(sink: FolderSink, history: History, rows, second: int) -> int | None:
    """A batch from its rows to what is done behind its directive; when a batch is due."""
    said = sink.write_after(history.said[history.done], history.done + 1, rows, second * SECOND)
    history.finish(rows, said)
    if said is not None and said.is_due:
        sink.put_out(said)
    return None if said is None else said.due_ns


def stop(sink: FolderSink, history: History) -> None:
    sink.put_out(history.said[history.done])


def test_a_file_has_the_batches_of_a_minute_and_is_named_by_the_first_and_the_last(tmp_path):
    sink = started(tmp_path, history := History(), "a", "1 min")
    assert run(sink, history, table(), 0) is None
    assert run(sink, history, table(1, 2), 10) == 70 * SECOND
    assert run(sink, history, table(), 20) == 70 * SECOND
    assert run(sink, history, table(3), 69) == 70 * SECOND
    assert names(tmp_path / "out") == []
    assert run(sink, history, table(4), 70) is None
    assert names(tmp_path / "out") == ["batch-000000000001-000000000004.parquet"]
    metadata = pq.read_schema(tmp_path / "out" / names(tmp_path / "out")[0]).metadata
    assert json.loads(metadata[b"headwater.batches"]) == [[1, 2], [3, 1], [4, 1]]
    assert run(sink, history, table(5), 71) == 131 * SECOND
    stop(sink, history)
    assert names(tmp_path / "out")[1] == "batch-000000000005.parquet"
    assert values(tmp_path / "out") == [1, 2, 3, 4, 5]


def test_rows_that_wait_are_written_by_a_batch_without_rows_once_they_are_due(tmp_path):
    sink = started(tmp_path, history := History(), "a", "1 min")
    run(sink, history, table(1), 0)
    assert run(sink, history, table(), 60) is None
    assert names(tmp_path / "out") == ["batch-000000000000.parquet"]


def test_a_batch_with_other_columns_begins_a_file(tmp_path):
    sink = started(tmp_path, history := History(), "a", "1 min")
    for rows in (table(1), table(2), table(3, column="m"), table(4, column="m")):
        run(sink, history, rows, 0)
    stop(sink, history)
    assert names(tmp_path / "out") == [
        "batch-000000000000-000000000001.parquet",
        "batch-000000000002-000000000003.parquet",
    ]


def test_rows_do_not_wait_when_they_are_many(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "GATHERED_BYTES_MAX", 20)
    sink = started(tmp_path, history := History(), "a", "1 min")
    assert run(sink, history, table(1, 2), 0) is not None
    assert run(sink, history, table(3), 0) is None


def test_a_batch_that_failed_later_is_not_written_by_stopping(tmp_path):
    sink = started(tmp_path, history := History(), "a", "1 min")
    run(sink, history, table(1), 0)
    sink.write_after(history.said[0], 1, table(2), SECOND)  # its directive is never written
    stop(sink, history)
    assert values(tmp_path / "out") == [1]
    # Spark may lose the offset of a batch that is not done, and plan another in its place.
    again = started(tmp_path, history, "b", None)
    run(again, history, table(3), 2)
    assert values(tmp_path / "out") == [1, 3]


def test_another_sink_is_refused_while_rows_wait(tmp_path):
    history = History()
    run(started(tmp_path, history, "a", "1 min"), history, table(1), 0)
    rows, said = GatheredRows(history.waiting), history.said[0]
    rows.check_target(said, tmp_path / "out")
    for other in (None, tmp_path / "other"):
        with pytest.raises(
            SinkError, match=r"batches 0 to 0 are gathered for the folder .*out and not written there yet"
        ):
            rows.check_target(said, other)
    started(tmp_path, history, "b", "1 min")
    rows.check_target(said, None)


def test_rows_that_wait_and_are_missing_or_damaged_are_said(tmp_path):
    sink = started(tmp_path, history := History(), "a", "1 min")
    for number in range(3):
        run(sink, history, table(number), 0)
    place = history.waiting / "1.1.rows"
    data = place.read_bytes()
    place.write_bytes(data[:-1])
    with pytest.raises(CheckpointError, match=r"1\.1\.rows: this file is damaged"):
        GatheredRows(history.waiting).found(history.said[2])
    place.unlink()
    with pytest.raises(CheckpointError, match=r"1\.1\.rows: this part of the checkpoint is missing"):
        GatheredRows(history.waiting).found(history.said[2])


def test_what_waits_takes_no_more_room_than_its_rows(tmp_path):
    sink = started(tmp_path, history := History(), "a", "1 min")
    for number in range(40):
        (history.waiting / f"{number}.9.rows").parent.mkdir(exist_ok=True)
        (history.waiting / f"{number}.9.rows").write_bytes(b"of a driver that was replaced")
        run(sink, history, table(number), number * 30)
    assert len(list(history.waiting.iterdir())) <= 6
    assert values(tmp_path / "out") == list(range(39))


def test_wrong_times_to_gather_are_said(tmp_path):
    with pytest.raises(QueryError, match="every is 60: write a duration with its unit, such as '60 s'"):
        FolderSink(tmp_path, every=60)
    with pytest.raises(DataError, match=r"every is for a folder sink that is given to hw\.stream"):
        FolderSink(tmp_path, every="1 min").write(0, table(1))


BATCHES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.sampled_from("nnnm")), min_size=1, max_size=8)
#: Each life: how long rows are gathered, after how many batches it is stopped, and the file operation at which it dies.
LIVES = st.lists(
    st.tuples(
        st.sampled_from([None, "10 s", "1 min"]),
        st.integers(0, 5),
        st.none() | st.tuples(st.integers(0, 25), st.booleans()),
    ),
    max_size=6,
)


@given(BATCHES, LIVES)
@settings(max_examples=100, deadline=None)
def test_after_any_crashes_and_any_every_each_row_of_each_batch_is_in_one_file(drawn, lives):
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patched:
        disk = Disk(patched)
        batches, number = [], 0
        for count, second, column in drawn:
            batches.append((table(*range(number, number + count), column=column), second))
            number += count
        seconds = [sum(second for _, second in batches[: at + 1]) for at in range(len(batches))]
        history = History(waiting=Path(place) / "gathered")
        for life, (every, count, death) in enumerate([*lives, ("1 min", len(batches), None)]):
            disk.dies_in(death)
            try:
                sink = started(Path(place), history, f"life {life}", every)
                for _ in range(min(count, len(batches) - history.done - 1)):
                    at = history.done + 1
                    run(sink, history, batches[at][0], seconds[at])
                    check_nothing_twice(Path(place) / "out")
                stop(sink, history)
                # Nothing is left to write; a batch that is not done may be there already.
                assert len(values(Path(place) / "out")) >= written(batches, history)
            except CrashError:
                pass
        assert values(Path(place) / "out") == list(range(number))
        for name in names(Path(place) / "out"):
            first, last = re.fullmatch(r"batch-(\d+)(?:-(\d+))?\.parquet", name).groups()
            assert len(batches[int(first)][0]) and len(batches[int(last or first)][0])


def written(batches, history: History) -> int:
    return sum(len(rows) for rows, _ in batches[: history.done + 1])


def check_nothing_twice(place: Path) -> None:
    found = values(place)
    assert found == list(range(len(found)))


class Disk:
    """Dies at a step, before it is done or behind it. Nothing is synced: only the process is lost."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self._left: int | None = None
        self._before = False
        patched.setattr(files, "sync", lambda descriptor: None)
        patched.setattr(os, "fsync", lambda descriptor: None)
        for name in STEPS:
            patched.setattr(files, name, self._step(getattr(files, name)))

    def dies_in(self, death: tuple[int, bool] | None) -> None:
        self._left, self._before = death or (None, False)

    def _step(self, inner):
        def step(*args):
            if self._left is None:
                return inner(*args)
            self._left -= 1
            if self._left == 0 and self._before:
                raise CrashError
            found = inner(*args)
            if self._left == 0:
                raise CrashError
            return found

        return step


def test_nothing_waits_when_the_stream_has_ended():
    """Found by the simulator: nobody could start it again to write what waited."""
    waits = {"sink": Gathering(True, "7.1.rows", "hash", 70)}
    said = Directive(7, "", [], {}).gathering(waits)
    assert not said.gathered["sink"].is_due and said.rows_due_ns == 70
    last = replace(said, is_finished=True).gathering(waits)
    assert last.gathered["sink"].is_due and last.rows_due_ns is None
