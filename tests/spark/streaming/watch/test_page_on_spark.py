"""The live page of a stream that really runs on Spark, in a real browser."""

import pytest

import headwater as hw
from headwater.errors import DataError
from headwater.generator import SmartHome
from page.live import LOAD
from waiting import wait_for_events

pytestmark = [pytest.mark.spark, pytest.mark.page]


def started(spark, place, **more):
    home = SmartHome(houses=2, plugs=2, seconds=600, rate=50, seed=7)
    queries = [hw.query("load", hw.tumbling("10 s"), keys=["house"], mean=hw.avg("load"))]
    settings = {"checkpoint": place, "sink": "memory", "pace": "fast", "max_events_per_trigger": 3_000, "tasks": 2}
    return hw.stream(spark, home, queries, **settings, **more)


def test_a_stream_on_spark_shows_its_windows_and_its_end(spark, tmp_path, visit):
    stream = started(spark, tmp_path / "checkpoint", page=0, name="homes")
    try:
        seen = visit(stream.page_url, was_silent=True)
        seen.wait_for_text("#stream", "homes")
        wait_for_events(stream, 6_000)
        seen.wait("() => document.querySelectorAll('[data-query=load] tbody tr').length >= 4")
        # Rows are on the page before their batch is done, of which the tiles tell.
        seen.wait_for_text("#sent", "sent, events are at least")
        seen.wait_for_text("#queries", "avg(load), tumbling 10 s, by house")
        assert stream.page_url in stream._repr_html_() and "running" in stream._repr_html_()
    finally:
        stream.stop()
    seen.wait_for_state("stopped")


def test_a_port_that_is_taken_is_said_before_anything_is_begun(spark, tmp_path):
    with_it = hw.Page().listen()
    try:
        with pytest.raises(DataError, match=f"page: port {with_it.port} .*: give another, or 0"):
            hw.stream(spark, SmartHome(seconds=10), LOAD, checkpoint=tmp_path / "checkpoint", page=with_it.port)
    finally:
        with_it.close()
    assert not list((tmp_path / "checkpoint").rglob("about.json"))
    with pytest.raises(DataError, match="page is 'here': give a port"):
        hw.stream(spark, SmartHome(seconds=10), LOAD, checkpoint=tmp_path / "checkpoint", page="here")
