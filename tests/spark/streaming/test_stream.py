"""`headwater.stream` on a real Spark: growing sources in, the reference's rows out, whatever happens in between."""

import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.logs import Log
from headwater.spark.streaming.checkpoint import CheckpointError
from headwater.spark.streaming.errors import EndedError, RunningError
from headwater.spark.streaming.sinks import FolderSink, LogSink, SinkError
from spark.answers import assert_same, expected, result_rows
from waiting import SECONDS_MAX, wait_for_events, wait_until

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("time", pa.int64()), ("house", pa.string()), ("load", pa.float64()), ("note", pa.string())])
QUERIES = [
    hw.query("mean", hw.sliding(20, 10), keys=["house"], mean=hw.avg("load"), n=hw.count()),
    hw.query("rests", hw.session(10), total=hw.sum("load"), mid=hw.median("load")),
    hw.query("threes", hw.count_tumbling(3), notes=hw.collect("note")),
    hw.query("work", hw.punctuated(hw.col("note") == "go"), top=hw.max("load")),
]
NAMED = {query.name: query for query in QUERIES}


def events(source: str, start: int, count: int) -> list[dict]:
    """Events of one source, some ticks apart, now and then a marker."""
    return [
        {
            "time": (start + i) * 3 + len(source),
            "house": "abc"[(start + i) % 3],
            "load": 0.1 * (start + i),
            "note": "go" if (start + i) % 7 == 0 else "x",
        }
        for i in range(count)
    ]


def append(log: Log, partition: int, rows: list[dict]) -> None:
    with log.writer(partition) as writer:
        writer.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))


