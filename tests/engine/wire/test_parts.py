"""Parts of deltas: their byte form, and merging them in any grouping."""

from contextlib import suppress
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.base.count_limits import CountLimits
from headwater.base.source_numbers import SourceNumbers
from headwater.engine.operators.operator import Op
from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.tree.leaf_sources import Standing
from headwater.engine.tree.root import RootHalf
from headwater.engine.wire.merge import merge_parts
from headwater.engine.wire.part_bytes import cuts_from_bytes, cuts_to_bytes, part_from_bytes, part_to_bytes
from headwater.engine.wire.parts import AccountsPart, EventsPart, KeyedTimes, LatePart, MarkersPart, Part, RowsPart
from headwater.errors import FormatError
from headwater.language.times import NEVER
from headwater.protocols.actions import Noted
from headwater.protocols.delta import Delta
from headwater.protocols.events import MessageReceived
from headwater.protocols.messages import decode
from headwater.simulator.instant import InstantTree

SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string(), "g": pa.int64(), "v": pa.float64()})
QUERIES = [
    hw.query("sums", hw.sliding(10, 4), total=hw.sum("v"), mid=hw.median("v"), first=hw.first("v"), keys="k"),
    hw.query("visits", hw.session(3), n=hw.count(), hi=hw.max("v"), kinds=hw.count_distinct("k"), keys=["k", "g"]),
    hw.query("five", hw.count_tumbling(5), m=hw.avg("v"), where=hw.col("v") > 0),
    hw.query("marks", hw.punctuated(hw.col("k") == "b"), n=hw.count()),
    hw.query("about", hw.tumbling(20), d=hw.approx_distinct("k"), q=hw.approx_quantile("v", 0.9)),
]
events = st.lists(
    st.tuples(
        st.integers(-20, 60),
        st.sampled_from(["a", "b", None]),
        st.integers(0, 2) | st.none(),
        st.floats(-9, 9, allow_nan=False),
    ),
    min_size=1,
    max_size=25,
)


def root_half() -> RootHalf:
    root = RootHalf(QUERIES)
    root.check(SCHEMA)
    root.names = [f"s{i}" for i in range(4)]
    root.homes = [""] * 4
    return root


def parts_of(rows: list, chain: str) -> list[Part]:
    leaf = LeafHalf(
        root_half().query_set(), chain, [Standing(chain, "", 0, NEVER, 0, NEVER)], NEVER, NEVER, CountLimits()
    )
    columns = list(zip(*rows, strict=True))
    batch = pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    # Half of the events, a watermark among them, the other half: some are late.
    middle = len(batch) // 2
    leaf.take_in(chain, 0, batch.slice(0, middle), 10)
    leaf.take_in(chain, middle, batch.slice(middle), None)
    return leaf.take()[1]


def answers(parts: list[Part]) -> list[str]:
    root = root_half()
    root.absorb(
        [part_from_bytes(part_to_bytes(part)) for part in parts],
        lambda chains: SourceNumbers.of([np.array([int(chain[1:])]) for chain in chains]),
    )
    root.raise_to(10**6, 10**6)
    root.close()
    rows = root.take_rows()
    return [] if rows is None else sorted(map(str, rows.to_pylist()))


@given(st.lists(events, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_parts_merged_in_any_grouping_and_order_give_the_same_rows(streams: list, random: Random):
    lists = [parts_of(rows, f"s{i}") for i, rows in enumerate(streams)]
    apart = [part for parts in lists for part in parts]
    merged = [merge_parts(parts) for parts in lists]
    while len(merged) > 1:
        random.shuffle(merged)
        one, two = merged.pop(), merged.pop()
        both = merge_parts([*one, *two])
        merged.append([part_from_bytes(part_to_bytes(part)) for part in both])
    assert answers(merged[0]) == answers(apart)


@given(events)
def test_parts_have_a_byte_form(rows: list):
    for part in parts_of(rows, "s0"):
        again = part_from_bytes(part_to_bytes(part))
        assert type(again) is type(part)
        assert part_to_bytes(again) == part_to_bytes(part)


@given(events, st.data())
def test_damaged_parts_are_one_error(rows: list, data: st.DataObject):
    part = data.draw(st.sampled_from(parts_of(rows, "s0")))
    good = bytearray(part_to_bytes(part))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(good) - 1))
        good[place] = data.draw(st.integers(0, 255))
    damaged = bytes(good[: data.draw(st.integers(1, len(good)))])
    with suppress(FormatError):
        part_from_bytes(damaged)


