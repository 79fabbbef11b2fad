"""The Spark benchmark measures what it says: both sides of every figure give the same rows, and no byte is counted twice."""

import io
import math
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from headwater.bench.common.report import Report
from headwater.bench.spark import figures as bench_spark
from headwater.bench.spark.crossing import crossing
from headwater.bench.spark.data import NAMES, SparkData
from headwater.bench.spark.decode import decoders
from headwater.bench.spark.timing import Answer, SparkBench, noop
from headwater.bench.spark.ways import LENGTHS, Way, floor

pytestmark = pytest.mark.spark

EVENTS = 40_000


@dataclass
class Compared(SparkBench):
    """Asks both sides of a question for all their rows, and times nothing."""

    sides: list[tuple[str, ...]] = field(default_factory=list)

    def check(self, ways, kind, scale="check"):
        events = self.data.events(kind, scale)
        first, *others = [rows_of(way.frame(self.spark, events)) for way in ways]
        for way, rows in zip(ways[1:], others, strict=True):
            assert [count for count, _ in rows] == [count for count, _ in first], way.name
            assert [answer for _, answer in rows] == pytest.approx([answer for _, answer in first], rel=1e-9), way.name
        self.sides.append(tuple(way.name for way in ways))
        return Answer(len(first), sum(count for count, _ in first), math.fsum(answer for _, answer in first))

    def materialize(self, way, events):
        return 1.0


def rows_of(frame) -> list[tuple[int, float]]:
    """The events and the answer of every window; how a side names windows is its own matter."""
    return sorted((row.event_count, float(row.answer)) for row in frame.select("event_count", "answer").collect())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return SparkData(tmp_path_factory.mktemp("bench"), EVENTS)


def begun(kind, spark, data):
    return kind(Report("spark", out=io.StringIO()), spark, data, lengths=LENGTHS[::25], thousand=20)


@pytest.mark.parametrize("question", bench_spark.QUESTIONS, ids=lambda question: question.__name__)
def test_both_sides_of_a_question_give_the_same_rows(spark, data, question):
    bench = begun(Compared, spark, data)
    question(bench)
    # These two compare headwater with itself, and with the bytes of the events.
    has_peers = question.__name__ not in ("thousand_queries", "crossing_share")
    assert any(len(ways) > 1 for ways in bench.sides) == has_peers
    assert any(figure.bound is not None for figure in bench.report.figures)


@pytest.mark.slow(reason="what is timed is not a matter of right or wrong")
@pytest.mark.parametrize("question", bench_spark.QUESTIONS, ids=lambda question: question.__name__)
def test_a_question_is_timed(spark, data, question):
    bench = begun(SparkBench, spark, data)
    question(bench)
    assert all(figure.value > 0 for figure in bench.report.figures)


def test_lengths_of_windows_differ():
    assert len(set(LENGTHS)) == len(LENGTHS)


def test_ten_names_hold_the_events_ten_times(spark, data):
    assert data.events("float", "tenfold").count == NAMES * EVENTS
    for kind in ("float", "int"):
        for scale in ("check", "part", "all", "tenfold"):
            events = data.events(kind, scale)
            assert spark.read.parquet(*events.files).count() == events.count
    with decoders() as decode:
        events = data.events("float", "tenfold")
        assert decode(events.files) == events.count


def test_ways_that_disagree_are_not_compared(spark, data):
    def rows(events):
        return Way(f"{events} events", lambda spark, _: spark.sql(f"SELECT {events} AS event_count, 1.0 AS answer"))

    bench = begun(SparkBench, spark, data)
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
