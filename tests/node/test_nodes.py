"""Stories of nodes: what happens to one, and what it asks for."""

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import QueryError
from headwater.node import LeafNode, NodeSettings, RelayNode, RootNode
from headwater.protocols.actions import (
    Checkpoint,
    EmitRows,
    Noted,
    PauseReading,
    ReadFrom,
    Record,
    SendMessage,
)
from headwater.protocols.events import (
    BatchArrived,
    IdleAsked,
    MessageReceived,
    QueryAdded,
    QueryRemoved,
    SourceOpened,
    Started,
    TimerFired,
)
from headwater.protocols.messages import Assign, Hello, decode
from headwater.simulator.instant import InstantTree, LiveLog

SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string(), "v": pa.float64()})
SUMS = hw.query("sums", hw.tumbling(10), total=hw.sum("v"))
MARKS = hw.query("marks", hw.punctuated(hw.col("k") == "cut"), n=hw.count())


def batch(times: list[int], keys: str | list[str] = "a") -> pa.RecordBatch:
    names = [keys] * len(times) if isinstance(keys, str) else keys
    return pa.record_batch({"time": times, "k": names, "v": [1.0] * len(times)}, schema=SCHEMA)


def tree_of(*queries: hw.Query, leaves: int = 2, **options) -> InstantTree:
    tree = InstantTree({f"leaf-{i}": "root" for i in range(leaves)}, queries, **options)
    for i in range(leaves):
        tree.open(f"leaf-{i}", f"s{i}", schema=SCHEMA)
    return tree


def rows(tree: InstantTree, *names: str) -> list[tuple]:
    return [tuple(row[name] for name in names) for row in tree.take_rows().to_pylist()]


def notes(tree: InstantTree, what: str) -> list[dict]:
    return [note.detail for _, note in tree.notes if note.what == what]


def test_a_leaf_asks_for_its_chain_and_reads_only_when_it_has_it():
    leaf = LeafNode("leaf", "root")
    assert [type(action) for action in leaf.handle(Started(), 0)] == [type(leaf.handle(Started(), 0)[0])]
    leaf.handle(SourceOpened("s", schema=SCHEMA), 0)
    (hello, _) = leaf.handle(TimerFired("hello"), 0)
    assert isinstance(decode(hello.frame), Hello)
    assert leaf.handle(BatchArrived("s", 0, batch([1])), 0) == []
    root = RootNode("root", [SUMS])
    actions = root.handle(MessageReceived("leaf", hello.frame), 0)
    assert isinstance(actions[0], Record)
    (assign,) = [action for action in actions if isinstance(action, SendMessage)]
    assert isinstance(decode(assign.frame), Assign)
    assert ReadFrom("s", 0) in leaf.handle(MessageReceived("root", assign.frame), 0)


def test_a_source_that_joins_goes_on_from_the_watermark_of_all():
    tree = tree_of(SUMS)
    tree.push("s0", batch([1, 25]), 20)
    tree.push("s1", batch([2]), 20)
    tree.open("leaf-1", "late", schema=SCHEMA)
    tree.push("late", batch([3, 22]))
    tree.flush()
    assert notes(tree, "decided")[-1] | {"record": 0} == {
        "what": "joined",
        "source": "late",
        "offset": 0,
        "time": 20,
        "record": 0,
    }
    assert rows(tree, "window_start", "total") == [(0, 2.0), (20, 2.0)]
    assert tree.root.counters()["sums"]["dropped"] == 1


def test_an_idle_source_does_not_hold_others_up_and_what_it_brings_later_is_late():
    tree = tree_of(SUMS)
    tree.push("s0", batch([1, 15]), 15)
    assert rows(tree, "total") == []
    tree.tell_root(IdleAsked("s1"))
    assert rows(tree, "window_start", "total") == [(0, 1.0)]
    tree.push("s1", batch([3, 16]))
    assert [detail["what"] for detail in notes(tree, "decided")] == ["joined", "joined", "idle", "returned"]
    tree.flush()
    assert rows(tree, "window_start", "total") == [(10, 2.0)]
    assert tree.root.counters()["sums"]["dropped"] == 1


