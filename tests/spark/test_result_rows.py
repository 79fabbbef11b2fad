"""Result rows on Spark: the same times and positions at every door, and one query's own columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.engine.results.shape import ResultShape
from headwater.spark.result_rows import spark_shape

pytestmark = pytest.mark.spark
N = hw.count()
AT = datetime(2024, 5, 1, 12, tzinfo=UTC)
QUERIES = [
    hw.query("plain", hw.tumbling("10 s"), n=N),
    hw.query("keyed", hw.sliding("10 s", "5 s"), keys=["k"], middle=hw.median("v")),
    hw.query("active", hw.session("5 s"), n=N),
    hw.query(
        "kept",
        hw.tumbling("20 s"),
        best=hw.top("v", 2, keep=["at", "k"]),
        ties=hw.top("k", ties=True),
        when=hw.max_by("at", by="k"),
        whole=hw.rows(["k", "at"]),
        each=hw.distinct("k"),
    ),
    hw.query("it's counted", hw.count_tumbling(7), total=hw.sum("v")),
]
#: Types of the time column, and what Spark calls them.
TYPES = [("timestamp", pa.timestamp("us", "UTC")), ("timestamp_ntz", pa.timestamp("us")), ("bigint", pa.int64())]


def events(type_: pa.DataType, count: int = 40) -> pa.Table:
    """Events three seconds apart."""
    moments = pa.array([AT + timedelta(seconds=3 * number) for number in range(count)], pa.timestamp("us", "UTC"))
    numbers = list(range(count))
    return pa.table({"at": moments.cast(type_), "k": [number % 3 for number in numbers], "v": numbers})


def lines(table: pa.Table) -> list[str]:
    plain = table.set_column(0, "query", table.column("query").cast(pa.string()))
    return sorted(map(repr, plain.to_pylist()))


@pytest.mark.parametrize(("name", "type_"), TYPES)
def test_bounds_on_spark_were_integers_whatever_the_time_column(session, name, type_):
    """A plan of Spark's own, through Python and in one process: the same rows of the same types."""
    frame = session.createDataFrame(events(type_)).selectExpr(f"CAST(at AS {name}) AS at", "k", "v")
    alone = hw.run(events(type_), QUERIES, time="at").table
    for plan in ("auto", "python"):
        rows = hw.aggregate(frame, QUERIES, time="at", plan=plan)
        types = dict(rows.dtypes)
        assert {types[column] for column in ("window_start", "window_end", "first_time", "last_time")} == {name}
        assert lines(rows.toArrow().select(alone.column_names)) == lines(alone)


def test_bounds_without_a_zone_depended_on_the_zone_of_the_session(spark):
    days = spark.sql("select date'2024-03-10' + CAST(id AS INT) AS day from range(3)")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = hw.aggregate(days, hw.query("q", hw.tumbling("6 h", "1 h"), n=N), time="day").toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    expected = [datetime(2024, 3, day, 19) for day in (9, 10, 11)]
    assert sorted(rows.column("window_start").to_pylist()) == expected


def test_rows_of_files_are_those_of_the_dataframe(spark, tmp_path):
    pq.write_table(events(pa.timestamp("ms", "Europe/Berlin")), tmp_path / "events.parquet")
    rows = hw.read(spark, str(tmp_path), QUERIES, time="at")
    assert dict(rows.dtypes)["window_start"] == "timestamp"
    assert lines(rows.toArrow()) == lines(hw.run(events(pa.timestamp("us", "UTC")), QUERIES, time="at").table)


def test_replaces_is_there_only_with_disorder(spark, tmp_path):
    pq.write_table(events(pa.timestamp("us", "UTC")), tmp_path / "events.parquet")
    assert "replaces" not in hw.read(spark, str(tmp_path), QUERIES, time="at").columns
    rows = hw.read(spark, str(tmp_path), QUERIES, time="at", disorder="1 s")
    fields = "window_start:timestamp,window_end:timestamp,position_start:bigint,position_end:bigint,revision:bigint"
    assert dict(rows.dtypes)["replaces"] == f"array<struct<{fields}>>"
    assert "replaces" not in hw.read(spark, str(tmp_path), QUERIES[0], time="at", disorder="1 s").columns


def test_a_plain_result_could_not_be_written_as_csv(spark, tmp_path):
    frame = spark.createDataFrame(events(pa.timestamp("us", "UTC")))
    rows = hw.aggregate(frame, [query for query in QUERIES if query.name != "kept"], time="at")
    rows.write.csv(str(tmp_path / "rows"), header=True)
    assert spark.read.csv(str(tmp_path / "rows"), header=True).count() == rows.count()


def test_times_of_events_that_were_set_aside_are_times(spark, tmp_path):
    table = pa.concat_tables([events(pa.timestamp("us", "UTC")), events(pa.timestamp("us", "UTC"), 1)])
    pq.write_table(table, tmp_path / "events.parquet")
    aside = hw.read(spark, str(tmp_path), QUERIES[0], time="at", disorder="1 s", output="aside").toArrow()
    (late,) = aside.to_pylist()
    assert (late["time"], late["watermark"]) == (AT, AT + timedelta(seconds=116))


def test_one_query_has_its_own_columns_on_spark(session):
    frame = session.createDataFrame(events(pa.timestamp("us", "UTC")))
    found = hw.by_query(hw.aggregate(frame, QUERIES, time="at"), QUERIES)
    alone = hw.run(events(pa.timestamp("us", "UTC")), QUERIES, time="at")
    for query in QUERIES:
        own = alone[query.name]
        assert found[query.name].columns == own.column_names
        assert sorted(map(repr, found[query.name].toArrow().to_pylist())) == sorted(map(repr, own.to_pylist()))


def test_rows_of_other_queries_are_refused(spark):
    rows = spark.sql("select 'plain' query, 1 window_start, 2 window_end, 3 n, 3 event_count, 0 revision")
    assert hw.by_query(rows, QUERIES[0])["plain"].columns == [
        "window_start", "window_end", "n", "event_count", "revision",
    ]  # fmt: skip
    with pytest.raises(hw.QueryError, match=r"query 'keyed': rows have no column 'k', so they are not of this query"):
        hw.by_query(rows, QUERIES)


def test_windows_that_spark_has_no_bounds_for_are_refused():
    schema, query = pa.schema([("at", pa.timestamp("us", "UTC"))]), hw.query("q", hw.tumbling("100 ns"), n=N)
    with pytest.raises(hw.QueryError, match=r"query 'q': window is .*: Spark's timestamps have microseconds"):
        spark_shape([query], schema, "at", "ns", is_stream=False)
    whole = hw.query("q", hw.tumbling("100 us"), n=N)
    times = pa.timestamp("us", "UTC")
    assert spark_shape([whole], schema, "at", "ns", is_stream=False) == ResultShape(times, "ns", has_replaces=False)
    assert spark_shape([query], pa.schema([("at", pa.int64())]), "at", "ns", is_stream=False).times == pa.int64()


def test_open_windows_can_always_be_replaced():
    schema = pa.schema([("at", pa.int64())])
    assert not spark_shape(QUERIES[:1], schema, "at", "us", is_stream=True).has_replaces
    assert spark_shape(QUERIES[:1], schema, "at", "us", is_stream=True, is_live=True).has_replaces
