"""What comes out of an engine: bounds are times, counts have positions, `replaces` is there where something can be revised."""

from __future__ import annotations

import logging
import pickle
from datetime import UTC, date, datetime, timedelta
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.engine.results.bounds import bounds_type
from headwater.language.times import TICK_NANOS

N = hw.count()
BERLIN = pa.timestamp("ms", "Europe/Berlin")
AT = datetime(2024, 5, 1, 12, tzinfo=UTC)
PLAIN = hw.query("plain", hw.tumbling("10 s"), n=N)
ACTIVE = hw.query("active", hw.session("5 s"), n=N)
COUNTED = hw.query("counted", hw.count_tumbling(2), n=N)
LATE = hw.query("late", hw.tumbling("10 s"), lateness="1 min", n=N)


def at(type_: pa.DataType, *seconds: float) -> pa.Table:
    """Events at these seconds after `AT`."""
    moments = [AT + timedelta(seconds=second) for second in seconds]
    return pa.table({"time": pa.array(moments, pa.timestamp("us", "UTC")).cast(type_)})


def ticks(column: Any) -> list[int | None]:
    found: list[int | None] = column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return found


# --- bounds are times ---


@pytest.mark.parametrize("type_", [BERLIN, pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("s")], ids=str)
def test_bounds_of_windows_over_timestamps_were_integers(type_: pa.DataType):
    rows = hw.run(at(type_, 0, 3, 12), [PLAIN]).table
    assert rows.schema.field("window_start").type == rows.schema.field("window_end").type == type_
    (start, _), (end, _) = (ticks(rows.column(name)) for name in ("window_start", "window_end"))
    assert start == round(AT.timestamp() * 1e6) and end == start + 10_000_000


@pytest.mark.parametrize("unit", TICK_NANOS)
def test_bounds_are_the_same_whatever_the_unit_of_the_stream(unit: str):
    rows = hw.run(at(BERLIN, 0, 3, 12), [PLAIN], unit=unit).table
    assert rows.equals(hw.run(at(BERLIN, 0, 3, 12), [PLAIN]).table)


def test_bounds_over_integers_are_integers_and_over_dates_timestamps():
    assert hw.run({"time": [1, 2]}, [PLAIN]).table.schema.field("window_start").type == pa.int64()
    days = hw.run({"day": [date(2024, 5, 1)]}, [hw.query("q", hw.tumbling("1 d"), n=N)], time="day").table
    assert days.schema.field("window_start").type == pa.timestamp("us")
    assert days.column("window_start").to_pylist() == [datetime(2024, 5, 1)]


@pytest.mark.parametrize(
    ("window", "unit"),
    [
        (hw.tumbling("10 s"), "s"),
        (hw.tumbling("250 ms"), "ms"),
        (hw.sliding("1 s", "1 s", "10 us"), "us"),
        (hw.session("1500 ms"), "ms"),
        (hw.session("2 s", max_duration="2500 ms"), "ms"),
        (hw.band(1_000_000, "1 s"), "s"),
        (hw.band(1_001_000, "1 s"), "ms"),
        (hw.custom("math:sqrt"), "us"),
        (hw.count_tumbling(7), "s"),
    ],
    ids=str,
)
def test_bounds_have_a_finer_unit_where_they_need_it(window: Any, unit: str):
    assert bounds_type(pa.timestamp("s", "UTC"), [hw.query("q", window, n=N)], "us") == pa.timestamp(unit, "UTC")


def test_bounds_in_seconds_are_not_cut_where_windows_are_shorter():
    rows = hw.run(at(pa.timestamp("s"), 1), [hw.query("q", hw.tumbling("250 ms"), n=N)]).table
    assert rows.schema.field("window_end").type == pa.timestamp("ms")
    start, end = (ticks(rows.column(name))[0] for name in ("window_start", "window_end"))
    assert end == start + 250_000


def test_a_window_longer_than_nanoseconds_can_count_is_told_in_microseconds():
    rows = hw.run(at(pa.timestamp("ns"), 0), [hw.query("q", hw.tumbling("30000 w"), n=N)]).table
    assert rows.schema.field("window_end").type == pa.timestamp("us")
    assert ticks(rows.column("window_end")) == [30_000 * 7 * 86_400_000_000]


def test_an_engine_that_has_seen_nothing_shows_integers_and_a_restored_one_goes_on_with_times():
    engine = hw.Engine([PLAIN])
    assert engine.results().table.schema.field("window_start").type == pa.int64()
    engine.push(at(BERLIN, 0, 3))
    engine = hw.Engine.restore(engine.snapshot())
    engine.flush()
    assert engine.results().table.schema.field("window_start").type == BERLIN


