"""Roots that are given micro-batches say what the reference says, after every batch, however rows and keys are shared out."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.cases import explain_difference
from headwater.node.micro_batches.frames import BatchSettings
from headwater.node.micro_batches.root import BatchRoot
from node.batches import SOURCE, Buckets, MicroBatch, groups_of, reference
from spark.batch.test_tasks import renamed
from strategies import SCHEMA, WINDOWS, queries, rows


@st.composite
def micro_batches(draw, sources=("",), end=st.booleans()):
    """Batches that mostly go forward, with rows that are late for some."""
    made, base, now_ms = [], 0, 0
    for _ in range(draw(st.integers(1, 5))):
        base += draw(st.integers(-5, 25))
        now_ms += draw(st.integers(1, 100))
        events = draw(st.lists(rows(base), max_size=8))
        named = [row | {SOURCE: draw(st.sampled_from(sources))} for row in events]
        made.append(MicroBatch(named, now_ms))
    made[-1].is_last = draw(end)
    return made


def agree(played, found):
    """After each batch the same rows, in any order."""
    for (index, wanted), got in zip(played, found, strict=True):
        text = explain_difference(wanted, got)
        assert not text, f"after batch {index}:\n{text}"


def by_batch(played, history):
    """What was emitted from one batch's end to the next: decisions at its end included."""
    ends = [i for i, step in enumerate(history) if type(step).__name__ == "Emit"]
    edges = [*ends[1:], len(history)]
    shown: list = [[] for _ in ends]
    for index, emitted in played.emitted:
        # Sources that join or return show nothing new; what shows after them belongs to the batch before them.
        number = sum(index >= end for end in ends) - 1
        shown[max(number, 0)] += emitted
    assert len(edges) == len(shown)
    return list(enumerate(shown))


def check(batches, asked, disorder, buckets=1, partitions=1, idle_ms=None):
    from node.batches import history_of

    played = reference(batches, asked, disorder, idle_ms)
    roots = Buckets(BatchSettings(groups_of(asked), disorder=disorder, buckets=buckets, idle_ms=idle_ms))
    found = [roots.take(batch, partitions) for batch in batches]
    agree(by_batch(played, history_of(batches, idle_ms)), found)
    nothing = dict.fromkeys(("in", "filtered", "outside", "member", "late", "dropped", "malformed"), 0)
    assert {name: nothing | roots.counters.get(name, {}) for name in played.counters} == played.counters
    late = sum(counts["dropped"] for counts in played.counters.values())
    assert sum(row["reason"] == "too late" for row in roots.aside) == late


@pytest.mark.parametrize("places", [[None, None, 6], [None, 6, None], [6, None, None]])
def test_of_two_markers_of_one_time_the_first_in_order_counts(places):
    is_marked = hw.col("mark") == "start"
    query = hw.query("q", hw.between(hw.col("i") > 5, is_marked), mean=hw.avg("i"))
    same = dict.fromkeys(SCHEMA.names) | {"time": 0, "k": "u", "mark": "start", SOURCE: ""}
    for partitions in (1, 2, 3):
        check([MicroBatch([same | {"i": i} for i in places], 1, is_last=True)], [query], None, 1, partitions)


@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=20)
@given(data=st.data())
def test_batch_roots_agree_with_the_reference_on_every_kind_of_window(kind, data):
    asked = renamed(data.draw(st.lists(queries(kinds=(kind,)), min_size=1, max_size=2)))
    sharing = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    check(data.draw(micro_batches()), asked, data.draw(st.sampled_from([None, 0, 5, 20])), *sharing)


@settings(max_examples=40)
@given(data=st.data())
def test_batch_roots_agree_with_the_reference_when_sources_fall_idle_and_return(data):
    asked = renamed(data.draw(st.lists(queries(), min_size=1, max_size=3)))
    idle_ms = data.draw(st.sampled_from([None, 50, 150]))
    batches = data.draw(micro_batches(("a", "b", "é")))
    check(batches, asked, data.draw(st.sampled_from([0, 5])), data.draw(st.integers(1, 3)), 2, idle_ms)


def event(time, **values):
    return dict.fromkeys(SCHEMA.names) | {"time": time, **values}


