"""What is told of a stream: the same numbers on the board, at the endpoint, in the log and in the line, and they add up."""

import io
import json
import logging
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

import headwater as hw
from headwater.language.times import FOREVER, NEVER
from headwater.spark.streaming.watch.batch_log import LOGGER, json_lines, log_event, log_status, status_fields
from headwater.spark.streaming.watch.metrics import serve
from headwater.spark.streaming.watch.observer import StreamObserver
from headwater.spark.streaming.watch.status import (
    FATES,
    LATENCY_BOUNDS_S,
    Latencies,
    QueryStatus,
    SparkProgress,
    StatusBoard,
    StreamStatus,
    line,
)
from headwater.spark.terminal import Terminal

SECOND = 1_000_000
fates = st.fixed_dictionaries({fate: st.integers(0, 10**12) for fate in FATES})
queries = st.dictionaries(st.text(min_size=1, max_size=8), fates, max_size=4)


def news(batch: int, **more):
    return {"batch": batch, "now_ns": 1_000_000_000 * (batch + 1), "events": 1_000 * batch, **more}


def scraped(server) -> dict[tuple, float]:
    """Every sample that the endpoint shows, by name and labels."""
    with urlopen(server.url) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples, name: str, **labels: str) -> float:
    return samples[(f"headwater_{name}", *sorted({"stream": "stream", **labels}.items()))]


# --- values ---


@given(st.lists(st.floats(0, 1_000), max_size=60), st.lists(st.floats(0, 1_000), max_size=60), st.floats(0.01, 1))
def test_latencies_are_counted_once_and_in_any_parts(some, more, share):
    whole, parts = Latencies().with_more([*some, *more]), Latencies().with_more(some).with_more(more)
    assert whole.counts == parts.counts and whole.sum_s == pytest.approx(parts.sum_s)
    assert whole.count == len(some) + len(more)
    bound = whole.quantile(share)
    assert (
        bound == 0 if not whole.count else sum(value <= bound for value in [*some, *more]) >= share * whole.count - 1e-6
    )


def test_a_latency_on_a_bound_belongs_below_it_and_one_from_the_future_to_the_first():
    assert Latencies().with_more([LATENCY_BOUNDS_S[2]]).quantile(1.0) == LATENCY_BOUNDS_S[2]
    early = Latencies().with_more([-5.0])
    assert early.counts[0] == 1 and early.sum_s == 0


@given(fates)
def test_counters_of_a_query_add_up_or_say_by_how_much_they_do_not(counts):
    whole = QueryStatus.of_counters({"in": sum(counts.values()), **counts})
    assert whole.unexplained == 0
    short = QueryStatus.of_counters({"in": sum(counts.values()) + 3, **counts})
    assert short.unexplained == 3 and not StreamStatus(queries={"one": whole, "two": short}).adds_up


def test_the_line_fits_a_terminal_and_leaves_out_what_is_not_known():
    many = {"q": QueryStatus.of_counters({"in": 10**9, "member": 10**9})}
    status = StreamStatus("s", 123_456, 10**12, 12_345_678.0, 1, 0, 12.34, 10_000, 10**9, 1.25, queries=many)
    assert len(line(status)) <= 92
    assert "behind" not in line(StreamStatus(batch=1)) and "open" not in line(StreamStatus(batch=1))
    assert line(StreamStatus(batch=1, sources_active=3, sources_idle=2)).endswith("2 of 5 sources idle")


# --- the board ---


def test_the_rate_is_that_of_the_last_seconds():
    board = StatusBoard()
    board.batch_done(news(0))
    assert board.status().events_per_second == 0
    for batch in range(1, 30):
        board.batch_done(
            {"batch": batch, "now_ns": (batch + 1) * 10**9, "events": 1_000 * batch + (10**6 if batch > 5 else 0)}
        )
    assert board.status().events_per_second == pytest.approx(1_000)


def test_the_lag_grows_while_nothing_happens_and_ends_with_the_stream():
    now = [10 * SECOND]
    board = StatusBoard(unit="ms", clock=lambda: now[0])
    board.batch_done(news(0, watermark=NEVER))
    assert board.status().watermark_lag_s is None
    board.batch_done(news(1, watermark=9_500))
    assert board.status().watermark_lag_s == 0.5
    now[0] += 2 * SECOND
    assert board.status().watermark_lag_s == 2.5
    board.batch_done(news(2, watermark=FOREVER))
    assert board.status().watermark_us is None and board.status().watermark_lag_s is None


def test_bytes_and_rows_are_summed_over_batches():
    board = StatusBoard()
    for batch in range(3):
        board.batch_done(
            news(batch, link_bytes={"leaf-0": 100, "leaf-1": batch}, rows=5, sources=4, sources_idle=batch)
        )
    status = board.status()
    assert status.link_bytes == {"leaf-0": 300, "leaf-1": 3} and status.rows == 15
    assert (status.sources_active, status.sources_idle) == (2, 2)


