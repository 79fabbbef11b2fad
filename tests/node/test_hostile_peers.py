"""The attacks of finding A4: what a peer with a link and no key can send, each as small as it can be."""

from __future__ import annotations

import sys
import tracemalloc
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from fuzz import frames
from fuzz.frames import ATTACKS, CANARY
from headwater.base.arrow import table_to_bytes
from headwater.base.packing import Reader, Writer, one_peers_room
from headwater.engine.operators.partials import UnknownOperatorError, partials_from_bytes
from headwater.engine.wire import peer_tables
from headwater.engine.wire.peer_tables import table_from_peer
from headwater.engine.wire.query_set import read_query_set
from headwater.errors import FormatError, QueryError
from headwater.node import LeafNode, RelayNode
from headwater.protocols.actions import Noted, SendMessage
from headwater.protocols.delta import ChainRange
from headwater.protocols.events import MessageReceived, SourceOpened
from headwater.protocols.messages import Assign, Flush, Hello, encode
from node.test_nonsense import SCHEMA, batch, finish, tree_of

#: What nothing may cost beyond what an honest frame of the same size would.
MEMORY_MAX = 100 << 20


def hostile(tree, attack, chain: str = "A") -> bytes:
    position = tree.root._ledger.positions[chain]
    return attack(Random(0), chain, {chain: ChainRange(position.epoch, position.at, position.at + 1)})


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
@pytest.mark.parametrize("link", ["relay", "mallory"])
def test_an_attack_changes_no_row_of_anyone_else(monkeypatch, tmp_path, attack, link):
    (tmp_path / f"{CANARY}.py").write_text("x = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    # Small enough to be met by small attacks.
    monkeypatch.setattr(peer_tables, "UNPACKED_BYTES_MAX", 1 << 22)
    tree = tree_of()
    tracemalloc.start()
    frame = hostile(tree, attack)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    actions = tree.root.handle(MessageReceived(link, frame), tree.now_ns)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert peak < (600 << 20 if attack is frames.equal_numbers else MEMORY_MAX)
    assert CANARY not in sys.modules
    notes = [action.what for action in actions if isinstance(action, Noted)]
    is_owner = link == "relay" and attack is frames.anothers_chain
    assert "accepted" not in notes or is_owner
    assert set(tree.root.members.chains) == {"A", "B"}
    assert tree.root.members.chains["A"].node == "A"
    for action in actions:
        if not isinstance(action, SendMessage) or action.target in tree.nodes:
            tree._do("root", action)
    tree.settle()
    if not is_owner:
        assert finish(tree) == finish(tree_of())


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_relay_passes_no_attack_on_for_a_chain_of_another_child(attack):
    tree = tree_of()
    frame = hostile(tree, attack)
    if attack in (frames.many_sources, frames.many_chains):
        return  # these are of no chain that is there; the root refuses them, and they are forgotten
    actions = tree.nodes["relay"].handle(MessageReceived("mallory", frame), tree.now_ns)
    assert [action.what for action in actions if isinstance(action, Noted)] == ["not let in"]
    assert not any(isinstance(action, SendMessage) for action in actions)


def test_a_child_cannot_speak_as_a_parent():
    tree = tree_of()
    for node in ("relay", "A"):
        (note,) = tree.nodes[node].handle(MessageReceived("mallory", encode(Flush())), tree.now_ns)
        assert note.what == "not let in"


def test_a_relay_forgets_what_the_root_does_not_know():
    tree = tree_of()
    delta = hostile(tree, frames.anothers_chain).replace(b"A", b"Z")
    tree.handle("relay", MessageReceived("mallory", frames.frame(1, delta[12:])))
    relay = tree.nodes["relay"]
    assert isinstance(relay, RelayNode) and relay._routes.of("Z") == "mallory"
    tree.nodes["mallory"] = LeafNode("mallory", "relay")
    tree.bytes_down["mallory"] = 0
    tree.settle()
    assert relay._routes.of("Z") is None and not relay._holding.held
    assert finish(tree) == finish(tree_of())


def test_a_relay_holds_a_bounded_amount_of_one_childs_deltas():
    tree = tree_of()
    relay = tree.nodes["relay"]
    assert isinstance(relay, RelayNode)
    relay._holding.bytes_max = 1
    tree.push("a", batch(3), settle=False)
    assert not relay._holding.take(frames.decode(hostile(tree, frames.anothers_chain)), 100, "A")
    relay._holding.bytes_max = 1 << 20
    tree.settle()
    assert relay._holding.take(frames.decode(hostile(tree, frames.anothers_chain)), 100, "A")


# --- code ---


def test_a_leaf_loads_no_code_that_its_own_list_does_not_allow(monkeypatch, tmp_path):
    (tmp_path / f"{CANARY}.py").write_text("def cuts(events, state):\n    return [], state\n")
    monkeypatch.syspath_prepend(tmp_path)
    query = (
        '{"name": "q", "window": {"type": "custom", "function": "%s:cuts"}, "aggregates": {"n": {"function": "count"}}}'
    )
    text = '{"headwater": 1, "queries": [%s]}' % (query % CANARY)
    told = frames.json.dumps(
        {
            "version": 1, "time": "time", "unit": "us", "disorder": None, "strict": False, "queries": text,
            "entries": [[0, 0, None]], "names": ["q"], "types": SCHEMA.serialize().to_pybytes().hex(),
        }
    )  # fmt: skip
    leaf = LeafNode("A", "root")
    leaf.handle(SourceOpened("a", schema=SCHEMA), 0)
    (note,) = leaf.handle(MessageReceived("root", encode(Assign("A", "A", 1, 0, 0, 0, (), 1, told))), 0)
    assert note.what == "damaged message" and f"name '{CANARY}:cuts'" in note.detail["why"]
    assert CANARY not in sys.modules
    with pytest.raises(QueryError, match="allow its module"):
        read_query_set(told, {"another"})
    assert read_query_set(told, {CANARY}).names == ["q"]
    del sys.modules[CANARY]


def test_an_import_path_cannot_go_through_a_module_into_another():
    name = frames.json.dumps(["user", "v", {"operator": "x", "path": "headwater.testing:np.load"}])
    partials = Writer(1).number(1).blob(name.encode()).number(10).blob(b"").finish()
    with pytest.raises(UnknownOperatorError, match="'np' is a module"):
        partials_from_bytes(partials, modules={"headwater"})
    with pytest.raises(UnknownOperatorError, match="may be loaded here"):
        partials_from_bytes(partials, modules={"head"})


# --- tables and numbers ---


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.array([[1]]), "does not travel"),
        (pa.array(["x"], pa.string_view()), "does not travel"),
        (pa.array([{"a": 1}]), "does not travel"),
    ],
)
def test_a_table_of_a_peer_has_plain_columns_only(column, why):
    with pytest.raises(FormatError, match=why):
        table_from_peer(table_to_bytes(pa.table({"c": column})))


