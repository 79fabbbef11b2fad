"""Rows never depend on how a stream is cut into batches: not on where, not on nulls at the front, not on types that grow."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw

DAY = 10

#: Values as they come, narrow ones first: Arrow gives each batch a type of its own.
KINDS: dict[str, tuple[st.SearchStrategy[Any], pa.DataType | None]] = {
    "integers": (st.integers(-3, 9) | st.sampled_from([300, 2**40, -(2**63)]), None),
    "integers and floats": (st.integers(-3, 9) | st.sampled_from([0.5, -2.25, 1e20]), pa.float64()),
    "decimals": (st.sampled_from(["9", "10", "0.5", "-12.25", "1234567"]).map(Decimal), pa.decimal128(9, 2)),
    "integers and decimals": (st.integers(-9, 2**40) | st.sampled_from(["0.5", "7"]).map(Decimal), None),
    "texts": (st.sampled_from(["", "a", "kitchen"]), pa.string()),
    "booleans": (st.booleans(), pa.bool_()),
}
#: What is asked of numbers, and of anything else.
OF_NUMBERS = {
    "total": hw.sum("v"),
    "mean": hw.avg("v"),
    "spread": hw.value_range("v"),
    "deviation": hw.stddev("v"),
    "middle": hw.median("v"),
    "low": hw.quantile("v", 0.3, "lower"),
    "times": hw.product("v"),
    "root": hw.geometric_mean("v"),
    "sketch": hw.approx_quantile("v", 0.5),
}
OF_ALL = {
    "n": hw.count("v"),
    "least": hw.min("v"),
    "most": hw.max("v"),
    "usual": hw.mode("v"),
    "different": hw.count_distinct("v"),
    "about": hw.approx_distinct("v"),
    "first": hw.first("v"),
    "last": hw.last("v"),
    "all": hw.collect("v"),
    "best": hw.top("v", 2, keep=["mark"]),
    "lowest": hw.min_by("mark", by="v"),
    "at the best": hw.max_by("v", by="v"),
    "whole": hw.rows(["mark", "v"]),
    "each": hw.distinct("v"),
}
WINDOWS = {
    "slices": hw.tumbling(DAY),
    "overlapping": hw.sliding(DAY, 3),
    "sessions": hw.session(2),
    "counts": hw.count_tumbling(3),
    "limited": hw.session(2, max_duration=7),
    "markers": hw.punctuated(hw.col("mark") == "go"),
}


def inferred(values: Sequence[Any]) -> pa.Array:
    """An array of the narrowest type that Arrow and we would give these values."""
    known = [value for value in values if value is not None]
    if known and all(type(value) is int and -128 <= value < 128 for value in known):
        return pa.array(values, pa.int8())
    if {type(value) for value in known} == {int, Decimal}:
        return pa.array([None if value is None else Decimal(value) for value in values])
    return pa.array(values)


def batch_of(events: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    columns = {name: inferred([event[name] for event in events]) for name in ("v", "k", "mark")}
    return pa.record_batch({"time": pa.array([event["time"] for event in events], pa.int64())} | columns)


#: How often a window came out depends on when results were asked for.
UNSEEN = ("revision", "replaces")


def plain(value: Any, name: str) -> Any:
    """A value to compare: there is one NaN, and products of floats are good to 1e-12."""
    if isinstance(value, float) and (value != value or name in ("times", "root")):
        return f"{value:.9e}"
    return value


def pushed(queries: list[hw.Query], parts: Sequence[Sequence[dict[str, Any]]], takes: bool, saved: bool) -> list[Any]:
    """The rows of all batches; ``takes``: results are taken after each, ``saved``: the engine is restored before each."""
    engine, found = hw.Engine(queries, disorder=4), []
    for part in parts:
        if saved:
            engine = hw.Engine.restore(engine.snapshot())
        engine.push(batch_of(part))
        if takes:
            found += engine.results().table.to_pylist()
    engine.flush()
    found += engine.results().table.to_pylist()
    assert engine.statistics["malformed"] == 0
    found = [{name: plain(value, name) for name, value in row.items() if name not in UNSEEN} for row in found]
    return sorted(found, key=lambda row: (row["query"], row["window_end"], row["window_start"], repr(row["k"])))


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]], list[int]]:
    """Events whose values are of one kind, or null, and where they are cut."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    values, keys = st.none() | KINDS[kind][0], draw(st.sampled_from([st.none(), st.sampled_from(["a", None])]))
    size = draw(st.integers(1, 12))
    events = [
        {
            "time": place * 2 - draw(st.integers(0, 3)),
            "v": draw(values),
            "k": draw(keys),
            "mark": draw(st.sampled_from(["go", None, None])),
        }
        for place in range(size)
    ]
    if draw(st.booleans()):
        events[: size // 2] = [event | {"v": None} for event in events[: size // 2]]
    return kind, events, sorted(draw(st.sets(st.integers(1, size))))


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=40)
@given(stream=streams(), takes=st.booleans(), saved=st.booleans())
def test_rows_do_not_depend_on_where_a_stream_is_cut_into_batches(
    window: str, stream: tuple[str, list[dict[str, Any]], list[int]], takes: bool, saved: bool
):
    kind, events, cuts = stream
    asked = OF_ALL if kind in ("texts", "booleans") else OF_ALL | OF_NUMBERS
    if kind == "integers and decimals":
        # A product of integers that is beyond 64 bits has no size any more when the first decimal comes.
        asked = {name: each for name, each in asked.items() if name != "times"}
    queries = [hw.query("q", WINDOWS[window], keys=["k"], **asked)]
    parts = [events[low:high] for low, high in zip([0, *cuts], [*cuts, len(events)], strict=True) if low < high]
    assert pushed(queries, parts, takes, saved) == pushed(queries, [events], False, False)


