"""A stream that stands still says which source it waits for and what idle would do; with progress it says nothing."""

import logging

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.language.times import FOREVER, NEVER
from headwater.simulator.stream import TABLES, ListedInput, Loop
from headwater.spark.streaming.watch.observer import StreamObserver
from headwater.spark.streaming.watch.standstill import PATIENCE_US, REPEAT_US, ProgressWatch
from headwater.spark.streaming.watch.status import StatusBoard, line

SECOND = 1_000_000


def news(watermark: int, *sources: str, **more) -> dict:
    return {"batch": 1, "watermark": watermark, "holding_up": {"sources": list(sources), "count": len(sources)}} | more


def test_a_silent_folder_is_named_after_ten_seconds_and_not_before():
    watch = ProgressWatch()
    watch.see(news(NEVER, "houses/b"), now_us=0)
    watch.see(news(NEVER, "houses/b"), now_us=9 * SECOND)
    assert watch.standstill(10 * SECOND - 1) is None
    found = watch.standstill(10 * SECOND)
    assert found.sources == ("houses/b",)
    assert "'houses/b' sends a later event" in found.why
    assert "idle is not set" in found.why


def test_a_standstill_is_over_when_the_watermark_moves():
    watch = ProgressWatch()
    watch.see(news(5, "b"), now_us=0)
    assert watch.standstill(60 * SECOND).seconds == 60
    watch.see(news(6, "a"), now_us=61 * SECOND)
    assert watch.standstill(62 * SECOND) is None


@pytest.mark.parametrize("over", [news(FOREVER, "a"), news(5), {"batch": 1}])
def test_a_stream_that_has_ended_or_waits_for_nobody_does_not_stand_still(over):
    watch = ProgressWatch()
    watch.see(over, now_us=0)
    assert watch.standstill(100 * SECOND) is None


@given(st.lists(st.tuples(st.integers(0, 30 * SECOND), st.booleans()), max_size=40))
def test_the_log_is_told_of_standstills_alone_and_not_more_than_once_a_minute(steps):
    watch, now, moved, watermark, told = ProgressWatch(), 0, 0, 0, []
    watch.see(news(0, "b"), now)
    for passed, moves in steps:
        now += passed
        if moves:
            watermark, moved = watermark + 1, now
        watch.see(news(watermark, "b"), now)
        stands = now - moved >= PATIENCE_US
        assert (watch.standstill(now) is not None) == stands
        found = watch.to_log(now)
        due = stands and (not told or now - told[-1] >= REPEAT_US)
        assert (found is not None) == due
        if found:
            told.append(now)


def test_the_status_and_the_live_line_say_it_as_time_passes_without_any_batch():
    now = [0]
    board = StatusBoard("readings", clock=lambda: now[0])
    board.batch_done(news(5, "b", idle_ns=30 * 10**9))
    assert board.status().standstill is None
    now[0] = 12 * SECOND
    status = board.status()
    assert "idle is 30 s" in status.standstill.why
    assert line(status).startswith("batch 1: waits 12 s for 'b', ")
    board.ended()
    assert board.status().standstill is None


class Stalled:
    """Two sources in Spark's loop without Spark, of which one is silent from the third batch on; the clock is moved by hand."""

    def __init__(self, place, **settings) -> None:
        for name in ("a", "b"):
            TABLES[name] = pa.RecordBatch.from_pydict({"time": list(range(40))})
        self.opened = ListedInput(TABLES["a"].schema, {"a": 2, "b": 2})
        queries = [hw.query("load", hw.tumbling(10), n=hw.count())]
        known = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None} | settings
        self.loop = Loop(place, self.opened, queries, known, chains=2, roots=1, seed=1)
        self.observer = StreamObserver(
            "load", "us", frozenset(), metrics_port=None, progress=False, clock=lambda: self.loop.now_ns // 1000
        )
        self.loop.runner.observer = self.observer

    def batch(self, seconds: int, **more: int) -> None:
        """Time passes, sources have more events, and what can be run is."""
        self.loop.now_ns += seconds * 10**9
        for name, count in more.items():
            self.opened.ends[name] += count
        while self.loop.step():
            pass


def said(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if "no progress" in record.getMessage()]


def test_a_stream_held_up_by_one_silent_source_names_it_in_log_line_and_status_until_it_speaks(tmp_path, caplog):
    stream = Stalled(tmp_path)
    stream.batch(1, a=2, b=2)
    for _ in range(5):
        stream.batch(3, a=2)
    (text,) = said(caplog)
    assert "waits_for=['b']" in text
    assert "idle is not set: with idle=" in text
    assert [r.levelno for r in caplog.records if "no progress" in r.getMessage()] == [logging.WARNING]
    status = stream.observer.status()
    assert status.standstill.sources == ("b",)
    assert "waits 15 s for 'b'" in line(status)
    stream.batch(1, b=3)
    assert stream.observer.status().standstill is None
    assert len(said(caplog)) == 1


def test_a_source_that_idle_leaves_out_holds_nobody_up(tmp_path, caplog):
    stream = Stalled(tmp_path, idle_ns=5 * 10**9)
    stream.batch(1, a=2, b=2)
    for _ in range(8):
        stream.batch(3, a=1)
    assert said(caplog) == []
    assert stream.observer.status().standstill is None
