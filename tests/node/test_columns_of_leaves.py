"""Leaves whose columns differ in their types: rows do not depend on which of them says hello first."""

from decimal import Decimal
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.simulator.instant import InstantTree

QUERIES = [
    hw.query(
        "slices", hw.tumbling(10), keys=["k"], total=hw.sum("v"), least=hw.min("v"), last=hw.last("v"), n=hw.count()
    ),
    hw.query("sessions", hw.session(3), mean=hw.avg("v"), middle=hw.median("v")),
    hw.query("counts", hw.count_tumbling(2), most=hw.max("v")),
    hw.query("markers", hw.punctuated(hw.col("mark") == "go"), all=hw.collect("v")),
]
#: Types that grow into each other, with values that all of them hold.
TYPES = {
    "numbers": [pa.int8(), pa.int64(), pa.float64(), pa.null()],
    "exact": [pa.int32(), pa.decimal128(4, 1), pa.null()],
}


def batch(leaf: str, value_type: pa.DataType, key_type: pa.DataType, times: list[int]) -> pa.RecordBatch:
    size = len(times)
    values = pa.nulls(size) if pa.types.is_null(value_type) else pa.array(map(Decimal, range(size))).cast(value_type)
    keys = pa.nulls(size) if pa.types.is_null(key_type) else pa.array([time % 2 for time in times]).cast(key_type)
    marks = pa.array(["go" if time % 4 == 0 else None for time in times], pa.string())
    return pa.record_batch({"time": pa.array(times, pa.int64()), "v": values, "k": keys, "mark": marks})


def rows_of(tree: InstantTree) -> list[Any]:
    """What holds in the end: the last revision of each window."""
    kept = {}
    for row in tree.take_rows().to_pylist():
        place = (row["query"], row["window_start"], row["window_end"], row["k"], row["first_time"])
        kept[place] = {name: value for name, value in row.items() if name not in ("revision", "replaces")}
    return sorted(kept.values(), key=repr_of)


def repr_of(row: dict[str, Any]) -> str:
    return repr((row["query"], row["window_start"], row["window_end"], row["k"], row["first_time"]))


def played(order: tuple[str, ...], events: dict[str, pa.RecordBatch], are_early: bool) -> list[Any]:
    """The rows of a tree to which leaves come in this order; ``are_early``: each speaks before the next one comes."""
    tree = InstantTree(dict.fromkeys(sorted(events), "root"), QUERIES)
    for leaf in order:
        tree.open(leaf, leaf, schema=events[leaf].schema)
        if are_early:
            tree.push(leaf, events[leaf].slice(0, 2))
    for leaf in order:
        tree.push(leaf, events[leaf].slice(2 if are_early else 0))
    tree.flush()
    assert all(counts["malformed"] == 0 for counts in tree.root.counters().values())
    return rows_of(tree)


@settings(max_examples=20)
@given(st.data(), st.booleans())
def test_rows_do_not_depend_on_which_leaf_says_hello_first(data: st.DataObject, are_early: bool):
    types = TYPES[data.draw(st.sampled_from(sorted(TYPES)))]
    times = st.lists(st.integers(0, 25), min_size=2, max_size=5)
    keys = st.sampled_from([pa.int16(), pa.int64(), pa.null()])
    events = {leaf: batch(leaf, data.draw(st.sampled_from(types)), data.draw(keys), data.draw(times)) for leaf in "abc"}
    first, *others = [played(order, events, are_early) for order in permutations(events)]
    assert all(other == first for other in others)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_columns_of_leaves_that_have_no_type_in_common_are_refused(order: tuple[str, str]):
    schemas = {
        "a": pa.schema({"time": pa.int64(), "v": pa.int64()}),
        "b": pa.schema({"time": pa.int64(), "v": pa.string()}),
    }
    tree = InstantTree(dict.fromkeys(schemas, "root"), [hw.query("q", hw.tumbling(10), last=hw.last("v"))])
    tree.open(order[0], order[0], schema=schemas[order[0]])
    with pytest.raises(hw.QueryError, match=r"column 'v' is .* at other leaves: give it one type, or give the root"):
        tree.open(order[1], order[1], schema=schemas[order[1]])


def test_a_schema_of_the_root_holds_whatever_leaves_have():
    schema = pa.schema({"time": pa.int64(), "v": pa.int32()})
    tree = InstantTree({"a": "root"}, [hw.query("q", hw.tumbling(10), last=hw.last("v"))], schema=schema)
    tree.open("a", "a", schema=pa.schema({"time": pa.int64(), "v": pa.int64()}))
    tree.push("a", pa.record_batch({"time": [1, 2], "v": [5, 2**40]}), 10)
    assert tree.take_rows()["last"].to_pylist() == [5]
    assert tree.root.counters()["q"]["malformed"] == 1