def rows_of(engine: hw.Engine, *columns: str) -> list[tuple[Any, ...]]:
    engine.flush()
    return [tuple(row[name] for name in columns) for row in engine.results().table.to_pylist()]


def test_the_first_batch_does_not_fix_the_type_of_a_column_that_has_no_value_yet():
    engine = hw.Engine([hw.query("q", hw.tumbling(10), last=hw.last("x"), n=hw.count())])
    engine.push({"time": [1], "x": [None]})
    engine.push({"time": [2], "x": ["kitchen"]})
    assert rows_of(engine, "last", "n") == [("kitchen", 2)]
    assert engine.statistics["malformed"] == 0


def test_a_decimal_of_more_digits_than_the_first_is_not_malformed():
    engine = hw.Engine([hw.query("q", hw.tumbling(10), total=hw.sum("x"), n=hw.count())])
    for value in ("9", "10", "0.25"):
        engine.push({"time": [1], "x": [Decimal(value)]})
    assert rows_of(engine, "total", "n") == [(Decimal("19.25"), 3)]


def test_a_column_without_values_as_key_takes_the_type_of_its_first_value():
    engine = hw.Engine([hw.query("q", hw.tumbling(10), keys=["k"], n=hw.count())])
    engine.push({"time": [1, 2], "k": [None, None]})
    engine.push({"time": [3, 4], "k": pa.array([7, None], pa.int32())})
    engine.push({"time": [5], "k": pa.array([2**40], pa.int64())})
    assert rows_of(engine, "k", "n") == [(None, 3), (7, 1), (2**40, 1)]


def test_a_value_of_another_kind_than_the_first_is_malformed():
    engine = hw.Engine([hw.query("q", hw.tumbling(10), last=hw.last("x"))])
    engine.push({"time": [1], "x": [True]})
    engine.push({"time": [2], "x": [5]})
    engine.push({"time": [3], "x": ["yes"]})
    assert rows_of(engine, "last", "event_count") == [(True, 1)]
    assert [row["reason"] for row in engine.side_output().to_pylist()] == [
        "column 'x' is 5, not bool",
        "column 'x' is 'yes', not bool",
    ]


def test_text_in_a_column_without_values_of_which_a_sum_is_asked_is_malformed():
    engine = hw.Engine([hw.query("q", hw.tumbling(10), total=hw.sum("x"))])
    engine.push({"time": [1], "x": [None]})
    engine.push({"time": [2], "x": ["kitchen"]})
    engine.push({"time": [3], "x": [4]})
    assert rows_of(engine, "total", "event_count") == [(4, 2)]


def test_a_schema_says_the_types_of_columns_beforehand():
    schema = {"time": pa.int64(), "x": pa.int32()}
    engine = hw.Engine([hw.query("q", hw.tumbling(10), last=hw.last("x"))], schema=schema)
    engine.push({"time": [1], "x": [None]})
    engine = hw.Engine.restore(engine.snapshot())
    engine.push({"time": [2], "x": ["kitchen"]})
    engine.push({"time": [3], "x": [2**40]})
    engine.push({"time": [4], "x": [4.0]})
    assert engine.counters()["q"]["malformed"] == 2
    engine.flush()
    assert engine.results()["q"].column("last").to_pylist() == [4]


def test_a_schema_refuses_queries_before_anything_is_pushed():
    with pytest.raises(hw.QueryError, match="sum needs numbers, the column holds string"):
        hw.Engine([hw.query("q", hw.tumbling(10), t=hw.sum("x"))], schema={"time": pa.int64(), "x": pa.string()})
    with pytest.raises(hw.DataError, match="give an Arrow schema"):
        hw.Engine([hw.query("q", hw.tumbling(10), t=hw.sum("x"))], schema=5)


def test_a_first_batch_whose_times_are_all_null_does_not_stop_the_stream():
    engine = hw.Engine([hw.query("q", hw.tumbling(10), n=hw.count())])
    engine.push({"time": [None, None]})
    engine.push({"time": [1, 2]})
    engine.push({"time": pa.nulls(1)})
    assert rows_of(engine, "n") == [(2,)]
    assert engine.counters()["q"]["malformed"] == 3
    assert {row["reason"] for row in engine.side_output().to_pylist()} == {"time is null"}
