"""Small traps that newcomers met, on tables in this process: each is refused with the right form, or simply works."""

from datetime import date

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.language.query import RESERVED

AT = pa.table({"at": pa.array([0, 5_000_000, 12_000_000], pa.timestamp("us")), "v": [1.0, 2.0, 4.0]})
BY_DEVICE = hw.query("load", hw.tumbling(10), keys=["device"], total=hw.sum("v"))
NODES = pa.table({"time": [1, 2, 11], "node": ["a", "b", "a"], "v": [1.0, 2.0, 4.0]})


@pytest.mark.parametrize(
    ("window", "field", "value"),
    [
        (hw.tumbling(10), "window.size", 10),
        (hw.sliding("10 s", 5), "window.slide", 5),
        (hw.tumbling("10 s", 3), "window.offset", 3),
        (hw.band(0, 7), "window.size", 7),
        (hw.session(4), "window.gap", 4),
        (hw.session("4 s", max_duration=9), "window.max_duration", 9),
        (hw.punctuated(hw.col("v") > 1, max_duration=9), "window.max_duration", 9),
    ],
)
def test_an_integer_duration_over_timestamps_is_refused_with_the_form_that_is_meant(window, field, value):
    right = rf"query 'q': {field} is {value}: the time column 'at' holds timestamp\[us\]; .* such as '{value} s'"
    with pytest.raises(hw.QueryError, match=right):
        hw.run(AT, [hw.query("q", window, n=hw.count())], time="at")


def test_integer_lateness_and_disorder_over_timestamps_are_refused():
    query = hw.query("q", hw.tumbling("10 s"), n=hw.count(), lateness=5)
    with pytest.raises(hw.QueryError, match=r"query 'q': lateness is 5: the time column 'at' holds timestamp"):
        hw.run(AT, query, time="at")
    plain = hw.query("q", hw.tumbling("10 s"), n=hw.count())
    with pytest.raises(hw.QueryError, match=r"disorder is 3: the time column 'at' holds .* such as '3 s'"):
        hw.run(AT, plain, time="at", disorder=3)
    engine = hw.Engine([plain], time="at", disorder=3)
    with pytest.raises(hw.QueryError, match="disorder is 3"):
        engine.push(AT)


def test_an_integer_duration_over_dates_is_refused():
    days = pa.table({"at": [date(2026, 11, 18)]})
    with pytest.raises(hw.QueryError, match=r"the time column 'at' holds date32\[day\]"):
        hw.run(days, hw.query("q", hw.tumbling(1), n=hw.count()), time="at")


def test_zero_and_texts_over_timestamps_and_integers_over_integers_are_durations():
    zero = hw.query("q", hw.tumbling("10 s", 0), n=hw.count(), lateness=0)
    assert hw.run(AT, zero, time="at", disorder=0)["q"].column("n").to_pylist() == [2, 1]
    assert len(hw.run({"time": [1, 2], "v": [1, 2]}, hw.query("q", hw.tumbling(10), n=hw.count(), lateness=5))) == 1


def test_a_query_that_is_added_later_may_not_have_an_integer_duration_over_timestamps():
    engine = hw.Engine([hw.query("q", hw.tumbling("10 s"), n=hw.count())], time="at")
    engine.push(AT)
    engine.add_query(hw.query("more", hw.tumbling(10), n=hw.count()))
    with pytest.raises(hw.QueryError, match=r"query 'more': window\.size is 10"):
        engine.push(AT)


def test_a_reserved_key_is_refused_with_the_argument_that_renames_it():
    with pytest.raises(hw.QueryError, match=r"keys is 'node': .* rename=\{'node': 'own_node'\}"):
        hw.query("q", hw.tumbling(10), keys=["node"], n=hw.count())


@pytest.mark.parametrize("make", [lambda table: table, pa.Table.to_pandas, pl.from_arrow])
def test_columns_that_results_reserve_are_renamed_on_the_way_in(make):
    rows = hw.run(make(NODES), BY_DEVICE, rename={"node": "device"})["load"]
    found = [(row["device"], row["total"]) for row in rows.to_pylist()]
    assert sorted(found) == [("a", 1.0), ("a", 4.0), ("b", 2.0)]


def test_the_time_is_named_by_its_new_name():
    query = hw.query("q", hw.tumbling("10 s"), n=hw.count())
    assert hw.run(AT, query, time="when", rename={"at": "when"})["q"].column("n").to_pylist() == [2, 1]


def test_a_renaming_engine_goes_on_after_a_snapshot():
    engine = hw.Engine([BY_DEVICE], rename={"node": "device"})
    engine.push(NODES)
    restored = hw.Engine.restore(engine.snapshot())
    for each in (engine, restored):
        each.push(NODES.slice(2))
        each.flush()
    assert restored.results().table.equals(engine.results().table)


@pytest.mark.parametrize(
    ("rename", "right"),
    [
        ({"nod": "device"}, "rename names 'nod': there is no such column; there is time, node, v"),
        ({"node": "v"}, "rename makes 'v' of 'node': there is a column of this name; take another"),
        ({"node": "x", "v": "x"}, "rename gives the name 'x' twice"),
        ({"node": 3}, "rename holds 3: give old and new names"),
        ("node", "rename is 'node': give old and new names"),
    ],
)
def test_a_rename_that_cannot_be_is_one_sentence(rename, right):
    with pytest.raises(hw.DataError, match=right):
        hw.run(NODES, BY_DEVICE, rename=rename)


@given(st.permutations(["time", "node", "v"]), st.lists(st.sampled_from(sorted(RESERVED)), min_size=3, unique=True))
def test_any_names_may_be_renamed_into_any_others(columns, stored):
    """Whatever the data calls its columns, the rows are those of the right names."""
    table = NODES.select(columns)
    old = dict(zip(columns, stored, strict=False))
    named = table.rename_columns([old[name] for name in columns])
    back = {old["time"]: "time", old["node"]: "device", old["v"]: "v"}
    wanted = hw.run(NODES.rename_columns(["time", "device", "v"]), BY_DEVICE)
    assert hw.run(named, BY_DEVICE, rename=back).table.equals(wanted.table)


@pytest.mark.parametrize(
    ("queries", "right"),
    [
        ("load", "queries is 'load': give one query made with hw.query"),
        ({"load": BY_DEVICE}, "queries is {'load': Query.*: give one query"),
        (pd.DataFrame(), "queries is a pandas DataFrame: give one query"),
        (NODES, "queries is an Arrow Table: give one query"),
    ],
)
def test_what_is_no_query_is_refused_with_the_right_form(queries, right):
    with pytest.raises(hw.QueryError, match=right):
        hw.run(NODES, queries)


def test_a_path_given_to_run_is_told_the_right_door(tmp_path):
    for path in (tmp_path, str(tmp_path)):
        with pytest.raises(hw.DataError, match=r"hw.read\(spark, path, queries\) reads files"):
            hw.run(path, BY_DEVICE)
