"""Holon Streaming's paper, sentence by sentence: what of its sections 3 and 4 can be tested, and where we differ.

The sentences stand in front of each test. What they say of nodes and logs is tested in tests/node/holon and tests/simulator.
"""

from collections import Counter

import pyarrow as pa
import pytest

import headwater as hw
from case_files import FOLDER
from headwater.cases import read_cases
from headwater.errors import QueryError
from headwater.holon import run
from headwater.holon.plain import NotFinalError
from headwater.holon.two_runners import check_function
from headwater.language.functions.program import program_of

CASES = {case["id"]: case for case in read_cases(FOLDER / "holon.json")}
COUNTER = hw.WindowedCRDT(hw.crdts.GCounter(), hw.tumbling(10), columns={"value": int})
BIDS = {
    "a": pa.table({"time": [1, 4, 8, 12, 15, 25], "kind": ["bid", "bid", "person", "bid", "bid", "bid"]}),
    "b": pa.table({"time": [2, 3, 14, 21], "kind": ["bid", "bid", "bid", "bid"]}),
}
BID = hw.col("kind") == "bid"


def pair():
    return COUNTER.replica("a", ["a", "b"]), COUNTER.replica("b", ["a", "b"])


# Table 1: insert(element, ts), getWindowValue(ts), incrementWatermark(ts), getGlobalWatermark(). Ours say what is read by name:
# window_value refuses what is not final (the safe mode without a runtime to block in), peek gives None (the unsafe mode).


def test_table_1():
    a, b = pair()
    a.insert(2, time=3)
    b.insert(5, time=4)
    assert a.peek(3) is None
    a.increment_watermark(10)
    b.increment_watermark(10)
    a.merge(b.delta())
    b.merge(a.delta())
    assert (a.window_value(3), a.global_watermark) == (7, 10)
    assert (b.window_value(3), b.global_watermark) == (7, 10)


# Figure 3: "the synchronization of a windowed CRDT is not immediate, rather has three phases (updating, syncing, completed)".


def test_figure_3_as_a_transcript():
    a, b = pair()
    told = []

    def tell(what):
        told.append(f"{what}: a {a.peek(0)}, b {b.peek(0)}")

    for time in range(10):
        (a if time % 2 else b).insert(1, time)
    tell("updating")
    a.increment_watermark(10)
    b.merge(a.delta())
    tell("syncing, a has told")
    b.increment_watermark(11)
    tell("syncing, b is past it, too")
    a.merge(b.delta())
    tell("completed")
    assert told == [
        "updating: a None, b None",
        "syncing, a has told: a None, b None",
        "syncing, b is past it, too: a None, b 10",
        "completed: a 10, b 10",
    ]


# Algorithm 1: "state progress: Map {Node -> TimeStamp}". Ours is keyed by partition: a partition that moves is not counted twice.


def test_progress_and_contributions_belong_to_partitions_whoever_runs_them():
    first, thief = COUNTER.replica("a", ["a"]), COUNTER.replica("a", ["a"])
    for replica in (first, thief):  # the thief does again what the first one did, from the same input
        replica.insert(3, 1)
        replica.insert(4, 2)
        replica.increment_watermark(10)
    first.merge(thief.delta())
    first.merge(thief)
    assert first.window_value(1) == 7


# "if ts < progress[self] then error": ours is SEMANTICS.md's rule; a late event never changes a final window.


def test_an_insert_behind_the_watermark_is_late_and_changes_no_final_window():
    (a,) = [COUNTER.replica("a", ["a"])]
    a.insert(3, 1)
    a.increment_watermark(10)
    before = a.window_value(1)
    a.insert(100, 5)
    a.insert(1, 12)
    a.increment_watermark(20)
    assert (a.window_value(1), a.window_value(12)) == (before, 1)


# "reading the window value is only possible if the global watermark is larger than the timestamp of the window": we read at once
# when it has reached the window's end, for windows are half-open and no event of the end belongs to them.


def test_a_window_can_be_read_when_the_watermark_has_reached_its_end():
    (a,) = [COUNTER.replica("a", ["a"])]
    a.insert(3, 9)
    a.increment_watermark(9)
    with pytest.raises(NotFinalError):
        a.window_value(0)
    a.increment_watermark(10)
    assert a.window_value(0) == 3


