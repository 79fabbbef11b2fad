"""The Spark benchmark measures what it says: both sides of every figure give the same answer, and no byte is counted twice."""

import io

import pyarrow as pa
import pytest

from headwater.bench.common.report import Report
from headwater.bench.common.timing import StepLog
from headwater.bench.spark import figures as bench_spark
from headwater.bench.spark import ways as spark_ways
from headwater.bench.spark.crossing import crossing
from headwater.bench.spark.data import NAMES, SparkData
from headwater.bench.spark.decode import Decoders
from headwater.bench.spark.timing import SparkBench, noop
from headwater.bench.spark.ways import LENGTHS, Way, floor

pytestmark = pytest.mark.spark

EVENTS = 40_000
FIGURES = {
    "tumbling": {"read_tumbling": 2, "read_decode_ratio": 0.4, "read_ipc_ratio": 1.5},
    "sliding": {"read_sliding": 20, "aggregate_sliding": 7, "aggregate_sliding_native": 7},
    "hundred_queries": {"read_100_queries": 200, "aggregate_100_queries": 50},
    "thousand_queries": {"read_1000_ratio": 0.7},
    "medians": {"read_median": 10},
    "sessions": {"read_sessions": 15},
    "count_windows": {"read_count": 10, "aggregate_count": 1.5, "aggregate_count_python": 0.5},
    "crossing_share": {"crossing_share": 0.01},
    "mapinarrow_floor": {"mapinarrow_floor": 0.8},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return SparkData(tmp_path_factory.mktemp("bench"), EVENTS)


@pytest.fixture
def bench(spark, data):
    return SparkBench(Report("spark", out=io.StringIO()), StepLog(enabled=False), spark, data)


@pytest.mark.parametrize("question", bench_spark.QUESTIONS, ids=lambda question: question.__name__)
def test_every_question_is_answered_by_both_sides(bench, question, monkeypatch):
    monkeypatch.setattr(bench_spark, "THOUSAND", 20)
    monkeypatch.setattr(spark_ways, "LENGTHS", LENGTHS[::25])
    question(bench)
    bounded = {figure.name: figure.bound.limit for figure in bench.report.figures if figure.bound is not None}
    assert bounded == FIGURES[question.__name__]
    assert all(figure.value > 0 for figure in bench.report.figures)


def test_all_questions_are_asked():
    assert {question.__name__ for question in bench_spark.QUESTIONS} == set(FIGURES)
    assert len(set(LENGTHS)) == 100 and min(LENGTHS) == 60 and max(LENGTHS) == 600


def test_ten_names_hold_the_events_ten_times(spark, data):
    assert data.events("float", "tenfold").count == NAMES * EVENTS
    for kind in ("float", "int"):
        for scale in ("check", "part", "all", "tenfold"):
            events = data.events(kind, scale)
            assert spark.read.parquet(*events.files).count() == events.count
    with Decoders() as decoders:
        events = data.events("float", "tenfold")
        assert decoders.rows(events.files) == events.count


def test_ways_that_disagree_are_not_compared(bench):
    def rows(events):
        return Way(f"{events} events", lambda spark, _: spark.sql(f"SELECT {events} AS event_count, 1.0 AS answer"))

    assert bench.check([rows(3), rows(3)], "float") == (1, 3, 1.0)
    with pytest.raises(RuntimeError, match=r"4 events gives .* did not answer the same question"):
        bench.check([rows(3), rows(4)], "float")


def test_the_bytes_out_of_python_are_those_of_the_rows(spark, data):
    crossed = crossing(spark, lambda: noop(floor().frame(spark, data.events("float", "all"))))
    assert 0 < crossed.python < 4_000 and crossed.shuffle == 0 < crossed.results


def mib_per_batch(batches):
    for _ in batches:
        yield pa.record_batch({"data": [bytes(1 << 20)]})


def test_a_mebibyte_per_row_crosses_twice(spark):
    rows = spark.range(3, numPartitions=3).mapInArrow(mib_per_batch, "data binary").repartition(2)
    crossed = crossing(spark, lambda: noop(rows))
    assert 3 << 20 <= crossed.python < 3.1 * (1 << 20)
    assert 0 < crossed.shuffle < 3.1 * (1 << 20)
