"""A start that is refused leaves a stream as it was, and one that has ended by itself keeps nobody from the next."""

import socket
from contextlib import ExitStack
from functools import partial

import pyarrow as pa
import pytest

import headwater as hw
from headwater.simulator.stream import TABLES, ListedInput, Loop
from headwater.spark.stream import _go_on, _prepared, begin
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.errors import EndedError, RunningError
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.sinks import FolderSink, MemorySink, SinkError
from headwater.spark.streaming.sinks.batch_files import BatchRows
from headwater.spark.streaming.sinks.gathered import Gathering
from headwater.spark.streaming.start.driver_lock import DriverLock, refuse_running
from headwater.spark.streaming.start.query_changes import running_queries
from spark.streaming.plain_stream import SETTINGS
from spark.streaming.sinks.streams import History, table

pytestmark = pytest.mark.usefixtures("no_sync")

SCHEMA = pa.schema([("time", pa.int64())])
QUERY, OTHER = (hw.query(name, hw.tumbling(10), n=hw.count()) for name in ("load", "other"))
WATCHED = {"name": "s", "metrics_port": None, "progress": False}


@pytest.fixture
def checkpoint(tmp_path):
    known = StreamCheckpoint(tmp_path / "checkpoint")
    begin(known, ListedInput(SCHEMA), [QUERY], SETTINGS, 1)
    return known


def prepared(checkpoint: StreamCheckpoint, undo: ExitStack, sink, **watched) -> BatchRunner:
    take = partial(_go_on, checkpoint, checkpoint.begun(), checkpoint.path.parent / "spark")
    return _prepared(
        checkpoint, ListedInput(SCHEMA), {"sink": sink, "aside": None}, [OTHER], take, {**WATCHED, **watched}, undo
    )


def test_a_start_that_is_refused_leaves_the_queries_as_they_were(checkpoint, tmp_path):
    FolderSink(tmp_path / "taken").open(History("another").start("a"))
    with pytest.raises(SinkError, match="belongs to another stream"), ExitStack() as undo:
        prepared(checkpoint, undo, FolderSink(tmp_path / "taken"))
    with socket.create_server(("", 0)) as taken, pytest.raises((OSError, hw.DataError)), ExitStack() as undo:
        prepared(checkpoint, undo, MemorySink(), metrics_port=taken.getsockname()[1])
    assert checkpoint.command_count() == 0
    refuse_running(checkpoint.path, wait_seconds=0)
    with ExitStack() as undo:
        prepared(checkpoint, undo, MemorySink())
    assert list(running_queries(checkpoint)) == ["other"]


def test_a_stream_whose_planner_has_failed_lets_go_of_its_lock(checkpoint):
    runner = BatchRunner(checkpoint, MemorySink(), lock=DriverLock(checkpoint.path))
    is_active = [True]
    runner.runs_as(lambda: is_active[0])
    runner.look()
    with pytest.raises(RunningError):
        refuse_running(checkpoint.path, wait_seconds=0)
    is_active.clear()
    is_active.append(False)
    runner.look()
    refuse_running(checkpoint.path, wait_seconds=0)
    runner.look()


def test_a_flushed_stream_whose_rows_still_wait_puts_them_out_before_it_says_that_it_has_ended(tmp_path):
    TABLES["a"] = pa.RecordBatch.from_pydict({"time": list(range(50))}, SCHEMA)
    loop = Loop(tmp_path / "checkpoint", ListedInput(SCHEMA, {"a": 50}), [QUERY], SETTINGS, 1, 1, 0)
    loop.checkpoint.ask({"what": "flush"})
    while loop.step():
        pass
    last = loop.checkpoint.last_batch()
    # As if it had died behind the directive of its last batch.
    rows = loop.checkpoint.gathered("sink", 1)
    named = rows.keep(BatchRows(last, 0, table(1, 2)), None, tmp_path / "out")
    said = loop.checkpoint.said(last)
    (loop.checkpoint.path / "directives" / f"{last}.json").unlink()
    assert loop.checkpoint.commit(said.gathering({"sink": Gathering(True, *named, 7)}))
    with pytest.raises(EndedError, match="was flushed after batch"), ExitStack() as undo:
        prepared(loop.checkpoint, undo, FolderSink(tmp_path / "out", every="1 h"))
    assert len(pa.parquet.read_table(tmp_path / "out")) == 2
