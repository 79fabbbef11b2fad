"""`headwater.explain` of DataFrames: what it says, and its figures beside Spark's own metrics."""

from dataclasses import replace

import pytest

import headwater as hw
from headwater.bench.spark.crossing import RETURNED, SHUFFLED, _all, _metric, _value
from headwater.spark import aggregate
from strategies import TRAIL

pytestmark = pytest.mark.spark

EVENTS = 200_000
SENT = "data sent to Python workers"
#: Times in the order of rows, or those of each partition all over the place.
ORDERED, SPREAD = "id", f"pmod(id * 7919, {EVENTS})"


def events(session, row=ORDERED, partitions=5):
    return session.range(0, EVENTS, 1, partitions).selectExpr(
        f"{row} * 1000L AS time",
        "id % 10 AS key",
        "concat(repeat('room ', CAST(id % 4 AS INT)), id % 10) AS room",
        "sin(id) AS value",
        "id % 97 AS n",
    )


def measured(spark, rows):
    """Bytes into Python workers, out of them, through shuffles, and the records of shuffles."""
    store = spark._jsparkSession.sharedState().statusStore()
    before = {execution.executionId() for execution in _all(store.executionsList())}
    rows.write.format("noop").mode("overwrite").save()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = dict.fromkeys((SENT, RETURNED, SHUFFLED, "shuffle records written"), 0)
    for execution in _all(store.executionsList()):
        if execution.executionId() in before:
            continue
        texts = store.executionMetrics(execution.executionId())
        for node in _all(store.planGraph(execution.executionId()).allNodes()):
            if not node.name().startswith(("Exchange", "MapInArrow")):
                continue
            for name in found:
                metric = _metric(node, name)
                found[name] += 0 if metric is None else _value(spark, metric, texts)
    return tuple(found.values())


def predicted(explanation):
    places = ("into Python", "out of Python", "shuffle")
    totals = [[travel.total(place) for travel in explanation.travels] for place in places]
    sizes = [sum(size for _, size in found) for found in totals]
    return *sizes, sum(count for count, _ in totals[-1])


QUERIES = {
    "tumbling": [hw.query("q", hw.tumbling("1 s"), keys=["key"], total=hw.sum("n"), top=hw.max("value"))],
    "text": [hw.query("q", hw.tumbling("1 s"), keys=["room"], n=hw.count(), least=hw.min("room"))],
    "sliding": [hw.query("q", hw.sliding("10 s", "1 s"), keys=["key"], mean=hw.avg("n"))],
    "no keys": [hw.query("q", hw.sliding("10 s", "1 s"), mean=hw.avg("n"))],
    "where": [hw.query("q", hw.tumbling("1 s"), keys=["key"], where=hw.col("key") < 3, total=hw.sum("n"))],
    "several": [
        hw.query("a", hw.tumbling("2 s"), keys=["key"], total=hw.sum("n")),
        hw.query("b", hw.tumbling("3 s"), keys=["key"], top=hw.max("n")),
        hw.query("c", hw.tumbling("7 s"), n=hw.count()),
    ],
    "avg": [hw.query("q", hw.tumbling("1 s"), keys=["key"], mean=hw.avg("value"))],
    "long": [hw.query("q", hw.sliding("100 s", "50 s"), keys=["room"], spread=hw.stddev("value"))],
    "median": [hw.query("q", hw.tumbling("1 s"), keys=["key"], mid=hw.median("value"))],
    "session": [hw.query("q", hw.session("5 ms"), keys=["key"], total=hw.sum("value"))],
    "ordered": [hw.query("q", hw.tumbling("1 s"), keys=["key"], last=hw.last("value"))],
    "values": [hw.query("q", hw.tumbling("10 s"), keys=["key"], all=hw.collect("n"))],
}


#: One of each way in which events, partials and rows travel.
FIRST = {("several", ORDERED), ("sliding", ORDERED), ("text", SPREAD), ("median", ORDERED), ("ordered", ORDERED)}
ALL = [*((name, ORDERED) for name in QUERIES), *((name, SPREAD) for name in ("text", "avg", "median"))]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        pytest.param(*each, marks=[] if each in FIRST else pytest.mark.slow(reason="travels as one of the first does"))
        for each in ALL
    ],
)
def test_figures_are_those_of_spark(spark, name, row):
    frame = events(spark, row)
    said, found = predicted(hw.explain(frame, QUERIES[name])), measured(spark, aggregate(frame, QUERIES[name]))
    assert said == pytest.approx(found, rel=0.2)


def test_each_query_has_its_plan_and_says_why(session):
    asked = [
        hw.query("native", hw.tumbling("1 s"), total=hw.sum("n")),
        hw.query("python", hw.tumbling("1 s"), exact=hw.sum("value"), about=hw.approx_distinct("n")),
        hw.query("counted", hw.count_tumbling(100), most=hw.max("n")),
        hw.query("own", hw.count_tumbling(100), joined=hw.apply(TRAIL, "room")),
    ]
    found = hw.explain(events(session), asked, measure=False)
    assert [planned.plan for planned in found] == ["native", "python", "native, positions", "python, positions"]
    assert found["native"].guarantee == "exact, to the last bit"
    assert "sums='native'" in found["python"].why
    assert "standard error 1.6%" in found["python"].guarantee
    assert "laws" in found["own"].guarantee
    assert [bool(planned.warning) for planned in found] == [False, False, True, True]
    assert [travel.queries for travel in found.travels] == [("native",), ("counted",), ("own",), ("python",)]
    assert all(travel.crossings is None for travel in found.travels)
    assert "counted: native, positions" in str(found)


def test_both_kinds_of_session_say_the_same(spark, connect):
    asked = [*QUERIES["where"], replace(*QUERIES["avg"], name="other")]
    one, other = hw.explain(events(connect), asked), hw.explain(df=events(spark), queries=asked)
    assert one.queries == other.queries
    native, python = zip(one.travels, other.travels, strict=True)
    assert native[0] == native[1]
    # Through Connect nobody says how many partitions and cores there are, so relays stand between leaves and more roots.
    assert python[0].total("into Python") > python[1].total("into Python")


def test_sums_of_spark_are_named(session):
    found = hw.explain(events(session), QUERIES["avg"], sums="native", measure=False)
    assert found["q"].plan == "native"
    assert found["q"].guarantee.startswith("Spark's own")


def test_a_frame_without_rows_sends_next_to_nothing(session):
    found = hw.explain(events(session).where("false"), QUERIES["tumbling"])
    assert found.travels[0].total("shuffle") == (0, 0)
    assert hw.explain(events(session).where("false"), QUERIES["median"]).travels[0].total("into Python")[0] < 10


def test_errors_are_those_of_aggregate(session):
    with pytest.raises(hw.DataError, match="order is 'nope'"):
        hw.explain(events(session), QUERIES["avg"], order="nope")
    with pytest.raises(hw.QueryError, match="plan is 'fast'"):
        hw.explain(events(session), QUERIES["avg"], plan="fast")
    with pytest.raises(hw.QueryError, match="missing"):
        hw.explain(events(session), hw.query("q", hw.tumbling("1 s"), total=hw.sum("missing")))
