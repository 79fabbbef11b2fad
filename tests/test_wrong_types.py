"""A value of a wrong type concerns the queries that read its column, and nobody else; on every host."""

import pyarrow as pa
import pytest

import headwater as hw
from headwater.simulator.instant import InstantTree

QUERIES = [
    hw.query("total", hw.tumbling(10), total=hw.sum("v")),
    hw.query("n", hw.tumbling(10), n=hw.count()),
]
NUMBERS, TEXTS = pa.record_batch({"time": [1, 2], "v": [1, 2]}), pa.record_batch({"time": [3, 4], "v": ["x", "y"]})


def values(table: pa.Table, query: str, column: str) -> list[object]:
    return [row[column] for row in table.to_pylist() if row["query"] == query]


def test_one_query_does_not_change_anothers_rows_when_a_value_has_a_wrong_type():
    engine = hw.Engine(QUERIES)
    engine.push(NUMBERS)
    engine.push(TEXTS)
    engine.flush()
    table, counters = engine.results().table, engine.counters()
    assert values(table, "n", "n") == [4]
    assert values(table, "total", "total") == [3]
    assert counters["n"] | {"member": 4, "malformed": 0} == counters["n"]
    assert counters["total"] | {"in": 4, "member": 2, "malformed": 2} == counters["total"]
    aside = engine.side_output().to_pylist()
    assert [(row["query"], row["offset"]) for row in aside] == [("total", 2), ("total", 3)]
    assert aside[0]["reason"] == "column 'v' is 'x', not int64"


def test_queries_that_were_divided_by_a_wrong_type_go_on_from_a_snapshot():
    engine = hw.Engine(QUERIES)
    engine.push(NUMBERS)
    engine.push(TEXTS)
    engine = hw.Engine.restore(engine.snapshot())
    engine.push(pa.record_batch({"time": [5, 6], "v": ["z", None]}))
    engine.add_query(hw.query("late", hw.tumbling(10), late=hw.max("v")), at=10)
    engine.push(pa.record_batch({"time": [11], "v": [7]}))
    engine.flush()
    table = engine.results().table
    assert values(table, "n", "n") == [6, 1]
    assert values(table, "total", "total") == [3, 7]
    assert values(table, "late", "late") == [7]
    assert engine.counters()["total"]["malformed"] == 3


@pytest.mark.parametrize("leaf_count", [1, 2])
def test_one_query_does_not_change_anothers_rows_over_a_tree(leaf_count: int):
    leaves = [f"leaf{number}" for number in range(leaf_count)]
    tree = InstantTree(dict.fromkeys(leaves, "root"), QUERIES, schema=NUMBERS.schema)
    for leaf in leaves:
        tree.open(leaf, leaf, schema=NUMBERS.schema)
        tree.push(leaf, NUMBERS)
    tree.push(leaves[0], TEXTS)
    for leaf in leaves:
        tree.push(leaf, NUMBERS.slice(0, 0), 10)
    table = tree.take_rows()
    assert values(table, "n", "n") == [2 + 2 * leaf_count]
    assert values(table, "total", "total") == [3 * leaf_count]
    counters = tree.root.counters()
    assert (counters["n"]["malformed"], counters["total"]["malformed"]) == (0, 2)
    assert [row["query"] for row in tree.take_aside().to_pylist()] == ["total", "total"]
