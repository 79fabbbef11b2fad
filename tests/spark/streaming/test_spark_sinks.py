"""Sinks that write through Spark, on a real one: a function of DataFrames, tables of the catalog, one for each query."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import headwater as hw
from headwater.spark.streaming.sinks import SinkError
from spark.answers import assert_same, expected, result_rows
from spark.streaming.test_stream import NAMED, QUERIES, events, put
from waiting import SECONDS_MAX

pytestmark = pytest.mark.spark
#: Each of its own columns.
MEAN, RESTS = QUERIES[:2]


@pytest.fixture
def rows(tmp_path) -> dict[str, list[dict]]:
    given = {"a": events("a", 0, 40)}
    put(tmp_path / "in", "a/1.parquet", given["a"][:20])
    put(tmp_path / "in", "a/2.parquet", given["a"][20:])
    return given


def test_each_query_goes_where_spark_writes(spark, tmp_path, rows, caplog):
    batches: dict[int, pa.Table] = {}
    aside: list[int] = []

    def keep(frame, batch: int) -> None:
        assert frame.sparkSession.range(2).count() == 2
        batches[batch] = frame.toArrow()

    sink = {"mean": hw.foreach_batch(keep), "rests": hw.to_table("rests"), "*": tmp_path / "others"}
    spark.sql("DROP TABLE IF EXISTS rests")
    settings = {
        "checkpoint": tmp_path / "c",
        "aside": hw.foreach_batch(lambda frame, batch: aside.append(frame.count())),
    }
    with caplog.at_level(logging.WARNING):
        stream = hw.stream(spark, tmp_path / "in", QUERIES, sink=sink, max_events_per_trigger=15, **settings)
        stream.flush(timeout=SECONDS_MAX)
    assert "table 'rests' is parquet, which has no transactions" in caplog.text
    found = pa.concat_tables(batches.values())
    assert found.column_names == MEAN.own_columns(may_revise=True)
    assert_same(expected(rows, [MEAN], 0), result_rows(named(found, "mean"), NAMED))
    table = spark.table("rests")
    assert table.columns == RESTS.own_columns()
    assert_same(expected(rows, [RESTS], 0), result_rows(named(table.toArrow(), "rests"), NAMED))


def named(rows: pa.Table, query: str) -> pa.Table:
    """Rows that say of which query they are, and that they replace nothing."""
    rows = rows.add_column(0, "query", pa.array([query] * len(rows)))
    return rows if "replaces" in rows.column_names else rows.append_column("replaces", pa.nulls(len(rows)))


def test_a_table_that_cannot_merge_is_refused_before_anything_runs(spark, tmp_path, rows):
    spark.sql("DROP TABLE IF EXISTS revised")
    start = {"checkpoint": tmp_path / "c", "sink": hw.to_table("revised", mode="upsert")}
    with pytest.raises(
        SinkError, match=r"no table 'revised': create .* CREATE TABLE revised \(`query` string, .*USING delta"
    ):
        hw.stream(spark, tmp_path / "in", MEAN, **start)
    columns = "query string, window_start bigint, window_end bigint, house string, mean double, n bigint"
    spark.sql(f"CREATE TABLE revised ({columns}, event_count bigint, revision bigint) USING parquet")
    with pytest.raises(SinkError, match="table 'revised' is parquet, which cannot MERGE"):
        hw.stream(spark, tmp_path / "in", MEAN, **start)
    assert not (tmp_path / "c" / "spark").exists()


@pytest.mark.slow(reason="Spark Connect")
@pytest.mark.connect
def test_a_function_of_dataframes_travels_to_the_server(connect, tmp_path, rows):
    place = str(tmp_path / "written")

    def write(frame, batch: int) -> None:
        frame.write.mode("append").parquet(place)

    sink = {"mean": hw.foreach_batch(write), "rests": hw.to_table("rests_of_connect")}
    connect.sql("DROP TABLE IF EXISTS rests_of_connect")
    stream = hw.stream(connect, tmp_path / "in", [MEAN, RESTS], checkpoint=tmp_path / "c", sink=sink)
    stream.flush(timeout=SECONDS_MAX)
    found = connect.read.parquet(place).toArrow()
    assert_same(expected(rows, [MEAN], 0), result_rows(named(found, "mean"), NAMED))
    table = connect.table("rests_of_connect").toArrow()
    assert_same(expected(rows, [RESTS], 0), result_rows(named(table, "rests"), NAMED))
    assert Path(place).is_dir()