def rows(*, name: str = "load", ends: list, revisions: list[int] | None = None) -> pa.Table:
    names = pa.array([name] * len(ends)).dictionary_encode()
    return pa.table({"query": names, "window_end": ends, "revision": revisions or [0] * len(ends)})


def test_latency_is_from_the_end_of_a_window_to_its_first_row():
    board = StatusBoard(untimed=frozenset({"counted"}))
    board.rows_out(rows(ends=[4 * SECOND, 5 * SECOND, 1 * SECOND], revisions=[0, 0, 1]), seen_us=5_250_000)
    board.rows_out(rows(name="counted", ends=[100, 200]), seen_us=5_250_000)
    board.rows_out(rows(ends=[]).slice(0, 0), seen_us=9)
    board.batch_done(news(0, counters={"load": {"in": 3, "member": 3}, "counted": {"in": 3, "outside": 3}}))
    load, counted = board.status().queries["load"], board.status().queries["counted"]
    assert (load.rows, load.latencies.count, load.latencies.sum_s) == (3, 2, 1.5)
    assert (counted.rows, counted.latencies.count) == (2, 0)


@pytest.mark.parametrize("unit", ["ns", "ms", "s"])
def test_latency_knows_the_unit_of_times_and_timestamps(unit):
    ticks = {"ns": 5 * 10**9, "ms": 5_000, "s": 5}[unit]
    for ends in ([ticks], pa.array([ticks], pa.timestamp(unit, tz="UTC"))):
        board = StatusBoard(unit=unit)
        board.rows_out(rows(ends=ends), seen_us=5_500_000)
        board.batch_done(news(0, counters={"load": {}}))
        assert board.status().queries["load"].latencies.sum_s == 0.5


def test_spark_counts_events_only_where_its_rows_are_events():
    progress = SparkProgress(4, 70, {"triggerExecution": 0.3}, 100.0, 90.0, 1_000, watermark_us=SECOND)
    board = StatusBoard(clock=lambda: 3 * SECOND)
    board.batch_done(news(3))
    board.spark_progressed(progress)
    status = board.status()
    assert (status.batch, status.events, status.spark) == (3, 3_000, progress)
    other = StatusBoard(clock=lambda: 3 * SECOND)
    for _ in range(2):
        other.spark_progressed(progress, counts_events=True)
    status = other.status()
    assert (status.batch, status.events, status.events_per_second) == (4, 140, 90.0)
    assert (status.state_bytes, status.batch_seconds, status.watermark_lag_s) == (1_000, 0.3, 2.0)


def test_an_engine_s_counters_add_up_on_the_board():
    asked = [
        hw.query("all", hw.tumbling(10), n=hw.count()),
        hw.query("some", hw.session(3), where=hw.col("value") > 2, n=hw.count()),
    ]
    engine = hw.Engine(asked, disorder=0)
    engine.push(pa.table({"time": [1, 25, 3, None, 12, 40], "value": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}))
    board = StatusBoard()
    board.batch_done(news(0, counters=engine.counters()))
    status = board.status()
    assert status.adds_up and status.fate("malformed") == 2
    assert {query.events_in for query in status.queries.values()} == {6}


# --- the endpoint ---


def test_a_scrape_shows_what_the_board_knows_now():
    board = StatusBoard(clock=lambda: 10 * SECOND)
    board.rows_out(rows(ends=[9 * SECOND, 9_500_000]), seen_us=9_750_000)
    with serve(board.status) as server:
        board.batch_done(
            news(
                7,
                watermark=9 * SECOND,
                counters={"load": {"in": 9, "member": 6, "late": 2, "malformed": 1}},
                open_windows=4,
                state_bytes=123,
                seconds={"batch": 0.25},
                link_bytes={"leaf-0": 55},
                sources=3,
                sources_idle=1,
            )
        )
        board.spark_progressed(SparkProgress(7, 12, {"addBatch": 0.125}))
        samples = scraped(server)
        assert value(samples, "batch") == 7 and value(samples, "up") == 1
        assert value(samples, "watermark_lag_seconds") == 1 and value(samples, "watermark_seconds") == 9
        assert value(samples, "events_total", query="load", fate="late") == 2
        assert sum(value(samples, "events_total", query="load", fate=fate) for fate in FATES) == 9
        assert value(samples, "events_unexplained", query="load") == 0
        assert value(samples, "events_in_total") == 7_000
        assert value(samples, "rows_total", query="load") == 2
        assert value(samples, "latency_seconds_count", query="load") == 2
        assert value(samples, "latency_seconds_sum", query="load") == 1.0
        assert value(samples, "latency_seconds_bucket", query="load", le="0.3") == 1
        assert value(samples, "latency_seconds_bucket", query="load", le="+Inf") == 2
        assert value(samples, "link_bytes_total", link="leaf-0") == 55
        assert (value(samples, "sources", state="active"), value(samples, "sources", state="idle")) == (2, 1)
        assert (value(samples, "open_windows"), value(samples, "state_bytes")) == (4, 123)
        assert value(samples, "batch_seconds") == 0.25
        assert value(samples, "spark_batch_seconds", step="addBatch") == 0.125
        assert value(samples, "spark_input_rows") == 12
        board.ended()
        assert value(scraped(server), "up") == 0


