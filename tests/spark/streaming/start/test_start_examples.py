"""What `hw.stream` checks and chooses before the first batch, by a few plain cases without Spark."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.generator import SmartHome
from headwater.spark.stream import begin
from headwater.spark.streaming.checkpoint import CheckpointError, StreamCheckpoint
from headwater.spark.streaming.inputs.folder import FolderInput
from headwater.spark.streaming.inputs.generator import GeneratorInput
from headwater.spark.streaming.sinks import FolderSink, MemorySink
from headwater.spark.streaming.start.prepare import check_remote, check_same, choose_roots, open_input
from headwater.spark.streaming.start.query_changes import change_queries, check_changes, running_queries

SETTINGS = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None}
OPTIONS = {"format": None, "sources": "folder", "schema": None, "types": None, "strict": False}
CLOCK = {"pace": "fast", "time": "time", "unit": "us"}
LOAD = hw.query("load", hw.tumbling(10), total=hw.sum("v"))
BY_HOUSE = hw.query("houses", hw.tumbling(10), keys=["house"], n=hw.count())


@pytest.fixture
def checkpoint(tmp_path):
    return StreamCheckpoint(tmp_path / "checkpoint")


@pytest.fixture
def opened(tmp_path, checkpoint):
    """A folder with one file of four events and two houses."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"time": [1, 2, 3, 4], "v": [1] * 4, "house": [1, 1, 2, 2]}), tmp_path / "in" / "a.parquet")
    return open_input(tmp_path / "in", checkpoint, **CLOCK, **OPTIONS)


def test_a_source_is_opened_as_what_it_is(opened, checkpoint):
    assert isinstance(opened, FolderInput)
    assert open_input(opened, checkpoint, **CLOCK, **OPTIONS) is opened
    assert isinstance(open_input(SmartHome(seconds=1), checkpoint, **CLOCK, **OPTIONS), GeneratorInput)
    with pytest.raises(hw.DataError, match="source is 3: give a folder"):
        open_input(3, checkpoint, **CLOCK, **OPTIONS)


def test_few_keys_are_answered_on_the_driver(opened):
    assert choose_roots(opened, [BY_HOUSE], 4, "auto") == (
        1,
        "2 keys among the first 4 events: the driver answers soonest",
    )
    assert choose_roots(opened, [BY_HOUSE], 4, "reducers") == (4, "asked for")
    with pytest.raises(hw.QueryError, match="no query has keys that they could share"):
        choose_roots(opened, [LOAD], 4, "reducers")


def test_a_new_stream_knows_its_queries(opened, checkpoint):
    begin(checkpoint, opened, [LOAD], SETTINGS, chains=1)
    assert list(running_queries(checkpoint)) == ["load"]
    assert checkpoint.begun().chains == 1


def test_queries_change_when_a_stream_is_started_with_others(opened, checkpoint):
    begin(checkpoint, opened, [LOAD], SETTINGS, chains=1)
    check_changes(checkpoint, checkpoint.begun(), [BY_HOUSE])
    change_queries(checkpoint, [BY_HOUSE])
    assert list(running_queries(checkpoint)) == ["houses"]
    with pytest.raises(hw.QueryError, match="'houses' is another than when the stream stopped"):
        check_changes(checkpoint, checkpoint.begun(), [hw.query("houses", hw.tumbling(20), n=hw.count())])


def test_a_stream_goes_on_only_as_it_began(opened, checkpoint, tmp_path):
    begin(checkpoint, opened, [LOAD], SETTINGS, chains=1)
    check_same(checkpoint.begun(), opened, SETTINGS, tmp_path)
    with pytest.raises(CheckpointError, match="disorder is 5, but was 0 when the stream began"):
        check_same(checkpoint.begun(), opened, {**SETTINGS, "disorder": 5}, tmp_path)


def test_a_stream_without_queries_does_not_begin(opened, checkpoint):
    with pytest.raises(hw.QueryError, match="a new stream needs at least one"):
        begin(checkpoint, opened, [], SETTINGS, chains=1)


def test_a_memory_sink_cannot_be_seen_through_connect(tmp_path):
    check_remote({"sink": FolderSink(tmp_path)}, None, None)
    with pytest.raises(hw.DataError, match="sink is 'memory': through Spark Connect batches run at the server"):
        check_remote({"sink": MemorySink()}, None, None)
    with pytest.raises(hw.DataError, match="metrics_port is 0"):
        check_remote({}, 0, None)
    with pytest.raises(hw.DataError, match=r"page is Page\(port=0.*leave page out"):
        check_remote({}, None, None, hw.Page(token="secret"))