# "If a getWindowValue(ts) operation completes, then it is guaranteed to always return the same value for the same timestamp ts on
# every partition": tests/holon/test_plain.py, any order of merges.


def test_global_determinism():
    a, b = pair()
    a.insert(1, 1)
    b.insert(2, 2)
    for replica in (a, b):
        replica.increment_watermark(30)
    a.merge(b)
    first = a.window_value(0)
    b.merge(a)
    a.insert(5, 31)
    a.increment_watermark(50)
    b.merge(a)
    assert first == b.window_value(0) == a.window_value(0) == 3


# "[Windows that are never read] a window passed by": the public code skips windows when the clock passes several at once.


def test_no_window_is_skipped_when_the_watermark_jumps_over_several():
    class Totals(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))

        @hw.when_final(total, once=True)
        def tell(self, w, total):
            yield {"end": w.end, "n": total}

    events = {"a": pa.table({"time": [1, 11, 500]}), "b": pa.table({"time": [499]})}
    rows = run(Totals, events)["*/1"].to_pylist()
    assert [row["end"] for row in rows] == [10, 20, 500, 510]


# Section 3.2, listing 2: the ratio of local to global bids per window and partition.


class BidShare(hw.ProcessingFunction):
    total = hw.WindowedCRDT(hw.count(), hw.tumbling(10), where=BID)
    mine = hw.WindowedLocal(hw.count(), hw.tumbling(10), where=BID)

    @hw.when_final(total, mine)
    def share(self, w, total, mine):
        yield {"end": w.end, "share": mine / total}


def test_query_1():
    outputs = run(BidShare, BIDS)
    assert [tuple(row.values()) for row in outputs["a/1"].to_pylist()] == [(10, 2 / 4), (20, 2 / 3), (30, 1 / 2)]
    assert [tuple(row.values()) for row in outputs["b/1"].to_pylist()] == [(10, 2 / 4), (20, 1 / 3), (30, 1 / 2)]


# Section 2.2, listing 1: "The values which are read from the CRDT are nondeterministic."


def test_listing_1_is_refused_without_unsafe():
    class Listing1(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))

        def event(self, e):
            yield {"ratio": 1 / self.total.value(hw.WindowRead(0, 10))}

    with pytest.raises(QueryError, match=r"unsafe = True"):
        run(Listing1, BIDS)


# "Programs in the dataflow API ... are always deterministic."


def test_flows_are_deterministic():
    flow = hw.flow("bids").where(BID).window(hw.tumbling(10)).aggregate(n=hw.count())
    check_function(flow, BIDS, seeds=5)
    assert run(flow, BIDS)["*/1"].column("n").to_pylist() == [4, 3, 2]


# "A pipelined execution which avoids blocking is still possible by passing a continuation to be called once the window is
# completed": by the name of a method, for names can be kept in checkpoints.


def test_continuations_are_kept_by_name():
    class Later(hw.ProcessingFunction):
        short = hw.WindowedCRDT(hw.count(), hw.tumbling(10))
        long = hw.WindowedCRDT(hw.count(), hw.tumbling(30))

        @hw.when_final(short, once=True)
        def first(self, w, n):
            if w.start % 30 == 0:
                self.long.then(hw.WindowRead(w.start, w.start + 30), self.report)

        def report(self, w, n):
            yield {"end": w.end, "n": n}

    assert run(Later, BIDS)["*/1"].to_pylist() == [{"end": 30, "n": 10}]
    check_function(Later, BIDS, seeds=5)


# "It may also nest other processing functions, and branch on values."


def test_functions_nest_and_branch_on_values():
    class Counts(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10), where=BID)

    class Busy(hw.ProcessingFunction):
        counts = Counts()
        calm = hw.Local(0)

        @hw.when_final(counts.total, once=True)
        def judge(self, w, total):
            if total > 2:
                yield {"end": w.end, "calm_before": self.calm.value}
            else:
                self.calm.value += 1

    assert [row["end"] for row in run(Busy, BIDS)["*/1"].to_pylist()] == [10, 20]
    check_function(Busy, BIDS, seeds=5)


# "For each partition, each event is processed exactly once, whereas outputs may be duplicated": ours are not, not even where two
# nodes run a partition at the same time.


