"""Frames that can be read and make no sense: nobody falls over, nothing counts, and the others go on."""

import json

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.base.arrow import schema_to_bytes
from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.operator import Op
from headwater.engine.wire.part_bytes import part_to_bytes
from headwater.engine.wire.parts import AccountsPart, AsidePart, EventsPart, LatePart, MarkersPart, Part, RowsPart
from headwater.node import LeafNode, RelayNode, RootNode
from headwater.protocols.actions import SendMessage
from headwater.protocols.advances import Advance
from headwater.protocols.delta import CUT_SUFFIX, ChainRange, Delta
from headwater.protocols.events import MessageReceived, SourceOpened, TimerFired
from headwater.protocols.messages import Assign, Cuts, Hello, Refuse, decode, encode
from headwater.simulator.instant import InstantTree

SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string(), "g": pa.int64(), "v": pa.float64()})
QUERIES = [
    hw.query("sums", hw.tumbling(10), keys=["k"], n=hw.count(), s=hw.sum("v")),
    hw.query("visits", hw.session(3), keys=["g"], n=hw.count()),
    hw.query("marks", hw.punctuated(hw.col("k") == "cut"), n=hw.count()),
    hw.query("three", hw.count_tumbling(3), n=hw.count(), m=hw.max("v")),
]
HERE, ONE = np.zeros(1, np.int64), np.ones(1, np.int64)
COUNT = {Op("count"): CountColumn(np.array([2]))}
TEXT, NUMBER = [pa.array(["x"])], {"v": pa.array([1.0])}
NONSENSE: dict[str, Part] = {
    "no keys": RowsPart(0, [], HERE, HERE, COUNT),
    "keys of another type": RowsPart(0, [pa.array([5])], HERE, HERE, COUNT),
    "operators missing": RowsPart(0, TEXT, HERE, HERE, COUNT),
    "too many keys": RowsPart(0, TEXT * 2, HERE, HERE, COUNT),
    "sessions without bounds": RowsPart(1, [pa.array([5])], HERE, HERE, COUNT),
    "partials for raw queries": RowsPart(3, [], HERE, HERE, COUNT),
    "rows that were not cut": RowsPart(2, [], HERE, HERE, COUNT),
    "events of nobody": EventsPart(-1, "nobody", HERE, HERE, HERE, HERE, NUMBER),
    "events of a source that is not there": EventsPart(-1, "A", HERE, HERE, 7 * ONE, HERE, NUMBER),
    "events without columns": EventsPart(-1, "A", HERE, HERE, HERE, HERE, {}),
    "events of a wrong type": EventsPart(-1, "A", HERE, HERE, HERE, HERE, {"v": pa.array(["boo"])}),
    "misfits that are not there": EventsPart(-1, "A", HERE, HERE, HERE, HERE, NUMBER, {"v": [100]}),
    "late events of nobody": LatePart(0, "nobody", TEXT, HERE, HERE, HERE, HERE, HERE, NUMBER),
    "late events without columns": LatePart(0, "A", TEXT, HERE, HERE, HERE, HERE, ONE, {}),
    "late events of a wrong type": LatePart(0, "A", TEXT, HERE, HERE, HERE, HERE, ONE, {"v": pa.array(["x"])}),
    "markers for fixed windows": MarkersPart(0, "A", TEXT, HERE, HERE, HERE, HERE, []),
    "markers of a source that is not there": MarkersPart(2, "A", [], HERE, HERE, HERE, 7 * ONE, [np.array([True])]),
    "negative accounts": AccountsPart(np.array([[0, -1, 0, 0, 0]])),
    "another side output": AsidePart(pa.table({"what": ["?"]})),
}


def batch(*times: int) -> pa.RecordBatch:
    size = len(times)
    columns = {"time": list(times), "k": ["a"] * size, "g": [1] * size, "v": [1.0] * size}
    return pa.record_batch(columns, schema=SCHEMA)


def tree_of() -> InstantTree:
    tree = InstantTree({"A": "relay", "B": "relay", "relay": "root"}, QUERIES, schema=SCHEMA)
    for leaf, source in (("A", "a"), ("B", "b")):
        tree.open(leaf, source, schema=SCHEMA)
        tree.push(source, batch(1, 2), 0)
    return tree


