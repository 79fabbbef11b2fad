"""The stream benchmark measures what it says, at a size at which nothing is worth timing."""

import io
from dataclasses import replace

import pytest

from headwater.bench.common.report import Report
from headwater.bench.common.timing import StepLog
from headwater.bench.load.driver import LoadError
from headwater.bench.stream import figures as bench_stream
from headwater.bench.stream.data import SOURCES, StreamData
from headwater.bench.stream.sizes import FULL, QUICK, Sizes
from headwater.bench.stream.timing import StreamBench, drained

pytestmark = pytest.mark.spark

TINY = Sizes(
    repeats=1,
    events=80_000,
    native_events=64_000,
    hundred_events=80_000,
    lengths_step=1,
    batches=4,
    warm_up_batches=1,
    batch_events=1_000,
    latency_rate=2_000,
    latency_seconds=5.0,
    latency_warm_up=0.5,
    keys=100,
    key_batches=3,
    key_batch_events=50,
    kills=1,
)
FIGURES = {
    "trigger_overhead": {"trigger_overhead": 1.4},
    "latency": {"latency_p50_s": 0.6, "latency_p99_s": 1.5},
    "sliding": {"sustainable_vs_spark": 15},
    "hundred_queries": {"sustainable_100_vs_spark": 50},
    "streaming_batch": {"streaming_batch_ratio": 0.5},
    "million_keys": {},
    "recovery": {"recovery_s": 5},
}


@pytest.fixture
def bench(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(bench_stream, "LENGTHS", [1, 2])
    data = StreamData(tmp_path / "data", TINY.events, TINY.native_events // 32)
    return StreamBench(Report("stream", out=io.StringIO()), StepLog(enabled=False), spark, tmp_path, TINY, data)


@pytest.mark.parametrize(
    "question", [q for q in bench_stream.QUESTIONS if q.__name__ != "recovery"], ids=lambda question: question.__name__
)
def test_every_question_is_answered(bench, question):
    question(bench)
    bounded = {figure.name: figure.bound.limit for figure in bench.report.figures if figure.bound is not None}
    assert bounded == FIGURES[question.__name__]
    assert all(figure.value > 0 for figure in bench.report.figures)


@pytest.mark.slow
def test_an_executor_is_killed_on_a_cluster(bench):
    bench_stream.recovery(replace(bench, spark=None))
    assert [figure.name for figure in bench.report.figures] == ["recovery_s", "recovery_median_s"]


def test_all_questions_are_asked():
    assert {question.__name__ for question in bench_stream.QUESTIONS} == set(FIGURES)
    assert FULL.lengths_step == 1 and FULL.key_batches >= 50 and FULL.latency_rate == QUICK.latency_rate == 1_000_000
    assert FULL.latency_seconds - FULL.latency_warm_up >= 20


def test_files_and_log_hold_the_same_events(tmp_path, spark):
    data = StreamData(tmp_path, 10_000, 1_000)
    assert spark.read.parquet(f"{data.files}/*").count() == 10_000
    some = data.some_files(4_000)
    assert sorted(path.name for path in some.glob("*/*")) == ["00000.parquet"] * SOURCES + ["00001.parquet"] * SOURCES


def test_a_stream_that_stops_or_is_done_too_soon_gives_no_rate():
    with pytest.raises(LoadError, match="the stream stopped when 5 of 10 events were done"):
        drained(lambda: False, lambda: 5, 10, 1)
    with pytest.raises(LoadError, match="nothing to time"):
        drained(lambda: True, lambda: 10, 10, 1)
    steps = iter([0, 4, 7, 10])
    assert drained(lambda: True, lambda: next(steps), 10, 4) > 0
