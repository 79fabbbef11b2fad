"""What a stream hands to its sinks: times as timestamps, positions, and one warning of malformed events."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import headwater as hw
from headwater.simulator.stream import TABLES, ListedInput, Loop

pytestmark = pytest.mark.usefixtures("no_sync")

N = hw.count()
AT = datetime(2024, 5, 1, 12, tzinfo=UTC)
BERLIN = pa.timestamp("us", "Europe/Berlin")
SETTINGS = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None}
PLAIN = hw.query("plain", hw.tumbling("10 s"), n=N)
COUNTED = hw.query("counted", hw.count_tumbling(2), n=N)
ACTIVE = hw.query("active", hw.session("5 s"), n=N)


def loop(place, seconds, *queries, type_=pa.timestamp("s", "Europe/Berlin")) -> Loop:
    """A stream of one source with events at these seconds, of which none is shown yet."""
    times = [None if second is None else AT + timedelta(seconds=second) for second in seconds]
    column = pa.array(times, pa.timestamp("us", "UTC")).cast(type_)
    TABLES["meter"] = pa.record_batch({"time": column})
    opened = ListedInput(TABLES["meter"].schema, {"meter": 0})
    return Loop(place, opened, list(queries), SETTINGS, 1, 1, seed=1)


def shown(stream: Loop, until: int) -> pa.Table:
    """The rows of the batches up to this many events."""
    before = set(stream.sink.batches)
    stream.opened.ends["meter"] = until
    while stream.step():
        pass
    found = [rows for batch, rows in sorted(stream.sink.batches.items()) if batch not in before and len(rows)]
    return pa.concat_tables(found)


def test_bounds_in_a_streams_sink_were_integers(tmp_path):
    rows = shown(loop(tmp_path, [0, 3, 12, 25], PLAIN), 4)
    assert rows.schema.field("window_start").type == rows.schema.field("window_end").type == BERLIN
    assert rows["window_start"].to_pylist() == [AT, AT + timedelta(seconds=10)]
    assert "replaces" not in rows.column_names and "position_start" not in rows.column_names


def test_a_query_that_is_added_brings_its_columns_after_the_batch_that_adds_it(tmp_path):
    stream = loop(tmp_path, [0, 3, 12, 25, 26, 27, 28, 29, 50], PLAIN)
    assert "position_start" not in shown(stream, 4).column_names
    stream.checkpoint.ask({"what": "add", "queries": hw.to_json([COUNTED, ACTIVE])})
    # Dying behind the sink must not change what the batch looks like when it is run again.
    stream.crash_at = "rows"
    while stream.safely():
        pass
    rows = shown(stream, 9)
    assert {"position_start", "position_end", "replaces"} <= set(rows.column_names)
    counted = [row for row in rows.to_pylist() if row["query"] == "counted"]
    assert [(row["position_start"], row["position_end"], row["window_start"]) for row in counted[:2]] == [
        (0, 2, None),
        (2, 4, None),
    ]


def test_events_set_aside_by_a_stream_have_times(tmp_path):
    stream = loop(tmp_path, [0, 30, 1], PLAIN)
    shown(stream, 3)
    (late,) = [row for rows in stream.aside.batches.values() for row in rows.to_pylist()]
    assert (late["time"], late["watermark"]) == (AT + timedelta(seconds=1), AT + timedelta(seconds=30))


def test_a_stream_said_nothing_of_malformed_events(tmp_path, caplog):
    stream = loop(tmp_path, [0, None, 12, None, 25], PLAIN)
    with caplog.at_level(logging.WARNING, "headwater"):
        for until in range(1, 6):
            stream.opened.ends["meter"] = until
            while stream.step():
                pass
    assert caplog.messages == ["1 malformed event was set aside; source 'meter', offset 1: time is null"]


def test_windows_finer_than_sparks_timestamps_are_refused_before_a_stream_begins(tmp_path):
    TABLES["meter"] = pa.record_batch({"time": pa.array([AT], BERLIN)})
    opened = ListedInput(TABLES["meter"].schema, {"meter": 0})
    with pytest.raises(hw.QueryError, match="Spark's timestamps have microseconds"):
        Loop(tmp_path, opened, [hw.query("q", hw.tumbling("1 ns"), n=N)], SETTINGS | {"unit": "ns"}, 1, 1, seed=1)