def put(folder: Path, name: str, rows: list[dict]) -> None:
    """A file appears at once."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    hidden = folder / name.replace("/", "/.") if "/" in name else folder / f".{name}"
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), hidden)
    hidden.rename(folder / name)


def check_metrics(stream) -> None:
    """What Prometheus is told adds up."""
    wait_until(lambda: stream.status.events >= 40 or not stream.is_active, "40 events are in the status")
    assert stream.status.adds_up
    with urllib.request.urlopen(stream.metrics_url, timeout=60) as answer:
        told = answer.read().decode()
    assert 'headwater_events_total{fate="member",query="mean",stream="checkpoint"} 40.0' in told


@pytest.fixture
def log(tmp_path):
    return Log.create(tmp_path / "log", partition_count=2, time="time")


def test_a_stream_over_a_growing_log_goes_on_after_a_restart(spark, tmp_path, log):
    rows = {"00000": events("a", 0, 60), "00001": events("bb", 0, 60)}
    for number, name in enumerate(rows):
        append(log, number, rows[name][:20])
    settings = {"checkpoint": tmp_path / "checkpoint", "sink": tmp_path / "rows", "aside": tmp_path / "aside"}
    first = hw.stream(spark, tmp_path / "log", QUERIES, metrics_port=0, **settings)
    assert "root on the driver" in first.explain()
    wait_for_events(first, 40)
    check_metrics(first)
    for number, name in enumerate(rows):
        append(log, number, rows[name][20:40])
    wait_for_events(first, 80)
    with pytest.raises(RunningError, match=r"is being run by process \d+ on .* since"):
        hw.stream(spark, tmp_path / "log", QUERIES, **settings)
    first.stop()
    for number, name in enumerate(rows):
        append(log, number, rows[name][40:])
    again = hw.stream(spark, tmp_path / "log", QUERIES, max_events_per_trigger=15, **settings)
    wait_for_events(again, 120)
    assert again.status.spark.seconds["triggerExecution"] > 0
    again.flush(timeout=SECONDS_MAX)
    found = pq.read_table(tmp_path / "rows")
    assert_same(expected(rows, QUERIES, 0), result_rows(found, NAMED))
    counters = again.progress["counters"]["mean"]
    assert counters["in"] == 120 == sum(counters[fate] for fate in counters if fate != "in")
    with pytest.raises(hw.HeadwaterError, match="does not run any more"):
        again.flush()
    with pytest.raises(EndedError, match="has ended, its rows are all out"):
        hw.stream(spark, tmp_path / "log", QUERIES, **settings)


def test_queries_come_and_go_in_a_stream_over_a_growing_folder(spark, tmp_path):
    rows = {"a": events("a", 0, 40), "b": events("b", 0, 40)}
    folder = tmp_path / "in"
    put(folder, "a/1.parquet", rows["a"][:20])
    put(folder, "b/1.parquet", rows["b"][:20])
    stream = hw.stream(spark, folder, QUERIES[0], checkpoint=tmp_path / "c", sink=LogSink(tmp_path / "out"))
    wait_for_events(stream, 40)
    later = hw.query("later", hw.tumbling(10), n=hw.count())
    stream.add_query(later)
    with pytest.raises(hw.QueryError, match="later"):
        stream.add_query(later)
    (folder / "a" / "15.parquet").write_bytes(b"no Parquet")
    put(folder, "a/2.parquet", rows["a"][20:])
    put(folder, "b/2.parquet", rows["b"][20:])
    wait_for_events(stream, 80)
    assert [(source, Path(path).name) for source, path, _ in stream.problems] == [("a", "15.parquet")]
    stream.remove_query("mean", drain=True)
    stream.flush(timeout=SECONDS_MAX)
    stored = pa.Table.from_batches([s.batch for s in Log.open(tmp_path / "out").reader(0).read()])
    found = {name: stored.filter(pa.compute.equal(stored["query"], name)) for name in ("mean", "later")}
    wanted = expected(rows, QUERIES[:1], 0)
    assert_same(wanted, result_rows(found["mean"], NAMED))
    # It begins above all that was seen before it was added: 60 is the first start of a window that does.
    assert sum(found["later"]["event_count"].to_pylist()) == sum(row["time"] >= 60 for row in rows["a"] + rows["b"])


def test_a_folder_that_gathers_is_whole_after_each_stop_and_belongs_to_its_stream(spark, tmp_path, log):
    rows = {"00000": events("a", 0, 60), "00001": events("bb", 0, 60)}
    place = {"checkpoint": tmp_path / "checkpoint", "aside": tmp_path / "aside", "max_events_per_trigger": 15}
    for part in (slice(0, 30), slice(30, 60)):
        for number, name in enumerate(rows):
            append(log, number, rows[name][part])
        sink = FolderSink(tmp_path / "rows", every="1 h")
        stream = hw.stream(spark, tmp_path / "log", QUERIES, sink=sink, **place)
        wait_for_events(stream, 2 * part.stop)
        if part.stop == 60:
            stream.flush(timeout=SECONDS_MAX)
        stream.stop()
    found = pq.read_table(tmp_path / "rows")
    assert_same(expected(rows, QUERIES, 0), result_rows(found, NAMED))
    # One for each life: what was gathered, when it was stopped.
    assert len(list((tmp_path / "rows").glob("*.parquet"))) == 2
    with pytest.raises(SinkError, match="belongs to another stream"):
        hw.stream(spark, tmp_path / "log", QUERIES, sink=sink, checkpoint=tmp_path / "another")


def test_keys_are_shared_by_roots_in_tasks(spark, tmp_path, log):
    rows = {"00000": events("a", 0, 50), "00001": events("bb", 0, 50)}
    for number, name in enumerate(rows):
        append(log, number, rows[name])
    stream = hw.stream(
        spark,
        tmp_path / "log",
        QUERIES,
        checkpoint=tmp_path / "checkpoint",
        sink="memory",
        root="reducers",
        max_events_per_trigger=40,
    )
    wait_for_events(stream, 100)
    stream.flush(timeout=SECONDS_MAX)
    assert "share the keys" in stream.explain()
    assert_same(expected(rows, QUERIES, 0), result_rows(stream.sink.table(), NAMED))


def test_what_is_there_is_read_and_the_stream_stops(spark, tmp_path, log):
    append(log, 0, events("a", 0, 50))
    append(log, 1, events("a", 0, 50))
    seen = []
    settings = {
        "checkpoint": tmp_path / "c",
        "trigger": "available now",
        "sink": lambda rows, batch: seen.append(batch),
    }
    stream = hw.stream(spark, tmp_path / "log", QUERIES[0], max_events_per_trigger=30, **settings)
    assert stream.await_end(SECONDS_MAX)
    assert stream.progress["events"] == 100
    assert seen == sorted(set(seen))


def test_a_local_checkpoint_is_local_where_spark_has_another_file_system(spark, tmp_path, log):
    append(log, 0, events("a", 0, 20))
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    before = hadoop.get("fs.defaultFS")
    hadoop.set("fs.defaultFS", "hdfs://nowhere.invalid:1")
    try:
        stream = hw.stream(
            spark, tmp_path / "log", QUERIES[0], checkpoint=tmp_path / "a place", sink="memory", trigger="available now"
        )
        assert stream.await_end(SECONDS_MAX)
    finally:
        hadoop.set("fs.defaultFS", before)
    assert (tmp_path / "a place" / "spark" / "offsets" / "0").exists()


def test_what_a_function_raises_is_the_cause_of_the_end(spark, tmp_path, log):
    append(log, 0, events("a", 0, 20))
    append(log, 1, events("a", 0, 20))
    settings = {"checkpoint": tmp_path / "c", "trigger": "available now"}
    stream = hw.stream(spark, tmp_path / "log", QUERIES[0], sink=lambda rows, batch: 1 // 0, **settings)
    with pytest.raises(hw.HeadwaterError, match="the stream was stopped by ZeroDivisionError") as error:
        stream.await_end(SECONDS_MAX)
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    # Nobody has to stop what has ended before it is started again.
    again = hw.stream(spark, tmp_path / "log", QUERIES[0], sink="memory", **settings)
    assert again.await_end(SECONDS_MAX)
    assert len(again.sink.table())


def test_wrong_arguments_of_a_stream_are_said_at_once(spark, tmp_path, log):
    append(log, 0, events("a", 0, 5))
    with pytest.raises(hw.DataError, match="no such folder"):
        hw.stream(spark, tmp_path / "none", QUERIES, checkpoint=tmp_path / "c")
    with pytest.raises(hw.QueryError, match="nothing"):
        hw.stream(
            spark, tmp_path / "log", hw.query("q", hw.tumbling(10), s=hw.sum("nothing")), checkpoint=tmp_path / "c"
        )
    with pytest.raises(hw.QueryError, match="queries are missing"):
        hw.stream(spark, tmp_path / "log", checkpoint=tmp_path / "c")
    with pytest.raises(hw.DataError, match="checkpoint is 's3://"):
        hw.stream(spark, tmp_path / "log", QUERIES, checkpoint="s3://bucket/c")
    with pytest.raises(hw.QueryError, match="count_scheme is 'fast': give one of 'central'"):
        hw.stream(spark, tmp_path / "log", QUERIES, checkpoint=tmp_path / "c", count_scheme="fast")
    with pytest.raises(hw.QueryError, match="count_scheme is 5"):
        hw.stream(spark, tmp_path / "log", QUERIES, checkpoint=tmp_path / "c", count_scheme=5)
    with pytest.raises(hw.DataError, match="sink is 5"):
        hw.stream(spark, tmp_path / "log", QUERIES, checkpoint=tmp_path / "c", sink=5)


def test_a_checkpoint_fits_one_stream(spark, tmp_path, log):
    append(log, 0, events("a", 0, 5))
    append(log, 1, events("a", 0, 5))
    settings = {"checkpoint": tmp_path / "c", "trigger": "available now", "sink": "memory"}
    hw.stream(spark, tmp_path / "log", QUERIES[0], **settings).await_end(SECONDS_MAX)
    Log.create(tmp_path / "other", partition_count=2, time="time")
    with pytest.raises(CheckpointError, match="another source"):
        hw.stream(spark, tmp_path / "other", QUERIES[0], schema=SCHEMA, **settings)
    with pytest.raises(CheckpointError, match="disorder is 5, but was 0"):
        hw.stream(spark, tmp_path / "log", QUERIES[0], disorder=5, **settings)
    with pytest.raises(hw.QueryError, match="another than when the stream stopped"):
        hw.stream(spark, tmp_path / "log", hw.query("mean", hw.tumbling(10), n=hw.count()), **settings)
    about = tmp_path / "c" / "headwater" / "about.json"
    about.write_text('{"headwater_stream":0}')
    with pytest.raises(CheckpointError, match="version 0, this release reads versions 2 to 4"):
        hw.stream(spark, tmp_path / "log", QUERIES[0], **settings)
