"""Count windows of `headwater.stream` on a real Spark: those of one machine, whatever the scheme, with a restart in between."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.logs import Log
from headwater.protocols.count_windows import Counting
from spark.answers import assert_same, expected, result_rows
from waiting import SECONDS_MAX, wait_for_events

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("time", pa.int64()), ("house", pa.string()), ("load", pa.float64()), ("member", pa.int64())])
QUERIES = [
    hw.query("all", hw.count_tumbling(500), member=hw.sum("member"), n=hw.count(), mean=hw.avg("load")),
    hw.query("often", hw.count_sliding(800, 300), member=hw.sum("member"), mid=hw.median("load")),
    hw.query("houses", hw.count_tumbling(90, per="key"), keys=["house"], member=hw.sum("member")),
    hw.query("some", hw.count_tumbling(150), where=hw.col("load") > 0, member=hw.sum("member"), last=hw.last("load")),
]
NAMED = {query.name: query for query in QUERIES}
DISORDER = 4
SOURCES, EVENTS = 3, 2_000


def drawn(seed: int) -> list[dict]:
    """Events of one source, at a rate of its own, a little out of order. A member is a number that no other event has."""
    dice, clock, events = random.Random(seed), 0, []
    for _ in range(EVENTS):
        clock += dice.choice([0, 1, 1, 2, seed])
        back = dice.randint(0, DISORDER) if dice.random() < 0.3 else 0
        row = {
            "time": clock - back,
            "house": dice.choice("ab"),
            "load": dice.gauss(0, 9),
            "member": dice.getrandbits(39),
        }
        events.append(row)
    return events


@pytest.fixture(scope="module")
def events():
    return {f"{number:05d}": drawn(number + 1) for number in range(SOURCES)}


@pytest.fixture(scope="module")
def rows(events):
    """What one machine says."""
    return expected(events, QUERIES, DISORDER)


@pytest.mark.parametrize(
    "scheme",
    ["async", pytest.param("monitor", marks=pytest.mark.slow(reason="schemes are compared in test_count_loop.py"))],
)
def test_count_windows_of_a_stream_with_a_restart_are_those_of_one_machine(spark, tmp_path, events, rows, scheme):
    log = Log.create(tmp_path / "log", partition_count=SOURCES, time="time")

    def feed(begin: int, end: int) -> None:
        for number, some in enumerate(events.values()):
            with log.writer(number) as writer:
                writer.append(pa.RecordBatch.from_pylist(some[begin:end], schema=SCHEMA))

    feed(0, EVENTS // 2)
    settings = {"checkpoint": tmp_path / "c", "sink": tmp_path / "rows", "disorder": DISORDER, "count_scheme": scheme}
    first = hw.stream(spark, tmp_path / "log", QUERIES, max_events_per_trigger=1_500, **settings)
    wait_for_events(first, SOURCES * EVENTS // 4)
    first.stop()
    feed(EVENTS // 2, EVENTS)
    # What it was begun with holds.
    again = hw.stream(spark, tmp_path / "log", QUERIES, **{**settings, "count_scheme": "central"})
    explained = again.explain()
    wait_for_events(again, SOURCES * EVENTS)
    again.flush(timeout=SECONDS_MAX)
    assert_same(rows, result_rows(pq.read_table(tmp_path / "rows"), NAMED))
    assert "distributed" in explained and "central" not in explained
    counters = again.progress["counters"]["all"]
    assert counters["in"] == SOURCES * EVENTS == sum(counters[fate] for fate in counters if fate != "in")


@pytest.mark.slow(reason="folders are read in test_stream.py, and what is counted in test_count_loop.py")
def test_count_windows_over_folders_are_those_of_one_machine(spark, tmp_path, events, rows):
    for name, some in events.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(some, schema=SCHEMA), tmp_path / "in" / name / "1.parquet")
    counting = Counting("auto", prefer="bytes")
    settings = {"checkpoint": tmp_path / "c", "sink": "memory", "disorder": DISORDER, "count_scheme": counting}
    stream = hw.stream(spark, tmp_path / "in", QUERIES, max_events_per_trigger=2_000, **settings)
    wait_for_events(stream, SOURCES * EVENTS)
    stream.flush(timeout=SECONDS_MAX)
    assert_same(rows, result_rows(stream.sink.table(), NAMED))


def test_roots_in_tasks_get_the_events_of_count_windows(spark, tmp_path, events):
    log = Log.create(tmp_path / "log", partition_count=1, time="time")
    with log.writer(0) as writer:
        writer.append(pa.RecordBatch.from_pylist(events["00000"][:10], schema=SCHEMA))
    settings = {"checkpoint": tmp_path / "c", "sink": "memory", "root": "reducers", "trigger": "available now"}
    stream = hw.stream(spark, tmp_path / "log", QUERIES, **settings)
    assert stream.await_end(SECONDS_MAX)
    assert "distributed" not in stream.explain()