def test_a_query_added_at_a_restart_begins_above_every_time_seen():
    """A new query begins above every time that was seen, whatever bucket it is in; one that is gone ends."""
    first = hw.query("first", hw.tumbling(10), n=hw.count())
    second = hw.query("second", hw.tumbling(10), keys=["k"], m=hw.count())
    roots = Buckets(BatchSettings(groups_of([first]), disorder=0, buckets=2))
    roots.take(MicroBatch([event(1), event(12, k="u")]), 1)
    roots.change([first, second])
    shown = roots.take(MicroBatch([event(14, k="u"), event(22, k="u"), event(30, k="v")]), 1)
    assert {(row.query, row.start, row.event_count) for row in shown} == {
        ("first", 10, 2),
        ("first", 20, 1),
        ("second", 20, 1),
    }
    roots.change([second])
    shown = roots.take(MicroBatch([event(40, k="v")]), 1)
    assert [(row.query, row.start, row.event_count) for row in shown] == [("second", 30, 1)]


def test_settings_that_a_checkpoint_fixes_cannot_change():
    query = hw.query("n", hw.tumbling(10), n=hw.count())
    data = BatchRoot(BatchSettings(groups_of([query]), buckets=2)).snapshot()
    with pytest.raises(hw.DataError, match="buckets is 3, and the checkpoint was made with 2: keep it"):
        BatchRoot.restore(data, BatchSettings(groups_of([query]), buckets=3))
    other = hw.query("n", hw.tumbling(20), n=hw.count())
    with pytest.raises(hw.QueryError, match="query 'n' is another one than in the checkpoint"):
        BatchRoot.restore(data, BatchSettings(groups_of([other]), buckets=2))


def test_silence_ends_the_stream():
    query = hw.query("n", hw.session(5), n=hw.count())
    roots = Buckets(BatchSettings(groups_of([query]), disorder=0, flush_after_ms=100))
    assert roots.take(MicroBatch([event(1)], now_ms=10), 1) == []
    (root,) = roots.roots
    assert root.next_tick_ms() == 110
    assert root.tick(109).rows == []
    assert root.tick(110).rows[0].column("n").to_pylist() == [1]
    assert root.next_tick_ms() is None
    assert roots.take(MicroBatch([event(2)], now_ms=120), 1) == []
    assert roots.counters["n"]["dropped"] == 1


def test_open_windows_are_shown_when_they_change():
    asked = [
        hw.query("s", hw.session(5), keys=["k"], n=hw.count()),
        hw.query("t", hw.tumbling(10), total=hw.sum("i")),
    ]
    roots = Buckets(BatchSettings(groups_of(asked), disorder=0, is_live=True))

    def take(*events):
        shown = roots.take(MicroBatch(events), 1)
        return {(r.query, *r.key, r.start, r.end, r.event_count, r.revision): r.replaces for r in shown}

    assert take(event(1, k="u", i=1), event(2, k="v", i=2)) == {
        ("s", "u", 1, 6, 1, -1): None,
        ("s", "v", 2, 7, 1, -1): None,
        ("t", 0, 10, 2, -1): None,
    }
    assert take(event(4, k="u", i=1)) == {
        ("s", "u", 1, 9, 2, -1): ((1, 6, -1),),
        ("t", 0, 10, 3, -1): None,
    }
    assert take(event(9, k="u"), event(30, k="u")) == {
        ("s", "v", 2, 7, 1, 0): None,
        ("s", "u", 1, 14, 3, 0): ((1, 9, -1),),
        ("s", "u", 30, 35, 1, -1): None,
        ("t", 0, 10, 4, 0): None,
        ("t", 30, 40, 1, -1): None,
    }


def test_ties_are_broken_by_columns_of_any_type():
    query = hw.query("n", hw.count_tumbling(2), items=hw.collect("v"))
    schema = pa.schema([("time", pa.int64()), ("v", pa.int64()), ("tags", pa.list_(pa.string()))])
    from headwater.node.micro_batches.frames import EventGroup, frames

    group = EventGroup("", (query,), ("time", "v"), ("tags",))
    root = BatchRoot(BatchSettings((group,), disorder=0))
    events = [{"time": 1, "v": 1, "tags": ["b"]}, {"time": 1, "v": 2, "tags": ["a", "z"]}, {"time": 1, "v": 3}]
    batch = pa.RecordBatch.from_pylist([*events, {"time": 2, "v": 4}], schema=schema)
    outcome = root.take([frame for _, frame in frames(batch, (group,), 1, time="time", unit="us")])
    assert outcome.rows[0].column("items").to_pylist() == [[3, 2]]
    assert root.take([]).rows == []