def test_silence_is_noticed_by_the_root():
    root = RootNode("root", [SUMS], schema=SCHEMA, settings=NodeSettings(linger_ns=0, idle_ns=100))
    leaf = LeafNode("leaf", "root")
    for source in ("s", "t"):
        leaf.handle(SourceOpened(source), 0)
    hello = leaf.handle(TimerFired("hello"), 0)[0]
    root.handle(MessageReceived("leaf", hello.frame), 0)
    root.members.raise_to(1, 7)  # or nobody would wait for the other
    assert not any(isinstance(action, Record) for action in root.handle(TimerFired("idle"), 50))
    actions = root.handle(TimerFired("idle"), 150)
    assert [action.detail["what"] for action in actions if isinstance(action, Noted)] == ["idle"]
    assert isinstance(actions[0], Record)


def test_markers_of_all_leaves_cut_the_events_of_each():
    tree = tree_of(MARKS)
    tree.push("s0", batch([1, 5, 9, 14], ["a", "cut", "a", "a"]))
    tree.push("s1", batch([2, 5, 7, 12], ["a", "a", "a", "cut"]))
    for source in ("s0", "s1"):
        tree.push(source, batch([]), 13)
    assert rows(tree, "window_start", "window_end", "n") == [(1, 5, 2), (5, 12, 4)]
    assert notes(tree, "cut done")[0]["until"] == 13


def test_a_query_that_is_added_begins_behind_all_that_was_accepted():
    tree = tree_of(SUMS)
    tree.push("s0", batch([1, 12]), 5)
    tree.tell_root(QueryAdded(hw.query("counts", hw.tumbling(10), n=hw.count())))
    assert notes(tree, "query added")[0]["at"] == 13
    tree.push("s0", batch([14, 22]))
    tree.push("s1", batch([21, 27]))
    tree.flush()
    found = tree.take_rows().to_pylist()
    assert [(row["window_start"], row["n"]) for row in found if row["query"] == "counts"] == [(20, 3)]
    assert [(row["window_start"], row["total"]) for row in found if row["query"] == "sums"] == [
        (0, 1.0),
        (10, 2.0),
        (20, 3.0),
    ]


def test_a_removed_query_ends_and_the_others_go_on():
    tree = tree_of(SUMS, MARKS)
    tree.push("s0", batch([1, 12]), 5)
    tree.tell_root(QueryRemoved("marks"))
    tree.push("s0", batch([14, 22]))
    tree.flush()
    assert rows(tree, "query", "window_start") == [("sums", 0), ("sums", 10), ("sums", 20)]


def test_a_wrong_query_is_refused_and_changes_nothing():
    tree = tree_of(SUMS)
    with pytest.raises(QueryError, match="nonsense"):
        tree.tell_root(QueryAdded(hw.query("bad", hw.tumbling(10), x=hw.sum("nonsense"))))
    tree.push("s0", batch([1]))
    tree.flush()
    assert rows(tree, "total") == [(1.0,)]


def test_a_leaf_whose_columns_do_not_fit_is_refused_with_the_reason():
    with pytest.raises(QueryError, match=r"'sums'.*'v'"):
        InstantTree({"leaf": "root"}, [SUMS]).open("leaf", "s", schema=pa.schema({"time": pa.int64()}))


def test_a_slow_parent_slows_the_leaf_and_nothing_is_lost():
    settings = NodeSettings(steps_max=3)
    tree = InstantTree({"leaf": "root"}, [SUMS], settings=settings, schema=SCHEMA)
    tree.open("leaf", "s", schema=SCHEMA)
    leaf = tree.nodes["leaf"]
    asked = []
    for step in range(10):
        asked += leaf.handle(BatchArrived("s", step, batch([step * 10]), None), 0)
        asked += leaf.handle(TimerFired("send"), 0)
    frames = [action.frame for action in asked if isinstance(action, SendMessage)]
    assert len(frames) == 3
    assert PauseReading() in asked
    # The parent wakes up: it takes what was sent, and the leaf reads on where it stopped.
    answers = [a for frame in frames for a in tree.root.handle(MessageReceived("leaf", frame), 0)]
    replies = [a.frame for a in answers if isinstance(a, SendMessage)]
    resumed = [a for reply in replies for a in leaf.handle(MessageReceived("root", reply), 0)]
    (again,) = {a.offset for a in resumed if isinstance(a, ReadFrom)}
    assert 3 <= again <= 10
    tree.sources["s"].batches = [(i, batch([i * 10]), None) for i in range(10)]
    tree.sources["s"].end = 10
    for action in resumed:
        tree._do("leaf", action)
    tree.settle()
    tree.flush()
    assert len(rows(tree, "total")) == 10


