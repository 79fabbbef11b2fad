"""Rows as JSON keep every digit."""

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DataError
from headwater.spark.streaming.kafka.rows import json_rows, row_keys


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(), st.booleans())))
def test_numbers_and_texts_come_back_as_they_were(values):
    names = ("a", 'b"', "c", "d")
    types = (pa.int64(), pa.float64(), pa.string(), pa.bool_())
    columns = list(zip(*values)) or [()] * 4
    rows = pa.table({name: pa.array(column, type_) for name, column, type_ in zip(names, columns, types)})
    for line, row in zip(json_rows(rows), rows.to_pylist(), strict=True):
        back = json.loads(line)
        assert {**back, 'b"': float(back['b"'])} == row


def test_each_kind_of_value_has_its_form():
    moment = datetime.datetime(2024, 5, 1, 12, 0, 0, 1, tzinfo=datetime.UTC)
    replaces = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64())]))
    rows = pa.table(
        {
            "query": pa.array(["load", None]).dictionary_encode(),
            "sum": pa.array([Decimal("12345678901234567890.10"), None], pa.decimal128(38, 2)),
            "peak": [float("nan"), float("-inf")],
            "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "fine": pa.array([1, None], pa.timestamp("ns")),
            "day": pa.array([moment.date(), None]),
            "raw": [b"\xff", None],
            "replaces": pa.array([[{"start": 1, "end": 2}], None], replaces),
            "none": pa.nulls(2),
        }
    )
    one, two = json_rows(rows)
    assert one.decode() == (
        '{"query":"load","sum":12345678901234567890.10,"peak":"NaN","at":"2024-05-01T12:00:00.000001Z",'
        '"fine":"1970-01-01T00:00:00.000000001","day":"2024-05-01","raw":"/w==","replaces":[{"start":1,"end":2}],"none":null}'
    )
    assert json.loads(two) == {**dict.fromkeys(rows.column_names), "peak": "-Infinity"}
    with pytest.raises(DataError, match="cannot be written as JSON"):
        json_rows(pa.table({"x": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}))


def test_a_key_says_which_row_it_is_and_its_number_only_whose():
    rows = pa.table(
        {
            "query": ["a", "a", "b", "a"],
            "window_start": [0, 10, 0, 0],
            "window_end": [10, 20, 10, 10],
            "house": ["x", "x", None, "y"],
            "revision": [0, 0, 0, 2],
        }
    )
    keys, numbers = row_keys(rows, {"a": ["house"], "b": []}.__getitem__)
    assert [json.loads(key) for key in keys] == [
        ["a", 0, 10, {"house": "x"}, 0],
        ["a", 10, 20, {"house": "x"}, 0],
        ["b", 0, 10, {}, 0],
        ["a", 0, 10, {"house": "y"}, 2],
    ]
    assert numbers[0] == numbers[1] and len(set(numbers)) == 3


def test_count_windows_of_one_query_had_one_key():
    """Without bounds their positions tell them apart; bounds that are times are in the key as text."""
    at = pa.array([None, None, 0], pa.timestamp("us", "UTC"))
    end = pa.array([None, None, 1_000_000], pa.timestamp("us", "UTC"))
    names = ("query", "window_start", "window_end", "position_start", "position_end", "revision")
    columns = [["counted", "counted", "load"], at, end, [0, 2, None], [2, 4, None], [0, 0, 0]]
    keys, numbers = row_keys(pa.table(dict(zip(names, columns))), lambda query: [])
    assert keys == [
        b'["counted",0,2,{},0]',
        b'["counted",2,4,{},0]',
        b'["load","1970-01-01T00:00:00.000000Z","1970-01-01T00:00:01.000000Z",{},0]',
    ]
    assert numbers[0] == numbers[1]
