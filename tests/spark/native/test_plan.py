"""Plans of Spark's own operators: the rows of the reference, without Python on the way."""

import datetime
import math

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import headwater as hw
from headwater import col
from headwater.language import aggregations as agg
from headwater.spark import aggregate
from headwater.spark.native.choice import Asked, choice
from headwater.spark.native.expressions import NotNativeError, sql_of
from spark.answers import assert_same, expected, found
from spark.batch.test_tasks import renamed
from spark.conftest import CLASSIC_FIRST
from spark.test_aggregate import in_order
from strategies import SCHEMA, drawn, queries, rows

pytestmark = pytest.mark.spark

PYTHON = ("MapInArrow", "PythonUDF", "ArrowEvalPython", "BatchEvalPython")


def of(make, columns):
    return st.sampled_from(columns).map(make)


#: What Spark answers by itself, exactly.
NATIVE = {
    "count": st.just(agg.count()) | of(agg.count, ["i", "x", "s"]),
    "sum": of(agg.sum, ["i", "g"]),
    "avg": of(agg.avg, ["i", "g"]),
    "min": of(agg.min, ["i", "x", "s", "d", "g"]),
    "max": of(agg.max, ["i", "x", "s", "d", "g"]),
    "range": of(agg.value_range, ["i", "x", "g"]),
}
CONDITIONS = st.sampled_from(
    [
        col("i") > 0,
        col("i") <= 2.5,
        col("i") != 2**70,
        ~(col("i") == 1.5),
        col("i") < math.nan,
        col("x") >= math.nan,
        (col("x") < 10**16 + 1) | (col("i") > col("g")),
        ~col("mark").isin(["stop", "start"]),
        col("x").between(-0.0, 1),
        (col("s") >= "é") & col("s").is_not_null(),
        ~col("i").isin([7, 2**63, 0.5]),
    ]
)
FIXED, COUNTS = ("tumbling", "sliding", "band"), ("count_tumbling", "count_sliding")


def asked(query):
    return hw.Query(query.name, query.window, query.aggregates, query.keys, query.where)


def some(kinds):
    return queries(kinds=kinds, aggregates=NATIVE, scopes=("global",), where=st.none() | CONDITIONS).map(asked)


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


EVENTS = st.lists(st.sampled_from([-40, -10, 0, 15]).flatmap(rows), min_size=30, max_size=60)


@pytest.mark.parametrize("kinds", [FIXED, COUNTS], ids=["fixed", "counts"])
def test_native_rows_are_those_of_the_reference(spark, kinds):
    ((chosen, events),) = drawn(st.tuples(st.lists(some(kinds), min_size=4, max_size=4).map(renamed), EVENTS))
    frame = spark.createDataFrame(pa.Table.from_pylist(events, schema=SCHEMA)).repartition(3)
    native = aggregate(frame, chosen)
    assert not any(name in plan_of(native) for name in PYTHON)
    wanted = expected({"": in_order(events)}, chosen)
    assert_same(wanted, found(native, chosen))
    assert_same(wanted, found(aggregate(frame, chosen, plan="python"), chosen))


VALUES = [2**63 - 1, 2**63 - 1, -(2**63), 2**62, 2**53 + 1, 10**15 + 1, 3, -1, 0, None]