def test_a_replacement_takes_the_chain_over_and_the_old_owner_does_no_harm():
    tree = tree_of(SUMS, leaves=1)
    tree.push("s0", batch([1, 2]))
    old = tree.nodes["leaf-0"]
    stale = [*old.handle(BatchArrived("s0", 2, batch([3])), 0), *old.handle(TimerFired("send"), 0)]
    new = LeafNode("stand-in", "root", chain="leaf-0")
    tree.nodes["stand-in"], tree.parents["stand-in"] = new, "root"
    tree.bytes_up["stand-in"] = tree.bytes_down["stand-in"] = 0
    tree.sources["s0"].leaf = "stand-in"
    tree.now_ns += NodeSettings().takeover_ns
    tree.handle("stand-in", Started())
    tree.handle("stand-in", SourceOpened("s0", schema=SCHEMA))
    tree.settle()
    late = [action for action in stale if isinstance(action, SendMessage)]
    answers = [a for action in late for a in tree.root.handle(MessageReceived("leaf-0", action.frame), tree.now_ns)]
    assert not any(isinstance(answer, Record) for answer in answers)
    for answer in answers:
        tree._do("root", answer)
    tree.settle()
    assert notes(tree, "superseded") == [{}]
    tree.push("s0", batch([3, 4]))
    tree.flush()
    assert rows(tree, "total") == [(4.0,)]


def test_a_root_is_made_again_from_its_checkpoint_and_records():
    settings = NodeSettings(checkpoint_every=3)
    tree = tree_of(SUMS, MARKS, settings=settings, keep_records=True)
    for step in range(5):
        tree.push("s0", batch([step * 7, step * 7 + 3], ["a", "cut"]), step * 7)
        tree.push("s1", batch([step * 7 + 1]), step * 7)
    root, repeated = RootNode.recover(tree.checkpoint, tree.records)
    assert root.counters() == tree.root.counters()
    assert root.watermark == tree.root.watermark
    assert root.members.decisions == tree.root.members.decisions
    emitted = {row for table in [tree.take_rows()] for row in map(str, table.to_pylist())}
    assert {str(row) for a in repeated if isinstance(a, EmitRows) for row in a.rows.to_pylist()} <= emitted
    tree.root = tree.nodes["root"] = root
    tree.handle("root", Started())
    tree.push("s0", batch([100]))
    tree.flush()
    whole = tree_of(SUMS, MARKS)
    for step in range(5):
        whole.push("s0", batch([step * 7, step * 7 + 3], ["a", "cut"]), step * 7)
        whole.push("s1", batch([step * 7 + 1]), step * 7)
    whole.take_rows()
    whole.push("s0", batch([100]))
    whole.flush()
    assert sorted(map(str, tree.take_rows().to_pylist())) == sorted(map(str, whole.take_rows().to_pylist()))


def test_nothing_is_told_before_it_is_recorded():
    tree = tree_of(SUMS, leaves=1)
    leaf = tree.nodes["leaf-0"]
    leaf.handle(BatchArrived("s0", 0, batch([1]), None), 0)
    (frame,) = [a.frame for a in leaf.handle(TimerFired("send"), 0) if isinstance(a, SendMessage)]
    actions = tree.root.handle(MessageReceived("leaf-0", frame), 0)
    assert isinstance(actions[0], Record)
    assert not any(isinstance(action, Checkpoint | Record) for action in actions[1:])


@pytest.mark.parametrize("node", [LeafNode("n", "p"), RelayNode("n", "p"), RootNode("n", [SUMS])])
def test_garbage_is_noted_and_changes_nothing(node):
    (note,) = node.handle(MessageReceived("p", b"garbage"), 0)
    assert note.what == "damaged frame"


def test_a_leaf_has_ten_thousand_sources():
    count = 10_000
    tree = InstantTree({"leaf": "root"}, [SUMS], disorder=0, schema=SCHEMA)
    names = [f"sensor-{i}" for i in range(count)]
    for name in names:
        tree.handle("leaf", SourceOpened(name, schema=SCHEMA))
    tree.settle()

    tree.sources.update({name: LiveLog("leaf") for name in names})
    for step in range(3):
        events = batch([step * 10 + i % 10 for i in range(count)])
        tree.push_mixed(names, np.arange(count), np.full(count, step), events)
    # The slowest sensors are at 20: what lies below is complete.
    assert rows(tree, "window_start", "total") == [(0, float(count)), (10, float(count))]
