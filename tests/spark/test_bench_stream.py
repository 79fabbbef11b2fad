"""The stream benchmark measures what it says, at a size at which nothing is worth timing."""

import io
from dataclasses import replace

import pytest

import headwater as hw
from headwater.bench.common.report import Report
from headwater.bench.load.driver import LoadError
from headwater.bench.spark.ways import two
from headwater.bench.stream import figures as bench_stream
from headwater.bench.stream import native
from headwater.bench.stream.data import SOURCES, StreamData
from headwater.bench.stream.recovery import recovery
from headwater.bench.stream.sizes import Sizes
from headwater.bench.stream.timing import StreamBench, drained

pytestmark = pytest.mark.spark

TINY = Sizes(
    repeats=1,
    events=80_000,
    native_events=64_000,
    hundred_events=80_000,
    lengths=(1, 2),
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
    growth_batches=40,
)


@pytest.fixture
def bench(spark, tmp_path):
    data = StreamData(tmp_path / "data", TINY.events, TINY.native_events // 32)
    return StreamBench(Report("stream", out=io.StringIO()), spark, tmp_path, TINY, data)


def test_both_sides_give_the_same_rows(bench):
    """`check` refuses to compare sides that differ: here they are asked the same, and then not."""
    queries = [two(hw.sliding("10 s", "1 s"))]
    bench_stream.check(bench, queries, lambda events: native.windowed(events, "10 seconds", "1 second"))
    with pytest.raises(RuntimeError, match=r"hw\.stream and Spark differ"):
        bench_stream.check(bench, queries, lambda events: native.windowed(events, "10 seconds", "2 seconds"))


@pytest.mark.slow(reason="what is timed is not a matter of right or wrong")
@pytest.mark.parametrize(
    "question", [q for q in bench_stream.QUESTIONS if q is not recovery], ids=lambda question: question.__name__
)
def test_a_question_is_timed(bench, question):
    question(bench)
    assert all(figure.value > 0 for figure in bench.report.figures)


@pytest.mark.slow(reason="a cluster, whose executor is killed")
def test_an_executor_is_killed_on_a_cluster(bench):
    recovery(replace(bench, spark=None))
    assert all(figure.value > 0 for figure in bench.report.figures)


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
