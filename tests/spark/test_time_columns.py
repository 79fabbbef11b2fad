"""Time columns at the doors of Spark: floats and text are refused, and `epoch` and `iso` read them."""

import datetime
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.logs import Log

pytestmark = pytest.mark.spark

QUERIES = [
    hw.query("load", hw.tumbling("5 s"), n=hw.count(), top=hw.max("v")),
    hw.query("edges", hw.tumbling("5 s"), first=hw.first("v")),
    hw.query("counts", hw.count_tumbling(2), total=hw.sum("v")),
]
SECONDS = [1715900000.25, 1715900007.0, 1715900001.5, float("nan"), 1715900011.0]
TEXTS = [
    "2024-05-17T00:53:20.25+02:00",
    "2024-05-16T22:53:27Z",
    "2024-05-16 18:53:21.5-04:00",
    "soon",
    "20240516T225331",
]


def answers(rows):
    """By query the numbers of its rows."""
    return {
        query.name: sorted((row[name] for row in rows if row["query"] == query.name), key=str)
        for query in QUERIES
        for name in [query.aggregates[-1][0]]
    }


WANTED = {"load": [1, 2, 4], "edges": [0, 1, 4], "counts": [2, 5]}


def test_floats_and_text_as_times_are_refused_before_any_job(spark, tmp_path):
    table = pa.table({"ts": SECONDS, "at": TEXTS, "v": [0, 1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "a.parquet")
    frame = spark.createDataFrame(table)
    for time, hint in (("ts", r"hw.epoch\('ts', 's'\)"), ("at", r"hw.iso\('at'\)")):
        for refused in (
            lambda time=time: hw.aggregate(frame, QUERIES, time=time),
            lambda time=time: hw.read(spark, tmp_path, QUERIES, time=time),
            lambda time=time: hw.stream(spark, tmp_path, QUERIES[:1], time=time, checkpoint=tmp_path / "checkpoint"),
        ):
            with pytest.raises(hw.QueryError, match=hint):
                refused()


@pytest.mark.parametrize("time", [hw.epoch("ts", "s"), hw.iso("at")])
def test_epochs_and_iso_texts_are_times_of_dataframes_and_files(spark, tmp_path, time):
    table = pa.table({"ts": SECONDS, "at": TEXTS, "v": [0, 1, 2, 3, 4]})
    (tmp_path / "events").mkdir()
    pq.write_table(table, tmp_path / "events" / "a.parquet")
    frame = spark.createDataFrame(table)
    assert answers(hw.aggregate(frame, QUERIES, time=time, order="v").collect()) == WANTED
    assert answers(hw.read(spark, tmp_path / "events", QUERIES, time=time).collect()) == WANTED
    aside = hw.read(spark, tmp_path / "events", QUERIES, time=time, output="aside").collect()
    assert [row["offset"] for row in aside] == [3]
    assert "soon" in aside[0]["reason"] or "nan" in aside[0]["reason"]
    explained = str(hw.explain(frame, QUERIES, time=time))
    assert "is read by headwater" in explained


NOON = 1_777_636_800_000_000
ARRIVALS = hw.query("arrivals", hw.tumbling("10 s"), n=hw.count())


def files_of(folder, seconds):
    """A file for each second after noon at which one arrives."""
    folder.mkdir()
    for second in seconds:
        place = folder / f"{second:03d}.parquet"
        pq.write_table(pa.table({"v": [1, 2]}), place)
        os.utime(place, ns=(0, (NOON + second * 1_000_000) * 1_000))


def test_files_arrive_when_they_were_last_changed_on_every_door_that_reads_files(spark, tmp_path):
    files_of(tmp_path / "in", [0, 4, 12])
    read = hw.read(spark, tmp_path / "in", ARRIVALS, time=hw.arrival()).collect()
    assert sorted(row["n"] for row in read) == [2, 4]
    stream = hw.stream(
        spark, tmp_path / "in", ARRIVALS, time=hw.arrival(), checkpoint=tmp_path / "c", sink=tmp_path / "out"
    )
    stream.flush()
    stream.stop()
    assert sorted(pq.read_table(tmp_path / "out")["n"].to_pylist()) == [2, 4]


def test_arrivals_are_refused_where_nothing_stores_them(spark, tmp_path):
    frame = spark.createDataFrame(pa.table({"v": [1]}))
    with pytest.raises(hw.QueryError, match="the rows of a batch DataFrame have no arrival"):
        hw.aggregate(frame, ARRIVALS, time=hw.arrival())
    old = Path(__file__).parents[1] / "golden" / "log"
    with pytest.raises(hw.DataError, match="rows of a log of version 1 do not tell when they arrived"):
        hw.read(spark, old, ARRIVALS, time=hw.arrival())
    with pytest.raises(hw.DataError, match="rows of a log of version 1 do not tell when they arrived"):
        hw.stream(spark, old, ARRIVALS, time=hw.arrival(), checkpoint=tmp_path / "c")


def test_rows_of_a_log_have_the_time_at_which_they_were_appended(spark, tmp_path):
    log = Log.create(tmp_path / "log")
    with log.writer(0) as writer:
        writer.append(pa.record_batch({"v": [1, 2]}), arrival_ns=1_000_000_000)
        writer.append(pa.record_batch({"v": [3]}), arrival_ns=60_000_000_000)
    rows = hw.read(spark, tmp_path / "log", ARRIVALS, time=hw.arrival())
    assert sorted(row.n for row in rows.collect()) == [1, 2]
    stream = hw.stream(
        spark, tmp_path / "log", ARRIVALS, time=hw.arrival(), checkpoint=tmp_path / "c", sink=tmp_path / "out"
    )
    stream.flush()
    stream.stop()
    assert sorted(pq.read_table(tmp_path / "out")["n"].to_pylist()) == [1, 2]


def test_a_streaming_dataframe_judges_times_by_its_batches_and_has_arrivals(spark, tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    moments = [now - datetime.timedelta(days=2), now + datetime.timedelta(days=40)]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC"))}), tmp_path / "in" / "a.parquet")
    frame = spark.readStream.schema("at timestamp").parquet(str(tmp_path / "in"))
    options = {"disorder": "0 s", "flush_when": "at is null", "output": "accounts"}
    counted = {}
    for time in ("at", hw.arrival()):
        name = "by_arrival" if time != "at" else "by_column"
        rows = hw.aggregate(frame, ARRIVALS, time=time, **options)
        written = rows.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path / name))
        query = written.trigger(availableNow=True).start()
        query.awaitTermination()
        counted[name] = [(row["in"], row["malformed"]) for row in spark.table(name).collect()]
    assert counted == {"by_column": [(2, 1)], "by_arrival": [(2, 0)]}