def test_times_that_become_finer_are_not_cut():
    engine = hw.Engine([ACTIVE])
    engine.push(at(pa.timestamp("s", "UTC"), 0))
    engine.push(at(pa.timestamp("ms"), 1.5))
    engine.flush()
    rows = engine.results().table
    assert rows.schema.field("window_end").type == pa.timestamp("ms", "UTC")
    start, end = (ticks(rows.column(name))[0] for name in ("window_start", "window_end"))
    assert end == start + 6_500_000


def test_times_in_the_side_output_and_in_replaces_are_times():
    engine = hw.Engine([ACTIVE], disorder="2 s")
    engine.push(at(BERLIN, 0, 7.5))
    engine.push(at(BERLIN, 3))
    engine.flush()
    engine.push(at(BERLIN, 20))
    rows = engine.results().table
    found = [row for row in rows.to_pylist() if row["replaces"]]
    assert [row["replaces"][0]["window_end"] for row in found] == [AT + timedelta(seconds=5)]
    (late,) = engine.side_output().to_pylist()
    assert late["time"] == AT + timedelta(seconds=20) and late["watermark"] is None


def test_a_watermark_in_the_side_output_is_exact():
    engine = hw.Engine([PLAIN], disorder="1500 ms")
    engine.push(at(pa.timestamp("s", "UTC"), 0, 100, 1))
    (late,) = engine.side_output().to_pylist()
    assert (late["time"] - AT, late["watermark"] - AT) == (timedelta(seconds=1), timedelta(seconds=98.5))