def numbers(session):
    """Windows of 10 ticks with sums of every size, beyond int64 and beyond what a double holds."""
    picked = [(time, VALUES[(time * 7 + time // 13) % 10], time % 3) for time in range(-200, 200)]
    picked += [(1_000 + i, -(2**63), 0) for i in range(7)] + [(2_000 + i, 2**53 + 1 + i, 1) for i in range(3)]
    picked += [(3_000 + i, None, 0) for i in range(3)]
    events = [{"time": t, "v": v, "w": None if v is None else v % 1000 - 500, "k": k} for t, v, k in picked]
    schema = pa.schema([("time", pa.int64()), ("v", pa.int64()), ("w", pa.int32()), ("k", pa.int8())])
    return events, session.createDataFrame(pa.Table.from_pylist(events, schema=schema)).repartition(3)


@pytest.mark.parametrize("session", CLASSIC_FIRST, indirect=True)
def test_integers_of_every_size_are_summed_in_both_kinds_of_session(session):
    events, frame = numbers(session)
    values = {"total": hw.sum("v"), "mean": hw.avg("v"), "spread": hw.value_range("v"), "small": hw.avg("w")}
    chosen = [
        hw.query("ten", hw.tumbling(10), **values),
        hw.query("keyed", hw.sliding(30, 10), keys=["k"], **values),
        hw.query("odd", hw.sliding(25, 10, 3), keys=["k"], n=hw.count("v"), total=hw.sum("v")),
        hw.query("once", hw.band(-15, 2_000), mean=hw.avg("v")),
        hw.query("fifty", hw.count_tumbling(50), keys=["k"], **values),
        hw.query("each", hw.count_sliding(20, 7, per="key"), keys=["k"], **values),
    ]
    wanted = expected({"": sorted(events, key=lambda row: (row["time"], row["v"] is not None, row["v"]))}, chosen)
    assert any(row.values.get("total", 0) is None for row in wanted)
    assert_same(wanted, found(aggregate(frame, chosen), chosen))


def test_float_sums_are_sparks_own_where_asked(spark):
    frame = spark.sql("select id time, id / 8 x, cast(id as float) y from range(100)")
    query = hw.query("q", hw.tumbling(50), total=hw.sum("x"), mean=hw.avg("y"), low=hw.min("y"))
    assert "MapInArrow" in plan_of(aggregate(frame, query))
    native = aggregate(frame, query, sums="native")
    assert "MapInArrow" not in plan_of(native)
    assert {(r.window_start, r.total, r.mean, r.low) for r in native.collect()} == {
        (0, 153.125, 24.5, 0.0),
        (50, 465.625, 74.5, 50.0),
    }


def test_native_rows_have_one_zero_and_one_nan(spark):
    frame = spark.createDataFrame([(1, -0.0), (2, math.nan), (11, math.inf), (12, -math.inf)], "time long, x double")
    query = hw.query("q", hw.tumbling(10), low=hw.min("x"), high=hw.max("x"), spread=hw.value_range("x"))
    first, second = sorted(aggregate(frame, query).collect(), key=lambda row: row.window_start)
    assert math.copysign(1, first.low) == 1
    assert math.isnan(first.high) and math.isnan(first.spread)
    assert (second.low, second.high, second.spread) == (-math.inf, math.inf, math.inf)


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_timestamps_and_dates_of_every_unit_are_native_times(spark, unit):
    query = hw.query("q", hw.tumbling("1 d"), n=hw.count())
    frame = spark.sql("select timestamp_micros(id * 43200000000 - 1) at, date_from_unix_date(id) day from range(-2, 4)")
    for time in ("at", "day"):
        native = aggregate(frame, query, time=time, unit=unit)
        assert "MapInArrow" not in plan_of(native)
        python = aggregate(frame, query, time=time, unit=unit, plan="python")
        got = sorted(tuple(row) for row in native.collect())
        assert got == sorted(tuple(row) for row in python.collect())
        assert {row[2] - row[1] for row in got} == {datetime.timedelta(days=1)}


def test_many_queries_are_one_pass(spark):
    chosen = [hw.query(f"q{n}", hw.tumbling(n), keys=["k"], n=hw.count(), total=hw.sum("v")) for n in range(60, 100)]
    frame = spark.sql("select id time, id % 3 k, id v from range(2000)")
    native = aggregate(frame, chosen)
    assert plan_of(native).count("Range (0, 2000") == 1
    assert "SortAggregate" not in plan_of(native)
    events = [{"time": i, "k": i % 3, "v": i} for i in range(2000)]
    assert_same(expected({"": events}, chosen), found(native, chosen))


def test_native_and_python_parts_make_one_table(spark):
    chosen = [
        hw.query("native", hw.tumbling(10), keys=["k"], n=hw.count()),
        hw.query("python", hw.session(5), mid=hw.median("v")),
        hw.query("counted", hw.count_tumbling(3), keys=["k"], notes=hw.collect("v")),
    ]
    events = [{"time": i, "k": i % 2, "v": i * 7 % 5} for i in range(20)]
    frame = spark.createDataFrame(events, "time long, k long, v long")
    rows_ = aggregate(frame, chosen)
    assert rows_.columns == aggregate(frame, chosen, plan="python").columns
    assert_same(expected({"": events}, chosen), found(rows_, chosen))


def test_an_event_far_off_does_not_spoil_positions(spark):
    events = [{"time": t, "v": t % 7} for t in [0, *range(10**15, 10**15 + 500), *[10**15 + 250] * 60]]
    frame = spark.createDataFrame(events, "time long, v long").repartition(3)
    query = hw.query("q", hw.count_sliding(100, 50), n=hw.count(), total=hw.sum("v"), low=hw.min("v"))
    ordered = sorted(events, key=lambda row: (row["time"], row["v"]))
    assert_same(expected({"": ordered}, [query]), found(aggregate(frame, query), [query]))


def test_what_is_not_native_says_why():
    columns = Asked(SCHEMA, "time")
    zoneless = pa.schema([("time", pa.timestamp("us")), ("x", pa.float64())])
    says = {
        "exact": choice(hw.query("q", hw.tumbling(1), v=hw.sum("x")), columns),
        "plan='python'": choice(hw.query("q", hw.tumbling(1), v=hw.count()), Asked(SCHEMA, "time", plan="python")),
        "session windows end": choice(hw.query("q", hw.session(1), v=hw.count()), columns),
        "patterns": choice(hw.query("q", hw.tumbling(1), v=hw.count(), where=col("s").matches("a")), columns),
        "sum of decimal": choice(hw.query("q", hw.tumbling(1), v=hw.sum("d")), columns),
        "time 'time' holds": choice(hw.query("q", hw.tumbling(1), v=hw.count()), Asked(zoneless, "time")),
        "overlap": choice(hw.query("q", hw.sliding(1000, 1), v=hw.count()), columns),
    }
    for words, chosen in says.items():
        assert not chosen.is_native
        assert words in chosen.why
    own = choice(hw.query("q", hw.tumbling(1), v=hw.sum("x")), Asked(SCHEMA, "time", sums="native"))
    assert own.is_native and "order" in own.guarantee


def test_literals_of_another_type_than_the_column_are_compared_right():
    schema = pa.schema(
        [("i", pa.int64()), ("x", pa.float64()), ("at", pa.timestamp("us", "UTC")), ("d", pa.decimal128(9, 2))]
    )
    assert sql_of(col("x") < 2**53 + 1, schema) == "(CAST(`x` AS DOUBLE) <= CAST('9007199254740992.0' AS DOUBLE))"
    assert sql_of(col("i") == 0.5, schema) == "(CASE WHEN `i` IS NOT NULL THEN False END)"
    noon = datetime.datetime(1970, 1, 1, 12)
    assert sql_of(col("at") >= noon, schema) == "(unix_micros(`at`) >= 43200000000L)"
    for mixed in (col("i") < col("x"), col("d") > 1):
        with pytest.raises(NotNativeError):
            sql_of(mixed, schema)


def test_unknown_words_for_sums_and_plan_are_refused(spark):
    frame = spark.range(3).withColumnRenamed("id", "time")
    query = hw.query("q", hw.tumbling(1), n=hw.count())
    with pytest.raises(hw.QueryError, match="sums is 'fast': give one of 'exact', 'native'"):
        aggregate(frame, query, sums="fast")
    with pytest.raises(hw.QueryError, match="plan is 'native': give one of 'auto', 'python'"):
        aggregate(frame, query, plan="native")
