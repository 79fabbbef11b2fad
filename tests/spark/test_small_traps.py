"""Small traps that newcomers met at the doors of Spark: each is refused with the right form, or simply works."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw

pytestmark = pytest.mark.spark

BY_DEVICE = hw.query("load", hw.tumbling("10 us"), keys=["device", "day"], total=hw.sum("v"))
TABLE = pa.table({"time": [1, 2, 11], "node": ["a", "b", "a"], "v": [1, 2, 4]})
EXPECTED = [("a", 1, 1), ("a", 1, 4), ("b", 1, 2)]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in" / "day=1").mkdir(parents=True)
    pq.write_table(TABLE, tmp_path / "in" / "day=1" / "a.parquet")
    return tmp_path / "in"


def found(table: pa.Table) -> list[tuple]:
    return sorted((row["device"], row["day"], row["total"]) for row in table.to_pylist())


def test_globs_day_folders_and_renamed_columns_are_read(spark, folder):
    for source in (folder, f"file://{folder}/day=*", f"{folder}/**/*.parquet"):
        rows = hw.read(spark, source, BY_DEVICE, rename={"node": "device"})
        assert found(rows.toArrow()) == EXPECTED
    events = hw.read(spark, folder, columns=["device", "day"], where=hw.col("device") == "b", rename={"node": "device"})
    assert [tuple(row) for row in events.collect()] == [("b", 1)]


def test_columns_of_dataframes_are_renamed_on_the_way_in(spark, folder):
    frame = spark.read.parquet(str(folder))
    counts = hw.query("threes", hw.count_tumbling(3), first=hw.first("device"))
    python = hw.query("mid", hw.session("5 us"), keys=["device"], mid=hw.median("v"))
    rows = hw.aggregate(frame, [BY_DEVICE, counts, python], rename={"node": "device"}, order="device").toArrow()
    assert found(pa.Table.from_pylist([row for row in rows.to_pylist() if row["query"] == "load"])) == EXPECTED
    assert hw.explain(frame, BY_DEVICE, rename={"node": "device"}, measure=False)["load"].plan == "native"
    with pytest.raises(hw.DataError, match="rename names 'nod': there is no such column; there is time, node, v, day"):
        hw.aggregate(frame, BY_DEVICE, rename={"nod": "device"})


def test_a_stream_of_a_glob_renames_columns_and_understands_sparks_own_spelling_of_available_now(
    spark, folder, tmp_path
):
    options = {"checkpoint": tmp_path / "checkpoint", "sink": tmp_path / "out", "progress": False}
    for rename in ({"node": "device"}, {"node": "device"}):
        stream = hw.stream(
            spark, f"{folder}/day=*/*.parquet", BY_DEVICE, trigger="availableNow", rename=rename, **options
        )
        assert stream.await_end(300)
    stream = hw.stream(spark, f"{folder}/day=*/*.parquet", rename=rename, **options)
    stream.flush(300)
    rows = [pq.read_table(path) for path in sorted((tmp_path / "out").rglob("*.parquet"))]
    assert found(pa.concat_tables(rows, promote_options="default")) == EXPECTED


@pytest.mark.parametrize(
    ("options", "right"),
    [
        ({"trigger": "hourly"}, "trigger is 'hourly': give 'available now', a time between batches"),
        ({"trigger": 5}, "trigger is 5: give 'available now'"),
        ({"idle": 30}, "idle is 30: write a duration with its unit, such as '30 s'"),
        ({"rename": {"nod": "device"}}, "rename names 'nod': there is no such column"),
    ],
)
def test_what_a_stream_does_not_understand_is_refused_before_a_checkpoint_is_begun(
    spark, folder, tmp_path, options, right
):
    given = {"rename": {"node": "device"}} | options
    with pytest.raises((hw.QueryError, hw.DataError), match=right):
        hw.stream(spark, folder, BY_DEVICE, checkpoint=tmp_path / "checkpoint", sink="memory", **given)
    assert not (tmp_path / "checkpoint" / "headwater" / "about.json").exists()
    assert not (tmp_path / "checkpoint" / "spark").exists()


@pytest.mark.parametrize(
    "make", [pa.Table.to_pandas, pl.from_arrow, lambda table: table, lambda table: table.to_batches()[0]]
)
def test_a_table_of_this_process_is_told_the_right_door(spark, make, tmp_path):
    table = make(TABLE)
    with pytest.raises(hw.DataError, match=r"df is an? (pandas|Polars|Arrow) \w+: .*hw\.run\(table, queries\)"):
        hw.aggregate(table, BY_DEVICE)
    with pytest.raises(hw.DataError, match=r"source is an? (pandas|Polars|Arrow) \w+: .*hw\.run\(table, queries\)"):
        hw.read(spark, table, BY_DEVICE)
    with pytest.raises(hw.DataError, match=r"source is an? (pandas|Polars|Arrow) \w+: .*hw\.run\(table, queries\)"):
        hw.stream(spark, table, BY_DEVICE, checkpoint=tmp_path / "checkpoint")


def test_a_dataframe_of_spark_is_told_the_right_door(spark, tmp_path):
    frame = spark.range(3)
    with pytest.raises(hw.DataError, match=r"source is a Spark DataFrame: .*hw\.aggregate\(df, queries\)"):
        hw.read(spark, frame, BY_DEVICE)
    with pytest.raises(hw.DataError, match=r"source is a Spark DataFrame: .*hw\.aggregate\(df, queries\)"):
        hw.stream(spark, frame, BY_DEVICE, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(hw.DataError, match=r"data is a Spark DataFrame: hw\.aggregate\(df, queries\)"):
        hw.run(frame, BY_DEVICE)
    with pytest.raises(hw.DataError, match=r"data is a Spark DataFrame"):
        hw.Engine([BY_DEVICE]).push(frame)


def test_swapped_and_missing_arguments_are_told_their_places(spark, folder):
    with pytest.raises(hw.DataError, match=r"spark is .*: hw\.read takes the SparkSession first"):
        hw.read(folder, BY_DEVICE)
    with pytest.raises(hw.DataError, match=r"spark is a pandas DataFrame: hw\.read takes the SparkSession first"):
        hw.read(pd.DataFrame(), spark, BY_DEVICE)
    with pytest.raises(hw.DataError, match=r"source is Query.*: say what to read, hw\.read\(spark, source, queries\)"):
        hw.read(spark, BY_DEVICE)
    with pytest.raises(hw.DataError, match=r"df is a SparkSession: .*hw\.read\(spark, path, queries\) reads files"):
        hw.aggregate(spark, BY_DEVICE)
    with pytest.raises(hw.DataError, match=r"df is '.*': .*hw\.read\(spark, path, queries\) reads files"):
        hw.aggregate(str(folder), BY_DEVICE)
    with pytest.raises(hw.QueryError, match="queries is a Spark DataFrame: give one query"):
        hw.aggregate(spark.range(3), spark.range(3))


@pytest.mark.parametrize("name", ["disorder", "idle", "source", "flush_when", "flush_after", "live", "buckets"])
def test_batch_dataframes_refuse_options_that_mean_nothing_there(spark, name):
    value = spark.range(1)["id"] > 0 if name == "flush_when" else True if name == "live" else 0
    with pytest.raises(hw.DataError, match=f"{name} is for streaming DataFrames, and this is a batch DataFrame"):
        hw.aggregate(spark.range(1), hw.query("n", hw.tumbling(10), n=hw.count()), time="id", **{name: value})


def test_queries_of_streams_may_be_asked_of_batches(spark):
    """A file of queries with lateness is good for both: in batch nothing is late."""
    query = hw.query("n", hw.tumbling(10), n=hw.count(), lateness=5)
    assert hw.aggregate(spark.range(3), query, time="id").select("n").collect()[0][0] == 3


@pytest.mark.parametrize("option", [{"disorder": "1 s"}, {"flush": False}, {"sources": "folder"}, {"output": "aside"}])
def test_reading_events_refuses_options_that_are_for_queries(spark, folder, option):
    with pytest.raises(hw.QueryError, match="it is for queries, and none is given; leave it out"):
        hw.read(spark, folder, **option)


@pytest.mark.parametrize("plan", ["auto", "python"])
def test_an_integer_duration_over_timestamps_is_refused_for_dataframes(spark, plan):
    frame = spark.sql("select timestamp_micros(id) at, id v from range(3)")
    with pytest.raises(hw.QueryError, match=r"query 'n': window\.size is 10: the time column 'at' holds timestamp"):
        hw.aggregate(frame, hw.query("n", hw.tumbling(10), n=hw.count()), time="at", plan=plan)
    ticks = spark.readStream.format("rate").load()
    query = hw.query("n", hw.tumbling("10 s"), n=hw.count())
    with pytest.raises(hw.QueryError, match="disorder is 3: the time column 'timestamp' holds timestamp"):
        hw.aggregate(ticks, query, time="timestamp", disorder=3)
