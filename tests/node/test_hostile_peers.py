"""The attacks of finding A4: what a peer with a link and no key can send, each as small as it can be."""

from __future__ import annotations

import sys
import tracemalloc
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import headwater as hw
from fuzz import frames
from fuzz.frames import ATTACKS, CANARY
from headwater.base.arrow import table_to_bytes
from headwater.base.packing import Reader, Writer, one_peers_room
from headwater.engine.operators.partials import UnknownOperatorError, partials_from_bytes
from headwater.engine.windows.empty_windows import EMPTY_STEP
from headwater.engine.wire import peer_tables
from headwater.engine.wire.part_bytes import part_to_bytes
from headwater.engine.wire.parts import EventsPart, LatePart
from headwater.engine.wire.peer_tables import table_from_peer
from headwater.engine.wire.query_set import read_query_set
from headwater.errors import FormatError, QueryError
from headwater.language.times import NEVER
from headwater.node import LeafNode, RelayNode, RootNode
from headwater.node.routes import CHAINS_PER_LINK_MAX
from headwater.protocols.actions import EmitRows, Noted, Record, SendMessage, SetTimer
from headwater.protocols.advances import Advance
from headwater.protocols.count_windows import Forecast
from headwater.protocols.delta import ChainRange, Delta
from headwater.protocols.events import BatchArrived, MessageReceived, SourceOpened, Started, TimerFired
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Assign, CountPlan, Flush, Hello, Positions, Rates, SourceState, decode, encode
from headwater.simulator.instant import InstantTree
from node.test_nonsense import NONSENSE, SCHEMA, batch, finish, nonsense, tree_of

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
    if attack is frames.many_sources:
        return  # it is of no chain that is there: the root refuses it, and the relay forgets it
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


def test_a_relay_counts_all_chains_that_come_at_once():
    relay = RelayNode("relay", "root")
    for count in (CHAINS_PER_LINK_MAX + 1, CHAINS_PER_LINK_MAX):
        named = Positions(False, {f"x{i}": Position(1, 1) for i in range(count)})
        relay.handle(MessageReceived("mallory", encode(named)), 0)
        assert len(relay._routes.links) == (0 if count > CHAINS_PER_LINK_MAX else count)


def test_chains_that_a_quiet_child_made_up_are_forgotten_once_the_root_was_asked():
    tree = tree_of()
    relay = tree.nodes["relay"]
    tree.nodes["mallory"] = LeafNode("mallory", "relay")
    tree.bytes_down["mallory"] = 0
    made_up = Positions(False, {f"x{i}": Position(1, 1) for i in range(1000)})
    tree.handle("relay", MessageReceived("mallory", encode(made_up)))
    assert isinstance(relay, RelayNode) and len(relay._routes.links) == 1002
    tree.settle()
    assert relay._routes.links.keys() == {"A", "B"}


def test_one_wrong_child_rewinds_its_siblings_once_and_not_again():
    tree = tree_of()
    rewound = []
    for _ in range(5):
        tree.push("b", batch(3), settle=False)
        tree.handle("B", TimerFired("send"))
        tree.handle("relay", MessageReceived("A", nonsense(tree, part_to_bytes(NONSENSE["negative accounts"]))))
        tree.settle()
        rewound.append(tree.root._ledger.positions["B"].epoch)
    assert rewound == [2] * 5 and tree.root._ledger.positions["A"].epoch == 6
    # A child that is right again is combined with its siblings as before.
    for source in ("a", "b"):
        tree.push(source, batch(4))
    tree.notes.clear()
    for leaf, source in (("A", "a"), ("B", "b")):
        tree.push(source, batch(5), settle=False)
        tree.handle(leaf, TimerFired("send"))
    tree.settle()
    assert any(note.what == "combined" for _, note in tree.notes)


def test_a_leaf_remembers_no_rates_that_nobody_asked_it_to():
    leaf = LeafNode("A", "root")
    for family in range(1000):
        leaf.handle(MessageReceived("root", encode(Rates(f"x{family}", family, 1.0))), 0)
    assert leaf._counting.rates == {}
    forecasts = {0: Forecast(0, 0, 1.0, None, 1, peers=2), 1: Forecast(0, 0, 1.0, None, 1)}
    leaf.handle(MessageReceived("root", encode(CountPlan(1, 0, 0, forecasts))), 0)
    for chain in range(1000):
        for family in range(3):
            leaf.handle(MessageReceived("root", encode(Rates(f"x{chain}", family, 1.0))), 0)
    leaf.handle(MessageReceived("root", encode(Rates("x1", 0, 7.0))), 0)
    assert leaf._counting.rates == {0: {"x0": 1.0, "x1": 7.0}}


def test_who_does_not_own_a_chain_cannot_make_the_root_send_all_its_sources():
    root = RootNode("root", [FILLED], schema=SCHEMA)
    hello = Hello("A", "A", 0, 0, [(f"s{i}", "") for i in range(5000)])
    for _ in range(2):
        root.handle(MessageReceived("A", encode(hello)), 0)
    said = [
        Hello("A", "zombie", 1, 0, (("s0", ""),)),
        Positions(False, {"A": Position(1, 0)}),
        Delta({"A": ChainRange(1, 0, 1)}),
    ]
    for message in said:
        sent = [a for a in root.handle(MessageReceived("mallory", encode(message)), 1) if isinstance(a, SendMessage)]
        assert {action.target for action in sent} == {"mallory"} and sum(len(a.frame) for a in sent) < 500
        told = [frames.decode(action.frame) for action in sent]
        assert any(isinstance(one, Assign) and (one.node, one.epoch, one.sources) == ("A", 2, ()) for one in told)