@given(st.binary(max_size=60))
def test_garbage_is_one_error(data: bytes):
    for read in (part_from_bytes, cuts_from_bytes):
        with suppress(FormatError):
            read(data)


def test_cuts_have_a_byte_form():
    cuts = {3: KeyedTimes([pa.array(["a", None])], np.array([1, 0, 1]), np.array([5, -7, 2**60]))}
    again = cuts_from_bytes(cuts_to_bytes(cuts))
    assert again[3].key_columns[0].to_pylist() == ["a", None]
    assert again[3].key.tolist() == [1, 0, 1]
    assert again[3].times.tolist() == [5, -7, 2**60]


def test_rows_of_one_slice_and_key_become_one():
    many = [hw.query(f"q{i}", hw.tumbling(10 * i), total=hw.sum("v"), keys="k") for i in range(1, 30)]
    tree = InstantTree({"a": "relay", "b": "relay", "relay": "root"}, many, schema=SCHEMA)
    batch = pa.record_batch({"time": [1, 2, 3, 11], "k": ["x", "y", "x", "x"], "g": [0] * 4, "v": [1.0] * 4})
    for leaf in ("a", "b"):
        tree.open(leaf, leaf, schema=SCHEMA)
        tree.push(leaf, batch.cast(SCHEMA), settle=False)
    sent: list[Delta] = []
    handle = tree.root.handle
    tree.root.handle = lambda event, now: (sent.append(event), handle(event, now))[1]  # type: ignore[method-assign]
    tree.settle()
    deltas = [decode(event.frame) for event in sent if isinstance(event, MessageReceived)]
    rows = [part_from_bytes(data) for delta in deltas if isinstance(delta, Delta) for data in delta.parts]
    # Two leaves, 29 queries: three rows, one for each slice and key.
    assert [len(part.key) for part in rows if isinstance(part, RowsPart)] == [3]


def test_events_travel_where_partials_would_be_larger():
    wide = hw.query(
        "wide",
        hw.tumbling(10**6),
        keys="k",
        **{f"q{i}": hw.approx_quantile("v", 0.01 * i, error=0.001 * i) for i in range(1, 40)},
    )
    tree = InstantTree({"leaf": "root"}, [wide], disorder=0, schema=SCHEMA)
    tree.open("leaf", "s", schema=SCHEMA)
    for step in range(4):
        keys = [f"key {i}" for i in range(500)]
        times = np.arange(500) + step * 500
        batch = pa.record_batch(
            {"time": times, "k": keys, "g": [0] * 500, "v": np.random.default_rng(step).random(500)}
        )
        tree.push("s", batch.cast(SCHEMA))
    assert any(note == Noted("raw instead", {}) for _, note in tree.notes)
    tree.flush()
    rows = tree.take_rows()
    assert rows.num_rows == 500
    assert set(rows.column("event_count").to_pylist()) == {4}
    assert tree.root.counters()["wide"]["in"] == 2000


KINDS = (RowsPart, EventsPart, LatePart, MarkersPart, AccountsPart)


def test_the_streams_above_make_parts_of_every_kind():
    rows = [(20, "b", 1, 1.0), (21, "a", 1, 2.0), (3, "b", None, 3.0), (4, None, 0, -1.0)]
    assert {type(part) for part in parts_of(rows, "s0")} >= set(KINDS)
    assert Op("count") in next(part for part in parts_of(rows, "s0") if isinstance(part, RowsPart)).partials
