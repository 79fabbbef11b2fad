"""Results by example: the columns of a result table, its order, and what lands in the side output."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.results.output import Layout, empty_table
from headwater.engine.results.side_output import SideOutput
from headwater.engine.windows.registered import Registered
from headwater.errors import QueryError


def layout_of(*queries: hw.Query) -> Layout:
    entries = [Registered(query, number) for number, query in enumerate(queries)]
    return Layout.of(entries, {"house": pa.string(), "load": pa.int32(), "price": pa.decimal128(9, 2)})


def test_a_table_has_the_keys_and_aggregates_of_all_queries():
    by_house = hw.query("a", hw.tumbling(10), keys="house", total=hw.sum("load"))
    layout = layout_of(by_house, hw.query("b", hw.tumbling(10), mean=hw.avg("load")))
    assert layout.keys == {"house": pa.string()}
    assert layout.aggregates == {"total": pa.int64(), "mean": pa.float64()}
    assert len(empty_table(layout, pa.array(["a", "b"]))) == 0


def test_count_windows_add_the_times_of_their_first_and_last_event():
    layout = layout_of(hw.query("a", hw.count_tumbling(2), n=hw.count()))
    assert layout.schema.names[-2:] == ["first_time", "last_time"]


def test_one_name_for_two_types_is_refused():
    queries = [hw.query("a", hw.tumbling(10), x=hw.sum("load")), hw.query("b", hw.tumbling(10), x=hw.avg("load"))]
    with pytest.raises(QueryError, match="query 'b': aggregate 'x' gives double"):
        layout_of(*queries)


def test_rows_are_sorted_by_window_end_start_query_and_key():
    queries = [
        hw.query("long", hw.tumbling(20), keys="house", n=hw.count()),
        hw.query("short", hw.tumbling(10), keys="house", n=hw.count()),
    ]
    results = hw.run(pa.table({"time": [1, 12, 13], "house": ["b", "b", "a"]}), queries)
    assert [(row["query"], row["window_end"], row["house"]) for row in results] == [
        ("short", 10, "b"), ("long", 20, "a"), ("long", 20, "b"), ("short", 20, "a"), ("short", 20, "b"),
    ]  # fmt: skip


def test_a_sum_beyond_its_type_is_null():
    events = pa.table({"time": [1, 2], "load": [2**62, 2**62]})
    results = hw.run(events, [hw.query("q", hw.tumbling(10), total=hw.sum("load"))])
    assert [row["total"] for row in results] == [None]


def test_a_malformed_event_is_set_aside_as_it_came():
    aside = SideOutput()
    batch = pa.record_batch({"time": [1, None], "load": [5, 6]})
    aside.malformed(batch, [1], ["time is null"], "meter", np.array([7]))
    (row,) = aside.take().to_pylist()
    assert (row["query"], row["reason"], row["source"], row["offset"]) == (None, "time is null", "meter", 7)
    assert json.loads(row["event"]) == {"time": None, "load": 6}
    assert len(aside) == 0
