"""Functions in one process: rows are what brute force says, however partitions are read."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import DataError, QueryError
from headwater.holon import run
from headwater.holon.two_runners import NotDeterministicError, check_function
from headwater.node.holon.functions.reading import StageReading

BID = hw.col("kind") == "bid"


def auctions(seed: int = 0, size: int = 60, partitions: int = 3, disorder: int = 4) -> dict[str, pa.Table]:
    """Events of an auction: bids and others, a little out of order."""
    dice = Random(seed)
    found = {}
    for number in range(partitions):
        time, rows = dice.randrange(10), []
        for _ in range(size):
            time += dice.choice([0, 1, 1, 2, 7])
            kind = dice.choice(["bid", "bid", "person"])
            rows.append(
                {
                    "time": time - dice.randrange(disorder),
                    "kind": kind,
                    "price": dice.randrange(9),
                    "item": dice.choice("xyz"),
                }
            )
        found[f"p{number}"] = pa.Table.from_pylist(rows)
    return found


def bids(events: dict[str, pa.Table], size: int = 10) -> dict[int, Counter[str]]:
    """By the end of a window how many bids each partition has in it."""
    counted: dict[int, Counter[str]] = defaultdict(Counter)
    for name, table in events.items():
        for row in table.to_pylist():
            if row["kind"] == "bid":
                counted[(row["time"] // size + 1) * size][name] += 1
    return counted


class DeclaredShare(hw.ProcessingFunction):
    total = hw.WindowedCRDT(hw.count(), hw.tumbling(10), where=BID)
    mine = hw.WindowedLocal(hw.count(), hw.tumbling(10), where=BID)

    @hw.when_final(total, mine)
    def share(self, w, total, mine):
        yield {"end": w.end, "share": mine / total}


class BatchShare(hw.ProcessingFunction):
    total = hw.WindowedCRDT(hw.count(), hw.tumbling(10), inserted_by="events")
    mine = hw.WindowedLocal(hw.count(), hw.tumbling(10), inserted_by="events")

    def events(self, batch):
        found = batch.where(BID)
        self.total.insert(found)
        self.mine.insert(found)

    @hw.when_final(total, mine)
    def share(self, w, total, mine):
        yield {"end": w.end, "share": mine / total}


class EventShare(hw.ProcessingFunction):
    """The paper's listing 2."""

    total = hw.WindowedCRDT(hw.crdts.GCounter(), hw.tumbling(10), inserted_by="event", columns={"value": int})
    mine = hw.WindowedLocal(hw.count(), hw.tumbling(10), inserted_by="event")

    def event(self, e):
        if e.kind == "bid":
            self.total.insert(1, e.time)
            self.total.increment_watermark(e.time)
            self.mine.insert(1, e.time)

    @hw.when_final(total, mine)
    def share(self, w, total, mine):
        yield {"end": w.end, "share": mine / total}


@pytest.mark.parametrize("function", [DeclaredShare, BatchShare, EventShare])
def test_query_1_in_three_styles_of_inserting(function):
    # In order: what is inserted is late by the step, what is declared by the event, and nothing is late at all.
    events = auctions(disorder=1)
    counted = bids(events)
    outputs = run(function, events, batch_events=7)
    for name in events:
        rows = {row["end"]: row["share"] for row in outputs[f"{name}/1"].to_pylist()}
        # A window in which other partitions alone have bids is final here, too: of the declared state it has none.
        assert rows == {end: counts[name] / counts.total() for end, counts in sorted(counted.items())}


@pytest.mark.parametrize("function", [DeclaredShare, BatchShare, EventShare])
def test_two_runners_agree(function):
    check_function(function, auctions(seed=1, size=30), disorder=4, seeds=4)


def test_listing_1_without_unsafe_is_refused():
    class Listing1(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))

        def event(self, e):
            yield {"total": self.total.value(hw.WindowRead(0, 10))}

    with pytest.raises(QueryError, match=r"'total': value reads while events come in.*unsafe = True"):
        run(Listing1, auctions())


