"""`headwater.aggregate` on DataFrames: the rows of the reference, whatever the partitions are."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import headwater as hw
from headwater.spark import aggregate
from spark.answers import assert_same, expected, found
from spark.batch.test_tasks import renamed
from strategies import SCHEMA, WINDOWS, drawn, queries, rows

pytestmark = pytest.mark.spark


def in_order(events):
    """Rows as Spark sorts them by all columns behind the time: nulls first, NaN last, text as bytes."""

    def key(value):
        if value is None:
            return (0,)
        if isinstance(value, str):
            return 1, value.encode()
        return (2, 0) if value != value else (1, value)

    return sorted(events, key=lambda row: [key(row[name]) for name in SCHEMA.names])


def test_aggregate_agrees_with_the_reference_on_every_kind_of_window(session):
    # A DataFrame has no nodes and no order of arrival.
    every_kind = st.tuples(*(queries(kinds=(kind,), scopes=("global",)) for kind in WINDOWS)).map(renamed)
    ((asked, events),) = drawn(st.tuples(every_kind, st.lists(rows(), min_size=20, max_size=40)))
    frame = session.createDataFrame(pa.Table.from_pylist(events, schema=SCHEMA)).repartition(3)
    assert_same(expected({"": in_order(events)}, asked), found(aggregate(frame, asked), asked))


def test_timestamps_are_times_and_partitions_may_have_no_rows(spark):
    query = hw.query("n", hw.tumbling("1 s"), keys=["k"], n=hw.count(), last=hw.last("v"))
    frame = spark.sql(
        "select timestamp_micros(id * 250000) at, id % 2 k, id v from range(0, 16, 1, 2) union all select null, 0, 0"
    )
    got = {
        (r["window_start"], r["k"]): (r["n"], r["last"])
        for r in aggregate(frame, query, time="at").toArrow().to_pylist()
    }
    assert got == {
        (datetime(1970, 1, 1, 0, 0, s, tzinfo=UTC), k): (2, 4 * s + 2 + k) for s in range(4) for k in range(2)
    }
    assert aggregate(frame.where("false"), query, time="at").collect() == []


def test_order_columns_break_ties(spark):
    query = hw.query("q", hw.count_tumbling(2), order=hw.collect("v"))
    frame = spark.createDataFrame(
        [(1, 3, "a"), (1, 1, "b"), (1, 2, "c"), (0, 9, "d")], "time long, place long, v string"
    )
    rows = aggregate(frame.repartition(3), query, order="place").collect()
    assert sorted(row.order for row in rows) == [["c", "a"], ["d", "b"]]


@pytest.mark.parametrize("plan", ["auto", "python"])
def test_times_of_one_tick_are_one_time(spark, plan):
    """Within a second the other columns decide, not the fraction."""
    frame = spark.sql("select timestamp_millis(900) at, 1 v union all select timestamp_millis(100), 2")
    query = hw.query("q", hw.count_tumbling(1), total=hw.sum("v"))
    rows = aggregate(frame, query, time="at", unit="s", plan=plan).orderBy("position_start").collect()
    assert [row.total for row in rows] == [1, 2]


def test_columns_of_any_name_and_type_are_aggregated(session):
    frame = session.sql(
        "select id time, id `a.b`, id `c d`, map(1, 2) m, array(map(1, 2)) n, interval 1 month i from range(4)"
    )
    query = hw.query("q", hw.tumbling(2), keys=["c d"], first=hw.first("a.b"), mid=hw.median("a.b"))
    rows = aggregate(frame, query).collect()
    assert sorted((row["c d"], row.first, row.mid) for row in rows) == [(i, i, i) for i in range(4)]
    with pytest.raises(hw.DataError, match="order is 'm': Spark has no order for map<int,int>"):
        aggregate(frame, query, order="m")
