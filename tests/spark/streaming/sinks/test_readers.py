"""What others see of a sink's folder at any moment: whole files, and nothing else."""

import os

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from headwater.logs import files
from headwater.spark.streaming.sinks import FolderSink
from spark.streaming.sinks.streams import History, table

READERS = {
    "pyarrow.dataset": lambda folder: ds.dataset(folder).count_rows(),
    "pyarrow.parquet": lambda folder: len(pq.read_table(folder)),
    "polars": lambda folder: len(pl.read_parquet(folder)),
    "duckdb": lambda folder: _duckdb(f"{folder}/*.parquet"),
}


def _duckdb(pattern: str) -> int:
    import duckdb

    ((count,),) = duckdb.sql(f"select count(*) from read_parquet('{pattern}')").fetchall()
    return count


def test_every_reader_sees_whole_files_only_while_one_is_written(tmp_path, monkeypatch):
    sink = FolderSink(tmp_path / "out")
    sink.open((history := History()).start("a"))
    history.run(sink.write, table(1, 2), table(3))
    seen, inner = {}, files.sync

    def looked_at(descriptor):
        """The bytes are written, and have no name yet."""
        inner(descriptor)
        seen.update({name: read(sink.path) for name, read in READERS.items()})

    monkeypatch.setattr(files, "sync", looked_at)
    sink.write(2, table(4, 5))
    assert seen == dict.fromkeys(READERS, 3)
    assert {name: read(sink.path) for name, read in READERS.items()} == dict.fromkeys(READERS, 5)


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    sink = FolderSink(tmp_path / "out")
    sink.open(History().start("a"))
    before = sorted(os.listdir(sink.path))

    def full(descriptor, data, *more):
        os.write(descriptor, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_all", full)
    with pytest.raises(OSError, match="No space left"):
        sink.write(0, table(1))
    assert sorted(os.listdir(sink.path)) == before == ["_headwater.s.a"]


def test_where_files_need_names_those_of_unfinished_ones_are_hidden(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE")
    names, inner = [], files.link

    def looked_at(path, name):
        names.extend(os.listdir(tmp_path))
        inner(path, name)

    monkeypatch.setattr(files, "link", looked_at)
    FolderSink(tmp_path).write(0, table(1))
    assert [name.startswith(".") for name in names] == [True]
    assert os.listdir(tmp_path) == ["batch-000000000000.parquet"]


def test_values_that_equal_nothing_are_the_same_when_they_come_again(tmp_path):
    rows = pa.table({"x": [float("nan"), 1.0], "replaces": pa.array([[{"a": 1}], None]), "nothing": pa.nulls(2)})
    for _ in range(2):
        FolderSink(tmp_path).write(0, rows)
