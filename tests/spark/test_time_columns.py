"""Time columns at the doors of Spark: floats and text are refused, and `epoch` and `iso` read them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw

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
