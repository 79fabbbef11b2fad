"""A sink for each query: whose rows it gets, with which columns, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.errors import DataError, QueryError
from headwater.simulator.stream import TABLES, ListedInput, Loop
from headwater.spark.stream import open_sinks
from headwater.spark.streaming.kafka.rows import row_keys
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.sinks import FolderSink, SinkError, SinkPerQuery, sink_of
from headwater.spark.streaming.start.prepare import check_remote, check_sinks
from headwater.spark.streaming.start.query_changes import aside_columns, row_columns

pytestmark = pytest.mark.usefixtures("no_sync")

SETTINGS = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None}
LOAD = hw.query("load", hw.tumbling(10), keys=["house"], mean=hw.avg("load"))
ACTIVE = hw.query("active", hw.session(3), n=hw.count())
PAIRS = hw.query("pairs", hw.count_tumbling(2), total=hw.sum("load"))
PEAK = hw.query("peak", hw.tumbling(10), top=hw.max("load"))
OWN = {
    "load": ["window_start", "window_end", "house", "mean", "event_count", "revision"],
    "active": ["window_start", "window_end", "n", "event_count", "revision", "replaces"],
}


def loop(place, *queries) -> Loop:
    times = [1, 2, 12, 25, 31, 44]
    TABLES["meter"] = pa.record_batch(
        {"time": times, "house": ["a", None, "a", "b", "a", "a"], "load": [float(t) for t in times]}
    )
    return Loop(place, ListedInput(TABLES["meter"].schema, {"meter": 0}), list(queries), SETTINGS, 1, 1, seed=1)


def opened(stream: Loop, sink, runner: BatchRunner) -> None:
    open_sinks(stream.checkpoint, stream.driver.owner, {"sink": sink}, runner.queries)


def run(stream: Loop, sink, until: int = 6) -> BatchRunner:
    """A driver with this sink, to the end of so many events."""
    runner = BatchRunner(stream.checkpoint, sink, owner=stream.driver.owner, lock=stream.runner._lock)
    runner._checkpoint = stream.runner._checkpoint
    open_sinks(stream.checkpoint, stream.driver.owner, {"sink": sink, "aside": None}, runner.queries)
    stream.driver.runner = runner
    stream.opened.ends["meter"] = until
    while stream.step():
        pass
    return runner


def test_each_query_has_its_own_columns_in_its_own_sink(tmp_path):
    stream = loop(tmp_path / "checkpoint", LOAD, ACTIVE, PAIRS)
    sink = sink_of({"load": "memory", "active": "memory", "*": "memory"})
    run(stream, sink)
    for name, columns in OWN.items():
        assert sink[name].table().column_names == columns
    assert {(row["house"], row["mean"]) for row in sink["load"].table().to_pylist()[:2]} == {("a", 1.0), (None, 2.0)}
    rest = sink["*"].table()
    assert set(rest["query"].to_pylist()) == {"pairs"} and "position_start" in rest.column_names


def test_what_the_columns_will_be_is_known_before_the_first_batch(tmp_path):
    stream = loop(tmp_path / "checkpoint", LOAD, ACTIVE)
    seen = {name: row_columns(stream.checkpoint, (), name) for name in ("load", "active", None)}
    sink = sink_of({"load": "memory", "active": "memory"})
    run(stream, sink)
    for name in ("load", "active"):
        assert sink[name].table().schema.equals(seen[name])
    assert aside_columns(stream.checkpoint).names[:2] == ["query", "reason"]
    again = loop(tmp_path / "other", LOAD, ACTIVE)
    run(again, whole := sink_of("memory"))
    assert whole.table().schema.equals(seen[None])


def test_rows_of_each_query_gather_for_themselves(tmp_path):
    stream = loop(tmp_path / "checkpoint", LOAD, ACTIVE)
    stream.events_max = 1
    sink = sink_of({"load": FolderSink(tmp_path / "load", every="1 h"), "active": tmp_path / "active"})
    runner = run(stream, sink)
    assert not list((tmp_path / "load").glob("*.parquet")) and list((tmp_path / "active").glob("*.parquet"))
    with pytest.raises(SinkError, match=r"are gathered for the folder .*load and not written there yet"):
        opened(stream, sink_of({"load": "memory", "*": "memory"}), runner)
    with pytest.raises(SinkError, match=r"are gathered for the folder .*load and not written there yet"):
        opened(stream, sink_of("memory"), runner)
    runner.close_sinks()
    (found,) = (tmp_path / "load").glob("*.parquet")
    assert pq.read_table(found).column_names == OWN["load"]


def test_the_folder_of_one_query_is_not_that_of_another(tmp_path):
    stream = loop(tmp_path / "checkpoint", LOAD, ACTIVE)
    runner = run(stream, sink_of({"load": tmp_path / "x", "active": tmp_path / "y"}))
    with pytest.raises(SinkError, match="belongs to another stream"):
        opened(stream, sink_of({"load": tmp_path / "y", "active": tmp_path / "x"}), runner)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"load": "memory", "activ": "memory"}, "query 'activ', but there is no such query; there is 'load', 'active'"),
        ({"load": "memory"}, r"query 'active' has no sink: sink is given for 'load'; .*with '\*' for all that have none"),
    ],
)  # fmt: skip
def test_sinks_have_to_be_for_all_queries_and_for_no_others(tmp_path, given, says):
    stream = loop(tmp_path, LOAD, ACTIVE)
    with pytest.raises(QueryError, match=says):
        check_sinks(sink_of(given), [LOAD, ACTIVE], stream.checkpoint)


def test_a_query_that_ends_with_the_start_keeps_its_sink_until_it_has(tmp_path):
    stream = loop(tmp_path, LOAD, ACTIVE)
    check_sinks(sink_of({"load": "memory", "active": "memory"}), [LOAD], stream.checkpoint)
    with pytest.raises(QueryError, match="query 'active' has no sink"):
        check_sinks(sink_of({"load": "memory"}), [LOAD], stream.checkpoint)


def test_a_query_that_is_added_needs_a_sink():
    sink = sink_of({"load": "memory"})
    with pytest.raises(QueryError, match="query 'peak' has no sink"):
        sink.check_taken([PEAK.name])
    sink_of({"load": "memory", "*": "memory"}).check_taken([PEAK.name])


@pytest.mark.parametrize(
    ("given", "name", "says"),
    [
        ({}, "sink", "give a sink for each query by its name"),
        ({1: "x"}, "sink", "give a sink for each query by its name"),
        ({"a": "x/", "b": "x/"}, "sink", "sink is the same for queries 'a' and 'b'"),
        ({"a": 5}, "sink", r"sink\['a'\] is 5: give a folder"),
        ({"a": "x/"}, "aside", "go to one sink; give one"),
    ],
)
def test_wrong_sinks_are_said(tmp_path, monkeypatch, given, name, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=says):
        sink_of(given, name)


def test_a_sink_of_one_query_is_refused_through_connect_by_its_name():
    with pytest.raises(DataError, match=r"sink\['load'\] is 'memory': through Spark Connect"):
        check_remote({"sink": sink_of({"load": "memory"}), "aside": None}, None, None)


def test_messages_of_one_query_have_the_key_that_they_have_among_others():
    rows = pa.table({"query": ["load"], "window_start": [0], "window_end": [10], "house": [3], "revision": [1]})
    assert row_keys(rows.drop_columns(["query"]), lambda query: ["house"], "load") == row_keys(
        rows, lambda query: ["house"]
    )


def test_the_sinks_of_a_stream_are_had_by_name():
    sink = sink_of({"load": "memory"})
    assert isinstance(sink, SinkPerQuery) and sink["load"].table().num_rows == 0
