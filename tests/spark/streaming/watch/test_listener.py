"""Spark's own news reach the board: of any streaming query, and beside headwater's counts."""

import uuid
from types import SimpleNamespace

import pytest

from headwater.spark.streaming.watch.listener import StatusListener, progress_of
from headwater.spark.streaming.watch.status import StatusBoard
from waiting import wait_until

ID = uuid.UUID(int=7)


class Progress(dict):
    """What Spark hands over is a dict with an ``id``."""

    id = ID


def told(batch: int, rows: int) -> SimpleNamespace:
    return SimpleNamespace(progress=Progress(batchId=batch, numInputRows=rows, durationMs={"triggerExecution": 500}))


def test_rows_of_an_unknown_query_are_its_events():
    listener = StatusListener()
    listener.onQueryStarted(SimpleNamespace(id=ID, name="plain"))
    listener.onQueryProgress(told(0, 10))
    listener.onQueryProgress(told(1, 5))
    (status,) = listener.statuses()
    assert (status.stream, status.batch, status.events, status.batch_seconds) == ("plain", 1, 15, 0.5)
    listener.onQueryTerminated(SimpleNamespace(id=ID, exception=None))
    assert not listener.statuses()[0].is_active


def test_a_board_that_comes_late_misses_nothing_and_keeps_its_own_counts():
    listener = StatusListener(follows_all=False)
    listener.onQueryStarted(SimpleNamespace(id=ID, name=None))
    listener.onQueryProgress(told(0, 10))
    assert listener.statuses() == []
    board = StatusBoard("readings")
    listener.follow(ID, board)
    assert board.status().spark.batch == 0
    board.batch_done({"batch": 1, "events": 1_000})
    listener.onQueryProgress(told(1, 3))
    (status,) = listener.statuses()
    assert (status.stream, status.events, status.spark.input_rows) == ("readings", 1_000, 3)


def test_what_spark_leaves_out_is_nothing():
    found = progress_of({"batchId": 0, "numInputRows": None, "inputRowsPerSecond": float("nan"), "eventTime": {}})
    assert (found.input_rows, found.input_rows_per_second, found.watermark_us, found.seconds) == (0, 0.0, None, {})


@pytest.mark.spark
def test_the_progress_of_a_real_query_is_heard(session):
    listener = StatusListener()
    session.streams.addListener(listener)
    try:
        options = {"rowsPerBatch": 20, "startTimestamp": 1_000_000_000_000}
        events = session.readStream.format("rate-micro-batch").options(**options).load()
        counted = events.withWatermark("timestamp", "1 second").groupBy("timestamp").count()
        query = counted.writeStream.format("noop").outputMode("update").queryName("heard").start()
        try:
            wait_until(lambda: len(query.recentProgress) >= 2 or not query.isActive, "two batches are done")
            assert query.isActive, query.exception()
        finally:
            query.stop()
        ended = _wait(listener, lambda status: not status.is_active)
    finally:
        session.streams.removeListener(listener)
    assert ended.batch >= 1
    assert ended.events == 20 * (ended.batch + 1)
    assert ended.spark.seconds["triggerExecution"] > 0 and ended.batch_seconds > 0
    assert ended.spark.state_rows > 0 and ended.watermark_us >= 10**15 - 10**6


def _wait(listener, is_so):
    """News come from threads of Spark's, soon."""

    def found():
        return [status for status in listener.statuses() if status.stream == "heard" and is_so(status)]

    return wait_until(found, lambda: f"it is heard: {listener.statuses()}")[0]
