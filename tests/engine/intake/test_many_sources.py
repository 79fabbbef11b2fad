"""Events of many sources in one batch are what they are one source after the other."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.protocols.events import FlushAsked
from headwater.simulator.instant import InstantTree

SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string(), "v": pa.float64()})
QUERIES = [
    hw.query("sums", hw.sliding(10, 4), total=hw.sum("v"), first=hw.first("v"), keys="k", lateness=3),
    hw.query("visits", hw.session(3), n=hw.count(), scope="node"),
    hw.query("five", hw.count_tumbling(5), m=hw.median("v"), where=hw.col("v") > 0),
    hw.query("marks", hw.punctuated(hw.col("k") == "b"), n=hw.count()),
]
NAMES = ["s0", "s1", "s2"]
#: Rows (source, time, key, value); a time of None makes an event malformed.
rows = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(st.integers(0, 60), st.none()) | st.integers(0, 60),
        st.sampled_from("ab"),
        st.floats(-5, 5, allow_nan=False),
    ),
    max_size=15,
)


def tree_of(disorder: int | None) -> InstantTree:
    tree = InstantTree({"leaf": "root"}, QUERIES, disorder=disorder, schema=SCHEMA)
    for i, name in enumerate(NAMES):
        tree.open("leaf", name, home=f"home-{i % 2}", schema=SCHEMA)
    return tree


def batch_of(events: list) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array([time for _, time, _, _ in events], pa.int64()),
            pa.array([key for _, _, key, _ in events], pa.string()),
            pa.array([value for _, _, _, value in events], pa.float64()),
        ],
        schema=SCHEMA,
    )


def contents(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@given(st.lists(rows, min_size=1, max_size=5), st.sampled_from([None, 0, 5, 30]))
def test_a_mixed_batch_is_what_its_sources_are_one_by_one(batches, disorder):
    mixed, single = tree_of(disorder), tree_of(disorder)
    offsets = [0, 0, 0]
    for events in batches:
        places = []
        for source, *_ in events:
            places.append(offsets[source])
            offsets[source] += 1
        which = np.array([source for source, *_ in events], np.int64)
        if events:
            mixed.push_mixed(NAMES, which, np.array(places, np.int64), batch_of(events))
        for i, name in enumerate(NAMES):
            single.push(name, batch_of([event for event in events if event[0] == i]), settle=False)
        single.settle()
    for tree in (mixed, single):
        tree.tell_root(FlushAsked())
    assert contents(mixed.take_rows()) == contents(single.take_rows())
    assert mixed.root.counters() == single.root.counters()
    ours, theirs = ([] if aside is None else contents(aside) for aside in (mixed.take_aside(), single.take_aside()))
    assert ours == theirs