def test_listing_1_with_unsafe_is_found_to_depend_on_timing():
    class Listing1(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))
        unsafe = True

        def event(self, e):
            yield {"total": self.total.peek(hw.WindowRead(0, 10))}

    assert run(Listing1, auctions())["p0/0"].num_rows == 60
    with pytest.raises(NotDeterministicError, match="one runner gave"):
        check_function(Listing1, auctions(size=30))


class Trend(hw.ProcessingFunction):
    """Two stages: the dearest of ten ticks, and of those the mean over fifty."""

    peak = hw.WindowedCRDT(hw.max("price"), hw.tumbling(10), where=BID)
    mean = hw.WindowedCRDT(hw.avg("value"), hw.tumbling(50), inserted_by="short", columns={"value": float})
    seen = hw.Local(0)

    @hw.when_final(peak, once=True)
    def short(self, w, peak):
        self.mean.insert(float(peak), w.end - 1)
        yield {"end": w.end, "peak": peak}

    @hw.when_final(mean, once=True)
    def long(self, w, mean):
        self.seen.value += 1
        yield {
            "end": w.end,
            "mean": mean,
            "windows": self.seen.value,
            "peak": self.peak.value(hw.WindowRead(w.end - 10, w.end)),
        }


def test_stages_follow_one_another():
    events = auctions(seed=3)
    peaks: dict[int, int] = {}
    for table in events.values():
        for row in table.to_pylist():
            if row["kind"] == "bid":
                end = (row["time"] // 10 + 1) * 10
                peaks[end] = max(peaks.get(end, 0), row["price"])
    outputs = run(Trend, events, disorder=4)
    assert outputs["*/1"].to_pylist() == [{"end": end, "peak": peak} for end, peak in sorted(peaks.items())]
    means: dict[int, list[int]] = defaultdict(list)
    for end, peak in sorted(peaks.items()):
        means[((end - 1) // 50 + 1) * 50].append(peak)
    wanted = [
        {"end": end, "mean": sum(some) / len(some), "windows": place, "peak": peaks.get(end)}
        for place, (end, some) in enumerate(sorted(means.items()), start=1)
    ]
    assert outputs["*/2"].to_pylist() == wanted
    check_function(Trend, auctions(seed=3, size=30), disorder=4, seeds=3)


class Daily(hw.ProcessingFunction):
    """Hours that wait for their day."""

    hour = hw.WindowedCRDT(hw.count(), hw.tumbling(10))
    day = hw.WindowedCRDT(hw.count(), hw.tumbling(40))

    @hw.when_final(hour, once=True)
    async def share(self, w, hour):
        start = w.start // 40 * 40
        day = await self.day.when(hw.WindowRead(start, start + 40))
        yield {"end": w.end, "of_day": hour / day}


class DailyLater(hw.ProcessingFunction):
    """The same by continuations."""

    hour = hw.WindowedCRDT(hw.count(), hw.tumbling(10))
    day = hw.WindowedCRDT(hw.count(), hw.tumbling(40))

    @hw.when_final(hour, once=True)
    def remember(self, w, hour):
        start = w.start // 40 * 40
        self.day.then(hw.WindowRead(start, start + 40), self.tell)

    def tell(self, w, day):
        yield {"day": w.end, "events": day}


def _days(events: dict[str, pa.Table]) -> tuple[Counter[int], Counter[int]]:
    times = [time for table in events.values() for time in table.column("time").to_pylist()]
    return Counter((time // 10 + 1) * 10 for time in times), Counter((time // 40 + 1) * 40 for time in times)


def test_handlers_wait_for_windows_that_are_not_final_yet():
    events = auctions(seed=5)
    hours, days = _days(events)
    wanted = [{"end": end, "of_day": n / days[((end - 1) // 40 + 1) * 40]} for end, n in sorted(hours.items())]
    assert run(Daily, events, disorder=4, batch_events=5)["*/1"].to_pylist() == wanted
    check_function(Daily, auctions(seed=5, size=30), disorder=4, seeds=3)


def test_continuations_are_called_once_each():
    events = auctions(seed=6)
    hours, days = _days(events)
    found = run(DailyLater, events, disorder=4, batch_events=5)["*/1"].to_pylist()
    assert [row["day"] for row in found] == [((end - 1) // 40 + 1) * 40 for end in sorted(hours)]
    assert {row["day"]: row["events"] for row in found} == days
    check_function(DailyLater, auctions(seed=6, size=30), disorder=4, seeds=3)


class HotItems(hw.ProcessingFunction):
    counts = hw.WindowedCRDT(hw.count(), hw.sliding(20, 10), keys=["item"], where=BID)


class Shop(hw.ProcessingFunction):
    hot = HotItems()

    @hw.when_final(hot.counts, once=True)
    def most(self, w, counts):
        best = max(counts.to_pylist(), key=lambda row: (row["value"], row["item"]))
        yield {"end": w.end, **best}


def test_nested_functions_and_keyed_states():
    events = auctions(seed=7)
    counted: dict[int, Counter[str]] = defaultdict(Counter)
    for table in events.values():
        for row in table.to_pylist():
            if row["kind"] == "bid":
                for end in (row["time"] // 10 * 10 + 10, row["time"] // 10 * 10 + 20):
                    counted[end][row["item"]] += 1
    best = {end: max((n, item) for item, n in counts.items()) for end, counts in counted.items()}
    wanted = [{"end": end, "item": item, "value": n} for end, (n, item) in sorted(best.items())]
    assert run(Shop, events, disorder=4)["*/1"].to_pylist() == wanted
    check_function(Shop, auctions(seed=7, size=30), disorder=4, seeds=3)


def test_revisions_call_handlers_again_with_the_whole_window():
    class Late(hw.ProcessingFunction):
        counts = hw.WindowedCRDT(hw.count(), hw.tumbling(10), keys=["item"], lateness=100)

        @hw.when_final(counts, once=True)
        def tell(self, w, counts):
            yield {"end": w.end, "revision": w.revision, "n": dict(zip(*counts.to_pydict().values()))}

    events = {"p": pa.table({"time": [1, 2, 25, 3, 40], "item": ["x", "y", "x", "x", "x"]})}
    rows = [
        (row["end"], row["revision"], {k: v for k, v in row["n"].items() if v})
        for row in run(Late, events)["*/1"].to_pylist()
    ]
    assert rows == [(10, 0, {"x": 1, "y": 1}), (10, 1, {"x": 2, "y": 1}), (30, 0, {"x": 1}), (50, 0, {"x": 1})]


def test_flows_and_queries_need_no_function():
    events = auctions(seed=8)
    flow = hw.flow("hot").where(BID).key_by("item").window(hw.tumbling(10)).aggregate(n=hw.count()).per_window(_most)
    plain = hw.flow("hot").where(BID).key_by("item").window(hw.tumbling(10)).aggregate(n=hw.count())
    rows = run(plain, events, disorder=4)["*/1"].to_pylist()
    most: dict[int, Any] = {}
    for row in rows:
        end = row["window_end"]
        most[end] = max(most.get(end, (0, "")), (row["n"], row["item"]))
    assert [(row["n"], row["item"]) for row in run(flow, events, disorder=4)["*/1"].to_pylist()] == list(most.values())


def _most(table):
    return [max(table.to_pylist(), key=lambda row: (row["n"], row["item"]))]


def test_rows_of_events_are_in_the_order_of_the_input():
    class Dear(hw.ProcessingFunction):
        def events(self, batch):
            yield from batch.where(hw.col("price") > 7).arrow.to_pylist()

    events = auctions(seed=9)
    outputs = run(Dear, events, batch_events=9, seed=4)
    for name, table in events.items():
        assert outputs[f"{name}/0"].to_pylist() == [row for row in table.to_pylist() if row["price"] > 7]
    check_function(Dear, auctions(seed=9, size=30), disorder=4, seeds=3)


def test_batches_at_fixed_places_make_what_depends_on_them_the_same():
    class Sizes(hw.ProcessingFunction):
        cut = 8

        def events(self, batch):
            yield {"events": len(batch)}

    check_function(Sizes, auctions(size=37), disorder=4, every=1000, seeds=5)


def test_wrong_inserts_are_named():
    class Declared(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))

        def events(self, batch):
            self.total.insert(batch)

    with pytest.raises(QueryError, match="'total' takes every event of the input by itself"):
        run(Declared, auctions())

    class TooOld(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))
        late = hw.WindowedCRDT(hw.count(), hw.tumbling(10), inserted_by="again")

        @hw.when_final(total, once=True)
        def again(self, w, total):
            self.late.insert(1, w.start - 50)

    with pytest.raises(DataError, match=r"handler 'again' inserts into 'late' at .* for the window"):
        run(TooOld, auctions())

    class OfOwnStage(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))
        next = hw.WindowedCRDT(hw.count(), hw.tumbling(10), inserted_by="again")

        @hw.when_final(total, once=True)
        def again(self, w, total):
            self.next.insert(1, w.end - 1)
            self.next.value(w)

    with pytest.raises(QueryError, match="'next' is inserted by a handler of this stage or a later one"):
        run(OfOwnStage, auctions())


def test_what_cannot_be_awaited_is_refused():
    class Clock:
        def __await__(self):
            yield "later"

    class Sleeps(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))

        @hw.when_final(total)
        async def share(self, w, total):
            await Clock()

    with pytest.raises(QueryError, match="a handler may await windows only"):
        run(Sleeps, auctions())


def test_a_local_of_two_stages_is_refused():
    class Counts(hw.ProcessingFunction):
        total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))
        seen = hw.Local(0)

        def events(self, batch):
            self.seen.value += len(batch)

        @hw.when_final(total)
        def tell(self, w, total):
            yield {"seen": self.seen.value}

    with pytest.raises(
        QueryError, match="'seen' is used by 'events' and by 'tell': each stage keeps values of its own"
    ):
        run(Counts, auctions())


def test_a_handler_of_states_of_two_stages_is_refused():
    class Mixed(hw.ProcessingFunction):
        first = hw.WindowedCRDT(hw.count(), hw.tumbling(10))
        second = hw.WindowedCRDT(hw.count(), hw.tumbling(10), inserted_by="pass_on")

        @hw.when_final(first)
        def pass_on(self, w, first):
            self.second.insert(1, w.end - 1)

        @hw.when_final(first, second)
        def both(self, w, first, second): ...

    with pytest.raises(QueryError, match=r"'both' reads states of several stages: name only those of the last level"):
        run(Mixed, auctions())


def _happens_to_know(reading, name, w):
    state = reading.states[name]
    return any(state.is_final(w.end, step.time) for step in reading._levels[state.level])


class Ahead(hw.ProcessingFunction):
    """Looks ahead, and may: what is not final as of its step it does not see."""

    total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))

    @hw.when_final(total)
    def tell(self, w, total):
        yield {"end": w.end, "next": self.total.peek(hw.WindowRead(w.end, w.end + 10))}


def test_handlers_see_nothing_that_is_not_final_as_of_their_step():
    """The ninth invariant of nodes without a root."""
    check_function(Ahead, auctions(size=30), disorder=4, seeds=3)


def test_a_handler_that_saw_what_its_node_happens_to_know_is_found(monkeypatch):
    is_final = StageReading.is_final
    monkeypatch.setattr(
        StageReading, "is_final", lambda self, name, w: is_final(self, name, w) or _happens_to_know(self, name, w)
    )
    with pytest.raises(NotDeterministicError, match="one runner gave"):
        check_function(Ahead, auctions(size=30), disorder=4, seeds=20)