@given(st.sampled_from(["s", "ms", "us", "ns"]), st.sampled_from(list(TICK_NANOS)), st.data())
def test_timestamps_give_the_windows_that_integers_give(unit: str, stream: str, data: st.DataObject):
    """The same events as timestamps and as ticks: equal rows, once bounds are ticks again."""
    fine = min(TICK_NANOS[unit], TICK_NANOS[stream])
    seconds = data.draw(st.lists(st.integers(-50, 50), min_size=1, max_size=8))
    sizes = st.integers(1, 20).map(lambda n: f"{n * TICK_NANOS[stream]} ns")
    size, slide = data.draw(st.tuples(sizes, sizes))
    queries = [
        hw.query("fixed", hw.sliding(size, slide), n=N),
        hw.query("active", hw.session(slide), n=N),
        hw.query("counted", hw.count_sliding(3, 2), n=N),
    ]
    times = [second * max(TICK_NANOS[unit], TICK_NANOS[stream]) for second in seconds]
    stamps = pa.array([time // TICK_NANOS[unit] for time in times], pa.timestamp(unit, "UTC"))
    whole = pa.array([time // TICK_NANOS[stream] for time in times])
    shown, plain = (hw.run({"time": column}, queries, unit=stream).table for column in (stamps, whole))
    assert fine in TICK_NANOS.values() and shown.column_names == plain.column_names
    for name in plain.column_names:
        column = shown.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp(stream, "UTC"), safe=False).cast(pa.int64())
        assert column.to_pylist() == plain.column(name).to_pylist(), name


# --- counts have positions ---


def test_bounds_of_count_windows_were_positions_among_times():
    rows = hw.run(at(BERLIN, 0, 3, 12, 13), [PLAIN, COUNTED]).table
    of_counts = [row for row in rows.to_pylist() if row["query"] == "counted"]
    assert [(row["position_start"], row["position_end"]) for row in of_counts] == [(0, 2), (2, 4)]
    assert all(row["window_start"] is None and row["window_end"] is None for row in of_counts)
    assert [row["first_time"] for row in of_counts] == [AT, AT + timedelta(seconds=12)]
    others = [row for row in rows.to_pylist() if row["query"] == "plain"]
    assert all(row["position_start"] is None and row["window_end"] is not None for row in others)


def test_positions_are_there_only_if_a_query_counts():
    assert "position_start" not in hw.run({"time": [1]}, [PLAIN]).table.column_names
    assert "position_start" in hw.run({"time": [1]}, [PLAIN, COUNTED]).table.column_names


def test_rows_of_a_removed_count_query_keep_their_positions():
    engine = hw.Engine([PLAIN, COUNTED])
    engine.push({"time": [1, 2, 3]})
    engine.advance(3)
    engine.remove_query("counted")
    rows = engine.results()
    assert rows["counted"].column("position_end").to_pylist() == [2]
    assert "position_end" not in engine.results().table.column_names


@pytest.mark.parametrize("name", ["position_start", "position_end"])
def test_a_key_cannot_take_the_name_of_a_position(name: str):
    with pytest.raises(hw.QueryError, match="results have a column of this name"):
        hw.query("q", hw.tumbling(1), keys=[name], n=N)


# --- replaces ---


@pytest.mark.parametrize("query", [PLAIN, ACTIVE, COUNTED, LATE], ids=lambda query: query.name)
def test_a_batch_without_disorder_has_no_column_replaces(query: hw.Query):
    assert "replaces" not in hw.run({"time": [1]}, [query]).table.column_names


@pytest.mark.parametrize(("query", "expected"), [(PLAIN, False), (ACTIVE, True), (COUNTED, False), (LATE, True)])
def test_a_stream_has_the_column_replaces_if_a_query_can_revise(query: hw.Query, expected: bool):
    assert ("replaces" in hw.Engine([query]).results().table.column_names) is expected
    assert ("replaces" in hw.run({"time": [1]}, [query], disorder=5).table.column_names) is expected


def test_a_query_that_cannot_revise_has_no_replaces_beside_one_that_can():
    results = hw.Engine([PLAIN, ACTIVE]).results()
    assert "replaces" not in results["plain"].column_names and "replaces" in results["active"].column_names


def test_a_plain_result_could_not_be_written_as_csv(tmp_path: Any):
    table = hw.run(at(pa.timestamp("us"), 0, 3, 12), [PLAIN, COUNTED]).table
    pyarrow.csv.write_csv(table, tmp_path / "rows.csv")
    assert len(pyarrow.csv.read_csv(tmp_path / "rows.csv")) == len(table) == 3


# --- Results ---


def test_results_say_what_became_of_the_events():
    data = pa.table({"time": pa.array([1, None, 3, 40], pa.int64())})
    results = hw.run(data, [hw.query("q", hw.tumbling(10), n=N)])
    assert results.counters["q"]["in"] == 4 and results.counters["q"]["malformed"] == 1
    assert results.side_output.column("reason").to_pylist() == ["time is null"]


def test_results_show_what_was_set_aside_since_the_last_ones():
    engine = hw.Engine([hw.query("q", hw.tumbling(10), n=N)])
    for _ in range(2):
        engine.push(pa.table({"time": pa.array([None], pa.int64())}))
        assert engine.results().side_output.num_rows == 1
    assert engine.results().side_output.num_rows == 0
    assert engine.side_output().num_rows == 2


def test_other_libraries_read_results_as_they_are():
    results = hw.run(at(pa.timestamp("us", "UTC"), 0, 3, 12), [PLAIN])
    assert pl.DataFrame(results)["n"].to_list() == [2, 1]
    assert pl.DataFrame(results)["window_start"].dtype == pl.Datetime("us", "UTC")
    assert duckdb.sql("from results select sum(n)").fetchall() == [(3,)]


def test_results_show_themselves_as_a_table():
    results = hw.run(at(pa.timestamp("us", "UTC"), 0, 3, 12), [PLAIN])
    text = repr(results)
    assert "window_start" in text and "2024-05-01 12:00:10" in text and text.endswith("2 rows of plain")
    many = repr(hw.run({"time": list(range(100))}, [hw.query("q", hw.tumbling(1), n=N)]))
    assert len(many.splitlines()) < 30 and "…" in many and "100 rows" in many
    assert "<table>" in results._repr_html_() and "<td>plain</td>" in results._repr_html_()
    assert repr(hw.Engine([hw.query("q", hw.tumbling(1), n=N)]).results()) == "0 rows of q"


def test_results_in_a_notebook_are_text_not_markup():
    shown = hw.run({"time": [1], "k": ["<b>"]}, [hw.query("q", hw.tumbling(1), keys="k", n=N)])._repr_html_()
    assert "&lt;b&gt;" in shown and "<b>" not in shown


def test_results_can_be_pickled():
    results = hw.run({"time": [1]}, [hw.query("q", hw.tumbling(1), n=N)])
    copy = pickle.loads(pickle.dumps(results))
    assert copy.table.equals(results.table) and copy.counters == results.counters


# --- the warning ---


def test_malformed_events_disappeared_from_run_without_a_word(caplog: pytest.LogCaptureFixture):
    data = pa.table({"time": pa.array([1, None, None], pa.int64())})
    with caplog.at_level(logging.WARNING, "headwater"):
        hw.run(data, [hw.query("q", hw.tumbling(10), n=N)])
    (message,) = caplog.messages
    assert message == "2 malformed events were set aside; the first is source '', offset 1: time is null"


def test_an_engine_warns_once_of_malformed_events(caplog: pytest.LogCaptureFixture):
    engine = hw.Engine([hw.query("q", hw.tumbling(10), n=N)])
    with caplog.at_level(logging.WARNING, "headwater"):
        engine.push({"time": [5]}, source="meter")
        assert not caplog.messages
        for _ in range(3):
            engine.push(pa.table({"time": pa.array([None], pa.int64())}), source="meter")
            engine = hw.Engine.restore(engine.snapshot())
    assert caplog.messages == ["1 malformed event was set aside; source 'meter', offset 1: time is null"]