def test_what_is_not_known_is_left_out_and_several_streams_share_an_endpoint():
    with serve(lambda: [StreamStatus("a", batch=1), StreamStatus("b", batch=2)]) as server:
        samples = scraped(server)
    assert {key[1]: found for key, found in samples.items() if key[0] == "headwater_batch"} == {
        ("stream", "a"): 1.0,
        ("stream", "b"): 2.0,
    }
    assert not any("watermark" in key[0] or "open_windows" in key[0] or "spark" in key[0] for key in samples)


@given(queries)
def test_every_fate_of_every_query_is_scraped_whatever_its_name(counts):
    status = StreamStatus(queries={name: QueryStatus(sum(c.values()), c) for name, c in counts.items()})
    server = ENDPOINT.shows(status)
    samples = scraped(server)
    for name, of_query in counts.items():
        found = {fate: value(samples, "events_total", query=name, fate=fate) for fate in FATES}
        assert found == of_query


class Endpoint:
    """One server for all examples."""

    def __init__(self) -> None:
        self.status = StreamStatus()
        self.server = None

    def shows(self, status: StreamStatus):
        self.status = status
        if self.server is None:
            self.server = serve(lambda: self.status)
        return self.server


ENDPOINT = Endpoint()


@pytest.fixture(scope="module", autouse=True)
def _close_the_endpoint():
    yield
    if ENDPOINT.server is not None:
        ENDPOINT.server.close()


def test_a_closed_endpoint_answers_no_more_and_its_port_is_free():
    server = serve(StreamStatus)
    server.close()
    server.close()
    with pytest.raises(URLError):
        urlopen(server.url)
    with serve(StreamStatus, port=server.port) as again:
        assert again.port == server.port and scraped(again)


def test_an_endpoint_listens_where_it_is_told():
    with serve(StreamStatus, host="0.0.0.0") as server:
        assert server.url == f"http://127.0.0.1:{server.port}/metrics" and scraped(server)
    with serve(StreamStatus, host="localhost") as server:
        assert scraped(server)


def test_a_port_that_cannot_be_had_is_one_sentence():
    with (
        serve(StreamStatus) as server,
        pytest.raises(
            hw.DataError, match=f"metrics_port {server.port} of '127.0.0.1' cannot be had .*: give another, or 0"
        ),
    ):
        serve(StreamStatus, port=server.port)


# --- logs and the line ---


def test_logs_are_lines_of_json_with_stream_and_batch():
    out = io.StringIO()
    with json_lines(out):
        log_status(StreamStatus("load", 7, events=5, watermark_us=3))
        log_event("failed", stream="load", batch=8, error="disk 100% full", level=logging.INFO, batch_seconds=None)
        try:
            raise ValueError("broken")
        except ValueError:
            LOGGER.exception("plain text with %s", "arguments")
    LOGGER.info("nobody listens")
    done, failed, plain = map(json.loads, out.getvalue().splitlines())
    assert (done["event"], done["stream"], done["batch"], done["level"]) == ("batch done", "load", 7, "info")
    logged = status_fields(StreamStatus("load", 7, events=5, watermark_us=3))
    assert {name: done.get(name) for name in logged} == logged
    assert failed["level"] == "error" and failed["error"] == "disk 100% full" and "batch_seconds" not in failed
    assert plain["event"] == "plain text with arguments" and "ValueError: broken" in plain["traceback"]


def test_a_field_cannot_take_the_place_of_the_batch():
    out = io.StringIO()
    with json_lines(out):
        log_event("odd", stream="s", batch=1, time="never")
    assert json.loads(out.getvalue())["time"] != "never"


def test_plain_logging_has_the_batch_too(caplog):
    with caplog.at_level(logging.INFO, logger="headwater.stream"):
        log_event("batch done", stream="load", batch=7, rows=3)
    assert caplog.messages == ["load batch 7: batch done rows=3"]


def test_the_live_line_shows_the_status_until_it_is_closed():
    out = io.StringIO()
    terminal = Terminal(Console(file=out, force_terminal=True, width=80))
    settings = {"untimed": frozenset(), "metrics_port": None, "terminal": terminal}
    observer = StreamObserver("load", "us", progress=True, **settings)
    assert "waiting for the first batch" in out.getvalue()
    observer.batch_done(news(3))
    assert terminal.text().plain.startswith("batch 3: ")
    observer.close()
    assert terminal.text().plain == ""
    assert StreamObserver("load", "us", progress=False, **settings) and terminal.text().plain == ""
