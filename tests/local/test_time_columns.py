"""Time columns at the doors of this process: what is refused, and that `epoch` and `iso` give what timestamps give."""

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw

LOAD = hw.query("load", hw.tumbling("5 s"), n=hw.count(), first=hw.first("v"))
MOMENTS = st.lists(st.integers(0, 60_000_000), min_size=1, max_size=20)


def run(column, **settings):
    rows = hw.run(pa.table({"ts": column, "v": list(range(len(column)))}), LOAD, **settings)["load"]
    return rows.select(["n", "first"]).to_pylist()


@pytest.mark.parametrize(
    ("values", "time", "sentence"),
    [
        ([1715900000.25], "ts", "the column holds double; write time=hw.epoch('ts', 's') if they are seconds"),
        ([1715900000.0], "ts", "the column holds double; write time=hw.epoch('ts', 's') if they are seconds"),
        (["2024-05-16"], "ts", "the column holds string; write time=hw.iso('ts') if it is ISO 8601"),
        (["2024-05-16"], hw.epoch("ts", "s"), "an epoch is a number, the column holds string; write time=hw.iso('ts')"),
        ([datetime.date(2024, 5, 16)], hw.iso("ts"), "ISO 8601 is text, the column holds date32.*; write time='ts'"),
        ([5], hw.iso("ts"), "ISO 8601 is text, the column holds int64; write time=hw.epoch('ts', 's')"),
        ([5], hw.epoch("at", "s"), "time is 'at': the data has no such column"),
    ],
)
def test_a_column_that_tells_no_times_is_refused_before_anything_runs_with_the_reading_that_helps(
    values, time, sentence
):
    table = pa.table({"ts": values, "v": [1]})
    pattern = sentence.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(hw.QueryError, match=pattern):
        hw.run(table, LOAD, time=time)
    engine = hw.Engine([LOAD], time=time)
    with pytest.raises(hw.QueryError, match=pattern):
        engine.push(table)
    assert engine.counters()["load"]["in"] == 0


def test_float_unix_seconds_give_rows():
    assert run([1715900000.25, 1715900001.5, 1715900007.0], time=hw.epoch("ts", "s")) == [
        {"n": 2, "first": 0},
        {"n": 1, "first": 2},
    ]


@given(MOMENTS)
def test_epochs_and_iso_texts_give_the_rows_of_timestamps(micros):
    begin = datetime.datetime(2024, 5, 16, tzinfo=datetime.UTC)
    moments = [begin + datetime.timedelta(microseconds=each) for each in micros]
    wanted = run(pa.array(moments, pa.timestamp("us", "UTC")), time="ts")
    assert run([moment.timestamp() for moment in moments], time=hw.epoch("ts", "s")) == wanted
    assert run([round(moment.timestamp() * 1e6) for moment in moments], time=hw.epoch("ts", "us")) == wanted
    assert run([moment.isoformat() for moment in moments], time=hw.iso("ts")) == wanted


def test_what_is_no_time_is_set_aside_with_the_reason():
    engine = hw.Engine([LOAD], time=hw.iso("ts"))
    engine.push(pa.table({"ts": ["2024-05-16T10:00:00Z", "soon", None], "v": [1, 2, 3]}))
    assert engine.counters()["load"]["malformed"] == 2
    aside = engine.side_output().select(["offset", "reason"]).to_pylist()
    assert [row["offset"] for row in aside] == [1, 2]
    assert aside[0]["reason"].startswith("time is 'soon', not ISO 8601")


def test_a_reading_survives_a_snapshot():
    engine = hw.Engine([LOAD], time=hw.epoch("ts", "ms"))
    engine.push(pa.table({"ts": [1.5, 2.5], "v": [1, 2]}))
    engine = hw.Engine.restore(engine.snapshot())
    engine.push(pa.table({"ts": [4000.5, 9000.0], "v": [1, 2]}))
    engine.flush()
    assert engine.results()["load"]["n"].to_pylist() == [3, 1]


@pytest.mark.parametrize("unit", ["min", "", None, 5])
def test_an_epoch_of_an_unknown_unit_is_refused(unit):
    with pytest.raises(hw.QueryError, match="unit is"):
        hw.epoch("ts", unit)


@pytest.mark.parametrize("reading", [lambda: hw.iso(5), lambda: hw.epoch(None, "s")])
def test_a_reading_needs_the_name_of_a_column(reading):
    with pytest.raises(hw.QueryError, match="column is"):
        reading()


@pytest.mark.parametrize("name", ["it's", 'a "b"', "hw.epoch", "back\\slash", "line\nbreak", "ümläut"])
def test_every_name_of_a_column_survives_its_way_through_text(name):
    assert hw.run(pa.table({name: [0.5]}), hw.query("n", hw.tumbling("5 s"), n=hw.count()), time=hw.epoch(name, "s"))[
        "n"
    ]["n"].to_pylist() == [1]