def test_rows_that_take_no_bytes_are_refused():
    with pytest.raises(FormatError, match="rows cannot be in"):
        table_from_peer(table_to_bytes(pa.table({"c": pa.nulls(10**9)})))


def test_all_numbers_of_one_message_share_what_may_take_no_bytes():
    data = Writer().ints(np.zeros(1 << 20, np.int64)).finish()
    with one_peers_room(3 << 20), pytest.raises(FormatError, match="may take no bytes"):
        [Reader(data).ints() for _ in range(4)]
    assert all(len(Reader(data).ints()) == 1 << 20 for _ in range(4))


@pytest.mark.parametrize("text", ["1E+999999", "NaN", "sNaN", "Infinity", "1" * 3000])
def test_a_decimal_that_cannot_be_reckoned_with_is_refused_from_a_peer(text):
    data = Writer().blob(bytes([3])).ints(np.array([len(text)])).finish() + text.encode()
    with one_peers_room(), pytest.raises(FormatError, match="more digits"):
        Reader(data).objects()


def test_a_leaf_that_a_message_broke_begins_anew_and_nothing_is_lost(monkeypatch):
    tree = tree_of()
    leaf = tree.nodes["A"]
    monkeypatch.setattr(type(leaf._sender.half), "look", lambda *_: 1 / 0)
    tree.handle("A", MessageReceived("relay", encode(frames.messages.LookInto("A", b"\x01\x00"))))
    assert leaf.state.value == "waiting"
    monkeypatch.undo()
    tree.settle()
    assert leaf.state.value == "running"
    assert finish(tree) == finish(tree_of())


def test_a_hello_that_is_not_granted_changes_nothing():
    tree = tree_of()
    before = tree.root.snapshot()
    wider = pa.schema({**{field.name: field.type for field in SCHEMA}, "more": pa.int64()}).serialize().to_pybytes()
    for node, epoch in (("mallory", 0), ("mallory", 1), ("A", 0), ("A", 1)):
        hello = Hello("A", node, epoch, 0, (("a", ""), ("new", "")), wider)
        tree.root.handle(MessageReceived("mallory", encode(hello)), tree.now_ns)
    assert tree.root.snapshot() == before
