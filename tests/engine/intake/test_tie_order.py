"""Events of one time are ordered by their columns as Spark orders values: a slow sort says the same."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.intake.tie_order import ordered, ranks

COLUMNS = {
    pa.int32(): st.integers(-3, 3),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, -math.inf, math.inf, math.nan]),
    pa.float32(): st.sampled_from([0.5, math.nan]),
    pa.string(): st.sampled_from(["", "a", "ab", "é", "\U0001f600", "z"]),
    pa.binary(): st.binary(max_size=2),
    pa.bool_(): st.booleans(),
    pa.decimal128(10, 2): st.integers(-300, 300).map(lambda cents: Decimal(cents).scaleb(-2)),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.integers(-5, 5),
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(0, 2), max_size=2),
    pa.struct([("a", pa.int64()), ("b", pa.string())]): st.fixed_dictionaries(
        {"a": st.none() | st.integers(0, 2), "b": st.none() | st.sampled_from("xy")}
    ),
}


def key(value):
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, list):
        return 1, [key(each) for each in value]
    if isinstance(value, dict):
        return 1, [key(each) for each in value.values()]
    return 1, value.encode() if isinstance(value, str) else value


@given(st.data())
def test_ties_are_ordered_as_by_a_slow_sort(data):
    types = data.draw(st.lists(st.sampled_from(list(COLUMNS)), max_size=3))
    count = data.draw(st.integers(0, 8))
    times = np.array(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)), np.int64)
    columns = [
        pa.array(data.draw(st.lists(st.none() | COLUMNS[type_], min_size=count, max_size=count)), type_)
        for type_ in types
    ]
    values = [column.to_pylist() for column in columns]

    def place(row):
        return int(times[row]), [key(column[row]) for column in values]

    found = ordered(times, columns).tolist()
    assert sorted(found) == list(range(count))
    assert [place(row) for row in found] == [place(row) for row in sorted(range(count), key=place)]


def test_equal_words_are_equal_ties():
    words = pa.array(["b", "a", None, "b"]).dictionary_encode()
    assert ranks(words).tolist() == [2, 1, 0, 2]