def test_a_leaf_that_is_told_of_its_own_chain_without_sources_asks_for_it():
    leaf = LeafNode("A", "root")
    leaf.handle(SourceOpened("a", schema=SCHEMA), 0)
    reminder = MessageReceived("root", encode(Assign("A", "A", 2, 0, 0, NEVER, (), 0)))
    asked, _ = leaf.handle(reminder, 0)
    assert isinstance(frames.decode(asked.frame), Hello)
    tree = tree_of()
    (asked,) = tree.nodes["A"].handle(MessageReceived("relay", reminder.frame), 0)
    assert isinstance(frames.decode(asked.frame), Hello)


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
            "entries": [[0, 0, 2**63 - 1]], "names": ["q"], "types": SCHEMA.serialize().to_pybytes().hex(),
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


# --- windows without events ---

FILLED = hw.query("filled", hw.tumbling(10), keys=["k"], lateness=50, n=hw.count(), emit_empty=7)
DISTINCT = hw.query("distinct", hw.tumbling(10), keys=["k"], n=hw.count(), distinct="v", emit_empty=7)
FAR = 10**17


def lone_tree(*queries) -> InstantTree:
    tree = InstantTree({"A": "root"}, queries, schema=SCHEMA, keep_records=True)
    tree.open("A", "a", schema=SCHEMA)
    tree.push("a", batch(1, 2), 0)
    return tree


@pytest.mark.parametrize("query", [FILLED, DISTINCT], ids=lambda query: query.name)
def test_a_far_time_brings_windows_without_events_bit_by_bit_and_no_exception(query):
    tree = lone_tree(query)
    tree.push("a", batch(3, FAR), FAR, settle=False)
    sent = [a.frame for a in tree.nodes["A"].handle(TimerFired("send"), 1) if isinstance(a, SendMessage)]
    actions = [action for frame in sent for action in tree.root.handle(MessageReceived("A", frame), 2)]
    assert tree.root.is_behind and any(isinstance(action, Record) for action in actions)
    (timer,) = (action for action in actions if isinstance(action, SetTimer) and action.name == "empty")
    more = tree.root.handle(TimerFired(timer.name), 3)
    starts = [
        row
        for action in [*actions, *more]
        if isinstance(action, EmitRows)
        for row in action.rows["window_start"].to_pylist()
    ]
    assert len(starts) > EMPTY_STEP and starts == list(range(0, 10 * len(starts), 10))
    again, _ = RootNode.recover(
        tree.checkpoint, [*tree.records, *(a.data for a in [*actions, *more] if isinstance(a, Record))]
    )
    assert again.snapshot() == tree.root.snapshot()
    assert any(isinstance(action, SetTimer) and action.name == "empty" for action in again.handle(Started(), 4))


@pytest.mark.parametrize("query", [FILLED, DISTINCT], ids=lambda query: query.name)
def test_an_event_of_long_ago_cannot_be_said_to_have_come_in_time(query):
    tree = lone_tree(query)
    tree.push("a", batch(3), 100)
    position = tree.root._ledger.positions["A"]
    values = {"k": pa.array(["new"]), "v": pa.array([1.0])}
    here, long_ago = np.zeros(1, np.int64), np.full(1, NEVER)
    part = (
        LatePart(0, "A", [values["k"]], here, here, here, here, long_ago, values)
        if query is FILLED
        else EventsPart(-1, "A", here, here, here, long_ago, values)
    )
    stretch = ChainRange(position.epoch, position.at, position.at + 1)
    delta = Delta({"A": stretch}, {"A": Advance.of([0], [1], [0])}, [part_to_bytes(part)])
    actions = tree.root.handle(MessageReceived("A", encode(delta)), 2)
    (note,) = (action for action in actions if isinstance(action, Noted) and action.what == "damaged delta")
    assert "before others of their source" in note.detail["why"]


@pytest.mark.parametrize("query", [FILLED, DISTINCT], ids=lambda query: query.name)
def test_a_far_watermark_alone_brings_windows_without_events_bit_by_bit(query):
    tree = lone_tree(query)
    for number, rise in enumerate((100, FAR)):
        at = tree.root._ledger.positions["A"]
        advance = Advance.of([0], [0], [rise - (100 if number else 0)])
        delta = Delta({"A": ChainRange(at.epoch, at.at, at.at + 1)}, {"A": advance})
        tree.root.handle(MessageReceived("A", encode(delta)), number)
    assert tree.root.is_behind and tree.root.watermark == FAR


EDGES = st.sampled_from([0, 1, 5, 1 << 40, (1 << 62) - 1, 1 << 62, (1 << 62) + 1, (1 << 63) - 2, (1 << 63) - 1])


@given(st.tuples(EDGES, EDGES, EDGES), st.tuples(EDGES, EDGES))
@example((2, (1 << 63) - 1, 0), (0, 0))  # frame 25,285 of `make fuzz`: the delta behind it had no end
def test_a_leaf_can_go_on_from_wherever_it_says_yes_to(counts, places):
    epoch, position, cut = counts
    hold, offset = sorted(places)
    leaf = LeafNode("leaf", "root")
    leaf.handle(SourceOpened("s", schema=SCHEMA), 0)
    text = RootNode("root", [hw.query("all", hw.tumbling(10), n=hw.count())]).assignments.query_text
    assign = Assign("leaf", "leaf", epoch, position, cut, NEVER, [SourceState("s", offset, 7, hold, 3)], 1, text)
    leaf.handle(MessageReceived("root", encode(assign)), 0)
    for start in {hold, offset} - {(1 << 63) - 2, (1 << 63) - 1}:  # behind which no source has two events
        leaf.handle(BatchArrived("s", start, batch(8, 9)), 0)
        for action in leaf.handle(TimerFired("send"), 0):
            assert not isinstance(action, SendMessage) or decode(action.frame)
    leaf.check()