def test_outputs_are_not_duplicated():
    check_function(BidShare, BIDS, seeds=10)  # rows by index: one row for each, the same from both runners
    rows = [row["end"] for row in run(BidShare, BIDS)["a/1"].to_pylist()]
    assert max(Counter(rows).values()) == 1


def test_sum_over_windows_is_the_number_of_bids():
    assert CASES["holon-exactly-once-invariant"]["kind"] == "invariant"
    rows = run(hw.query("bids", hw.tumbling(10), n=hw.count(), where=BID), BIDS)["*/1"].to_pylist()
    bids = sum(table.column("kind").to_pylist().count("bid") for table in BIDS.values())
    assert sum(row["n"] for row in rows) == bids and len({row["window_end"] for row in rows}) == len(rows)


# Section 4.2: "The current implementation is limited to tumbling windows and partition-ordered streams": neither is a limit here.


@pytest.mark.parametrize(
    "window", [hw.sliding(20, 5), hw.session(4), hw.count_tumbling(2), hw.punctuated(hw.col("kind") == "person")]
)
def test_all_windows_over_streams_out_of_order(window):
    events = {
        "a": pa.table({"time": [4, 1, 12, 8, 25, 15], "kind": ["bid", "person", "bid", "bid", "person", "bid"]}),
        "b": pa.table({"time": [3, 2, 21, 14], "kind": ["bid", "bid", "bid", "person"]}),
    }
    query = hw.query("q", window, n=hw.count())
    found = run(query, events, disorder=10)["*/1"]
    engine = hw.Engine([query])
    for name, table in events.items():
        engine.push(table, source=name)
    engine.flush()
    names = [
        name
        for name in ("window_start", "window_end", "position_start", "position_end", "n")
        if name in found.schema.names
    ]
    wanted = engine.results()["q"].select(names).to_pylist()
    assert sorted(map(str, found.select(names).to_pylist())) == sorted(map(str, wanted))
    check_function(query, events, disorder=10, seeds=5)


# The public code's windows are left-open and right-closed; ours are half-open, [start, end), as everywhere else.


def test_windows_are_half_open():
    case = CASES["holon-window-assign"]
    assert "left-open right-closed" in case["quirk"]
    length = case["window_length"]
    times = [time * 10 for time, _ in case["rows"] if time % length == 0 and time]
    (a,) = [hw.WindowedCRDT(hw.count(), hw.tumbling(length)).replica("a", ["a"])]
    for time in times:
        a.insert(1, time)
    a.end()
    for time in times:
        assert a.window_value(time) == 1
        assert a._window(time).start == time


# Section 3.1: "All three state types are managed by the runtime system, that is, they are automatically checkpointed and
# recovered": what stands elsewhere in an instance is refused.


def test_what_is_not_in_a_state_is_refused():
    class Forgets(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))

        @hw.when_final(total, once=True)
        def tell(self, w, total):
            self.seen = total

    with pytest.raises(QueryError, match="would be gone when another node takes over"):
        run(Forgets, BIDS)


# "Determinism ... under the condition that it reads window values by the safe mode": a handler's reads are of final windows only.


def test_handlers_read_final_windows_only():
    class TooSoon(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))

        @hw.when_final(total, once=True)
        def tell(self, w, total):
            yield {"next": self.total.value(hw.WindowRead(w.end, w.end + 10))}

    with pytest.raises(
        QueryError, match=r"the window \[10, 20\) is not final yet; in an async handler, await self.total.when"
    ):
        run(TooSoon, BIDS)


# "Even if there exist cyclic dependencies between data, only stable values are read": a cycle through one and the same window
# would wait for itself, and is refused when the class is made.


def test_cyclic_reads_are_refused_by_name():
    with pytest.raises(QueryError, match=r"handler 'one' inserts into state 'b'.*handler 'two'"):

        class Cyclic(hw.ProcessingFunction):
            a = hw.WindowedCRDT(hw.count(), hw.tumbling(10), inserted_by="two")
            b = hw.WindowedCRDT(hw.count(), hw.tumbling(10), inserted_by="one")

            @hw.when_final(a)
            def one(self, w, a): ...

            @hw.when_final(b)
            def two(self, w, b): ...


def test_the_same_program_has_the_same_digest():
    assert program_of(BidShare).digest() == program_of(BidShare).digest()
    assert program_of(BidShare).levels == 2