def nonsense(tree: InstantTree, *parts: bytes) -> bytes:
    position = tree.root._ledger.positions["A"]
    stretch = ChainRange(position.epoch, position.at, position.at + 1)
    return encode(Delta({"A": stretch}, {"A": Advance.of([0], [1], [0])}, parts))


def finish(tree: InstantTree) -> list[str]:
    tree.push("a", batch(3, 14))
    tree.push("b", batch(4, 15))
    tree.flush()
    return sorted(map(str, tree.take_rows().to_pylist()))


@pytest.mark.parametrize("what", NONSENSE)
def test_a_part_that_does_not_fit_is_not_accepted_and_its_chain_begins_anew(what):
    tree = tree_of()
    before = tree.root._ledger.positions["A"]
    tree.handle("root", MessageReceived("relay", nonsense(tree, part_to_bytes(NONSENSE[what]))))
    after = tree.root._ledger.positions["A"]
    assert (after.epoch, after.at) == (before.epoch + 1, before.at)
    tree.settle()
    assert finish(tree) == finish(tree_of())


def test_a_part_that_nobody_can_read_does_not_stop_the_siblings():
    tree = tree_of()
    relay = tree.nodes["relay"]
    tree.handle("relay", MessageReceived("A", nonsense(tree, b"garbage")))
    tree.push("b", batch(3), settle=False)
    assert isinstance(relay, RelayNode)
    tree.settle()
    assert any(note.what == "damaged delta" for _, note in tree.notes)
    expected = tree_of()
    expected.push("b", batch(3))
    assert finish(tree) == finish(expected)


def test_a_hello_that_makes_no_sense_is_refused():
    tree = tree_of()
    for hello in (
        Hello("C", "C", 0, 0, (("c", ""),), b"no schema"),
        Hello("A" + CUT_SUFFIX, "C", 0, 0, (("c", ""),)),
        Hello("C", "C", 0, 0, (("a", ""),)),
    ):
        (answer,) = [a for a in tree.root.handle(MessageReceived("C", encode(hello)), 0) if isinstance(a, SendMessage)]
        assert isinstance(decode(answer.frame), Refuse)


def test_a_leaf_takes_no_orders_that_it_cannot_read():
    leaf = LeafNode("A", "root")
    leaf.handle(SourceOpened("a", schema=SCHEMA), 0)
    honest = json.loads(
        RootNode("root", [hw.query("q", hw.tumbling(9), n=hw.sum("v"))], schema=SCHEMA).assignments.query_text
    )
    # Frame 405,422 of `make fuzz`: the leaf found out with its first batch.
    untyped = json.dumps(honest | {"types": schema_to_bytes(pa.schema([])).hex()})
    for queries in ("nonsense", "{}", '{"version": 99}', untyped):
        (note,) = leaf.handle(MessageReceived("root", encode(Assign("A", "A", 1, 0, 0, 0, (), 1, queries))), 0)
        assert note.what == "damaged message"
    tree = tree_of()
    (note,) = tree.nodes["A"].handle(
        MessageReceived("relay", encode(Cuts(tree.nodes["A"]._sender.cut_outbox.end + 1, 100, {}, b"nonsense"))), 0
    )
    assert note.what == "damaged message"


def test_a_leaf_may_name_its_sources_in_another_order_and_keeps_their_homes():
    by_home = hw.query("by home", hw.tumbling(10), n=hw.count(), scope="node")
    tree = InstantTree({"A": "root"}, [by_home], schema=SCHEMA)
    tree.open("A", "x", home="north", schema=SCHEMA)
    tree.open("A", "y", home="south", schema=SCHEMA)
    tree.push("x", batch(1))
    tree.push("y", batch(2, 3))
    # The leaf loses its memory; what it opens first is not what it had first.
    tree.nodes["A"] = LeafNode("A", "root")
    tree.handle("A", SourceOpened("y", "south", SCHEMA))
    tree.handle("A", TimerFired("hello"))
    tree.settle()
    tree.handle("A", SourceOpened("x", "north", SCHEMA))
    tree.settle()
    tree.push("x", batch(4))
    tree.flush()
    rows = [(row["node"], row["n"]) for row in tree.take_rows().to_pylist()]
    assert rows == [("north", 2), ("south", 2)]
