"""`headwater.stream` through Spark Connect: batches run in a process of the server, so all that is kept is in files."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.logs import Log
from headwater.spark.streaming.sinks import LogSink
from spark.answers import assert_same, expected, result_rows
from spark.streaming.test_stream import NAMED, QUERIES, append, events
from waiting import SECONDS_MAX, wait_for_events

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.connect]


@pytest.fixture
def log(tmp_path):
    return Log.create(tmp_path / "log", partition_count=2, time="time")


@pytest.mark.parametrize("root", ["driver", "reducers"])
def test_a_stream_of_a_client_with_a_restart_in_between(connect, tmp_path, log, root):
    rows = {"00000": events("a", 0, 60), "00001": events("bb", 0, 60)}
    for number, name in enumerate(rows):
        append(log, number, rows[name][:40])
    settings = {"checkpoint": tmp_path / "checkpoint", "aside": tmp_path / "aside", "root": root}
    sink = tmp_path / "rows" if root == "driver" else LogSink(tmp_path / "rows")
    first = hw.stream(connect, tmp_path / "log", QUERIES, max_events_per_trigger=30, sink=sink, **settings)
    wait_for_events(first, 80)
    first.add_query(hw.query("later", hw.tumbling(10), n=hw.count()))
    with pytest.raises(hw.QueryError, match="later"):
        first.add_query(hw.query("later", hw.tumbling(10), n=hw.count()))
    assert first.status is None
    first.stop()
    for number, name in enumerate(rows):
        append(log, number, rows[name][40:])
    again = hw.stream(connect, tmp_path / "log", sink=sink, **settings)
    wait_for_events(again, 120)
    again.remove_query("later")
    again.flush(timeout=SECONDS_MAX)
    if root == "driver":
        found = pq.read_table(tmp_path / "rows")
    else:
        found = pa.Table.from_batches([stored.batch for stored in Log.open(tmp_path / "rows").reader(0).read()])
    found = found.filter(pa.compute.not_equal(found["query"], "later"))
    assert_same(expected(rows, QUERIES, 0), result_rows(found, NAMED))
    assert again.progress["counters"]["mean"]["in"] == 120


def test_what_went_wrong_at_the_server_is_said_here(connect, tmp_path, log):
    for partition in range(2):
        append(log, partition, events("a", 0, 20))
    stream = hw.stream(connect, tmp_path / "log", QUERIES[0], checkpoint=tmp_path / "c", sink=tmp_path / "rows")
    wait_for_events(stream, 40)
    (tmp_path / "rows").rename(tmp_path / "gone")
    for partition in range(2):
        append(log, partition, events("a", 20, 100))
    with pytest.raises(hw.HeadwaterError, match="rows"):
        stream.await_end(SECONDS_MAX)


def test_what_would_be_lost_is_refused(connect, tmp_path, log):
    append(log, 0, events("a", 0, 20))
    settings = {"checkpoint": tmp_path / "c"}
    with pytest.raises(hw.DataError, match="sink is 'memory': through Spark Connect batches run at the server"):
        hw.stream(connect, tmp_path / "log", QUERIES, sink="memory", **settings)
    with pytest.raises(hw.DataError, match="aside is a function"):
        hw.stream(connect, tmp_path / "log", QUERIES, sink=tmp_path / "r", aside=lambda rows, batch: None, **settings)
    with pytest.raises(hw.DataError, match="metrics_port is 0"):
        hw.stream(connect, tmp_path / "log", QUERIES, sink=tmp_path / "r", metrics_port=0, **settings)
